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

/// Runs `operation`, and `handler` as soon as it is cancelled: at once if it is already.
///
/// ```swift
/// try withCancellationHandler {
///   try download.result.get()
/// } onCancel: {
///   download.stop()
/// }
/// ```
///
/// - Parameters:
///   - operation: runs at once, on the calling coroutine.
///   - handler: runs at most once, on whichever thread cancels, while `operation` may still run. Must not block: others
///     wait for it.
/// - Throws: what `operation` throws.
@_disfavoredOverload @available(*, noasync, message: "use withTaskCancellationHandler in async code")
public func withCancellationHandler<Result, Failure: Error>(
  operation: () throws(Failure) -> Result, onCancel handler: @escaping @Sendable () -> Void
) throws(Failure) -> Result {
  guard let core = CoroutineCore.current else { return try operation() }
  let region = CancellationRegion(of: core) { _ in handler() }
  defer { region.close() }
  return try operation()
}

/// Runs `operation` as if nobody had cancelled the coroutine: for cleanup that has to wait.
///
/// ```swift
/// defer {
///   withCancellationShield { try? connection.send(.goodbye) }
/// }
/// ```
///
/// A timeout or a scope inside of it works as usual. Cancellation is seen again when it is over.
///
/// - Throws: what `operation` throws.
@_disfavoredOverload @available(*, noasync, message: "a coroutine's shield does not reach into async code")
public func withCancellationShield<Result, Failure: Error>(
  operation: () throws(Failure) -> Result
) throws(Failure) -> Result {
  guard let core = CoroutineCore.current else { return try operation() }
  let region = CancellationRegion(of: core, isShield: true)
  defer { region.close() }
  return try operation()
}
