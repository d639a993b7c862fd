import Context
import Coroutine
import CoroutineDebug
import CoroutineIO
import CoroutineTestSupport
import Glibc
import Testing

/// What the detector finds in a process in which other tests run. Only the test's own coroutines count.
@Suite(.ownThreads) struct DeadlockTests {
  private typealias Job = Coroutine<Void, any Error>

  /// Waits until all `jobs` are suspended in `operation`.
  private func awaitWait(_ jobs: [Job], _ operation: String) throws {
    try look {
      guard jobs.allSatisfy({ $0.state == .suspended }) else { return false }
      let found = try CoroutineDump.capture()[jobs.map(\.id)]
      return found.allSatisfy { $0?.state == .suspended && $0?.operation == operation }
    }
  }

  /// The cycles that one of `jobs` is in or waits for.
  private func cycles(of jobs: [Job]) throws -> [DeadlockReport] {
    let ids = Set(jobs.map(\.id))
    return try DeadlockDetector.find().filter { !ids.isDisjoint(with: ($0.coroutines + $0.waiting).map(\.id)) }
  }

  private func end(_ jobs: [Job]) {
    for job in jobs { job.cancel() }
    for job in jobs { _ = try? job.getBlocking() }
  }

  /// Two coroutines. The first owns the first mutex and wants the second one, the second the other way round.
  private func crossing(
    _ first: CoroutineMutex<Int>, _ second: CoroutineMutex<Int>,
    _ lock: @escaping @Sendable (CoroutineMutex<Int>) throws -> Void = { try $0.withLock { _ in } }
  ) throws -> [Job] {
    let bothHoldOne = Barrier(parties: 2)
    return [("transfer", first, second), ("audit", second, first)].map { name, held, wanted in
      Coroutine(name: name) {
        try held.withLock { _ in
          _ = try bothHoldOne.wait()
          try lock(wanted)
        }
      }
    }
  }

  // MARK: Actors

  /// The runtime can't see that the actor waits for its child. The child's promise knows that the actor has to settle
  /// it.
  @Test func aChildThatWaitsForAPromiseOfItsParentIsInACycle() throws {
    let child = Channel<Job>(capacity: .buffered(1))
    let actor = MessageActor<Int>(name: "parent") { mailbox in
      for _ in mailbox {
        let parent = mailbox.actor
        try withScope { scope in
          try child.send(scope.launch { try parent.send(1).get() })
        }
      }
    }
    try actor.tellBlocking(0)
    let job = try Coroutine { try child.receive() }.getBlocking()
    try look { try !cycles(of: [job]).isEmpty }
    let report = try #require(try cycles(of: [job]).first)
    #expect(report.description.contains("waits for promise \"parent\"") && report.coroutines.count == 2)
    actor.cancel()
    _ = try? job.getBlocking()
  }

  // MARK: What a report says

  @Test func aCycleIsToldOnceAroundWithNamesAndBacktraces() throws {
    let (giro, savings) = (CoroutineMutex(0, name: "giro"), CoroutineMutex(0, name: "savings"))
    let jobs = try crossing(giro, savings)
    try awaitWait(jobs, "lock")
    let bystander = Coroutine(name: "bystander") { try jobs[0].get() }
    try awaitWait([bystander], "join")
    let reports = try cycles(of: jobs)
    let report = try #require(reports.first)
    let (one, other) = (#"coroutine \#(jobs[0].id) "transfer""#, #"coroutine \#(jobs[1].id) "audit""#)
    #expect(reports.count == 1 && report.kind == .cycle)
    #expect(report.coroutines.map(\.id) == jobs.map(\.id) && report.waiting.map(\.id) == [bystander.id])
    #expect(
      report.description.hasPrefix(
        """
        deadlock: 2 coroutines wait for each other
          \(one) waits for mutex "savings", held by \(other),
          which waits for mutex "giro", held by \(one)
        and 1 more waits for them: \(bystander.id) "bystander"

        \(one): suspended
        """))
    #expect(report.description.contains("at DeadlockTests.swift:"))
    end(jobs + [bystander])
    #expect(try cycles(of: jobs).isEmpty)
  }

  @Test func aWaitForAnAnswerNamesTheActorsCoroutine() throws {
    let ledger = CoroutineMutex(0, name: "ledger")
    let bank = MessageActor<Reply<Int>>(name: "bank") { mailbox in
      for reply in mailbox { reply.complete(try ledger.withLock { $0 }) }
    }
    let client: Job = Coroutine(name: "client") { try ledger.withLock { $0 += try bank.ask { $0 } } }
    try look { try !cycles(of: [client]).isEmpty }
    let report = try #require(try cycles(of: [client]).first)
    let actor = try #require(report.coroutines.first { $0.name == "bank" })
    #expect(report.headline == "deadlock: 2 coroutines wait for each other")
    #expect(report.description.contains(#"waits for an answer of actor "bank": coroutine \#(actor.id) "bank""#))
    bank.cancel()
    end([client])
  }

  @Test func theEndsOfAllThatAreWaitedForAtOnceCount() throws {
    let (known, handle) = Promise<Job>.makePromise()
    let child: Job = Coroutine(name: "child") { try known.get().get() }
    let parent: Job = Coroutine(name: "parent") { _ = try results(of: [child]) }
    let selecting: Job = Coroutine(name: "selecting") { try select { child.onEnd { _ in } } }
    handle.fulfill(parent)
    try awaitWait([child], "join")
    try awaitWait([parent], "promise")
    try awaitWait([selecting], "select")
    let report = try #require(try cycles(of: [child]).first)
    #expect(report.coroutines.map(\.id) == [child.id, parent.id] && report.waiting.map(\.id) == [selecting.id])
    end([child, parent, selecting])
  }

  // MARK: What opens by itself

  @Test(arguments: ["a deadline", "a timeout around", "a timeout around the scope", "a select with a timeout"])
  func aCycleThatATimerOpensIsNone(_ kind: String) throws {
    let (one, other) = (CoroutineMutex(0), CoroutineMutex(0))
    var jobs: [Job] = []
    var operation = "lock"
    switch kind {
    case "a deadline": jobs = try crossing(one, other) { try $0.withLock(timeout: .seconds(3600)) { _ in } }
    case "a timeout around":
      jobs = try crossing(one, other) { mutex in try withTimeout(.seconds(3600)) { try mutex.withLock { _ in } } }
    case "a timeout around the scope":
      let children = Promise<[Job]>.makePromise()
      let bothHoldOne = Barrier(parties: 2)
      let parent: Job = Coroutine {
        try withTimeout(.seconds(3600)) {
          try withScope { scope in
            let started = [(one, other), (other, one)].map { held, wanted in
              scope.launch {
                try held.withLock { _ in
                  _ = try bothHoldOne.wait()
                  try wanted.withLock { _ in }
                }
              }
            }
            children.resolver.fulfill(started)
          }
        }
      }
      try awaitWait(children.promise.getBlocking(), "lock")
      (jobs, operation) = ([parent], "join")
    default:
      let (known, handle) = Promise<Job>.makePromise()
      let selecting: Job = Coroutine {
        let partner = try known.get()
        try select {
          partner.onEnd { _ in }
          onTimeout(.seconds(3600)) {}
        }
      }
      handle.fulfill(Coroutine { try selecting.get() })
      (jobs, operation) = ([selecting], "select")
    }
    try awaitWait(jobs, operation)
    #expect(try cycles(of: jobs).isEmpty)
    end(jobs)
  }

  @Test func aLockThatATaskHoldsIsInNoCycle() async throws {
    let mutex = CoroutineMutex(0)
    let job: Job = try await mutex.withLock { _ in
      let job: Job = Coroutine { try mutex.withLock { _ in } }
      try await Task.detached { [self] in try awaitWait([job], "lock") }.value
      #expect(try cycles(of: [job]).isEmpty)
      return job
    }
    try await job.get()
  }

  // MARK: All the time

  @Test func eachDeadlockIsReportedOnceAndAgainWhenItComesAgain() throws {
    let reported = Channel<[UInt64]>(capacity: .unbounded)
    try DeadlockDetector.start(every: .milliseconds(1)) { report in
      _ = reported.trySend(report.coroutines.map(\.id))
    }
    defer { DeadlockDetector.stop() }
    var counts: [[UInt64]: Int] = [:]
    func awaitReport(of jobs: [Job]) throws {
      let ids = jobs.map(\.id)
      while counts[ids] == nil { counts[try reported.receiveBlocking(), default: 0] += 1 }
    }
    let first = try crossing(CoroutineMutex(0), CoroutineMutex(0))
    try awaitReport(of: first)
    // The looks that find the later cycles find the first one, too.
    for _ in 0..<3 {
      let other = try crossing(CoroutineMutex(0), CoroutineMutex(0))
      try awaitReport(of: other)
      end(other)
    }
    #expect(counts[first.map(\.id)] == 1)
    end(first)
  }

  @Test func aTimeoutAroundAShieldOpensNoCycleInIt() async {
    // What is in a shield can't be ended: in a process of its own.
    await #expect(processExitsWith: .success) {
      func check() throws {
        let tests = DeadlockTests()
        let jobs = try tests.crossing(CoroutineMutex(0), CoroutineMutex(0)) { mutex in
          try withTimeout(.seconds(3600)) { try withCancellationShield { try mutex.withLock { _ in } } }
        }
        try tests.awaitWait(jobs, "lock")
        exit(try tests.cycles(of: jobs).isEmpty ? EXIT_FAILURE : EXIT_SUCCESS)
      }
      try check()
    }
  }

  // MARK: Leaks

  @Test func theCoroutineThatDeliversSignalsIsNoLeak() async {
    await #expect(processExitsWith: .success) {
      func check() throws {
        let signals = try Signals.received(SIGUSR2)
        kill(getpid(), SIGUSR2)
        guard try signals.receiveBlocking() == SIGUSR2 else { exit(2) }
        signals.close()
        exit(try DeadlockDetector.findLeaks(timeout: .seconds(3600)) == nil ? EXIT_SUCCESS : EXIT_FAILURE)
      }
      try check()
    }
  }

  @Test func aWaitInAShieldIsUntilNoDeadlineAroundThat() throws {
    let news = Channel<Int>()
    let job: Job = Coroutine {
      try withTimeout(.seconds(3600)) { try withCancellationShield { _ = try news.receive() } }
    }
    try awaitWait([job], "receive")
    let leak = try DeadlockDetector.findLeaks(timeout: .seconds(3600)) { $0.id != job.id }
    #expect(leak?.coroutines.map(\.id) == [job.id])
    news.close()
    end([job])
  }

  @Test func whatIsLeftSuspendedIsALeak() throws {
    let jobs = Channel<Int>(name: "jobs")
    // One after the other: one that finds the channel's lock taken has one more frame in debug, and would be another group.
    let workers: [Job] = (0..<3).map { _ in Coroutine.immediate(name: "worker") { for _ in jobs.received {} } }
    let ids = Set(workers.map(\.id))
    let leak = try #require(try DeadlockDetector.findLeaks(timeout: .seconds(3600)) { !ids.contains($0.id) })
    #expect(leak.kind == .leak && leak.coroutines.map(\.id) == ids.sorted())
    #expect(
      leak.description.withoutTimes.hasPrefix(
        """
        leak: 3 coroutines have not ended, and nothing happens any more that could wake them

        3 coroutines: suspended, receive on channel "jobs" (3 receivers)
        """))
    jobs.close()
    end(workers)
    #expect(try DeadlockDetector.findLeaks { !ids.contains($0.id) } == nil)
  }

  @Test func nothingIsALeakThatCouldStillBeWoken() throws {
    let answers = Channel<Int>()
    let waiting: Job = Coroutine(name: "waiting") { _ = try answers.receive() }
    try awaitWait([waiting], "receive")
    func problem(beside other: Job) -> String {
      do {
        let leak = try DeadlockDetector.findLeaks(timeout: .zero) { $0.id != waiting.id && $0.id != other.id }
        return "\(String(describing: leak))"
      } catch {
        return "\(error)"
      }
    }
    let sleeping: Job = Coroutine(name: "sleeping") { try Coroutine.sleep(for: .seconds(3600)) }
    try awaitWait([sleeping], "sleep")
    #expect(problem(beside: sleeping).hasSuffix(#"coroutine \#(sleeping.id) "sleeping" waits until a deadline"#))
    end([sleeping])
    let ticking: Job = Coroutine(name: "ticking") { for _ in Ticker(every: .seconds(3600)) {} }
    try awaitWait([ticking], "receive")
    #expect(problem(beside: ticking).hasSuffix(#"coroutine \#(ticking.id) "ticking" waits for a tick"#))
    end([ticking])
    let news = Channel<Int>()
    let choosing: Job = Coroutine(name: "choosing") {
      let ticker = Ticker(every: .seconds(3600))
      try select {
        news.onReceive { _ in }
        ticker.ticks.onReceive { _ in }
      }
    }
    try awaitWait([choosing], "select")
    #expect(problem(beside: choosing).hasSuffix(#"coroutine \#(choosing.id) "choosing" waits for a tick"#))
    end([choosing])
    let kept = Channel<Resumption<Void>>(capacity: .buffered(1))
    let called: Job = Coroutine(name: "called") { try withSuspension { _ = kept.trySend($0) } }
    try awaitWait([called], "suspension")
    #expect(problem(beside: called).hasSuffix(#"coroutine \#(called.id) "called" waits for a callback"#))
    let (gate, open) = AsyncStream<Void>.makeStream()
    let awaiting: Job = Coroutine(name: "awaiting") { try Coroutine.await { for await _ in gate {} } }
    try awaitWait([awaiting], "async")
    end([called])
    #expect(problem(beside: awaiting).hasSuffix(#"coroutine \#(awaiting.id) "awaiting" waits for async code"#))
    open.finish()
    try awaiting.getBlocking()
    end([waiting])
  }
}
