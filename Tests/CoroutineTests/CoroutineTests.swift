import Context
import Coroutine
import CoroutineTestSupport
import Dispatch
import Foundation
import Synchronization
import Testing

@Suite(.ownThreads) struct CoroutineTests {
  // MARK: Starting and ending

  @Test func theLauncherGoesOnFirstAndWakesAppend() async throws {
    let queue = DispatchQueue(label: "serial")
    let log = Log()
    let outer = Coroutine(on: queue) {
      let first = Coroutine {
        log.add("first runs")
        Coroutine.yield()
        log.add("first again")
      }
      let second = Coroutine { log.add("second runs") }
      log.add("launcher goes on")
      try first.get()
      try second.get()
      log.add("launcher joined")
    }
    try await outer.get()
    #expect(log.all == ["launcher goes on", "first runs", "second runs", "first again", "launcher joined"])
  }

  @Test func anImmediateOneRunsToItsFirstSuspension() async throws {
    let queue = DispatchQueue(label: "serial")
    let log = Log()
    let outer = Coroutine(on: queue) {
      let inner = Coroutine.immediate {
        log.add("inner begins")
        Coroutine.yield()
        log.add("inner ends")
      }
      log.add("outer goes on")
      try inner.get()
      log.add("outer ends")
    }
    try await outer.get()
    #expect(log.all == ["inner begins", "outer goes on", "inner ends", "outer ends"])
  }

  @Test func anImmediateOneOfAnotherSchedulerIsQueued() async throws {
    let queue = DispatchQueue(label: "elsewhere")
    let log = Log()
    let gate = Gate()
    queue.async { gate.pass() }
    let inner = Coroutine.immediate(on: queue) { log.add("runs") }
    log.add("goes on")
    gate.open()
    try await inner.get()
    #expect(log.all == ["goes on", "runs"])
  }

  @Test func aPlainThreadRunsAnImmediateOneItself() throws {
    let log = Log()
    let inner = Coroutine.immediate { () -> Int in
      log.add("runs")
      return 7
    }
    log.add("goes on")
    #expect(log.all == ["runs", "goes on"])
    #expect(try inner.getBlocking() == 7)
  }

  @Test func itRunsToItsEndWithoutAHandle() async throws {
    let done = Channel<Int>()
    Coroutine {
      Coroutine.yield()
      try done.send(1)
    }
    #expect(try await done.receive() == 1)
  }

  @Test func anyNumberMayJoin() async throws {
    let release = Channel<Void>()
    let worker = Coroutine { () throws -> Int in
      try release.receive()
      return 42
    }
    let joiners = (0..<50).map { _ in Coroutine { try worker.get() } }
    async let fromTask = worker.get()
    try await release.send(())
    for joiner in joiners { #expect(try await joiner.get() == 42) }
    #expect(try await fromTask == 42)
    #expect(try await worker.get() == 42)
  }

  @Test func everySchedulerRunsIt() async throws {
    #expect(try await Coroutine(on: .pool) { 1 }.get() == 1)
    #expect(try await Coroutine(on: DispatchQueue.global()) { 2 }.get() == 2)
    #expect(try await Coroutine(on: DispatchQueue(label: "c", attributes: .concurrent)) { 3 }.get() == 3)
    #expect(try await Coroutine(on: ThreadPool(threads: 1)) { 4 }.get() == 4)
  }

  @Test func aUsersSchedulerRunsIt() async throws {
    final class Loop: Scheduler {
      private let queue = DispatchQueue(label: "loop")
      private let ready = CoroutineJobQueue()
      let runs = Atomic<Int>(0)
      func enqueue(_ job: consuming CoroutineJob) {
        runs.add(1, ordering: .relaxed)
        if ready.append(job) { queue.async { [ready] in while ready.run() {} } }
      }
      var isCurrent: Bool { false }
      var isSerial: Bool { true }
    }
    let loop = Loop()
    let coroutine = Coroutine(on: loop) {
      for _ in 0..<9 { Coroutine.yield() }
    }
    try await coroutine.get()
    #expect(loop.runs.load(ordering: .relaxed) == 10)
  }

  @Test func aQueueThatTheUserLetGoOfStillResumes() async throws {
    let release = Channel<Int>()
    let waiting = Coroutine(on: DispatchQueue(label: "short-lived")) { try release.receive() }
    try await release.send(5)
    #expect(try await waiting.get() == 5)
  }

  // MARK: Errors

  struct Problem: Error, Equatable {}

  @Test func whatTheBodyThrowsComesOutOfGet() async throws {
    let failing = Coroutine { () throws -> Int in
      Coroutine.yield()
      throw Problem()
    }
    await #expect(throws: Problem.self) { try await failing.get() }
    let joiner = Coroutine { () -> Bool in
      do {
        _ = try failing.get()
        return false
      } catch {
        return error is Problem
      }
    }
    #expect(try await joiner.get())
  }

  @Test func anErrorThatIsNotHandledIsReportedOnce() async throws {
    struct Lost: Error {}
    let reports = Guarded<[String]>([])
    let (seen, report) = AsyncStream<Void>.makeStream()
    await LostErrors.observe { error, origin in
      guard error is Lost else { return false }
      reports.withLock { $0.append(origin) }
      report.yield()
      return true
    } during: {
      Coroutine(name: "loser") { throw Lost() }
      for await _ in seen { break }
    }
    let all = reports.withLock { $0 }
    #expect(all.count == 1)
    #expect(all.first?.hasSuffix("\"loser\"") == true)
  }

  @Test func anImpossibleStackSizeIsAnErrorFromGet() async throws {
    for size in [Int.max, -1] {
      let coroutine = Coroutine(stackSize: size) { 1 }
      await #expect(throws: (any Error).self) { try await coroutine.get() }
    }
    #expect(try await Coroutine(stackSize: 100_000) { 1 }.get() == 1)
  }

  @Test func whatTheBodyCapturesIsReleasedAtItsEnd() async throws {
    final class Witness: Sendable {}
    let witness = Witness()
    let coroutine = Coroutine { [weak witness] in witness != nil }
    #expect(try await coroutine.get())
    weak var gone: Witness?
    do {
      let captured = Witness()
      gone = captured
      let other = Coroutine { withExtendedLifetime(captured) { 1 } }
      #expect(try await other.get() == 1)
      withExtendedLifetime(other) {}
    }
    #expect(gone == nil)
  }

  // MARK: Inside

  @Test func insideAndOutside() async throws {
    #expect(Coroutine.currentID == nil)
    #expect(!Coroutine.isInside)
    let coroutine = Coroutine(name: "me") { () -> (UInt64?, Bool) in
      Coroutine.yield()
      return (Coroutine.currentID, Coroutine.isInside)
    }
    let (id, inside) = try await coroutine.get()
    #expect(id == coroutine.id)
    #expect(inside)
    #expect(coroutine.name == "me")
  }

  @Test func manyCoroutinesYieldOnManyThreads() async throws {
    let all = (0..<2_000).map { index in
      Coroutine { () -> Int in
        var value = index
        for round in 0..<20 {
          Coroutine.yield()
          value &+= round
        }
        return value
      }
    }
    var total = 0
    for coroutine in all { total += try await coroutine.get() }
    #expect(total == (0..<2_000).reduce(0, +) + 2_000 * 190)
  }

  @Test func theProgramKnowsItsBackend() {
    #expect(Coroutine.backendName.first?.isUppercase == true)
    Coroutine.requireBackend(Coroutine.backendName)
  }

  @Test func aSchedulerMayGoOnAfterItHandedTheCoroutineOver() async throws {
    final class Inline: Scheduler {
      let name = "a string that lives on the heap, to be seen by a sanitizer"
      let log: Log
      init(_ log: Log) { self.log = log }
      func enqueue(_ job: consuming CoroutineJob) {
        let ready = CoroutineJobQueue()
        _ = ready.append(job)
        let done = DispatchSemaphore(value: 0)
        // The coroutine ends, and releases its scheduler, before this returns.
        Thread {
          _ = ready.run()
          done.signal()
        }.start()
        done.wait()
        log.add(name)
      }
      var isCurrent: Bool { false }
      var isSerial: Bool { true }
    }
    let log = Log()
    func start() { Coroutine(on: Inline(log)) {} }
    for _ in 0..<20 { start() }
    #expect(log.all.count == 20)
  }

  @Test func theHandlerOfErrorsMayUseItselfWhenItGoes() async {
    await #expect(processExitsWith: .success) {
      final class Nosy: Sendable {
        deinit { _ = CoroutineErrors.unhandled }
      }
      func replace() {
        let nosy = Nosy()
        CoroutineErrors.unhandled = { _, _ in withExtendedLifetime(nosy) {} }
      }
      replace()
      CoroutineErrors.unhandled = { _, _ in }
    }
  }

  // MARK: Misuse

  @Test func suspendingOutsideACoroutineTrapsByName() async {
    let yields = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      func yield() { Coroutine.yield() }
      yield()
    }
    #expect(standardError(of: yields).contains("no coroutine runs here"))
    let joins = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      _ = try Coroutine { 1 }.synchronousGet()
    }
    #expect(standardError(of: joins).contains("no coroutine runs here"))
  }

  @Test func joiningOneselfTrapsByName() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let gate = Gate()
      let mine = Guarded<Coroutine<Void, any Error>?>(nil)
      let coroutine = Coroutine { () throws -> Void in
        gate.pass()
        try mine.withLock { $0 }?.get()
      }
      mine.withLock { $0 = coroutine }
      gate.open()
      try await coroutine.get()
    }
    #expect(standardError(of: result).contains("waits for its own end"))
  }

  @Test func blockingInsideACoroutineTrapsByName() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let other = Coroutine { 1 }
      _ = try await Coroutine { try other.getBlocking() }.get()
    }
    #expect(standardError(of: result).contains("use get()"))
  }

  @Test func blockingTheThreadThatWouldRunItTrapsByName() async {
    // A loop of the program's, on this thread, that nothing wakes.
    final class Loop: Scheduler {
      private let thread = pthread_self()
      private let kept = CoroutineJobQueue()
      func enqueue(_ job: consuming CoroutineJob) { _ = kept.append(job) }
      var isCurrent: Bool { pthread_equal(thread, pthread_self()) != 0 }
      var isSerial: Bool { true }
    }
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      func block() throws { _ = try Coroutine(on: Loop(), name: "behind") { 1 }.getBlocking() }
      try block()
    }
    #expect(standardError(of: result).contains("blocks the only thread of Loop, on which coroutine"))
  }

  @Test func aSchedulerThatDropsACoroutineTrapsByName() async {
    final class DroppingScheduler: Scheduler {
      func enqueue(_ job: consuming CoroutineJob) { _ = consume job }
      var isCurrent: Bool { false }
      var isSerial: Bool { true }
    }
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      Coroutine(on: DroppingScheduler(), name: "lost one") {}
    }
    #expect(standardError(of: result).contains("lost one"))
  }

  @Test func suspendingInsideATaskOnACoroutinesStackTrapsByName() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      @Sendable func suspend() { Coroutine.yield() }
      try await Coroutine { _ = Task.immediate { suspend() } }.get()
    }
    #expect(standardError(of: result).contains("Task.immediate"))
  }

  @Test func aPoolWithoutThreadsTrapsByName() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      _ = ThreadPool(threads: 0)
    }
    #expect(standardError(of: result).contains("at least one thread"))
  }
}

extension Coroutine {
  /// The synchronous overload, called where the `async` one would be picked.
  fileprivate func synchronousGet() throws -> Success { try get() }
}
