// SPDX-License-Identifier: Apache-2.0

/// A value that many may read at a time, or one may change, across suspensions too: waiters are suspended.
///
/// ```swift
/// let routes = ReadWriteLock(RoutingTable(), name: "routes")
/// let next = try routes.withReadLock { $0.nextHop(to: address) }
/// try routes.withWriteLock { $0.insert(route) }
/// ```
///
/// The longest waiter is served first. Readers that come while a writer waits line up behind it, so that writers are
/// not kept waiting for ever. So a reader must not read again, or write, inside: with a writer in between it would wait
/// for itself. A writer that does so traps, and so does a coroutine or a task that reads, as one of the first eight at a time,
/// and has to wait in order to write.
/// Coroutines, tasks and, by the forms that don't wait, plain threads share it. Each operation takes constant time,
/// plus the time to wake waiters. Copies are the same lock.
public struct ReadWriteLock<Value: ~Copyable & Sendable>: Sendable {
  @usableFromInline let storage: ReadWriteLockStorage<Value>

  /// A lock that guards `value`.
  ///
  /// - Parameters:
  ///   - value: given away; only the lock's holders see it.
  ///   - name: for backtraces and messages.
  @inlinable
  public init(_ value: consuming Value, name: String = "") {
    storage = ReadWriteLockStorage(value, name: name)
  }

  /// The name it was given; empty without one.
  public var name: String { storage.name }

  /// Runs `body` with the value as a reader; suspends the calling coroutine as long as a writer has it, or an earlier
  /// writer waits for it.
  ///
  /// - Parameters:
  ///   - timeout: how long to wait for the lock at most; zero or less: does not wait; `nil`: without a limit.
  ///   - body: runs at once, on the calling coroutine, at the same time as other readers. May suspend.
  /// - Throws: `CancellationError` if the caller is cancelled before it has the lock; `TimeoutError` if the time was up
  ///   before; what `body` throws.
  /// - Precondition: called inside a coroutine, which is not the lock's writer: traps otherwise.
  @inlinable
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function; a closure without a capture list")
  public func withReadLock<Result: ~Copyable>(
    timeout: Duration? = nil, _ body: (borrowing Value) throws -> Result
  ) throws -> Result {
    let holder = try storage.lockForReading(timeout: timeout)
    defer { storage.unlockForReading(holder) }
    return try body(storage.value.pointee)
  }

  /// Runs `body` with the value as a reader, in `async` code. As the synchronous form.
  @inlinable
  nonisolated(nonsending) public func withReadLock<Result: ~Copyable>(
    timeout: Duration? = nil, _ body: nonisolated(nonsending) (borrowing Value) async throws -> Result
  ) async throws -> Result {
    let holder = try await storage.lockForReading(timeout: timeout)
    defer { storage.unlockForReading(holder) }
    return try await body(storage.value.pointee)
  }

  /// Runs `body` with the value as a reader, if no writer has it or waits for it. Never waits; callable from any
  /// thread.
  ///
  /// - Returns: what `body` returned; `nil` if the value can't be read now.
  /// - Throws: what `body` throws.
  @inlinable
  public func withReadLockIfAvailable<Result: ~Copyable, Failure: Error>(
    _ body: (borrowing Value) throws(Failure) -> Result
  ) throws(Failure) -> Result? {
    guard let holder = storage.lockForReadingIfAvailable() else { return nil }
    defer { storage.unlockForReading(holder) }
    return try body(storage.value.pointee)
  }

  /// Runs `body` with the value as the only writer; suspends the calling coroutine as long as a reader or another
  /// writer has it, or an earlier caller waits for it.
  ///
  /// - Parameters:
  ///   - timeout: how long to wait for the lock at most; zero or less: does not wait; `nil`: without a limit.
  ///   - body: runs at once, on the calling coroutine. May suspend.
  /// - Throws: `CancellationError` if the caller is cancelled before it has the lock; `TimeoutError` if the time was up
  ///   before; what `body` throws.
  /// - Precondition: called inside a coroutine, which is not the lock's writer already: traps otherwise.
  @inlinable
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function; a closure without a capture list")
  public func withWriteLock<Result: ~Copyable>(
    timeout: Duration? = nil, _ body: (inout Value) throws -> Result
  ) throws -> Result {
    try storage.lockForWriting(timeout: timeout)
    defer { storage.unlockForWriting() }
    return try body(&storage.value.pointee)
  }

  /// Runs `body` with the value as the only writer, in `async` code. As the synchronous form.
  @inlinable
  nonisolated(nonsending) public func withWriteLock<Result: ~Copyable>(
    timeout: Duration? = nil, _ body: nonisolated(nonsending) (inout Value) async throws -> Result
  ) async throws -> Result {
    try await storage.lockForWriting(timeout: timeout)
    defer { storage.unlockForWriting() }
    return try await body(&storage.value.pointee)
  }

  /// Runs `body` with the value as the only writer, if it has no reader or writer. Never waits; callable from any
  /// thread.
  ///
  /// - Returns: what `body` returned; `nil` if a reader or a writer has the value.
  /// - Throws: what `body` throws.
  @inlinable
  public func withWriteLockIfAvailable<Result: ~Copyable, Failure: Error>(
    _ body: (inout Value) throws(Failure) -> Result
  ) throws(Failure) -> Result? {
    guard storage.lockForWritingIfAvailable() else { return nil }
    defer { storage.unlockForWriting() }
    return try body(&storage.value.pointee)
  }
}
