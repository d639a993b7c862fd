// SPDX-License-Identifier: Apache-2.0

import CCoroutine

extension Coroutine {
  /// Asks the coroutine to stop.
  ///
  /// Cancellation is cooperative, as it is for tasks. Whatever the coroutine waits for, or is about to wait for, throws
  /// `CancellationError`; code that does not wait asks `Coroutine.isCancelled` or calls `Coroutine.checkCancellation()`.
  /// It unwinds as after any error: `defer` blocks run. If it has not begun, its body never runs.
  ///
  /// What such a body captured is released outside of every coroutine. A generator among it that is under way is unwound
  /// there: where its cleanup waits, a shield does not help, and the program ends. Hand such a generator to a coroutine that
  /// starts `.atomic`: that begins in any case, and releases it on its own stack.
  ///
  /// Cancelling again, or after the end, has no effect. Callable from any thread; constant time beside the cancellation
  /// handlers, which run before it returns.
  ///
  /// - Parameter reason: what `Coroutine.cancellationReason` shows the body; the first one counts. `CancellationError`
  ///   without one.
  public func cancel(reason: (any Error)? = nil) {
    storage.cancel(reason: reason)
  }

  /// Whether it was asked to stop before it had ended. It may have ended in its own way since.
  public var isCancelled: Bool { storage.isCancelled }
}

extension Coroutine where Success == Never, Failure == Never {
  /// Whether the calling code is asked to stop: its coroutine was cancelled, or a timeout or scope around it. In `async` code, and
  /// in what that calls, whether its task was. False inside a shield, and on plain threads. (`Task.isCancelled` knows nothing of a coroutine.)
  public static var isCancelled: Bool {
    guard let core = coreOfCode else { return _Concurrency.Task.isCancelled }
    return core.isInterrupted
  }

  /// Why the calling code is asked to stop: what `cancel(reason:)` was given, `TimeoutError`, the error of a sibling in a
  /// scope; `CancellationError` in the code of a task; `nil` if it isn't.
  public static var cancellationReason: (any Error)? {
    guard let core = coreOfCode else { return _Concurrency.Task.isCancelled ? CancellationError() : nil }
    return core.currentReason
  }

  /// Throws `CancellationError` if the calling code is asked to stop.
  public static func checkCancellation() throws(CancellationError) {
    if isCancelled { throw CancellationError() }
  }

  /// The coroutine that the calling code is a part of; `nil`: it may be that of a task, which may run on a coroutine's stack.
  private static var coreOfCode: CoroutineCore? { coroutine_is_inside_task() ? nil : CoroutineCore.current }
}
