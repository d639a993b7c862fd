import Coroutine
import CoroutineTestSupport
import Dispatch
import Testing

/// What a chain's closures and the handlers of a cancel may do while they run: throw, cancel, settle, return
/// anything.
@Suite(.ownThreads) struct PromiseHandlerTests {
  struct Problem: Error, Equatable { var number = 0 }

  private let queue = DispatchQueue(label: "serial")

  /// A description of how a promise ended.
  private func end<Value>(of promise: Promise<Value>) async -> String {
    switch await promise.result {
    case .success(let value): "\(value)"
    case .failure(let error): "\(error)"
    }
  }

  @Test func oneThatThrowsLeavesItsSiblingsAlone() async throws {
    let (promise, resolver) = Promise.makePromise(of: Int.self)
    let fulfilled = (
      promise.then { $0 + 1 }, promise.then { _ -> Int in throw Problem(number: 1) }, promise.then { $0 + 2 }
    )
    resolver.fulfill(1)
    #expect(await end(of: fulfilled.0) == "2")
    #expect(await end(of: fulfilled.1) == "Problem(number: 1)")
    #expect(await end(of: fulfilled.2) == "3")

    let failed = Promise<Int>(error: Problem())
    let recovered = (failed.catch { _ in 1 }, failed.catch { _ -> Int in throw Problem(number: 2) }, failed.finally {})
    #expect(await end(of: recovered.0) == "1")
    #expect(await end(of: recovered.1) == "Problem(number: 2)")
    #expect(await end(of: recovered.2) == "Problem(number: 0)")
  }

  @Test(arguments: [false, true]) func aReturnedPromiseOfAnyFateIsTakenOver(isSettledFirst: Bool) async throws {
    let fates: [(String, (Promise<Int>, Promise<Int>.Resolver) -> Bool)] = [
      ("9", { $1.fulfill(9) }), ("Problem(number: 9)", { $1.reject(Problem(number: 9)) }),
      ("CancellationError()", { promise, _ in promise.cancel() }),
    ]
    for (end, settle) in fates {
      let (inner, resolver) = Promise.makePromise(of: Int.self)
      let (start, starter) = Promise.makePromise(of: Int.self)
      let followers = [start.then { _ in inner }, start.then { _ -> Int in throw Problem() }.catch { _ in inner }]
      if isSettledFirst { #expect(settle(inner, resolver)) }
      starter.fulfill(1)
      if !isSettledFirst { #expect(settle(inner, resolver)) }
      for follower in followers {
        #expect(await self.end(of: follower) == end)
        #expect(follower.isCancelled == inner.isCancelled)
      }
    }
  }

  @Test func oneMayCancelItsOwnPromiseAndThoseBehindIt() async throws {
    let log = Log()
    let derived = Guarded<[Promise<Int>]>([])
    let (promise, resolver) = Promise.makePromise(of: Int.self)
    let own = promise.then(on: queue) { value in
      log.add("own: \(derived.withLock { $0[0] }.cancel()), \(Coroutine.isCancelled)")
      log.add("behind: \(derived.withLock { $0[1] }.cancel())")
      return value
    }
    let behind = promise.then(on: queue) { value in
      log.add("not run")
      return value
    }
    let last = promise.then(on: queue) { $0 }
    derived.withLock { $0 = [own, behind] }
    resolver.fulfill(1)
    #expect(try await last.get() == 1)
    #expect(own.isCancelled && behind.isCancelled)
    #expect(log.all == ["own: true, true", "behind: true"])
    derived.withLock { $0 = [] }
  }

  @Test func settlingInsideAHandlerOfACancelComesTooLate() async throws {
    let log = Log()
    let (promise, resolver) = Promise.makePromise(of: Int.self)
    resolver.onCancel { [promise] in log.add("cancel: \(promise.cancel())") }
    resolver.onCancel { log.add("late: \(resolver.fulfill(1)), \(resolver.reject(Problem()))") }
    let chained = Guarded<Promise<Int>?>(nil)
    resolver.onCancel { [promise] in chained.withLock { $0 = promise.catch { _ in 7 } } }
    #expect(promise.cancel())
    #expect(log.all == ["late: false, false", "cancel: false"])
    #expect(try await chained.withLock { $0 }?.get() == 7)
  }

  @Test func registrationsThatRaceWithTheSettlementRunOnce() async throws {
    for _ in 0..<amount(200, sanitized: 50) {
      let (promise, resolver) = Promise.makePromise(of: Int.self)
      let runs = Guarded([Int](repeating: 0, count: 8))
      let derived = Guarded<[Int: Promise<Int>]>([:])
      DispatchQueue.concurrentPerform(iterations: 9) { index in
        guard index < 8 else {
          resolver.fulfill(1)
          return
        }
        let promise = promise.then { value in
          runs.withLock { $0[index] += value }
          return value
        }
        derived.withLock { $0[index] = promise }
        if index.isMultiple(of: 3) { promise.cancel() }
      }
      for (index, promise) in derived.withLock({ $0 }) {
        let isFulfilled = await end(of: promise) == "1"
        #expect(isFulfilled || index.isMultiple(of: 3))
        let count = runs.withLock { $0[index] }
        #expect(isFulfilled ? count == 1 : count <= 1)
      }
    }
  }

  // MARK: - Length

  @Test func followersOfFollowersAreWorkedOffWithoutRecursion() async throws {
    let length = amount(50_000, debug: 10_000, sanitized: 5_000)
    let (inner, resolver) = Promise.makePromise(of: Int.self)
    var outer = inner
    for _ in 0..<length {
      let followed = outer
      outer = Promise(value: 0).then { _ in followed }
    }
    resolver.fulfill(7)
    #expect(try await outer.get() == 7)
  }

  @Test func anErrorGoesDownALongChainToItsOnlyHandler() async throws {
    let length = amount(50_000, debug: 10_000, sanitized: 5_000)
    let runs = Guarded(0)
    let (promise, resolver) = Promise.makePromise(of: Int.self)
    var last = promise
    for _ in 0..<length { last = last.then { $0 + 1 }.finally { runs.withLock { $0 += 1 } } }
    let handled = last.catch { error in (error as? Problem)?.number ?? 0 }
    resolver.reject(Problem(number: -1))
    #expect(try await handled.get() == -1)
    #expect(runs.withLock { $0 } == length)
  }

  @Test func promisesThatSettleEachOtherInARowDoNotRecurse() async throws {
    let length = amount(50_000, debug: 10_000, sanitized: 5_000)
    let pairs = (0..<length).map { _ in Promise.makePromise(of: Int.self) }
    for (pair, next) in zip(pairs, pairs.dropFirst()).reversed() {
      pair.promise.then { value in _ = next.resolver.fulfill(value + 1) }
    }
    pairs[0].resolver.fulfill(0)
    #expect(try await pairs[length - 1].promise.get() == length - 1)
  }

  @Test func noHandlerOfACancelRunsForARejectionThatSaysSo() {
    let log = Log()
    let (promise, resolver) = Promise.makePromise(of: Int.self)
    resolver.onCancel { log.add("before") }
    resolver.reject(CancellationError())
    resolver.onCancel { log.add("after") }
    #expect(promise.isCancelled && log.all.isEmpty)
  }
}
