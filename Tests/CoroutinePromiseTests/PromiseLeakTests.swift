import CoroutineTestSupport
import Dispatch
import Testing

@testable import Coroutine

/// Many promises, with every possible end, leave nothing behind.
@Suite(.ownThreads, .serialized, .timeLimit(.minutes(30))) struct PromiseLeakTests {
  /// Counts its instances that are alive.
  private final class Tracked: Sendable {
    private let count: Guarded<Int>
    init(_ count: Guarded<Int>) {
      self.count = count
      count.withLock { $0 += 1 }
    }
    deinit { count.withLock { $0 -= 1 } }
  }

  private static let number = amount(100_000, sanitized: 20_000)

  /// Returns when all instances are gone. Other threads may have to run for that. The suite's time limit finds a
  /// leak.
  private func waitForTheEnd(of alive: Guarded<Int>) async throws {
    while alive.withLock({ $0 }) != 0 {
      try Task.checkCancellation()
      await Task.yield()
    }
  }

  @Test func droppedSettledAndCancelledPromisesLeaveNothing() async throws {
    let alive = Guarded(0)
    for number in 0..<Self.number {
      let (promise, resolver) = Promise.makePromise(of: Tracked.self)
      let tracked = Tracked(alive)
      resolver.onCancel { withExtendedLifetime(tracked) {} }
      let derived = promise.then { value in withExtendedLifetime((value, tracked)) {} }
      switch number % 4 {
      case 0: resolver.fulfill(tracked)
      case 1: promise.cancel()
      case 2: derived.cancel()
      default: break  // dropped pending
      }
    }
    try await waitForTheEnd(of: alive)
  }

  @Test func timedOutAndCancelledWaitsLeaveNothingAtALongLivedPromise() async throws {
    let alive = Guarded(0)
    let queue = DispatchQueue(label: "serial")
    let (promise, resolver) = Promise.makePromise(of: Int.self)
    let never = Promise.makePromise(of: Int.self)
    for number in 0..<Self.number {
      let tracked = Tracked(alive)
      switch number % 4 {
      case 0:
        _ = try? await promise.get(timeout: .zero)
      case 1:
        promise.then { value in withExtendedLifetime((value, tracked)) {} }.cancel()
      case 2:
        let waiter = Coroutine(on: queue) { () -> Int in
          defer { withExtendedLifetime(tracked) {} }
          return try promise.get()
        }
        waiter.cancel()
      default:
        let batch = Coroutine(on: queue) { () -> [Int] in
          defer { withExtendedLifetime(tracked) {} }
          return try values(of: [promise, never.promise])
        }
        batch.cancel()
      }
    }
    try await waitForTheEnd(of: alive)
    #expect(promise.isPending && never.promise.isPending)
    #expect(promise.storage.waiterAndObserverCount == 0)
    resolver.fulfill(1)
    never.resolver.fulfill(1)
  }

  @Test func whatFollowsALongLivedPromiseLeavesItWhenItIsCancelled() async throws {
    let (promise, resolver) = Promise.makePromise(of: Int.self)
    let followers = (0..<100).map { _ -> Promise<Int> in Promise(value: 1).then { _ in promise } }
    while promise.storage.waiterAndObserverCount < followers.count { await Task.yield() }
    for follower in followers { follower.cancel() }
    #expect(promise.storage.waiterAndObserverCount == 0)
    resolver.fulfill(1)
    for follower in followers { #expect(follower.isCancelled) }
  }

  @Test func batchesThatEndEarlyLeaveNothing() async throws {
    let alive = Guarded(0)
    let (promise, resolver) = Promise.makePromise(of: Int.self)
    let work = Coroutine {
      for number in 0..<(Self.number / 10) {
        let tracked = Tracked(alive)
        let (other, otherResolver) = Promise.makePromise(of: Tracked.self)
        otherResolver.fulfill(tracked)
        if number.isMultiple(of: 2) {
          _ = try? withTimeout(.zero) { try results(of: promise, other) }
        } else {
          _ = try firstValue(of: [other, Promise.makePromise(of: Tracked.self).promise])
        }
      }
    }
    try await work.get()
    try await waitForTheEnd(of: alive)
    #expect(promise.storage.waiterAndObserverCount == 0)
    resolver.fulfill(0)
  }
}
