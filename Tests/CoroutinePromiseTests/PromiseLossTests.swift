import Coroutine
import CoroutineTestSupport
import Dispatch
import Testing

/// Resolvers that are dropped unused anywhere, and errors that are not handled on any branch.
@Suite(.ownThreads) struct PromiseLossTests {
  // MARK: - Resolvers

  /// Passes a resolver to `body`, which loses it, and waits for the promise.
  private func lose(
    sourceLocation: SourceLocation = #_sourceLocation,
    _ body: (consuming Promise<Int>.Resolver) async throws -> Void
  ) async throws {
    func make() async throws -> Promise<Int> {
      let (promise, resolver) = Promise.makePromise(of: Int.self)
      try await body(resolver)
      return promise
    }
    let promise = try await make()
    await #expect(throws: PromiseAbandoned.self, sourceLocation: sourceLocation) { try await promise.get() }
  }

  @Test func aResolverThatGoesWithAClosureThatNeverRuns() async throws {
    try await lose { resolver in
      Promise<Int>(error: CancellationError()).then { [resolver] in resolver.fulfill($0) }
    }
    try await lose { resolver in
      let (never, other) = Promise.makePromise(of: Int.self)
      never.then { [resolver] in resolver.fulfill($0) }
      withExtendedLifetime(other) {}
    }
    try await lose { resolver in
      let (never, other) = Promise.makePromise(of: Int.self)
      never.then { [resolver] in resolver.fulfill($0) }.cancel()
      never.catch { _ in }
      withExtendedLifetime(other) {}
    }
    try await lose { resolver in
      let (settled, other) = Promise.makePromise(of: Int.self)
      other.onCancel { [resolver] in resolver.fulfill(1) }
      other.fulfill(1)
      #expect(settled.isFulfilled)
    }
    try await lose { resolver in
      let queue = DispatchQueue(label: "blocked")
      queue.suspend()
      Coroutine(on: queue) { [resolver] in _ = resolver.fulfill(1) }.cancel()
      queue.resume()
    }
    try await lose { resolver in
      let queue = DispatchQueue(label: "blocked")
      queue.suspend()
      Promise<Int>(on: queue) { [resolver] _ in resolver.fulfill(1) }.cancel()
      queue.resume()
    }
  }

  @Test func aResolverThatGoesWithACoroutineThatUnwinds() async throws {
    try await lose { resolver in
      let never = Channel<Int>()
      let waiting = Coroutine { [resolver] in _ = resolver.fulfill(try never.receive()) }
      waiting.cancel()
    }
    try await lose { resolver in
      let generator = Generator<Int> { [resolver] yield in
        try yield(1)
        resolver.fulfill(1)
      }
      #expect(generator.next() == 1)
    }
    try await lose { resolver in
      let late = Coroutine { [resolver] in
        try withTimeout(.zero) { _ = resolver.fulfill(try Channel<Int>().receive()) }
      }
      await #expect(throws: TimeoutError.self) { try await late.get() }
    }
  }

  @Test func aResolverThatGoesWithAValue() async throws {
    try await lose { resolver in
      let channel = Channel<Promise<Int>.Resolver>(capacity: .buffered(1))
      try await channel.send(resolver)
    }
    try await lose { resolver in _ = Promise(value: resolver) }
    try await lose { resolver in
      let (other, otherResolver) = Promise.makePromise(of: Promise<Int>.Resolver.self)
      other.cancel()
      #expect(!otherResolver.fulfill(resolver))
    }
  }

  // MARK: - Errors

  /// Counts its instances that are alive.
  private final class Token: Sendable {
    let isGone: Guarded<Bool>
    init(_ isGone: Guarded<Bool>) { self.isGone = isGone }
    deinit { isGone.withLock { $0 = true } }
  }

  private struct Problem: Error { let token: Token }

  /// How often the error that `body` gets is reported as lost, until its last reference is gone.
  private func reports(during body: (any Error) async throws -> Void) async -> Int {
    let isGone = Guarded(false)
    let count = Guarded(0)
    await LostErrors.observe { error, _ in
      guard let problem = error as? Problem, problem.token.isGone === isGone else { return false }
      count.withLock { $0 += 1 }
      return true
    } during: {
      try? await body(Problem(token: Token(isGone)))
      while !isGone.withLock({ $0 }) { await Task.yield() }
    }
    return count.withLock { $0 }
  }

  @Test func eachBranchThatEndsWithoutAHandlerIsReportedOnce() async {
    #expect(await reports { Promise<Int>(error: $0).finally {} } == 1)
    #expect(await reports { Promise<Int>(error: $0).then { $0 }.finally {}.then { $0 } } == 1)
    #expect(await reports { Promise<Int>(error: $0).then { $0 }.finally {}.catch { _ in } } == 0)
    #expect(await reports { error in Promise(value: 1).then { _ in throw error } } == 1)
    #expect(await reports { Promise<Int>(error: $0).catch { throw $0 } } == 1)
    #expect(await reports { error in _ = Promise<Int>(on: .pool) { _ in throw error } } == 1)
    let twoOfThree = await reports {
      let promise = Promise<Int>(error: $0)
      promise.catch { _ in }
      promise.then { $0 + 1 }
      promise.finally {}
    }
    #expect(twoOfThree == 2)
    let returned = await reports { error in
      let inner = Promise<Int>(error: error)
      let _: Promise<Int> = Promise(value: 1).then { _ in inner }
    }
    #expect(returned == 1)
  }

  /// Who gives up waiting has not read the error.
  @Test func aWaitThatEndedOtherwiseIsNoReader() async {
    #expect(
      await reports { error in
        let (promise, resolver) = Promise.makePromise(of: Int.self)
        _ = try? await promise.get(timeout: .milliseconds(1))
        resolver.reject(error)
      } == 1)
    #expect(
      await reports { error in
        let gate = Channel<Void>()
        let job = Coroutine {
          try gate.receive()
          throw error
        }
        _ = try? await Coroutine { try job.get(timeout: .zero) }.get()
        _ = try? await job.get(timeout: .milliseconds(1))
        try await gate.send(())
        while !job.isFinished { await Task.yield() }
      } == 1)
    #expect(
      await reports { error in
        let job = Coroutine { throw error }
        try await job.get()
      } == 0)
  }

  /// Nor who looks whether there is a value.
  @Test func aLookAtTheValueIsNoReaderOfTheError() async {
    #expect(await reports { error in _ = Promise<Int>(error: error).value } == 1)
    #expect(await reports { error in _ = Promise<Int>(error: error).isRejected } == 1)
    #expect(await reports { error in _ = Promise<Int>(error: error).error } == 0)
    #expect(Promise(value: 1).value == 1 && Promise<Int>.makePromise().promise.value == nil)
  }

  /// Nor has a caller that gives up waiting for several.
  @Test func aBatchThatIsCancelledIsNoReader() async {
    let late = await reports { error in
      let (isThere, gate) = (Channel<Void>(), Channel<Void>())
      let job = Coroutine {
        try isThere.send(())
        try gate.receive()
        throw error
      }
      let caller = Coroutine { try values(of: [job]) }
      try await isThere.receive()
      while caller.state != .suspended { await Task.yield() }
      try? await caller.cancelAndJoin()
      try await gate.send(())
      while !job.isFinished { await Task.yield() }
    }
    #expect(late == 1)
    let early = await reports { error in
      let (first, resolver) = Promise.makePromise(of: Int.self)
      let (second, other) = Promise.makePromise(of: Int.self)
      let caller = Coroutine { try firstSuccess(of: [first, second]) }
      while caller.state != .suspended { await Task.yield() }
      resolver.reject(error)
      try? await caller.cancelAndJoin()
      withExtendedLifetime(other) {}
    }
    #expect(early == 1)
    let kept = await reports { error in
      let (first, resolver) = Promise.makePromise(of: Int.self)
      let (second, other) = Promise.makePromise(of: Int.self)
      let caller = Coroutine { try results(of: [first, second]) }
      while caller.state != .suspended { await Task.yield() }
      resolver.reject(error)
      try await caller.cancelAndJoin()
      withExtendedLifetime(other) {}
    }
    #expect(kept == 0)
  }

  @Test func errorsThatABatchPassesOverAreNotLost() async {
    #expect(await reports { _ = try await values(of: Promise<Int>(error: $0), Promise<Int>(error: $0)) } == 0)
    #expect(await reports { _ = try await firstValue(of: [Promise<Int>(error: $0), Promise<Int>(error: $0)]) } == 0)
    #expect(await reports { _ = try await firstSuccess(of: [Promise<Int>(error: $0), Promise(value: 1)]) } == 0)
    #expect(await reports { _ = try await results(of: [Promise<Int>(error: $0)]) } == 0)
    let straggler = await reports {
      let (promise, resolver) = Promise.makePromise(of: Int.self)
      _ = try await firstValue(of: [Promise(value: 1), promise])
      #expect(!resolver.reject($0))
    }
    #expect(straggler == 0)
    let cancelled = await reports { error in
      let never = Channel<Int>()
      let stopped = Coroutine { () throws -> Int in
        do { return try never.receive() } catch { throw error }
      }
      _ = try await firstValue(of: [Coroutine { () throws -> Int in 1 }, stopped])
    }
    #expect(cancelled == 0)
  }
}
