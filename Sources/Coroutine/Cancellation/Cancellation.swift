// SPDX-License-Identifier: Apache-2.0

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
///   - handler: runs at most once, on whichever thread cancels, while `operation` may still run. Has ended when this returns:
///     until then the coroutine waits. (It does not where it can't: inside `withoutSuspension`, and in a generator's body that is
///     resumed or dropped outside of coroutines.) Must not block: others wait for it, too.
/// - Throws: what `operation` throws.
@_disfavoredOverload @available(*, noasync, message: "use withTaskCancellationHandler in async code")
public func withCancellationHandler<Result, Failure: Error>(
  operation: () throws(Failure) -> Result, onCancel handler: @escaping @Sendable () -> Void
) throws(Failure) -> Result {
  guard let core = CoroutineCore.current else { return try operation() }
  let handler = CancellationHandler(handler)
  let region = CancellationRegion(of: core) { _ in
    handler.run()
    return []
  }
  defer {
    region.close()
    if region.handlerWasTaken { handler.waitForEnd() }
  }
  return try operation()
}

/// Runs `operation` as if the coroutine had not been cancelled: for cleanup that has to wait.
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
