import Coroutine
import CoroutineTestSupport
import Dispatch
import Synchronization
import Testing

@Suite(.ownThreads) struct PromiseTests {
  struct Problem: Error, Equatable { var number = 0 }

  /// Returns when all that is ready on the serial `queue` has run.
  private func settle(_ queue: DispatchQueue) async throws {
    try await Coroutine(on: queue) {}.get()
  }

  // MARK: - Settling

  @Test func theConstructorRunsAtOnceAndTheFirstSettlementWins() async throws {
    let log = Log()
    let answers = Guarded<[Bool]>([])
    let promise = await LostErrors.observe { error, origin in
      error is SettledTwice && origin.contains("\"thrice\"")
    } during: {
      let promise = Promise<Int>(name: "thrice") { resolver in
        log.add("start")
        answers.withLock {
          $0 = [resolver.fulfill(1), resolver.fulfill(2), resolver.reject(Problem())]
        }
      }
      log.add("made")
      return promise
    }
    #expect(log.all == ["start", "made"])
    #expect(answers.withLock { $0 } == [true, false, false])
    #expect(try await promise.get() == 1)
    #expect(promise.value == 1 && promise.error == nil)
    #expect(promise.isFulfilled && !promise.isPending && !promise.isRejected && !promise.isCancelled)
  }

  @Test func aCallbacksResultSettlesItEitherWay() async throws {
    let results: [Result<Int, Problem>] = [.success(1), .failure(Problem(number: 2))]
    let promises = results.map { result in Promise<Int> { resolver in resolver.settle(with: result) } }
    #expect(try await promises[0].get() == 1)
    // The error's type need not be written.
    #expect(try await Promise<Int> { resolver in resolver.settle(with: .success(3)) }.get() == 3)
    await #expect(throws: Problem(number: 2)) { try await promises[1].get() }
  }

  @Test func aCallbacksValueAndErrorSettleItWhicheverIsThere() async throws {
    let user = Promise<Int> { resolver in resolver.settle(with: 1, nil) }
    #expect(try await user.get() == 1)
    let failed = Promise<Int> { resolver in resolver.settle(with: 1, Problem(number: 2)) }
    await #expect(throws: Problem(number: 2)) { try await failed.get() }
    let neither = Promise<Int> { resolver in resolver.settle(with: nil, nil) }
    await #expect(throws: CallbackWithoutOutcome.self) { try await neither.get() }
    let optional = Promise<Int?> { resolver in resolver.settle(with: .some(nil), nil) }
    #expect(try await optional.get() == nil)
    try await Promise<Void> { resolver in resolver.settle(with: nil) }.get()
    await #expect(throws: Problem()) { try await Promise<Void> { $0.settle(with: Problem()) }.get() }
    try await Promise<Void> { resolver in resolver.settle(with: .success(())) }.get()
    let progress = ProgressPromise<Int, Void> { resolver in #expect(resolver.settle(with: nil)) }
    try await progress.get()
  }

  @Test func aSecondSettlementIsReportedOnceAndOneThatLostToACancelIsNot() async throws {
    let log = Log()
    await LostErrors.observe { error, origin in
      guard let twice = error as? SettledTwice, origin.contains("\"mine\"") else { return false }
      log.add("\(origin): \(twice.ignoredError.map { "\($0)" } ?? "value")")
      return true
    } during: {
      let (_, resolver) = Promise<Int>.makePromise(name: "mine")
      resolver.fulfill(1)
      #expect(!resolver.reject(Problem(number: 4)))
      #expect(!resolver.fulfill(3))
      let (cancelled, late) = Promise<Int>.makePromise(name: "mine")
      #expect(cancelled.cancel() && !cancelled.cancel())
      #expect(!late.fulfill(1) && !late.reject(Problem()))
    }
    #expect(log.all == ["promise \"mine\": Problem(number: 4)"])
  }

  @Test func oneOfManyRacingSettlementsWins() async throws {
    for _ in 0..<50 {
      let wins = Guarded<[Int]>([])
      let promise = try await LostErrors.observe { error, origin in
        error is SettledTwice && origin.contains("\"raced for\"")
      } during: {
        let (promise, resolver) = Promise.makePromise(of: Int.self, name: "raced for")
        let waiter = Coroutine { try promise.get() }
        DispatchQueue.concurrentPerform(iterations: 8) { index in
          if resolver.fulfill(index) { wins.withLock { $0.append(index) } }
        }
        _ = try await waiter.get()
        return promise
      }
      #expect(wins.withLock { $0 } == [promise.value])
    }
  }

  @Test func aRejectionIsThrownAndSeen() async throws {
    let promise = Promise<Int> { $0.reject(Problem(number: 1)) }
    await #expect(throws: Problem(number: 1)) { try await promise.get() }
    #expect(promise.isRejected && !promise.isFulfilled && !promise.isPending && !promise.isCancelled)
    #expect(promise.value == nil && promise.error as? Problem == Problem(number: 1))
    let thrown = Promise<Int> { _ in throw Problem(number: 2) }
    let inside = Coroutine { () -> Int in
      do { return try thrown.get() } catch { return (error as? Problem)?.number ?? -1 }
    }
    #expect(try await inside.get() == 2)
    await #expect(throws: Problem(number: 3)) { try await Promise<Void>(error: Problem(number: 3)).get() }
    #expect(try await Promise(value: "ready").get() == "ready")
    if case .failure(let error) = await thrown.result { #expect(error as? Problem == Problem(number: 2)) }
  }

  @Test func nilIsAnOrdinaryValue() async throws {
    let promise = Promise<Int?>(value: nil)
    #expect(promise.isFulfilled)
    #expect(promise.value == .some(.none))
    #expect(try await promise.get() == nil)
  }

  @Test func theLastResolverThatIsDroppedRejects() async throws {
    let kept = Guarded<Promise<Int>.Resolver?>(nil)
    let promise = Promise<Int> { resolver in kept.withLock { $0 = resolver } }
    let waiter = Coroutine { try promise.get() }
    #expect(promise.isPending)
    kept.withLock { $0 = nil }
    await #expect(throws: PromiseAbandoned.self) { try await waiter.get() }
    #expect(promise.isRejected && !promise.isCancelled)
    let unused = Promise<Int>(name: "answer") { _ in }
    let error = await #expect(throws: PromiseAbandoned.self) { try await unused.get() }
    #expect(error?.description.hasPrefix(#"promise "answer" was abandoned: "#) == true)
  }

  @Test func aConstructorOnASchedulerMayWaitAndIsCancelledWithThePromise() async throws {
    let queue = DispatchQueue(label: "serial")
    let numbers = Channel<Int>()
    let promise = Promise<Int>(on: queue) { resolver in
      resolver.fulfill(try numbers.receive() + numbers.receive())
    }
    try await numbers.send(1)
    try await numbers.send(2)
    #expect(try await promise.get() == 3)

    let log = Log()
    let waiting = Promise<Int>(on: queue) { resolver in
      resolver.onCancel { log.add("onCancel") }
      defer { log.add("unwound, \(resolver.isCancelled)") }
      resolver.fulfill(try numbers.receive())
    }
    try await settle(queue)
    #expect(waiting.cancel())
    await #expect(throws: CancellationError.self) { try await waiting.get() }
    try await settle(queue)
    #expect(log.all == ["onCancel", "unwound, true"])

    let throwing = Promise<Int>(on: .pool) { _ in throw Problem() }
    await #expect(throws: Problem.self) { try await throwing.get() }
  }

  // MARK: - Waiting

  @Test func everyWaiterOfEachKindIsWoken() async throws {
    let (promise, resolver) = Promise.makePromise(of: Int.self)
    let coroutines = (0..<10).map { _ in Coroutine { try promise.get() } }
    let tasks = (0..<10).map { _ in Task { try await promise.get() } }
    let thread = Promise<Int> { outcome in
      DispatchQueue.global().async {
        do { outcome.fulfill(try promise.getBlocking()) } catch { outcome.reject(error) }
      }
    }
    resolver.fulfill(7)
    for coroutine in coroutines { #expect(try await coroutine.get() == 7) }
    for task in tasks { #expect(try await task.value == 7) }
    #expect(try await thread.get() == 7)
  }

  @Test func waitersGoOnInTheOrderInWhichTheyCame() async throws {
    let queue = DispatchQueue(label: "serial")
    let log = Log()
    let (promise, resolver) = Promise.makePromise(of: Int.self)
    for number in 1...4 {
      Coroutine(on: queue) {
        _ = try? promise.get()
        log.add("\(number)")
      }
    }
    try await settle(queue)
    resolver.fulfill(0)
    try await settle(queue)
    #expect(log.all == ["1", "2", "3", "4"])
  }

  @Test func aCancelledWaiterLeavesThePromiseAlone() async throws {
    let queue = DispatchQueue(label: "serial")
    let (promise, resolver) = Promise.makePromise(of: Int.self)
    let log = Log()
    resolver.onCancel { log.add("cancelled") }
    let (cancelled, other) = (Coroutine(on: queue) { try promise.get() }, Coroutine(on: queue) { try promise.get() })
    try await settle(queue)
    cancelled.cancel()
    await #expect(throws: CancellationError.self) { try await cancelled.get() }
    #expect(promise.isPending)
    let task = Task { try await promise.get() }
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
    #expect(promise.isPending && !resolver.isCancelled)
    resolver.fulfill(1)
    #expect(try await other.get() == 1)
    #expect(log.all == [])
  }

  @Test func aWaitWithADeadlineEndsAndLeavesThePromiseAlone() async throws {
    let (promise, resolver) = Promise.makePromise(of: Int.self)
    let inside = Coroutine { () -> String in
      do {
        return "\(try promise.get(timeout: .milliseconds(1)))"
      } catch {
        return "\(error)"
      }
    }
    #expect(try await inside.get() == "timed out after 0.001 seconds")
    await #expect(throws: TimeoutError.self) { try await promise.get(timeout: .milliseconds(1)) }
    await #expect(throws: TimeoutError.self) { try await promise.get(timeout: .zero) }
    let thread = Promise<Int> { outcome in
      DispatchQueue.global().async {
        do { outcome.fulfill(try promise.getBlocking(timeout: .milliseconds(1))) } catch { outcome.reject(error) }
      }
    }
    await #expect(throws: TimeoutError.self) { try await thread.get() }
    #expect(promise.isPending)
    resolver.fulfill(1)
    #expect(try await promise.get(timeout: .zero) == 1)
    #expect(try await Coroutine { try promise.get(timeout: .seconds(3600)) }.get() == 1)
    await #expect(processExitsWith: .success) {
      let value = try await Promise(value: 1).get(timeout: .seconds(-1))
      precondition(value == 1)
    }
  }

  /// The page on coobjc says this: the waiters first, then one observer after another.
  @Test func waitersGoOnBeforeTheClosuresOfThen() async throws {
    let log = Log()
    try await Coroutine(on: DispatchQueue(label: "serial")) {
      let (promise, resolver) = Promise.makePromise(of: Int.self)
      promise.then { log.add("then \($0)") }
      let waiters = (0..<2).map { number in Coroutine { log.add("waiter \(number): \(try promise.get())") } }
      Coroutine.yield()
      promise.then { log.add("late then \($0)") }
      resolver.fulfill(7)
      for waiter in waiters { try waiter.get() }
      for _ in 0..<4 { Coroutine.yield() }
    }.get()
    #expect(log.all == ["waiter 0: 7", "waiter 1: 7", "then 7", "late then 7"])
  }

  @Test func waitingOutsideACoroutineTraps() async {
    let exit2 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      func wait(_ promise: Promise<Int>) throws -> Int { try promise.get() }
      _ = try wait(Promise(value: 1))
    }
    #expect(
      standardError(of: exit2).contains("Promise.get() suspends the running coroutine, but no coroutine runs here"))
    let exit3 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      @Sendable func wait(_ promise: Promise<Int>) throws -> Int { try promise.getBlocking() }
      try await Coroutine { _ = try wait(Promise(value: 1)) }.get()
    }
    #expect(standardError(of: exit3).contains("would block its whole thread: use get()"))
  }

  // MARK: - Cancelling

  @Test func aCancelRunsTheHandlersThenTheWaitersThenTheObservers() async throws {
    let queue = DispatchQueue(label: "serial")
    let log = Log()
    let (promise, resolver) = Promise.makePromise(of: Int.self)
    resolver.onCancel { log.add("first handler, \(resolver.isCancelled)") }
    resolver.onCancel { log.add("second handler") }
    let waiter = Coroutine(on: queue) {
      do { _ = try promise.get() } catch { log.add("waiter: \(error is CancellationError)") }
    }
    try await settle(queue)
    promise.catch(on: queue) { log.add("observer: \($0 is CancellationError)") }
    promise.cancel()
    promise.cancel()
    try await waiter.get()
    try await settle(queue)
    #expect(
      log.all == ["second handler", "first handler, true", "waiter: true", "observer: true"])
    resolver.onCancel { log.add("late handler") }
    #expect(log.all.last == "late handler")
    #expect(promise.isCancelled && promise.isRejected && promise.error is CancellationError)
  }

  @Test func aCancelAfterTheSettlementHasNoEffect() async throws {
    let (promise, resolver) = Promise.makePromise(of: Int.self)
    let log = Log()
    resolver.onCancel { log.add("handler") }
    resolver.fulfill(1)
    #expect(!promise.cancel() && !promise.isCancelled && !resolver.isCancelled)
    resolver.onCancel { log.add("late handler") }
    #expect(try await promise.get() == 1)
    #expect(log.all == [])
  }

  // MARK: - Errors that are not handled

  @Test func aRejectionThatIsNotSeenIsReportedOnce() async throws {
    let log = Log()
    await LostErrors.observe { error, origin in
      guard let problem = error as? Problem, problem.number == 77 else { return false }
      log.add(origin)
      return true
    } during: {
      _ = Promise<Int>(name: "lost") { $0.reject(Problem(number: 77)) }
      Promise<Int>(error: Problem(number: 77)).then { $0 + 1 }
      let seen = Promise<Int>(error: Problem(number: 77))
      _ = seen.error
      let handled = Promise<Int>(error: Problem(number: 77)).catch { _ in 0 }
      _ = try? await handled.get()
      while log.all.count < 2 { await Task.yield() }
    }
    #expect(log.all == ["promise \"lost\"", "an unnamed promise"])
  }
}
