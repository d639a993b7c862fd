// SPDX-License-Identifier: Apache-2.0

/// A value that one holder at a time may use, across suspensions too: waiters are suspended, not blocked.
///
/// ```swift
/// let accounts = CoroutineMutex([String: Int](), name: "accounts")
/// Coroutine {
///   try accounts.withLock { balances in
///     balances["ann", default: 0] += try payments.receive()      // suspends, and keeps the mutex
///   }
/// }
/// ```
///
/// It is for bodies that suspend. Where a body never does, `Mutex` of the module `Synchronization` costs less (this
/// one's name is longer so that a file can use both). But do not lock `Mutex` in a function that also suspends: with
/// optimisation that may take one thread for another. Lock it in a function of its own, `@inline(never)`. The holder of
/// a `CoroutineMutex` is a coroutine or a task, not a thread: it may go on elsewhere.
///
/// The longest waiter is served first, and gets the mutex handed over: no other thread overtakes it. Uncontended, lock
/// and unlock are one atomic exchange each. Coroutines, tasks, and, by `withLockIfAvailable`, plain threads share it.
/// Copies are the same mutex.
///
/// A result that is not `Sendable` must not be a part of the value: without the lock it would be used beside the other holders.
/// The compiler refuses `{ $0 }` and `{ $0.popLast() }` for such a value, and `{ $0 = other }` where other code has `other`, too. (For
/// `Mutex` Swift 6.3 does not refuse a result; nor, for this one, either of them where `withLock` is given a function by its name, or a
/// closure that spells the parameter without `sending`, `{ (box: inout Box) in box }`: write `{ $0 … }`, or `inout sending Box`.)
/// `exchange(with:)` takes the value as a whole:
///
/// ```swift
/// let parsers = try spare.exchange(with: [])
/// ```
///
/// A pool of such things, of which one at a time is taken and given back, is a `Channel`: that hands elements over.
public struct CoroutineMutex<Value: ~Copyable>: Sendable {
  @usableFromInline let storage: MutexStorage<Value>

  /// A mutex that guards `value`.
  ///
  /// - Parameters:
  ///   - value: given away; `withLock` is the only way to it.
  ///   - name: for backtraces and messages.
  @inlinable
  public init(_ value: consuming sending Value, name: String = "") {
    storage = MutexStorage(value, name: name)
  }

  /// The name it was given; empty without one.
  public var name: String { storage.name }

  /// Runs `body` with the value; suspends the calling coroutine as long as another holder has it.
  ///
  /// - Parameters:
  ///   - timeout: how long to wait for the mutex at most; zero or less: does not wait; `nil`: without a limit. The
  ///     body's own time does not count.
  ///   - body: runs at once, on the calling coroutine. May suspend.
  /// - Returns: what `body` returned.
  /// - Throws: `CancellationError` if the caller is cancelled before it has the mutex, also if it is free; `TimeoutError`
  ///   if the time was up before; what `body` throws. Afterwards the mutex is free in any case.
  /// - Precondition: called inside a coroutine, which does not hold the mutex already (it would wait for itself): traps
  ///   otherwise.
  @inlinable
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function; a closure without a capture list")
  public func withLock<Result: ~Copyable>(
    timeout: Duration? = nil, _ body: (inout sending Value) throws -> Result
  ) throws -> Result {
    let holder = try storage.acquire(timeout: timeout)
    defer { storage.release(holder) }
    return try body(&storage.value.pointee)
  }

  /// Runs `body` with the value, in `async` code; suspends the calling task as long as another holder has it.
  ///
  /// - Parameters:
  ///   - timeout: how long to wait for the mutex at most; zero or less: does not wait; `nil`: without a limit.
  ///   - body: runs at once, where the caller runs. May suspend.
  /// - Returns: what `body` returned.
  /// - Throws: `CancellationError` if the task is cancelled before it has the mutex, also if it is free; `TimeoutError` if
  ///   the time was up before; what `body` throws. Afterwards the mutex is free in any case.
  /// - Precondition: the task does not hold the mutex already (it would wait for itself): traps otherwise. A child task of the
  ///   holder that locks it, and is waited for inside, is not noticed.
  @inlinable
  nonisolated(nonsending) public func withLock<Result: ~Copyable>(
    timeout: Duration? = nil,
    _ body: nonisolated(nonsending) (inout sending Value) async throws -> Result
  ) async throws -> Result {
    let holder = try await storage.acquire(timeout: timeout)
    defer { storage.release(holder) }
    return try await body(&storage.value.pointee)
  }

  /// Runs `body` with the value if the mutex is free. Never waits for the mutex; callable from any thread.
  ///
  /// - Returns: what `body` returned; `nil` if the mutex is held, by the caller or another holder.
  /// - Throws: what `body` throws.
  @inlinable
  public func withLockIfAvailable<Result: ~Copyable, Failure: Error>(
    _ body: (inout sending Value) throws(Failure) -> Result
  ) throws(Failure) -> Result? {
    guard let holder = storage.acquireIfAvailable() else { return nil }
    defer { storage.release(holder) }
    return try body(&storage.value.pointee)
  }

  /// Puts another value in the place of the one that it guards; suspends the calling coroutine as long as another holder has it.
  ///
  /// - Parameters:
  ///   - newValue: given away. Dropped if it throws.
  ///   - timeout: how long to wait for the mutex at most; zero or less: does not wait; `nil`: without a limit.
  /// - Returns: the former value, which is the caller's alone.
  /// - Throws: `CancellationError` if the caller is cancelled before it has the mutex, also if it is free; `TimeoutError`
  ///   if the time was up before.
  /// - Precondition: as for `withLock`.
  @inlinable
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func exchange(with newValue: consuming sending Value, timeout: Duration? = nil) throws -> sending Value {
    let holder = try storage.acquire(timeout: timeout)
    defer { storage.release(holder) }
    return storage.exchange(newValue)
  }

  /// Puts another value in the place of the one that it guards, in `async` code; suspends the calling task as long as another
  /// holder has it. Otherwise as the form for coroutines.
  @inlinable
  nonisolated(nonsending) public func exchange(
    with newValue: consuming sending Value, timeout: Duration? = nil
  ) async throws -> sending Value {
    let holder = try await storage.acquire(timeout: timeout)
    defer { storage.release(holder) }
    return storage.exchange(newValue)
  }
}

extension CoroutineMutex where Value == Void {
  /// A mutex that guards what the program knows to belong to it.
  ///
  /// - Parameter name: for backtraces and messages.
  @inlinable
  public init(name: String = "") {
    self.init((), name: name)
  }

  /// Runs `body` with the mutex held. As `withLock` with a value.
  @inlinable
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function; a closure without a capture list")
  public func withLock<Result: ~Copyable>(
    timeout: Duration? = nil, _ body: () throws -> Result
  ) throws -> Result {
    let holder = try storage.acquire(timeout: timeout)
    defer { storage.release(holder) }
    return try body()
  }

  /// Runs `body` with the mutex held, in `async` code. As `withLock` with a value.
  @inlinable
  nonisolated(nonsending) public func withLock<Result: ~Copyable>(
    timeout: Duration? = nil, _ body: nonisolated(nonsending) () async throws -> Result
  ) async throws -> Result {
    let holder = try await storage.acquire(timeout: timeout)
    defer { storage.release(holder) }
    return try await body()
  }

  /// Runs `body` with the mutex held, if it is free. As `withLockIfAvailable` with a value.
  @inlinable
  public func withLockIfAvailable<Result: ~Copyable, Failure: Error>(
    _ body: () throws(Failure) -> Result
  ) throws(Failure) -> Result? {
    guard let holder = storage.acquireIfAvailable() else { return nil }
    defer { storage.release(holder) }
    return try body()
  }
}
