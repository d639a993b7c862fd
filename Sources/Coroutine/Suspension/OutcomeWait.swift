// SPDX-License-Identifier: Apache-2.0

/// One wait of one coroutine for an outcome that is sure to be delivered, such as that of another library's future. As
/// `withSuspension`, but with a deadline, and without a check whether the callback was dropped. One object.
package struct OutcomeWait<Value: Sendable>: Sendable {
  private let storage: SuspensionStorage<Value>

  /// - Parameter core: the calling coroutine.
  package init(of core: CoroutineCore) {
    storage = SuspensionStorage(of: core)
  }

  /// Delivers the outcome: before the wait, during or after it, from any thread. Once.
  ///
  /// - Returns: whether a waiter gets it.
  package func settle(_ outcome: Result<Value, any Error>) -> Bool { storage.settle(outcome) }

  /// Suspends `core`, the calling coroutine, until there is an outcome. Once.
  ///
  /// - Parameters:
  ///   - operation: what dumps say that it waits for.
  ///   - deadline: of `timeout`, which the error names.
  package func value(
    _ core: CoroutineCore, as operation: WaitReason.Operation, until deadline: UInt64, timeout: Duration?
  ) throws -> Value {
    let (outcome, cause) = storage.wait(core, operation, until: deadline)
    if let outcome { return try outcome.get() }
    try cause.check(timeout)
    fatalError("a wait has ended as if there were an outcome, and there is none")
  }
}
