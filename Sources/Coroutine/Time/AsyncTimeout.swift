// SPDX-License-Identifier: Apache-2.0

import Context
import Synchronization

/// Runs `body`, and cancels it when it takes longer than `duration`. In `async` code.
///
/// As the synchronous form. `body` runs in a task of its own, on the actor of the code around it, as a `Task`'s does, or on
/// the executor that the calling task prefers; this returns when that has ended.
///
/// - Parameters:
///   - duration: zero or less: `body` is cancelled from its beginning.
///   - name: the error's, `TimeoutError.name`.
///   - ownError: thrown in place of the `TimeoutError` of this timeout, and of no other. Made only then, where the caller runs.
///   - body: runs at once.
/// - Throws: `TimeoutError`, or `ownError`, when the time was up and `body` threw: whatever it threw, since libraries have errors
///   of their own for having been cancelled. `TimeoutError.cause` has what was no `CancellationError`. Otherwise what `body`
///   throws.
@discardableResult
nonisolated(nonsending) public func withTimeout<Result: Sendable>(
  _ duration: Duration, name: String = "",
  throwing ownError: @autoclosure () -> (any Error)? = nil,
  @_inheritActorContext @_implicitSelfCapture _ body: sending @escaping @isolated(any) () async throws -> Result
) async throws -> Result {
  let timeout = TaskTimeout(allowed: duration, name: name)
  timeout.begin(at: WaitDeadline.after(duration))
  return try await timeout.result(of: makeTask(body), orThrow: ownError())
}

/// Runs `body` with its deadline, which it may move, and cancels it when it takes longer than until that. In `async` code.
///
/// As the synchronous form. `body` runs in a task of its own, which begins on no actor and goes on where `body` belongs.
@discardableResult
nonisolated(nonsending) public func withTimeout<Result: Sendable>(
  _ duration: Duration, name: String = "",
  throwing ownError: @autoclosure () -> (any Error)? = nil,
  @_inheritActorContext @_implicitSelfCapture _ body:
    sending @escaping @isolated(any) (borrowing Deadline) async throws -> Result
) async throws -> Result {
  let timeout = TaskTimeout(allowed: duration, name: name)
  timeout.begin(at: WaitDeadline.after(duration))
  return try await timeout.result(of: makeTask(body, timeout), orThrow: ownError())
}

/// Runs `body`, and cancels it when it takes longer than `duration`: then the result is `nil`. In `async` code.
///
/// `nil` stands for this timeout alone. `body` runs as that of the `async` `withTimeout`.
///
/// - Returns: what `body` returned; `nil` when the time was up and `body` threw: whatever it threw but the `TimeoutError` of
///   another timeout, since libraries have errors of their own for having been cancelled. (`withTimeout` keeps them, as a
///   `cause`.)
/// - Throws: what `body` throws otherwise.
@discardableResult
nonisolated(nonsending) public func withTimeoutOrNil<Result: Sendable>(
  _ duration: Duration,
  @_inheritActorContext @_implicitSelfCapture _ body: sending @escaping @isolated(any) () async throws -> Result
) async throws -> Result? {
  let timeout = TaskTimeout(allowed: duration, name: "")
  timeout.begin(at: WaitDeadline.after(duration))
  return try await timeout.valueOrNil(of: makeTask(body))
}

/// Runs `body` with its deadline, which it may move, and cancels it when it takes longer than until that: then the result is
/// `nil`. In `async` code.
///
/// As the synchronous form. `body` runs as that of the `async` `withTimeout` with a `Deadline`.
@discardableResult
nonisolated(nonsending) public func withTimeoutOrNil<Result: Sendable>(
  _ duration: Duration,
  @_inheritActorContext @_implicitSelfCapture _ body:
    sending @escaping @isolated(any) (borrowing Deadline) async throws -> Result
) async throws -> Result? {
  let timeout = TaskTimeout(allowed: duration, name: "")
  timeout.begin(at: WaitDeadline.after(duration))
  return try await timeout.valueOrNil(of: makeTask(body, timeout))
}

/// Runs `body`, and cancels it when it takes longer than until an instant of a clock. In `async` code.
///
/// As the synchronous form. `body` runs in a task of its own, on the actor of the code around it, as a `Task`'s does, or on
/// the executor that the calling task prefers; this returns when that has ended.
///
/// - Throws: `TimeoutError`, or `ownError`, when the time was up and `body` threw: whatever it threw, since libraries have errors
///   of their own for having been cancelled. `TimeoutError.cause` has what was no `CancellationError`. Otherwise what `body`
///   throws.
@discardableResult
nonisolated(nonsending) public func withTimeout<C: Clock, Result: Sendable>(
  until instant: C.Instant, clock: C, name: String = "",
  throwing ownError: @autoclosure () -> (any Error)? = nil,
  @_inheritActorContext @_implicitSelfCapture _ body: sending @escaping @isolated(any) () async throws -> Result
) async throws -> Result where C.Duration == Duration {
  let timeout = TaskTimeout(allowed: nil, name: name)
  timeout.begin(at: instant, of: clock)
  return try await timeout.result(of: makeTask(body), orThrow: ownError())
}

/// Runs `body` with its deadline, an instant of a clock which it may move, and cancels it when it takes longer than until
/// that. In `async` code.
///
/// As the synchronous form. `body` runs as that of the `async` `withTimeout` with a `Deadline`.
@discardableResult
nonisolated(nonsending) public func withTimeout<C: Clock, Result: Sendable>(
  until instant: C.Instant, clock: C, name: String = "",
  throwing ownError: @autoclosure () -> (any Error)? = nil,
  @_inheritActorContext @_implicitSelfCapture _ body:
    sending @escaping @isolated(any) (borrowing Deadline) async throws -> Result
) async throws -> Result where C.Duration == Duration {
  let timeout = TaskTimeout(allowed: nil, name: name)
  timeout.begin(at: instant, of: clock)
  return try await timeout.result(of: makeTask(body, timeout), orThrow: ownError())
}

/// Runs `body`, and cancels it when it takes longer than until an instant of a clock: then the result is `nil`. In `async`
/// code.
///
/// As `withTimeoutOrNil(_:_:)`, with a deadline as that of `withTimeout(until:clock:name:throwing:_:)`.
///
/// - Returns: what `body` returned; `nil` when the time was up and `body` threw, as in `withTimeoutOrNil(_:_:)`.
/// - Throws: what `body` throws otherwise.
@discardableResult
nonisolated(nonsending) public func withTimeoutOrNil<C: Clock, Result: Sendable>(
  until instant: C.Instant, clock: C,
  @_inheritActorContext @_implicitSelfCapture _ body: sending @escaping @isolated(any) () async throws -> Result
) async throws -> Result? where C.Duration == Duration {
  let timeout = TaskTimeout(allowed: nil, name: "")
  timeout.begin(at: instant, of: clock)
  return try await timeout.valueOrNil(of: makeTask(body))
}

/// Runs `body` with its deadline, an instant of a clock which it may move, and cancels it when it takes longer than until
/// that: then the result is `nil`. In `async` code.
///
/// As the synchronous form. `body` runs as that of the `async` `withTimeout` with a `Deadline`.
@discardableResult
nonisolated(nonsending) public func withTimeoutOrNil<C: Clock, Result: Sendable>(
  until instant: C.Instant, clock: C,
  @_inheritActorContext @_implicitSelfCapture _ body:
    sending @escaping @isolated(any) (borrowing Deadline) async throws -> Result
) async throws -> Result? where C.Duration == Duration {
  let timeout = TaskTimeout(allowed: nil, name: "")
  timeout.begin(at: instant, of: clock)
  return try await timeout.valueOrNil(of: makeTask(body, timeout))
}

/// A task that runs where its caller does. One that is no child leaves the executor that its creator prefers; this one
/// does not outlast the caller's wait, during which that executor is kept alive.
private func makeTask<Result: Sendable>(
  _ body: sending @escaping @isolated(any) () async throws -> Result
) -> Task<Result, any Error> {
  guard let executor = preferredExecutor else { return Task(operation: body) }
  return Task(executorPreference: executor, operation: body)
}

/// The same with the deadline of a timeout.
private func makeTask<Result: Sendable>(
  _ body: sending @escaping @isolated(any) (borrowing Deadline) async throws -> Result, _ timeout: TaskTimeout
) -> Task<Result, any Error> {
  guard let executor = preferredExecutor else { return Task { try await body(Deadline(timeout)) } }
  return Task(executorPreference: executor) { try await body(Deadline(timeout)) }
}

/// Cancels a task when the time is up.
// Unchecked: the lock guards the task and whether the time is up.
final class TaskTimeout: DeadlineTimer, @unchecked Sendable {
  private let taskLock = Lock()
  // Guarded by `taskLock`, all three.
  /// Cancels the task, once there is one, until that has ended: its result is the user's, as is the error. See `TimerTarget`.
  @exclusivity(unchecked) private var cancel: (@Sendable () -> Void)?
  @exclusivity(unchecked) private var isOver = false
  /// What the task threw instead of `CancellationError` when the time was up.
  @exclusivity(unchecked) private var cause: (any Error)?
  /// How many timeouts of tasks have not ended. For debuggers.
  static let pending = Atomic<Int>(0)

  private var hasFired: Bool { taskLock.withLock { isOver } }

  /// The value of the task; throws if the time was up.
  fileprivate nonisolated(nonsending) func result<Value: Sendable>(
    of task: Task<Value, any Error>, orThrow ownError: @autoclosure () -> (any Error)?
  ) async throws -> Value {
    guard let value = try await value(of: task) else {
      var error = error
      error.cause = taskLock.withLock { cause.take() }
      throw ownError() ?? error
    }
    return value
  }

  /// The value of the task; `nil` if the time was up. That of another timeout is none of this one's.
  fileprivate nonisolated(nonsending) func valueOrNil<Value: Sendable>(
    of task: Task<Value, any Error>
  ) async throws -> Value? {
    let value = try await value(of: task)
    if value == nil, let other = taskLock.withLock({ cause.take() }) as? TimeoutError { throw other }
    return value
  }

  /// The value of the task, which this timeout cancels, and so does the calling task; `nil` if the time was up.
  ///
  /// - Parameter task: made when the deadline had begun, since it may move that.
  fileprivate nonisolated(nonsending) func value<Value: Sendable>(
    of task: Task<Value, any Error>
  ) async throws -> Value? {
    Self.pending.wrappingAdd(1, ordering: .relaxed)
    defer { Self.pending.wrappingSubtract(1, ordering: .relaxed) }
    cancelWhenExpired(task)
    // The task has ended then. Nothing is moved any more, also by a handle.
    defer {
      stop()
      _ = takeCancel()
    }
    return try await withTaskCancellationHandler {
      do {
        return try await task.value
      } catch {
        // Whatever the task threw after that: libraries have errors of their own for having been cancelled.
        guard hasFired, !Task.isCancelled else { throw error }
        if !(error is CancellationError) { taskLock.withLock { cause = error } }
        return nil
      }
    } onCancel: {
      cancelOnThisThread { task.cancel() }
    }
  }

  private func cancelWhenExpired<Value: Sendable>(_ task: Task<Value, any Error>) {
    taskLock.lock()
    cancel = { cancelOnThisThread { task.cancel() } }
    let isLate = isOver
    taskLock.unlock()
    if isLate { cancelOnThisThread { task.cancel() } }
  }

  /// What it returns goes after the unlock, and the task with it.
  private func takeCancel() -> (@Sendable () -> Void)? { taskLock.withLock { cancel.take() } }

  override var sleeperExecutor: (any TaskExecutor)? { preferredExecutor }

  override func cancelSleeper(_ cancel: () -> Void) { cancelOnThisThread(cancel) }

  override func expire() {
    taskLock.lock()
    isOver = true
    let hasTask = cancel != nil
    taskLock.unlock()
    guard hasTask else { return }
    guard TimerThread.isCurrent else {
      takeCancel()?()
      return
    }
    // Not on the timers' thread: a task's cancellation handlers are users' code, and so is what goes with the task.
    let own = Unmanaged.passRetained(self)
    HandlerThreads.run { own.takeRetainedValue().takeCancel()?() }
  }
}
