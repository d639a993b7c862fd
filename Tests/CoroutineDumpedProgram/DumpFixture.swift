import Coroutine
import Dispatch
import Glibc

@inline(never)
private func descend(_ depth: Int, _ channel: Channel<Int>) throws -> Int {
  guard depth > 0 else { return try channel.receive() }
  return try descend(depth - 1, channel) + 1
}

/// A scheduler of the program's own.
final class PatientScheduler: Scheduler {
  private let held = CoroutineJobQueue()

  func enqueue(_ job: consuming CoroutineJob) { _ = held.append(job) }

  var isCurrent: Bool { false }
  var isSerial: Bool { true }
}

/// A coroutine for each thing that a coroutine can wait for. They are all suspended, or have not begun. They stay so
/// until the process ends.
final class DumpFixture {
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
  private let night = CoroutineMutex(0, name: "night")
  private let dawn: Condition<Int>
  private let calls = Channel<Resumption<Void>>(capacity: .buffered(1), name: "calls")
  private let serial = ThreadPool(threads: 1)
  private let scheduler = PatientScheduler()
  private let queue = DispatchQueue(label: "zoo.queue")
  private let steps = Generator<Int> { yield in
    while true { try yield(1) }
  }
  /// Suspended on the stack of the generator that it consumes.
  private let stepsOfSteps = Generator<Int> { yield in
    let inner = Generator<Int> { _ in try yield(1) }
    while inner.next() != nil {}
  }

  /// Each coroutine runs on the calling thread until it waits. The numbers are the same in each run.
  init() throws {
    dawn = Condition(of: night, name: "dawn")
    _ = Unmanaged.passRetained(self)
    let (night, dawn, calls) = (night, dawn, calls)
    let (food, full, single, letters, mutex) = (food, full, single, letters.promise, mutex)
    let (house, map, seats, visitors, feeding) = (house, map, seats, visitors, feeding)
    let holder = Coroutine.immediate(name: "keeper of the gate") { try mutex.withLock { $0 = try food.receive() + 1 } }
    for depth in 0..<3 { Coroutine.immediate(name: "diver \(depth)") { _ = try descend(depth, food) } }
    for number in 0..<10 {
      Coroutine.immediate(name: "fish \(number)") { _ = try food.receive(timeout: .seconds(5000)) }
    }
    Coroutine.immediate(name: "sender") {
      try full.send((1, 2, 3, 4))
      try full.send((5, 6, 7, 8))
    }
    Coroutine.immediate { _ = try single.receive() }
    Coroutine.immediate(name: "a name of more than fifteen bytes: Ä\u{1b}[2J\u{202e}\n") { _ = try letters.get() }
    Coroutine.immediate(name: "visitor") { try mutex.withLock { $0 += 1 } }
    Coroutine.immediate(name: "reader") { try house.withReadLock { _ = try food.receive() + $0 } }
    Coroutine.immediate(name: "writer") { try house.withWriteLock { $0 += 1 } }
    Coroutine.immediate(name: "maker") { _ = try map.get { try food.receive() + 1 } }
    Coroutine.immediate(name: "taker") { _ = try map.get { 2 } }
    Coroutine.immediate(name: "standing") { try seats.withPermit {} }
    Coroutine.immediate(name: "warden") { try visitors.wait() }
    Coroutine.immediate(name: "hungry") { try feeding.wait() }
    Coroutine.immediate(name: "cock") { try night.withLock { try dawn.wait(&$0) } }
    Coroutine.immediate(name: "patient") { try holder.get() }
    Coroutine.immediate(name: "undecided between others") {
      try select {
        single.onReceive { _ in }
        full.onSend((9, 9, 9, 9)) {}
      }
    }
    Coroutine.immediate(name: "undecided") {
      try select {
        food.onReceive { _ in }
        single.onReceive { _ in }
        letters.onValue { _ in }
        onTimeout(.seconds(5000)) {}
      }
    }
    Coroutine.immediate(name: "collector") { _ = try values(of: holder, holder) }
    Coroutine.immediate(name: "pipe") {
      let steps = Generator<Int> { yield in try yield(food.receive()) }
      _ = steps.next()
    }
    Coroutine.immediate(name: "sleeper") { try Coroutine.sleep(for: .seconds(5000)) }
    Coroutine.immediate(name: "stubborn") { withCancellationShield { _ = try? food.receive() } }.cancel()
    Coroutine.immediate(name: "caller") { try withSuspension { _ = calls.trySend($0) } }
    Coroutine.immediate(name: "awaiting") { try Coroutine.await { try await Task.sleep(for: .seconds(5000)) } }
    _ = steps.next()
    _ = stepsOfSteps.next()
    try addFamily()
    try addStaff()
    queue.suspend()
    Coroutine(on: queue, name: "on a queue") {}
    Coroutine(on: scheduler, name: "on another scheduler") {}
    try addListeners()
  }

  /// Adds a broadcast, a watched value, and a child that waits for room in its scope.
  private func addListeners() throws {
    let (news, weather) = (BroadcastChannel<Int>(capacity: 1, name: "news"), WatchedValue("sun", name: "weather"))
    let listener = Coroutine.immediate(name: "listener") { [stories = news.subscribe()] in
      while true { _ = try stories.receive() }
    }
    Coroutine.immediate(name: "crier") { [stories = news.subscribe()] in
      try withExtendedLifetime(stories) { for story in 0..<2 { try news.send(story) } }
    }
    // The first story has woken it, on the pool.
    while listener.state != .suspended { sched_yield() }
    Coroutine.immediate(name: "watcher") { try weather.wait { $0 == "rain" } }
    let launched = DispatchSemaphore(value: 0)
    Coroutine(on: serial, name: "cashier") { [food] in
      try withScope(name: "shop", limit: 1) { scope in
        for _ in 0..<2 { scope.launch(name: "customer in the queue") { try food.receive() } }
        launched.signal()
      }
    }
    // The first one enters the queue before the next one.
    launched.wait()
    try Coroutine(on: serial) {}.getBlocking()
  }

  private func addFamily() throws {
    let born = DispatchSemaphore(value: 0)
    Coroutine(on: serial, name: "family") { [food] in
      try withScope(name: "den") { scope in
        let cub = scope.launch(name: "cub") { try food.receive() }
        born.signal()
        _ = try cub.get()
      }
    }
    // The cub enters the queue before the next one.
    born.wait()
    try Coroutine(on: serial) {}.getBlocking()
  }

  /// Adds an actor that does not answer.
  private func addStaff() throws {
    let cook = MessageActor<Reply<Int>>(on: serial, name: "cook") { [food] mailbox in
      for reply in mailbox { reply.complete(try food.receive()) }
    }
    Coroutine.immediate(name: "customer") { [food] in _ = food.trySend(try cook.ask { $0 }) }
    try Coroutine(on: serial) {}.getBlocking()
  }
}
