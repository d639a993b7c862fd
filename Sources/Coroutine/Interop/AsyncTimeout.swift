// SPDX-License-Identifier: Apache-2.0

import Dispatch
import Synchronization

/// Runs `body`, and cancels it when it takes longer than `duration`. In `async` code.
///
/// As the synchronous form. `body` runs in a task of its own, on the actor of the code around it, as a `Task`'s does, or on
/// the executor that the calling task prefers; this returns when that has ended.
///
/// - Parameter duration: zero or less: `body` is cancelled from its beginning.
/// - Throws: `TimeoutError` when the time was up and `body` ended with `CancellationError`; else what `body` throws.
@discardableResult
nonisolated(nonsending) public func withTimeout<Result: Sendable>(
  _ duration: Duration, name: String = "",
  @_inheritActorContext @_implicitSelfCapture _ body: sending @escaping @isolated(any) () async throws -> Result
) async throws -> Result {
  guard let result = try await runTimed(duration, body) else { throw TimeoutError(after: duration, name: name) }
  return result
}

/// Runs `body`, and cancels it when it takes longer than `duration`: then the result is `nil`. In `async` code.
///
/// As the synchronous form: `nil` stands for this timeout alone. `body` runs as that of the `async` `withTimeout`.
///
/// - Returns: what `body` returned; `nil` when the time was up and `body` ended with `CancellationError`.
/// - Throws: what `body` throws otherwise.
@discardableResult
nonisolated(nonsending) public func withTimeoutOrNil<Result: Sendable>(
  _ duration: Duration,
  @_inheritActorContext @_implicitSelfCapture _ body: sending @escaping @isolated(any) () async throws -> Result
) async throws -> Result? {
  try await runTimed(duration, body)
}

/// Runs `body`, and cancels it when it takes longer than until an instant of a clock. In `async` code.
///
/// As the synchronous form. `body` runs in a task of its own, on the actor of the code around it, as a `Task`'s does, or on
/// the executor that the calling task prefers; this returns when that has ended.
///
/// - Throws: `TimeoutError` when the time was up and `body` ended with `CancellationError`; else what `body` throws.
@discardableResult
nonisolated(nonsending) public func withTimeout<C: Clock, Result: Sendable>(
  until instant: C.Instant, clock: C, name: String = "",
  @_inheritActorContext @_implicitSelfCapture _ body: sending @escaping @isolated(any) () async throws -> Result
) async throws -> Result where C.Duration == Duration {
  guard let result = try await runTimed(until: instant, clock, body) else { throw TimeoutError(name: name) }
  return result
}

/// Runs `body`, and cancels it when it takes longer than until an instant of a clock: then the result is `nil`. In `async`
/// code.
///
/// As `withTimeoutOrNil(_:_:)`, with a deadline as that of `withTimeout(until:clock:name:_:)`.
///
/// - Returns: what `body` returned; `nil` when the time was up and `body` ended with `CancellationError`.
/// - Throws: what `body` throws otherwise.
@discardableResult
nonisolated(nonsending) public func withTimeoutOrNil<C: Clock, Result: Sendable>(
  until instant: C.Instant, clock: C,
  @_inheritActorContext @_implicitSelfCapture _ body: sending @escaping @isolated(any) () async throws -> Result
) async throws -> Result? where C.Duration == Duration {
  try await runTimed(until: instant, clock, body)
}

/// What `body` returns; `nil` when the time was up.
nonisolated(nonsending) private func runTimed<Result: Sendable>(
  _ duration: Duration, _ body: sending @escaping @isolated(any) () async throws -> Result
) async throws -> Result? {
  let deadline = WaitDeadline.after(duration)
  let task = makeTask(body)
  let timeout = TaskTimeout { task.cancel() }
  timeout.arm(at: deadline)
  defer { TimerService.shared.disarm(timeout) }
  return try await timeout.value(of: task)
}

/// What `body` returns; `nil` when the time was up.
nonisolated(nonsending) private func runTimed<C: Clock, Result: Sendable>(
  until instant: C.Instant, _ clock: C, _ body: sending @escaping @isolated(any) () async throws -> Result
) async throws -> Result? where C.Duration == Duration {
  let task = makeTask(body)
  let timeout = TaskTimeout { task.cancel() }
  guard let deadline = TimerService.shared.deadline(at: instant, of: clock) else {
    let sleeper = Task {
      if (try? await clock.sleep(until: instant, tolerance: nil)) != nil { timeout.timerFired() }
    }
    defer { sleeper.cancel() }
    return try await timeout.value(of: task)
  }
  timeout.arm(at: deadline > TimerService.shared.now ? deadline : WaitDeadline.now)
  defer { TimerService.shared.disarm(timeout) }
  return try await timeout.value(of: task)
}

/// A task that runs where its caller does. One that is no child leaves the executor that its creator prefers; this one
/// does not outlast the caller's wait, during which that executor is kept alive.
private func makeTask<Result: Sendable>(
  _ body: sending @escaping @isolated(any) () async throws -> Result
) -> Task<Result, any Error> {
  guard let executor = withUnsafeCurrentTask(body: { $0?.unownedTaskExecutor?.asTaskExecutor() }) else {
    return Task(operation: body)
  }
  return Task(executorPreference: executor, operation: body)
}

/// Cancels a task when the time is up.
// Unchecked: of its own fields only an atomic changes; the node is worked on under the lock of the timers.
final class TaskTimeout: TimerTarget, @unchecked Sendable {
  private let cancel: @Sendable () -> Void
  private let fired = Atomic<Bool>(false)
  /// How many timeouts of tasks have not ended. For debuggers.
  static let pending = Atomic<Int>(0)

  init(_ cancel: @escaping @Sendable () -> Void) {
    self.cancel = cancel
  }

  private var hasFired: Bool { fired.load(ordering: .acquiring) }

  fileprivate func arm(at deadline: UInt64) {
    if deadline == WaitDeadline.now { timerFired() } else { TimerService.shared.arm(self, at: deadline) }
  }

  /// The value of the task, which this timeout cancels, and so does the calling task; `nil` if the time was up.
  fileprivate nonisolated(nonsending) func value<Value: Sendable>(
    of task: Task<Value, any Error>
  ) async throws -> Value? {
    Self.pending.wrappingAdd(1, ordering: .relaxed)
    defer { Self.pending.wrappingSubtract(1, ordering: .relaxed) }
    return try await withTaskCancellationHandler {
      do {
        return try await task.value
      } catch {
        guard error is CancellationError, hasFired, !Task.isCancelled else { throw error }
        return nil
      }
    } onCancel: {
      task.cancel()
    }
  }

  override func timerFired() {
    fired.store(true, ordering: .releasing)
    // Not on the timers' thread: a task's cancellation handlers are users' code.
    guard TimerThread.isCurrent else { return cancel() }
    DispatchQueue.global(qos: .userInitiated).async(execute: cancel)
  }
}
