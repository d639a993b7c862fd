// SPDX-License-Identifier: Apache-2.0

/// A number of permits: each caller takes some to go on, and gives them back. A caller that finds too few waits,
/// suspended.
///
/// ```swift
/// let connections = Semaphore(permits: 8, name: "connections")
/// for url in urls {
///   Coroutine { try connections.withPermit { try fetch(url) } }
/// }
/// ```
///
/// The longest waiter is served first, whatever the number of permits: a waiter for many is not overtaken for ever by
/// waiters for few. A waiter that gives up lets those behind it go on. Coroutines and tasks wait for it; a plain thread tries
/// (`tryAcquire`), and gives permits back. Each operation takes constant time, plus the time to wake waiters. Copies are the
/// same semaphore.
public struct Semaphore: Sendable {
  let storage: SemaphoreStorage

  /// A semaphore with permits to give out.
  ///
  /// - Parameters:
  ///   - permits: how many there are at first. Not negative: traps otherwise.
  ///   - name: for backtraces and messages.
  public init(permits: Int, name: String = "") {
    require(permits >= 0, "a Semaphore can't begin with \(permits) permits: give it zero or more")
    storage = SemaphoreStorage(permits: permits, name: name)
  }

  /// The name it was given; empty without one.
  public var name: String { storage.name }

  /// The number of free permits, at this moment: none while some are still to be taken away. From any thread.
  public var available: Int { max(0, storage.available) }

  /// Changes how many permits there are in all. Callable from any thread.
  ///
  /// ```swift
  /// connections.changePermits(by: -4)       // four fewer at once, as soon as they come back
  /// ```
  ///
  /// Permits are taken away from the free ones first, and then from the next that are released: no holder loses its
  /// permits.
  ///
  /// - Precondition: there are no more of them then than an `Int` can count: traps otherwise.
  public func changePermits(by difference: Int) { storage.changePermits(by: difference) }

  /// Takes permits; suspends the calling coroutine until there are enough and no waiter is before it.
  ///
  /// - Parameters:
  ///   - count: all at once, or none. Not negative: traps otherwise. More than there will ever be: waits for ever, and so do
  ///     all behind it.
  ///   - timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Throws: `CancellationError` if the caller is cancelled before it has them; `TimeoutError` if the time was up before.
  ///   Then it has none.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func acquire(_ count: Int = 1, timeout: Duration? = nil) throws {
    try storage.acquire(count, timeout: timeout)
  }

  /// Takes permits, in `async` code; suspends the calling task until there are enough and no waiter is before it.
  ///
  /// - Parameters:
  ///   - count: all at once, or none. Not negative: traps otherwise. More than there will ever be: waits for ever, and so do
  ///     all behind it.
  ///   - timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Throws: `CancellationError` if the task is cancelled before it has them; `TimeoutError` if the time was up before.
  ///   Then it has none.
  nonisolated(nonsending) public func acquire(_ count: Int = 1, timeout: Duration? = nil) async throws {
    try await storage.acquire(count, timeout: timeout)
  }

  /// Takes permits if there are enough and there are no waiters. Never waits itself; callable from any thread.
  ///
  /// - Parameter count: not negative: traps otherwise.
  /// - Returns: whether the caller has them.
  public func tryAcquire(_ count: Int = 1) -> Bool {
    storage.tryAcquire(count)
  }

  /// Gives permits back, or new ones out: the semaphore does not record the holders. Callable from any thread.
  ///
  /// - Parameter count: not negative, and not more than an `Int` can count with those that are free: traps otherwise.
  public func release(_ count: Int = 1) {
    storage.release(count)
  }

  /// Runs `body` with a permit, and gives it back.
  ///
  /// - Parameters:
  ///   - timeout: how long to wait for the permit at most; zero or less: does not wait; `nil`: without a limit.
  ///   - body: runs with the permit, on the caller.
  /// - Throws: what `acquire` and `body` throw.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @inlinable
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function; a closure without a capture list")
  public func withPermit<Result: ~Copyable>(timeout: Duration? = nil, _ body: () throws -> Result) throws -> Result {
    try acquire(timeout: timeout)
    defer { release() }
    return try body()
  }

  /// Runs `body` with a permit, and gives it back, in `async` code.
  ///
  /// - Parameters:
  ///   - timeout: how long to wait for the permit at most; zero or less: does not wait; `nil`: without a limit.
  ///   - body: runs with the permit, on the caller.
  /// - Throws: what `acquire` and `body` throw.
  @inlinable
  nonisolated(nonsending) public func withPermit<Result: ~Copyable>(
    timeout: Duration? = nil, _ body: nonisolated(nonsending) () async throws -> Result
  ) async throws -> Result {
    try await acquire(timeout: timeout)
    defer { release() }
    return try await body()
  }

  /// Runs `body` with `count` permits, and gives them back.
  ///
  /// - Parameters:
  ///   - count: all at once, or none. Not negative: traps otherwise. More than there will ever be: waits for ever, and so do
  ///     all behind it.
  ///   - timeout: how long to wait for the permits at most; zero or less: does not wait; `nil`: without a limit.
  ///   - body: runs with the permits, on the caller.
  /// - Throws: what `acquire` and `body` throw.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @inlinable
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function; a closure without a capture list")
  public func withPermits<Result: ~Copyable>(
    _ count: Int, timeout: Duration? = nil, _ body: () throws -> Result
  ) throws -> Result {
    try acquire(count, timeout: timeout)
    defer { release(count) }
    return try body()
  }

  /// Runs `body` with `count` permits, and gives them back, in `async` code.
  ///
  /// - Parameters:
  ///   - count: all at once, or none. Not negative: traps otherwise. More than there will ever be: waits for ever, and so do
  ///     all behind it.
  ///   - timeout: how long to wait for the permits at most; zero or less: does not wait; `nil`: without a limit.
  ///   - body: runs with the permits, on the caller.
  /// - Throws: what `acquire` and `body` throw.
  @inlinable
  nonisolated(nonsending) public func withPermits<Result: ~Copyable>(
    _ count: Int, timeout: Duration? = nil, _ body: nonisolated(nonsending) () async throws -> Result
  ) async throws -> Result {
    try await acquire(count, timeout: timeout)
    defer { release(count) }
    return try await body()
  }
}
