// SPDX-License-Identifier: Apache-2.0

// A scope that is an object, and not a function's.

extension CoroutineScope {
  /// A scope that lives as long as its owner wants: launch from anywhere, at any time.
  ///
  /// ```swift
  /// final class Session: Sendable {
  ///   private let scope = CoroutineScope(name: "session", onChildFailure: { log("session: \($0)") })
  ///
  ///   func open() {
  ///     scope.launch { try self.connection.keepAlive() }
  ///   }
  ///
  ///   func close() throws {
  ///     scope.cancel()
  ///     try scope.join()           // all of them have ended
  ///   }
  /// }
  /// ```
  ///
  /// When the last copy is gone its children are cancelled: so do not keep one in a child that would run for ever
  /// otherwise. No code waits for the children then; `withScope` does, and is the better choice wherever a function can
  /// be their owner.
  ///
  /// A child that fails cancels the others and all later ones, and `join()` throws its error. Failures that no `join()` has thrown
  /// when the last copy is gone, nor `get()` of the child, are reported: see `CoroutineErrors`. With `onChildFailure` its failure
  /// has no such effect. See `withScope(name:limit:onChildFailure:_:)` for the parameters.
  public init(
    name: String = "", limit: Int? = nil, onChildFailure: (@Sendable (any Error) -> Void)? = nil
  ) {
    let storage = ScopeStorage(name: name, limit: limit, outlivesOwner: true, onChildFailure: onChildFailure)
    self.init(storage, owner: ScopeOwner(storage))
  }

  /// Suspends the calling coroutine until no child lives. More may be launched after that. Lazy children that were not started
  /// are not waited for.
  ///
  /// - Parameter timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Throws: the first failure of a child, `ScopeError` if there were others beside it; `CancellationError`, `TimeoutError`
  ///   if the caller is cancelled or time is up: the children go on.
  /// - Precondition: called inside a coroutine, which is no child of the scope (it would wait for itself): traps elsewhere.
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func join(timeout: Duration? = nil) throws {
    try storage.join(until: WaitDeadline.after(timeout)).check(timeout)
    try storage.throwFailures()
  }

  /// Suspends the calling task until no child lives. More may be launched after that. Lazy children that were not started are
  /// not waited for.
  ///
  /// - Parameter timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Throws: the first failure of a child, `ScopeError` if there were others beside it; `CancellationError`, `TimeoutError`
  ///   if the task is cancelled or time is up: the children go on.
  nonisolated(nonsending) public func join(timeout: Duration? = nil) async throws {
    try await storage.join(until: WaitDeadline.after(timeout)).check(timeout)
    try storage.throwFailures()
  }

  /// Blocks the calling thread until no child lives: for plain threads and `main`. More may be launched after that. Lazy children
  /// that were not started are not waited for.
  ///
  /// - Parameters:
  ///   - timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  ///   - file: the caller's, for messages.
  ///   - line: the caller's, for messages.
  /// - Throws: the first failure of a child, `ScopeError` if there were others beside it; `TimeoutError` if time is up: the
  ///   children go on.
  /// - Precondition: not called inside a coroutine, whose whole thread it would block, nor on the only thread that could run a
  ///   child, as the main thread for one of the main actor's: traps otherwise.
  @available(*, noasync, message: "use 'await join()' in async code")
  public func joinBlocking(
    timeout: Duration? = nil, file: StaticString = #fileID, line: UInt = #line
  ) throws {
    let call = BlockingCall("joinBlocking(timeout:)", file, line)
    try storage.joinBlocking(until: WaitDeadline.after(timeout), at: call).check(timeout)
    try storage.throwFailures()
  }
}

/// Cancels the children of a scope when its last handle is gone.
final class ScopeOwner: Sendable {
  private let storage: ScopeStorage

  init(_ storage: ScopeStorage) {
    self.storage = storage
  }

  deinit { storage.cancelChildren(reason: CancellationError()) }
}
