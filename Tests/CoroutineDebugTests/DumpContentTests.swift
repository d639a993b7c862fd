import Coroutine
import CoroutineDebug
import CoroutineIO
import CoroutineTestSupport
import Dispatch
import Foundation
import Testing

private let yieldLine = #line
@inline(never)
private func count(_ yield: Generator<Int>.Yield) throws {
  var number = 0
  while true {
    try yield(number)
    number += 1
  }
}

@inline(never)
private func wait(_ channel: Channel<Int>, _ depth: Int) throws -> Int {
  guard depth > 0 else { return try channel.receive() }
  return try wait(channel, depth - 1) + 1
}

/// A program's own scheduler, whose queue the runtime can't look into.
private final class OwnScheduler: Scheduler {
  private let held = CoroutineJobQueue()

  func enqueue(_ job: consuming CoroutineJob) { _ = held.append(job) }

  var isCurrent: Bool { false }
  var isSerial: Bool { true }

  func runAll() {
    while held.run() {}
  }
}

@Suite(.ownThreads) struct DumpContentTests {
  @Test func allFramesMayBeAskedFor() throws {
    let dump = try CoroutineDump.capture(frameLimit: .max, interruptsThreads: true)
    #expect(dump.coroutines.allSatisfy { !$0.isTruncated })
  }

  /// The functions of this package's other modules are no more the program's than those of the runtime.
  @Test func aWaitAtADescriptorShowsTheProgramsFunctionsOnly() throws {
    let (reader, writer) = try makePipe()
    let job = Coroutine(name: "reader") { try reader.readLine() }
    try look { try CoroutineDump.capture()[job.id]?.operation == "read" }
    let frames = try backtrace(of: job).visibleFrames
    #expect(!frames.isEmpty && frames.allSatisfy { $0.file?.hasSuffix("DumpContentTests.swift") == true }, "\(frames)")
    writer.close()
    #expect(try job.getBlocking() == nil)
  }

  /// Keeps the threads of a pool busy until it is told to stop.
  private final class BusyThreads: Sendable {
    private let gate = DispatchSemaphore(value: 0)
    private let started = DispatchSemaphore(value: 0)
    private let count: Int
    let coroutines: [Coroutine<Void, Never>]

    init(_ pool: ThreadPool) {
      count = pool.threadCount
      let (gate, started) = (gate, started)
      coroutines = (0..<count).map { _ in
        Coroutine(on: pool, name: "hog") { () throws(Never) -> Void in
          started.signal()
          gate.wait()
        }
      }
      for _ in 0..<count { started.wait() }
    }

    func end() throws {
      for _ in 0..<count { gate.signal() }
      for coroutine in coroutines { try coroutine.getBlocking() }
    }
  }

  // MARK: States

  @Test(arguments: [1, 3])
  func unstartedCoroutinesAreFoundInAPoolsQueues(threads: Int) throws {
    let pool = ThreadPool(threads: threads)
    let busy = BusyThreads(pool)
    // More than a ring holds, and one coroutine that fills its own worker's queues.
    let fromOutside = (0..<700).map { Coroutine(on: pool, name: "outside \($0)") {} }
    let dump = try CoroutineDump.capture()
    for found in dump[fromOutside.map(\.id)] {
      let found = try #require(found)
      #expect(found.state == .new)
      #expect(found.frames.isEmpty && found.stackSize == nil && found.waitsFor.isEmpty)
    }
    for coroutine in busy.coroutines { #expect(dump[coroutine.id]?.state == .running) }
    #expect(
      Set(dump.coroutines.filter { !$0.isGenerator }.map(\.id)).count == dump.coroutines.count { !$0.isGenerator })
    try busy.end()
    for coroutine in fromOutside { try coroutine.getBlocking() }
  }

  @Test func unstartedCoroutinesAreFoundWhereAWorkerPutThem() throws {
    for threads in [1, 2] {
      let pool = ThreadPool(threads: threads)
      let others = threads > 1 ? BusyThreads(ThreadPool(threads: 1)) : nil
      let dumping = Coroutine(on: pool) { () throws -> Bool in
        let new = (0..<300).map { Coroutine(on: pool, name: "inside \($0)") {} }
        let dump = try CoroutineDump.capture()
        let states = dump[new.map(\.id)].map { $0?.state }
        return threads > 1 || states.allSatisfy { $0 == .new }
      }
      #expect(try dumping.getBlocking())
      try others?.end()
    }
  }

  @Test func unstartedOnesAreFoundOnAQueueAndAProgramsOwnScheduler() throws {
    let queue = DispatchQueue(label: "test.suspended")
    queue.suspend()
    let scheduler = OwnScheduler()
    let queued = (0..<20).map { Coroutine(on: queue, name: "queued \($0)") {} }
    let held = (0..<20).map { Coroutine(on: scheduler, name: "held \($0)") {} }
    var dump = try CoroutineDump.capture()
    for coroutine in queued + held { #expect(dump[coroutine.id]?.state == .new) }
    #expect(dump[queued[0].id]?.scheduler == "queue \"test.suspended\"")
    #expect(dump[held[0].id]?.scheduler == "OwnScheduler")
    scheduler.runAll()
    queue.resume()
    for coroutine in queued + held { try coroutine.getBlocking() }
    dump = try CoroutineDump.capture()
    for coroutine in queued + held { #expect(dump[coroutine.id] == nil) }
  }

  @Test func lazyOnesAreListedFromTheirStartOn() throws {
    let scheduler = OwnScheduler()
    let idle = Coroutine(on: scheduler, start: .lazy, name: "lazy") {}
    #expect(try CoroutineDump.capture()[idle.id] == nil)
    idle.start()
    #expect(try CoroutineDump.capture()[idle.id]?.state == .new)
    scheduler.runAll()
    try idle.getBlocking()
  }

  @Test func aSuspendedGeneratorWithoutAConsumerIsListedWithItsStack() throws {
    let numbers = Generator<Int> { yield in try count(yield) }
    #expect(numbers.next() == 0)
    let here = try CoroutineDump.capture().coroutines.filter {
      $0.isGenerator && $0.steps.contains { $0.function.contains("aSuspendedGeneratorWithoutAConsumer") }
    }
    #expect(here.count == 1)
    let found = try #require(here.first)
    #expect(
      found.steps == [
        Step("count(_:)", yieldLine + 5),
        Step("closure #1 in DumpContentTests.aSuspendedGeneratorWithoutAConsumerIsListedWithItsStack()", #line - 7),
      ])
    #expect(found.state == .suspended)
    #expect(found.waitsFor == "the next element to be asked for")
    #expect(numbers.next() == 1)
    numbers.cancel()
    let after = try CoroutineDump.capture().coroutines.contains { $0.isGenerator && $0.id == found.id }
    #expect(!after)
  }

  /// A generator whose body calls the `yield` of another generator: it is suspended on that one's stack.
  @Test func aGeneratorThatIsSuspendedOnAnothersStackIsListedWithBoth() throws {
    let numbers = Generator<Int> { yield in
      let inner = Generator<Int> { _ in try count(yield) }
      while inner.next() != nil {}
    }
    #expect(numbers.next() == 0)
    let found = try CoroutineDump.capture().coroutines.filter {
      $0.isGenerator
        && $0.steps.contains { $0.function.contains("aGeneratorThatIsSuspendedOnAnothersStack") }
    }
    #expect(found.count == 1)
    #expect(found.first?.steps.map(\.line) == [yieldLine + 5, #line - 9, #line - 8])
    #expect(found.first?.stackUsed.map { 0..<found[0].stackSize! ~= $0 } == true)
    #expect(numbers.next() == 1)
  }

  @Test func generatorsThatRunMeanwhileDoNoHarm() throws {
    let stop = Channel<Int>(capacity: .buffered(1))
    let consumers = (0..<3).map { _ in
      Coroutine { () throws -> Int in
        var sum = 0
        while stop.isEmpty {
          let numbers = Generator<Int> { yield in for number in 0..<1000 { try wait(yield, number, 5) } }
          for number in numbers { sum += number }
          Coroutine.yield()
        }
        return sum
      }
    }
    for _ in 0..<amount(50, sanitized: 10) {
      // Coroutines of other tests may be as deep as they like.
      let mine = try CoroutineDump.capture().coroutines.filter {
        $0.isGenerator && $0.frames.contains { $0.file == #filePath }
      }
      #expect(mine.allSatisfy { $0.frames.count < 100 })
    }
    _ = stop.trySend(1)
    for consumer in consumers { #expect(try consumer.getBlocking() % 499_500 == 0) }
  }

  // MARK: What is known of each

  @Test func aSleepSaysHowMuchIsLeft() throws {
    let sleeper = Coroutine.immediate(name: "sleeper") { try Coroutine.sleep(for: .seconds(5000)) }
    let found = try backtrace(of: sleeper)
    #expect(found.waitsFor == "sleep")
    #expect(found.operation == "sleep")
    let left = try #require(found.timeLeft)
    #expect(left > .seconds(4000) && left <= .seconds(5000))
    sleeper.cancel()
    #expect(throws: CancellationError.self) { try sleeper.getBlocking() }
  }

  /// More nanoseconds than a signed number has.
  @Test func aSleepMayTakeCenturies() throws {
    let sleeper = Coroutine.immediate { try Coroutine.sleep(for: .seconds(10_000_000_000)) }
    let left = try #require(try backtrace(of: sleeper).timeLeft)
    #expect(left > .seconds(9_000_000_000))
    sleeper.cancel()
    #expect(throws: CancellationError.self) { try sleeper.getBlocking() }
  }

  @Test func aWaitWithATimeoutSaysHowMuchIsLeft() throws {
    let channel = Channel<Int>()
    let waiting = Coroutine.immediate { try channel.receive(timeout: .seconds(3000)) }
    let left = try #require(try backtrace(of: waiting).timeLeft)
    #expect(left > .seconds(2000) && left <= .seconds(3000))
    channel.close()
    #expect(throws: (any Error).self) { try waiting.getBlocking() }
  }

  @Test func aSelectWithATimeoutSaysHowMuchIsLeft() throws {
    let channel = Channel<Int>()
    let waiting = Coroutine.immediate {
      try select {
        channel.onReceive { _ in }
        onTimeout(.seconds(3000)) {}
      }
    }
    let left = try #require(try backtrace(of: waiting).timeLeft)
    #expect(left > .seconds(2000) && left <= .seconds(3000))
    channel.close()
    #expect(throws: (any Error).self) { try waiting.getBlocking() }
  }

  @Test func schedulerParentScopeAndStackAreThere() throws {
    let channel = Channel<Int>(name: "in")
    let ids = Channel<UInt64>(capacity: .buffered(2))
    let pool = ThreadPool(threads: 1)
    let owner = Coroutine(on: pool, name: "owner") {
      try withScope(name: "family") { scope in
        let child = scope.launch(name: "child") { try wait(channel, 3) }
        try ids.send(child.id)
        return try child.get()
      }
    }
    let childID = try Coroutine { try ids.receive() }.getBlocking()
    // First in, first out: once this one has run, the owner waits for its child, and the child for the channel.
    try Coroutine(on: pool) {}.getBlocking()
    let dump = try CoroutineDump.capture()
    let child = try #require(dump[childID])
    #expect(child.parentID == owner.id)
    #expect(child.scope?.name == "family")
    #expect(child.scope?.ownerID == owner.id)
    #expect(child.scheduler == "a serial pool")
    let (size, used) = (try #require(child.stackSize), try #require(child.stackUsed))
    #expect(size >= 256 << 10)
    #expect(used > 100 && used < size)
    #expect(dump[owner.id]?.parentID == nil)
    #expect(
      dump.tree.contains(
        """
        coroutine \(owner.id) "owner": suspended, the end of coroutine \(childID) "child"
        └─ scope "family"
           └─ coroutine \(childID) "child": suspended, receive on channel "in" (1 receiver)

        """))
    try Coroutine { try channel.send(1) }.getBlocking()
    #expect(try owner.getBlocking() == 4)
  }

  @Test func theCreatorIsThereIfAskedForBefore() async {
    await #expect(processExitsWith: .success) {
      let channel = Channel<Int>()
      let before = Coroutine.immediate { try channel.receive() }
      CoroutineDump.recordsCreation = true
      let after = launchForCreation(channel)
      let dump = try CoroutineDump.capture()
      let frames = dump[after.id]!.creationFrames.filter { !$0.isRuntime }
      guard dump[before.id]!.creationFrames.isEmpty, frames.first?.function == "launchForCreation(_:)" else { leave(1) }
      guard dump.description.contains("created by\n") else { leave(2) }
      leave()
    }
  }

  @Test func timesAreRecordedUnlessThatIsTurnedOff() async {
    await #expect(processExitsWith: .success) {
      let channel = Channel<Int>()
      let timed = Coroutine.immediate { try channel.receive() }
      CoroutineDump.recordsTimes = false
      let untimed = Coroutine.immediate { try channel.receive() }
      let dump = try CoroutineDump.capture()
      guard dump[timed.id]!.duration != nil, dump[untimed.id]!.duration == nil else { leave(1) }
      leave()
    }
  }
}

@inline(never)
private func wait(_ yield: Generator<Int>.Yield, _ number: Int, _ depth: Int) throws {
  if depth > 0 {
    try wait(yield, number, depth - 1)
  } else {
    try yield(number)
  }
}

@inline(never)
private func launchForCreation(_ channel: Channel<Int>) -> Coroutine<Int, any Error> {
  let coroutine = Coroutine.immediate { try channel.receive() }
  sched_yield()
  return coroutine
}
