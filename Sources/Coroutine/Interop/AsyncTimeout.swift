import Synchronization

/// Runs `body`, and cancels it when it takes longer than `duration`. In `async` code.
///
/// As the synchronous form. `body` runs in a child task; this returns when that has ended.
///
/// - Parameter duration: not negative: traps.
/// - Throws: `TimeoutError` when the time was up and `body` ended with `CancellationError`; else what `body` throws.
@discardableResult
nonisolated(nonsending) public func withTimeout<Result: Sendable>(
  _ duration: Duration, _ body: sending @escaping @isolated(any) () async throws -> Result
) async throws -> Result {
  let deadline = WaitDeadline.after(duration)
  let task = Task(operation: body)
  let timeout = TaskTimeout { task.cancel() }
  TaskTimeout.pending.wrappingAdd(1, ordering: .relaxed)
  if deadline == WaitDeadline.now { timeout.timerFired() } else { TimerService.shared.arm(timeout, at: deadline) }
  defer {
    TimerService.shared.disarm(timeout)
    TaskTimeout.pending.wrappingSubtract(1, ordering: .relaxed)
  }
  return try await withTaskCancellationHandler {
    do {
      return try await task.value
    } catch {
      guard error is CancellationError, timeout.hasFired, !Task.isCancelled else { throw error }
      throw TimeoutError(after: duration)
    }
  } onCancel: {
    task.cancel()
  }
}

/// Cancels a task when the time is up.
final class TaskTimeout: TimerTarget, @unchecked Sendable {
  private let cancel: @Sendable () -> Void
  // Sendable: this is all that changes.
  private let fired = Atomic<Bool>(false)
  /// How many timeouts of tasks have not ended. For debuggers.
  static let pending = Atomic<Int>(0)

  init(_ cancel: @escaping @Sendable () -> Void) {
    self.cancel = cancel
  }

  var hasFired: Bool { fired.load(ordering: .acquiring) }

  override func timerFired() {
    fired.store(true, ordering: .releasing)
    cancel()
  }
}
