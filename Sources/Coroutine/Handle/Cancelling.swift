// SPDX-License-Identifier: Apache-2.0

extension Coroutine {
  /// Asks the coroutine to stop.
  ///
  /// Cancellation is cooperative, as it is for tasks. Whatever the coroutine waits for, or is about to wait for, throws
  /// `CancellationError`; code that does not wait asks `Coroutine.isCancelled` or calls `Coroutine.checkCancellation()`.
  /// It unwinds as after any error: `defer` blocks run. If it has not begun, its body never runs.
  ///
  /// Cancelling again, or after the end, has no effect. Callable from any thread; constant time beside the cancellation
  /// handlers, which run before it returns.
  ///
  /// - Parameter reason: what `Coroutine.cancellationReason` tells the body; the first one counts. `CancellationError`
  ///   without one.
  public func cancel(reason: (any Error)? = nil) {
    storage.cancel(reason: reason)
  }

  /// Whether it was asked to stop before it had ended. It may have ended in its own way since.
  public var isCancelled: Bool { storage.isCancelled }
}

extension Coroutine where Success == Never, Failure == Never {
  /// Whether the calling code is asked to stop: its coroutine was cancelled, or a timeout or scope around it. False inside
  /// a shield, and outside of coroutines.
  public static var isCancelled: Bool { CoroutineCore.current?.isInterrupted ?? false }

  /// Why the calling code is asked to stop: what `cancel(reason:)` was given, `TimeoutError`, the error of a sibling in a
  /// scope; `nil` if it isn't.
  public static var cancellationReason: (any Error)? { CoroutineCore.current?.currentReason }

  /// Throws `CancellationError` if the calling code is asked to stop.
  public static func checkCancellation() throws(CancellationError) {
    if isCancelled { throw CancellationError() }
  }
}
