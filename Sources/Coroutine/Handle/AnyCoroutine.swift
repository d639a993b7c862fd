// SPDX-License-Identifier: Apache-2.0

/// A coroutine, whatever it returns: handles of different coroutines in one list, or that of the coroutine that runs.
///
/// ```swift
/// let jobs = [AnyCoroutine(reader), AnyCoroutine(writer)]
/// for job in jobs { job.cancel() }
/// for job in jobs { try job.join() }
/// ```
///
/// Two are equal, and equally hashed, if they stand for the same coroutine. One is three words, and keeps what its
/// coroutine has left, as `Coroutine` does: an error that no caller gets is reported when the last handle is gone.
public struct AnyCoroutine: Sendable {
  private let core: CoroutineCore
  private let cancelDelegate: (any CancelDelegate)?

  /// A handle of the same coroutine, without the type of its result.
  public init<Success, Failure>(_ coroutine: Coroutine<Success, Failure>) {
    core = coroutine.storage
    cancelDelegate = nil
  }

  /// On the coroutine itself, or while it is known not to run and not to have ended.
  package init(current core: CoroutineCore) {
    self.core = core
    cancelDelegate = core.cancelDelegate
  }

  /// One that is no actor's.
  package init(_ core: CoroutineCore) {
    self.core = core
    cancelDelegate = nil
  }

  /// A number that no other coroutine of the process has.
  public var id: UInt64 { core.id }

  /// The name it was given; empty without one.
  public var name: String { core.name }

  /// What it is doing at this moment; it may be doing something else in the next. Callable from any thread.
  public var state: CoroutineState { core.state.load(ordering: .relaxed) }

  /// Whether it has ended: `join()` would not wait.
  public var isFinished: Bool { core.isFinished }

  /// Asks the coroutine to stop: see `Coroutine.cancel(reason:)`. The coroutine of an actor stops as by the actor's `cancel()`,
  /// which knows no reason. Callable from any thread.
  public func cancel(reason: (any Error)? = nil) {
    if let cancelDelegate { cancelDelegate.cancelCoroutine() } else { core.cancel(reason: reason) }
  }

  /// Whether it was asked to stop before it had ended. It may have ended in its own way since.
  public var isCancelled: Bool { cancelDelegate?.isCancelled ?? core.isCancelled }
}

extension AnyCoroutine: Hashable, Identifiable, CustomStringConvertible {
  /// Whether both are the same coroutine.
  public static func == (left: AnyCoroutine, right: AnyCoroutine) -> Bool { left.core === right.core }

  public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(core)) }

  /// Its number, and the name it was given.
  public var description: String { core.description }
}

// MARK: - Waiting for its end

extension AnyCoroutine {
  /// Waits for the end, whatever it is. Suspends the calling coroutine. An error counts as seen.
  ///
  /// - Throws: `CancellationError` if the caller is cancelled, before that or while it waits.
  /// - Precondition: called inside a coroutine, but not inside this one: traps otherwise.
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func join() throws {
    try core.waitForEnd().check()
  }

  /// Waits for the end, whatever it is. In `async` code.
  ///
  /// - Throws: `CancellationError` if the caller is cancelled, before that or while it waits.
  nonisolated(nonsending) public func join() async throws {
    try await core.waitForEnd().check()
  }

  /// Waits for the end, but no longer than `timeout`. Otherwise as `join()`.
  ///
  /// - Parameter timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Throws: `TimeoutError`, and what `join()` throws.
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func join(timeout: Duration?) throws {
    try core.waitForEnd(until: WaitDeadline.after(timeout)).check(timeout)
  }

  /// Waits for the end, but no longer than `timeout`. In `async` code.
  ///
  /// - Parameter timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Throws: `TimeoutError`, and what `join()` throws.
  nonisolated(nonsending) public func join(timeout: Duration?) async throws {
    try await core.waitForEnd(until: WaitDeadline.after(timeout)).check(timeout)
  }

  /// Waits for the end, whatever it is. Blocks the calling thread: for plain threads and `main`. An error counts as seen.
  ///
  /// - Parameters:
  ///   - timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  ///   - file: the caller's, for messages.
  ///   - line: the caller's, for messages.
  /// - Throws: `TimeoutError` if the time was up before.
  /// - Precondition: not called inside a coroutine, nor on the only thread that could run this one: traps otherwise.
  @available(*, noasync, message: "use 'await join()' in async code")
  public func joinBlocking(
    timeout: Duration? = nil, file: StaticString = #fileID, line: UInt = #line
  ) throws {
    try core.joinBlocking(timeout: timeout, file, line)
  }
}

extension Coroutine where Success == Never, Failure == Never {
  /// The coroutine that runs the calling code: to hand it on, so that others may cancel it or wait for it. `nil` outside of
  /// one, and in `async` code.
  ///
  /// ```swift
  /// workers.withLock { _ = $0.insert(Coroutine.current!) }
  /// ```
  ///
  /// A generator's body belongs to the coroutine that calls `next()`.
  public static var current: AnyCoroutine? {
    guard isInside, let core = CoroutineCore.current else { return nil }
    return AnyCoroutine(current: core)
  }
}
