import Coroutine
import CoroutineTestSupport
import CoroutineTesting
import Dispatch
import Testing

/// What a run launches on other schedulers. Where it waits in vain for as long as it may, a test here takes a day.
@Suite(.ownThreads) struct OutsiderTests {
  private static let day = Duration.seconds(86_400)

  @Test func timeGoesOnBesideOneThatIsBusy() throws {
    try runTest(upTo: Self.day) {
      let end = Flag()
      defer { end.set() }
      let busy = Coroutine(on: .pool) { while !end.isSet { Coroutine.yield() } }
      for _ in 1...100 { try Coroutine.sleep(for: .seconds(1)) }
      #expect(throws: TimeoutError.self) { try Channel<Int>().receive(timeout: .seconds(1)) }
      #expect(TestClock().now.offset == .seconds(101))
      end.set()
      try busy.join()
    }
  }

  /// Each is seen in its turns and between them, again and again, and gets no more time for that than one that waits for its first.
  @Test func timeGoesOnBesideTwoThatTakeTurns() throws {
    try runTest(upTo: Self.day) {
      let end = Flag()
      defer { end.set() }
      let pool = ThreadPool(threads: 1)
      let busy = (0..<2).map { _ in
        Coroutine(on: pool) {
          while !end.isSet {
            let turn = ContinuousClock.now + .milliseconds(5)
            while ContinuousClock.now < turn {}
            Coroutine.yield()
          }
        }
      }
      #expect(throws: TimeoutError.self) { try Channel<Int>().receive(timeout: .seconds(1)) }
      #expect(TestClock().now.offset == .seconds(1))
      end.set()
      for one in busy { try one.join() }
    }
  }

  @Test func timeGoesOnBesideOneThatTheTestRunsLater() throws {
    try runTest(upTo: Self.day, useLate)
    try explore(seeds: 0..<2, useLate)
  }

  private func useLate() throws {
    let scheduler = HeldScheduler()
    let late = Coroutine(on: scheduler) { 5 }
    for _ in 1...10 { try Coroutine.sleep(for: .seconds(1)) }
    #expect(throws: TimeoutError.self) { try withTimeout(.seconds(1)) { try Channel<Int>().receive() } }
    try blocking { scheduler.run() }
    #expect(try late.get() == 5)
  }

  /// For longer than it does where the run waits for anything else: 20 milliseconds in `explore`.
  @Test(arguments: AwaitedEnd.allCases) func timeStandsStillUntilAnEndThatIsAwaited(_ end: AwaitedEnd) throws {
    try explore(seeds: 0..<2) {
      try withTimeout(.seconds(1)) {
        try end.wait {
          let end = ContinuousClock.now + .milliseconds(100)
          while ContinuousClock.now < end {}
        }
      }
      guard TestClock().now.offset == .zero else { throw LostUpdate() }
    }
  }

  enum AwaitedEnd: CaseIterable, Sendable {
    case ofCoroutine, ofCoroutineInTask, ofChoice, ofScope, ofScopeInTask, ofScopeAsObject

    func wait(for work: @escaping @Sendable () -> Void) throws {
      switch self {
      case .ofCoroutine: try Coroutine(on: .pool) { work() }.get()
      case .ofCoroutineInTask: try Coroutine.await { try await Coroutine(on: .pool) { work() }.get() }
      case .ofChoice:
        let (outsider, never) = (Coroutine(on: .pool) { work() }, Channel<Int>())
        try select {
          outsider.onValue { _ in }
          never.onReceive { _ in }
        }
      case .ofScope:
        try withScope { scope in
          for _ in 0..<2 { scope.launch(on: .pool) { work() } }
        }
      case .ofScopeInTask:
        try Coroutine.await {
          try await withScope { scope in
            for _ in 0..<2 { scope.launch(on: .pool) { work() } }
          }
        }
      case .ofScopeAsObject:
        let scope = CoroutineScope()
        for _ in 0..<2 { scope.launch(on: .pool) { work() } }
        try scope.join()
      }
    }
  }

  @Test func aTestThatTookTooLongFailsWhenItsTimeGoesOn() throws {
    let failure = try #require(throws: ScheduleFailure.self) {
      try runTest(upTo: .milliseconds(1)) {
        let end = ContinuousClock.now + .milliseconds(5)
        while ContinuousClock.now < end {}
        try Coroutine.sleep(for: .seconds(1))
      }
    }
    #expect(failure.kind == .endless)
  }

  @Test func aDeadlockTellsWhatItWaitsFor() throws {
    var worker: Coroutine<Int, any Error>?
    let scheduler = HeldScheduler()
    let failure = try #require(throws: ScheduleFailure.self) {
      try runTest(upTo: .milliseconds(1)) {
        let jobs = Channel<Int>(name: "jobs")
        let started = Coroutine(on: scheduler, name: "worker") { try jobs.receive() }
        worker = started
        scheduler.runOnAnotherThread()  // until it waits; within no time of the run's
        _ = try started.get()
      }
    }
    let id = try #require(worker?.id)
    worker?.cancel()
    scheduler.run()
    #expect(failure.kind == .deadlock)
    #expect(
      failure.waiting == [
        #"coroutine 1 "body": the end of coroutine \#(id) "worker""#,
        #"coroutine \#(id) "worker" of the process, on another scheduler: receive on channel "jobs" (1 receiver)"#,
      ])
  }

  /// It is not waiting itself: its scheduler does not come to it.
  @Test func aDeadlockTellsOfOneThatCouldGoOn() throws {
    let scheduler = HeldScheduler()
    var worker: Coroutine<Void, Never>?
    let failure = try #require(throws: ScheduleFailure.self) {
      try runTest(upTo: .milliseconds(1)) {
        let started = Coroutine(on: scheduler, name: "worker") {}
        worker = started
        try started.join()
      }
    }
    let id = try #require(worker?.id)
    scheduler.run()
    #expect(failure.kind == .deadlock)
    #expect(failure.waiting.last == #"coroutine \#(id) "worker" of the process, on another scheduler: could go on"#)
  }

  /// The body does not wait for it either.
  @Test func itsLostErrorIsAFailure() throws {
    let failure = try #require(throws: ScheduleFailure.self) {
      try runTest {
        let scheduler = HeldScheduler()
        Coroutine(on: scheduler) { try loseError() }
        try blocking { scheduler.run() }
      }
    }
    #expect(failure.kind == .unhandledError)
  }

  /// The thread of another coroutine finds that they have ended, when it launches one.
  @Test func itsLostErrorIsAFailureOnWhicheverThread() throws {
    let failure = try #require(throws: ScheduleFailure.self) {
      try runTest {
        let scheduler = HeldScheduler()
        for _ in 1..<64 { Coroutine(on: scheduler) { try loseError() } }
        try blocking { scheduler.run() }
        try on(.pool) { try Coroutine(on: .pool) {}.join() }
      }
    }
    #expect(failure.kind == .unhandledError)
  }

  /// When the run has failed already, and cancels what is left. It has not cancelled this one. In a process of its own, since
  /// the handler is the process's: other tests share it.
  @Test func anErrorAtTheEndGoesToTheHandlerOfAll() async {
    await #expect(processExitsWith: .success) {
      struct LateError: Error {}
      let told = Flag()
      CoroutineErrors.unhandled = { error, _ in if error is LateError { told.set() } }
      let failure = try #require(throws: ScheduleFailure.self) {
        try runTest {
          let scheduler = HeldScheduler()
          Coroutine(on: scheduler) { if !told.isSet { throw LateError() } }
          Coroutine {
            defer { scheduler.runOnAnotherThread() }
            _ = try Channel<Int>().receive()
          }
        }
      }
      #expect(failure.kind == .leftOver)
      #expect(told.isSet)
    }
  }

  /// The run holds the last reference to its result.
  @Test func whatItLeavesBehindMayLaunchOthers() throws {
    let launches = Unlocked(0)
    try runTest {
      let scheduler = HeldScheduler()
      Coroutine(on: scheduler) { LaunchesAtTheEnd { launches.value += 1 } }
      try blocking { scheduler.run() }
    }
    #expect(launches.value == 1)
  }

  /// After the body's end: the time stands still for both.
  @Test func oneThatWaitsForASleeperElsewhereIsLeftOver() throws {
    let failure = try #require(throws: ScheduleFailure.self) {
      try runTest(upTo: Self.day) {
        let channel = Channel<Int>()
        let isAsleep = Channel<Void>()
        Coroutine(on: .pool) {
          try isAsleep.send(())
          try Coroutine.sleep(for: .seconds(1))
          try channel.send(1)
        }
        try isAsleep.receive()
        Coroutine { _ = try channel.receive() }
      }
    }
    #expect(failure.kind == .leftOver)
  }

  /// A callback may settle it: the body would be waited for, but no waiter waits for this one.
  @Test func oneThatWaitsForAPromiseAfterTheBodyIsLeftOver() throws {
    let (promise, resolver) = Promise<Int>.makePromise()
    let failure = try #require(throws: ScheduleFailure.self) {
      try runTest(upTo: Self.day) { Coroutine { _ = try promise.get() } }
    }
    #expect(failure.kind == .leftOver)
    resolver.fulfill(1)
  }
}

private func loseError() throws { throw LostUpdate() }

private final class LaunchesAtTheEnd: Sendable {
  private let note: @Sendable () -> Void

  init(_ note: @escaping @Sendable () -> Void) { self.note = note }

  deinit {
    note()
    Coroutine(on: .pool) {}
  }
}

extension HeldScheduler {
  /// For code that a coroutine runs and that may not suspend.
  fileprivate func runOnAnotherThread() {
    let end = DispatchSemaphore(value: 0)
    DispatchQueue.global().async {
      self.run()
      end.signal()
    }
    end.wait()
  }
}
