// SPDX-License-Identifier: Apache-2.0

extension Coroutine {
  /// Waits for the end and returns what the body returned. Suspends the calling coroutine.
  ///
  /// Any number of coroutines, tasks and threads may wait. Constant time.
  ///
  /// It throws also where the body can't: the caller may be cancelled while it waits, and then there is no value to return.
  /// `getShielded()` is for those that can't: it never throws.
  ///
  /// - Throws: what the body threw; `StackError` if it never got a stack; `CancellationError` if it was cancelled before
  ///   it began, or the caller is cancelled, before that or while it waits.
  /// - Precondition: called inside a coroutine, but not inside this one (it would wait for ever): traps otherwise.
  @inlinable
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func get() throws -> Success {
    try storage.get()
  }

  /// Waits for the end and returns what the body returned. In `async` code.
  ///
  /// - Throws: what the body threw; `StackError` if it never got a stack; `CancellationError` if it was cancelled before
  ///   it began, or the calling task is cancelled, before that or while it waits.
  @inlinable
  nonisolated(nonsending) public func get() async throws -> Success {
    try await storage.get()
  }

  /// Waits for the end, but no longer than `timeout`. Otherwise as `get()`.
  ///
  /// - Parameter timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Throws: `TimeoutError`, and what `get()` throws.
  @inlinable
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func get(timeout: Duration?) throws -> Success {
    try storage.get(timeout: timeout)
  }

  /// Waits for the end, but no longer than `timeout`. In `async` code.
  ///
  /// - Parameter timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Throws: `TimeoutError`, and what `get()` throws.
  @inlinable
  nonisolated(nonsending) public func get(timeout: Duration?) async throws -> Success {
    try await storage.get(timeout: timeout)
  }

  /// The result, as `Task` has it: the same as `await get()`. It throws also where the body can't, other than that of a `Task`:
  /// see `getShielded()`.
  ///
  /// For the top level of `main.swift` too, where Swift 6.3 picks the synchronous `get()` even behind `await`.
  ///
  /// - Throws: what `get()` throws.
  @inlinable
  nonisolated(nonsending) public var value: Success {
    get async throws { try await storage.get() }
  }

  /// Waits for the end, in `async` code: the outcome, as `Task` has it. A `CancellationError` if the calling task is
  /// cancelled, before that or while it waits, also where the coroutine has ended. (That of a `Task` is the outcome then.)
  @inlinable
  nonisolated(nonsending) public var result: Result<Success, any Error> {
    get async {
      do {
        return .success(try await storage.get())
      } catch {
        return .failure(error)
      }
    }
  }

  /// Waits for the end and returns what the body returned. Blocks the calling thread: for plain threads and `main`.
  ///
  /// Swift's cooperative pool, which runs `async` code, has only a few threads: that one of them is blocked is said on the
  /// standard error, once in the process, with `file` and `line`.
  ///
  /// - Parameters:
  ///   - file: the caller's, for messages.
  ///   - line: the caller's, for messages.
  /// - Throws: what the body threw; `StackError` if it never got a stack; `CancellationError` if it was cancelled before it began.
  /// - Precondition: not called inside a coroutine, whose whole thread it would block, nor on the only thread that could run
  ///   this one, as the main thread for a coroutine of the main queue: traps otherwise.
  @inlinable
  @available(*, noasync, message: "use 'await get()' in async code")
  public func getBlocking(file: StaticString = #fileID, line: UInt = #line) throws -> Success {
    try storage.getBlocking(at: BlockingCall("getBlocking()", file, line))
  }

  /// Waits for the end, but no longer than `timeout`. Blocks the calling thread. Otherwise as `getBlocking()`.
  ///
  /// - Parameters:
  ///   - timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  ///   - file: the caller's, for messages.
  ///   - line: the caller's, for messages.
  /// - Throws: `TimeoutError`, and what `getBlocking()` throws.
  @inlinable
  @available(*, noasync, message: "use 'await get(timeout:)' in async code")
  public func getBlocking(
    timeout: Duration?, file: StaticString = #fileID, line: UInt = #line
  ) throws -> Success {
    try storage.getBlocking(timeout: timeout, at: BlockingCall("getBlocking(timeout:)", file, line))
  }

  /// Waits for the end, whatever it is. Suspends the calling coroutine. An error counts as seen.
  ///
  /// - Throws: `CancellationError` if the caller is cancelled, before that or while it waits.
  /// - Precondition: as for `get()`.
  @inlinable
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func join() throws {
    try storage.waitForEnd().check()
  }

  /// Waits for the end, whatever it is. In `async` code. An error counts as seen.
  ///
  /// - Throws: `CancellationError` if the calling task is cancelled, before that or while it waits.
  @inlinable
  nonisolated(nonsending) public func join() async throws {
    try await storage.waitForEnd().check()
  }

  /// Waits for the end, whatever it is, but no longer than `timeout`. Otherwise as `join()`.
  ///
  /// - Parameter timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Throws: `TimeoutError`, and what `join()` throws.
  @inlinable
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func join(timeout: Duration?) throws {
    try storage.waitForEnd(until: WaitDeadline.after(timeout)).check(timeout)
  }

  /// Waits for the end, whatever it is, but no longer than `timeout`. In `async` code.
  ///
  /// - Parameter timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Throws: `TimeoutError`, and what `join()` throws.
  @inlinable
  nonisolated(nonsending) public func join(timeout: Duration?) async throws {
    try await storage.waitForEnd(until: WaitDeadline.after(timeout)).check(timeout)
  }

  /// Waits for the end, whatever it is. Blocks the calling thread: for plain threads and `main`. An error counts as seen.
  ///
  /// - Parameters:
  ///   - timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  ///   - file: the caller's, for messages.
  ///   - line: the caller's, for messages.
  /// - Throws: `TimeoutError` if the time was up before.
  /// - Precondition: as for `getBlocking()`.
  @available(*, noasync, message: "use 'await join()' in async code")
  public func joinBlocking(
    timeout: Duration? = nil, file: StaticString = #fileID, line: UInt = #line
  ) throws {
    try storage.joinBlocking(timeout: timeout, file, line)
  }

  /// Asks the coroutine to stop and waits until it has. Suspends the calling coroutine.
  ///
  /// - Parameter reason: as in `cancel(reason:)`.
  /// - Throws: `CancellationError` if the caller is cancelled, before that or while it waits.
  /// - Precondition: as for `get()`.
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func cancelAndJoin(reason: (any Error)? = nil) throws {
    cancel(reason: reason)
    try join()
  }

  /// Asks the coroutine to stop and waits until it has. In `async` code.
  ///
  /// - Parameter reason: as in `cancel(reason:)`.
  /// - Throws: `CancellationError` if the calling task is cancelled, before that or while it waits.
  nonisolated(nonsending) public func cancelAndJoin(reason: (any Error)? = nil) async throws {
    cancel(reason: reason)
    try await join()
  }

  /// Asks the coroutine to stop and waits until it has, but no longer than `timeout`. Otherwise as `cancelAndJoin(reason:)`.
  ///
  /// - Parameters:
  ///   - reason: as in `cancel(reason:)`.
  ///   - timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Throws: `TimeoutError` if it has not stopped by then: it goes on as before. `CancellationError` as `join()`.
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func cancelAndJoin(reason: (any Error)? = nil, timeout: Duration?) throws {
    cancel(reason: reason)
    try join(timeout: timeout)
  }

  /// Asks the coroutine to stop and waits until it has, but no longer than `timeout`. In `async` code.
  ///
  /// - Parameters:
  ///   - reason: as in `cancel(reason:)`.
  ///   - timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Throws: `TimeoutError` if it has not stopped by then: it goes on as before. `CancellationError` as `join()`.
  nonisolated(nonsending) public func cancelAndJoin(reason: (any Error)? = nil, timeout: Duration?) async throws {
    cancel(reason: reason)
    try await join(timeout: timeout)
  }
}

extension Coroutine where Failure == Never {
  /// Waits for the end, and returns what the body returned, without `try`: no cancel of the caller, and no deadline around it, cuts
  /// the wait short. Suspends the calling coroutine.
  ///
  /// ```swift
  /// let counter = Coroutine { count(text) }
  /// let words = counter.getShielded() ?? 0
  /// ```
  ///
  /// As the `value` of a `Task` that can't fail; but a `Task` begins in any case, and a coroutine that is cancelled before it
  /// begins has no value, unless it is `atomic`. (`get()` throws then, and so it does where the caller is cancelled.) It waits
  /// as long as the body takes: cancel the coroutine, too, where that matters.
  ///
  /// - Returns: the value; `nil` if it never ran: it was cancelled before it began, or got no stack.
  /// - Precondition: called inside a coroutine, but not inside this one (it would wait for ever): traps otherwise.
  @discardableResult
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func getShielded() -> Success? {
    withCancellationShield { try? storage.get() }
  }

  /// Waits for the end, and returns what the body returned, without `try`: no cancel of the calling task cuts the wait short. In
  /// `async` code. As in a coroutine.
  ///
  /// - Returns: the value; `nil` if it never ran: it was cancelled before it began, or got no stack.
  @discardableResult
  nonisolated(nonsending) public func getShielded() async -> Success? {
    // In a task of its own, which is never cancelled.
    await Task<Success?, Never>(executorPreference: preferredExecutor) { try? await storage.get() }.value
  }
}
