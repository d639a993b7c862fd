import Coroutine
import CoroutineTestSupport
import Dispatch
import Synchronization
import Testing

/// What RJIterator's async block does, in this library's form: a coroutine on the main queue, `awaitCallback`, `get`,
/// `defer` and `finally`.
@Suite(.ownThreads, .timeLimit(.minutes(30))) struct AsyncBlockTests {
  struct Problem: Error, Equatable {}

  typealias Task<Value> = (@escaping @Sendable (Value?, (any Error)?) -> Void) -> Void

  /// A callback-style task that answers from another thread.
  static func answer<Value: Sendable>(_ value: Value?, _ error: (any Error)? = nil) -> Task<Value> {
    { done in DispatchQueue.global().async { done(value, error) } }
  }

  @MainActor @Test func theBlockRunsOnTheMainQueueAndItsLauncherGoesOnFirst() async throws {
    let log = Log()
    let block = Coroutine {
      log.add("begins \(DispatchQueue.main.isCurrent)")
      let value = try awaitCallback(Self.answer(1))
      log.add("goes on with \(value) \(DispatchQueue.main.isCurrent)")
    }
    log.add("launched")
    try await block.get()
    #expect(log.all == ["launched", "begins true", "goes on with 1 true"])
  }

  @Test func fromAnywhereItIsToldToRunOnTheMainQueue() async throws {
    let isOnMain = Coroutine(on: .main) {
      _ = try awaitCallback(Self.answer(1))
      return DispatchQueue.main.isCurrent
    }
    #expect(try await isOnMain.get())
  }

  // MARK: Waiting for a task

  @Test func aTasksValueIsReturned() async throws {
    let coroutine = Coroutine { try awaitCallback(Self.answer("value")) }
    #expect(try await coroutine.get() == "value")
  }

  @Test func aTaskMayAnswerAtOnce() async throws {
    let coroutine = Coroutine { () throws -> Int in try awaitCallback { done in done(7, nil) } }
    #expect(try await coroutine.get() == 7)
  }

  @Test func aTasksErrorIsThrownAlsoWithAValueBesideIt() async throws {
    let failing = Coroutine { () throws -> Int in try awaitCallback(Self.answer(nil, Problem())) }
    await #expect(throws: Problem()) { try await failing.get() }
    let both = Coroutine { () throws -> Int in try awaitCallback(Self.answer(1, Problem())) }
    await #expect(throws: Problem()) { try await both.get() }
  }

  @Test func neitherAValueNorAnErrorIsAnError() async throws {
    let coroutine = Coroutine { () throws -> Int in try awaitCallback(Self.answer(nil)) }
    await #expect(throws: CallbackWithoutOutcome.self) { try await coroutine.get() }
  }

  @Test func aCallbackMayHaveAnErrorOnly() async throws {
    let log = Log()
    try await Coroutine {
      try awaitCallback { (done: @escaping @Sendable ((any Error)?) -> Void) in done(nil) }
      log.add("succeeded")
      do {
        try awaitCallback { (done: @escaping @Sendable ((any Error)?) -> Void) in done(Problem()) }
      } catch is Problem {
        log.add("failed")
      }
    }.get()
    #expect(log.all == ["succeeded", "failed"])
  }

  @Test func aCallbackMayHaveAResult() async throws {
    @Sendable func page(_ number: Int, completion: @escaping @Sendable (Result<Int, any Error>) -> Void) {
      DispatchQueue.global().async { completion(number > 0 ? .success(number) : .failure(Problem())) }
    }
    @Sendable func typed(completion: @escaping @Sendable (Result<Int, Problem>) -> Void) {
      completion(.failure(Problem()))
    }
    let sum = Coroutine { () throws -> Int in
      let passedOn = try awaitCallback { done in page(1, completion: done) }
      let changed: Int = try awaitCallback { done in
        page(2) { result in
          done(result.map { $0 * 10 })
        }
      }
      let made: Int = try awaitCallback { done in DispatchQueue.global().async { done(.success(100)) } }
      return passedOn + changed + made
    }
    #expect(try await sum.get() == 121)
    let failing = Coroutine { try awaitCallback { done in page(0, completion: done) } }
    await #expect(throws: Problem()) { try await failing.get() }
    let failingTyped = Coroutine { try awaitCallback(typed) }
    await #expect(throws: Problem()) { try await failingTyped.get() }
    let cancelled = Coroutine { () throws -> Int in
      try awaitCallback { (done: @escaping @Sendable (Result<Int, any Error>) -> Void) in
        Coroutine.immediate { withExtendedLifetime(done) { () } }
      }
    }
    await #expect(throws: SuspensionAbandoned.self) { try await cancelled.get() }
  }

  @Test func aCallbackThatComesTwiceIsReportedOnceAndHarmless() async throws {
    let reports = Guarded<[String]>([])
    try await LostErrors.observe { error, origin in
      guard error is SettledTwice, origin.contains("\"called twice\"") else { return false }
      reports.withLock { $0.append(origin) }
      return true
    } during: {
      let coroutine = Coroutine(name: "called twice") { () throws -> Int in
        let first = try awaitCallback { done in
          done(1, nil)
          done(2, nil)
          done(nil, Problem())
        }
        let second = try awaitCallback(Self.answer(10))
        return first + second
      }
      let sum = try await coroutine.get()
      #expect(sum == 11)
    }
    #expect(reports.withLock { $0.count } == 1)
  }

  @Test func aCallbackThatIsDroppedEndsTheWait() async throws {
    let coroutine = Coroutine { () throws -> Int in try awaitCallback { _ in } }
    await #expect(throws: SuspensionAbandoned.self) { try await coroutine.get() }
  }

  @Test func aCancelStopsTheWork() async throws {
    let log = Log()
    let kept = Guarded<[@Sendable (Int?, (any Error)?) -> Void]>([])
    let coroutine = Coroutine { () throws -> Int in
      try awaitCallback { done in
        kept.withLock { $0.append(done) }
      } onCancel: {
        log.add("stopped")
      }
    }
    while kept.withLock({ $0.isEmpty }) { await _Concurrency.Task.yield() }
    coroutine.cancel()
    await #expect(throws: CancellationError.self) { try await coroutine.get() }
    kept.withLock { $0 }[0](1, nil)
    #expect(log.all == ["stopped"])
  }

  @Test func outsideACoroutineItTraps() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      func wait() throws -> Int { try awaitCallback { done in done(1, nil) } }
      _ = try wait()
    }
    #expect(standardError(of: result).contains("no coroutine runs here"))
  }

  // MARK: Waiting for other things

  /// Another library's promise, which knows nothing of coroutines.
  final class ForeignPromise: Sendable {
    let outcome: Result<Int, Problem>
    init(_ outcome: Result<Int, Problem>) { self.outcome = outcome }

    func then(_ body: @escaping @Sendable (Int) -> Void) -> ForeignPromise {
      if case .success(let value) = outcome { DispatchQueue.global().async { body(value) } }
      return self
    }

    func `catch`(_ body: @escaping @Sendable (Problem) -> Void) {
      if case .failure(let problem) = outcome { DispatchQueue.global().async { body(problem) } }
    }

    /// All that it takes to wait for the promise.
    func get() throws -> Int {
      try awaitCallback { done in self.then { done($0, nil) }.catch { done(nil, $0) } }
    }

    /// All that it takes to use it in `values(of:)`, `select` and `then`.
    var promise: Promise<Int> {
      Promise { resolver in self.then { resolver.fulfill($0) }.catch { resolver.reject($0) } }
    }
  }

  @Test func promisesOfTwoLibrariesClosuresAndPlainValuesMix() async throws {
    let sum = Coroutine { () throws -> Int in
      let ours = try Promise<Int>(on: .pool) { $0.fulfill(1) }.get()
      let theirs = try ForeignPromise(.success(20)).get()
      let task = try awaitCallback(Self.answer(300))
      let closure = { 4_000 }
      let plain = 50_000
      let (first, second) = try values(of: ForeignPromise(.success(600_000)).promise, Promise(value: 7_000_000))
      return ours + theirs + task + closure() + plain + first + second
    }
    #expect(try await sum.get() == 7_654_321)
    let failing = Coroutine { try ForeignPromise(.failure(Problem())).get() }
    await #expect(throws: Problem()) { try await failing.get() }
  }

  // MARK: Finally

  /// The ways in which a body may end.
  enum Ending: CaseIterable { case lastLine, earlyReturn, error, cancelled, cancelledBeforeItBegan }

  static func launch(_ ending: Ending, _ log: Log, on queue: DispatchQueue) -> Coroutine<Void, any Error> {
    Coroutine(on: queue) {
      log.add("begins")
      defer { log.add("defer") }
      if ending == .earlyReturn { return }
      _ = try awaitCallback(answer(1, ending == .error ? Problem() : nil))
      try Coroutine.sleep(for: ending == .cancelled ? .seconds(3_600) : .zero)
      log.add("last line")
    }
  }

  @Test(arguments: Ending.allCases) func itRunsOnceHoweverTheBodyEnds(_ ending: Ending) async throws {
    let log = Log()
    let queue = DispatchQueue(label: "finally")
    let gate = Gate()
    if ending == .cancelledBeforeItBegan { queue.async { gate.pass() } }
    let done = Channel<Bool>(capacity: .buffered(2))
    let coroutine = Self.launch(ending, log, on: queue).finally {
      log.add("finally")
      _ = done.trySend(queue.isCurrent)
    }
    switch ending {
    case .cancelled:
      while coroutine.state != .suspended { await _Concurrency.Task.yield() }
      coroutine.cancel()
    case .cancelledBeforeItBegan:
      coroutine.cancel()
      gate.open()
    case .lastLine, .earlyReturn, .error: break
    }
    #expect(try await done.receive())
    let expected: [String] =
      switch ending {
      case .lastLine: ["begins", "last line", "defer", "finally"]
      case .earlyReturn, .error, .cancelled: ["begins", "defer", "finally"]
      case .cancelledBeforeItBegan: ["finally"]
      }
    #expect(log.all == expected)
    switch ending {
    case .error: await #expect(throws: Problem()) { try await coroutine.get() }
    case .cancelled, .cancelledBeforeItBegan:
      await #expect(throws: CancellationError.self) { try await coroutine.get() }
    case .lastLine, .earlyReturn: try await coroutine.get()
    }
    #expect(done.isEmpty)
  }

  /// The page on coobjc says that the order is that of registration.
  @Test func earlierWaitersGoOnBeforeFinally() async throws {
    let (queue, log) = (DispatchQueue(label: "finally"), Log())
    let gate = Channel<Void>()
    let coroutine = Coroutine(on: queue) { try gate.receive() }
    let early = Coroutine(on: queue) {
      try coroutine.join()
      log.add("early")
    }
    while early.suspension == nil { await _Concurrency.Task.yield() }
    let ended = Channel<Void>()
    coroutine.finally {
      log.add("finally")
      try ended.send(())
    }
    let late = Coroutine(on: queue) {
      try coroutine.join()
      log.add("late")
    }
    while late.suspension == nil { await _Concurrency.Task.yield() }
    try await gate.send(())
    try await ended.receive()
    try await late.get()
    #expect(log.all == ["early", "finally", "late"])
  }

  @Test func severalRunInTheOrderInWhichTheyWereGivenAlsoAfterTheEnd() async throws {
    let log = Log()
    let queue = DispatchQueue(label: "finally")
    let gate = Channel<Void>()
    let second = Promise<Void>.makePromise()
    let coroutine = Coroutine(on: queue) { try gate.receive() }
      .finally { log.add("first") }
      .finally {
        log.add("second")
        second.resolver.fulfill()
      }
    try await gate.send(())
    try await coroutine.get()
    // Else the late one may come between: the end is there before those that were given are ready.
    try await second.promise.get()
    let late = Promise<Void>.makePromise()
    coroutine.finally {
      log.add("late")
      late.resolver.fulfill()
    }
    try await late.promise.get()
    #expect(log.all == ["first", "second", "late"])
  }

  @Test func itMayWaitAndItsErrorIsReported() async throws {
    let reports = Channel<String>(capacity: .unbounded)
    try await LostErrors.observe { error, origin in
      guard error is Problem, origin.contains("cleaning") else { return false }
      _ = reports.trySend("reported")
      return true
    } during: {
      let numbers = Channel<Int>()
      Coroutine(name: "cleaning") {}.finally {
        #expect(try numbers.receive() == 1)
        throw Problem()
      }
      try await numbers.send(1)
      let report = try await reports.receive()
      #expect(report == "reported")
    }
  }

  @Test func whatRunsBehindItDoesNotHideItsError() async throws {
    let reports = Channel<String>(capacity: .unbounded)
    try await LostErrors.observe { error, origin in
      guard error is Problem, origin.contains("fails behind") else { return false }
      _ = reports.trySend("reported")
      return true
    } during: { () async throws -> Void in
      Coroutine(name: "fails behind a finally") { throw Problem() }.finally {}
      let report = try await reports.receive()
      #expect(report == "reported")
      // An error that is asked for is not reported.
      let seen = Coroutine(name: "fails behind a finally") { throw Problem() }.finally {}
      await #expect(throws: Problem()) { try await seen.get() }
      Coroutine(name: "fails behind, too") { throw Problem() }
      let last = try await reports.receive()
      #expect(last == "reported")
    }
    #expect(reports.isEmpty)
  }

  @MainActor final class Screen {
    private(set) var isBusy = false

    func load(_ log: Log) -> Channel<Void> {
      let done = Channel<Void>(capacity: .buffered(1))
      Coroutine(on: .pool) {
        _ = try awaitCallback(AsyncBlockTests.answer(1))
      }.finally {
        self.isBusy = false  // the main actor's state: `finally` runs on the main queue, though the coroutine did not
        log.add("\(DispatchQueue.main.isCurrent)")
        _ = done.trySend(())
      }
      isBusy = true
      return done
    }
  }

  @MainActor @Test func codeOfTheMainActorRunsOnTheMainQueue() async throws {
    let log = Log()
    let screen = Screen()
    try await screen.load(log).receive()
    #expect(log.all == ["true"])
    #expect(!screen.isBusy)
  }
}
