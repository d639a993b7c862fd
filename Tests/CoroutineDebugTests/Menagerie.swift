import Coroutine
import Dispatch

@inline(never)
private func descend(_ depth: Int, _ channel: Channel<Int>) throws -> Int {
  guard depth > 0 else { return try channel.receive() }
  return try descend(depth - 1, channel) + 1
}

/// A scheduler of the program's own.
final class PatientScheduler: Scheduler {
  // Used by one thread: the test's.
  nonisolated(unsafe) private var held: [() -> Void] = []

  func enqueue(_ ready: consuming Ready) {
    var ready: Ready? = consume ready
    held.append { ready.take()?.run() }
  }

  var isCurrent: Bool { false }
  var isSerial: Bool { true }
}

/// A coroutine for each thing that one can wait for, all suspended, or not begun. They stay so:
/// for a process that ends with them.
final class Menagerie {
  let food = Channel<Int>(capacity: .buffered(64), name: "food")
  private let full = Channel<(Int, Int, Int, Int)>(capacity: .buffered(1), name: "a trough with a name of some length")
  private let single = Channel<UInt8>(capacity: .rendezvous)
  private let letters = Promise<String>.makePromise(name: "letters")
  private let mutex = CoroutineMutex(0, name: "gate")
  private let house = ReadWriteLock(0, name: "house")
  private let map = Once<Int>(name: "map")
  private let seats = Semaphore(permits: 0, name: "seats")
  private let visitors = WaitGroup(count: 3, name: "visitors")
  private let feeding = Barrier(parties: 2, name: "feeding")
  private let serial = ThreadPool(threads: 1)
  private let scheduler = PatientScheduler()
  private let queue = DispatchQueue(label: "zoo.queue")
  private let steps = Generator<Int> { yield in
    while true { try yield(1) }
  }
  /// Stands on the stack of the one that it consumes.
  private let stepsOfSteps = Generator<Int> { yield in
    let inner = Generator<Int> { _ in try yield(1) }
    while inner.next() != nil {}
  }
  private(set) var ids: [UInt64] = []

  /// Each runs on the calling thread until it waits.
  init() throws {
    _ = Unmanaged.passRetained(self)
    let (food, full, single, letters, mutex) = (food, full, single, letters.promise, mutex)
    let (house, map, seats, visitors, feeding) = (house, map, seats, visitors, feeding)
    let holder = try keep("keeper of the gate") { try mutex.withLock { $0 = try food.receive() } }
    for depth in 0..<3 { try keep("diver \(depth)") { _ = try descend(depth, food) } }
    try keep("sender") {
      try full.send((1, 2, 3, 4))
      try full.send((5, 6, 7, 8))
    }
    try keep("") { _ = try single.receive() }
    try keep("an animal with a name of more than fifteen bytes: Ä") { _ = try letters.get() }
    try keep("visitor") { try mutex.withLock { $0 += 1 } }
    try keep("reader") { try house.withReadLock { _ in _ = try food.receive() } }
    try keep("writer") { try house.withWriteLock { $0 += 1 } }
    try keep("maker") { _ = try map.get { try food.receive() } }
    try keep("taker") { _ = try map.get { 2 } }
    try keep("standing") { try seats.withPermit {} }
    try keep("warden") { try visitors.wait() }
    try keep("hungry") { try feeding.wait() }
    try keep("patient") { try holder.get() }
    try keep("undecided between others") {
      try select {
        single.onReceive { _ in }
        full.onSend((9, 9, 9, 9)) {}
      }
    }
    try keep("undecided") {
      try select {
        food.onReceive { _ in }
        single.onReceive { _ in }
        onTimeout(.seconds(5000)) {}
      }
    }
    try add(
      Coroutine(on: serial, name: "family") {
        try withScope(name: "den") { scope in _ = try scope.launch(name: "cub") { try food.receive() }.get() }
      })
    // The family lines up before the first of these, its cub before the second one.
    for _ in 0..<2 { try Coroutine(on: serial) {}.getBlocking() }
    try keep("collector") { _ = try values(of: holder, holder) }
    try keep("pipe") {
      let steps = Generator<Int> { yield in try yield(food.receive()) }
      _ = steps.next()
    }
    try keep("sleeper") { try Coroutine.sleep(for: .seconds(5000)) }
    _ = (steps.next(), stepsOfSteps.next())
    queue.suspend()
    try add(Coroutine(on: queue, name: "on a queue") {})
    try add(Coroutine(on: scheduler, name: "on another scheduler") {})
  }

  /// One that runs until it waits.
  @discardableResult
  private func keep(_ name: String, _ body: sending @escaping () throws -> Void) throws -> Coroutine<Void, any Error> {
    try add(Coroutine.immediate(name: name, body))
  }

  @discardableResult
  private func add(_ coroutine: Coroutine<Void, any Error>) throws -> Coroutine<Void, any Error> {
    ids.append(coroutine.id)
    return coroutine
  }
}
