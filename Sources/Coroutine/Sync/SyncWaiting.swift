// SPDX-License-Identifier: Apache-2.0

import Context

// How the operations of this folder wait: each is an attempt and its withdrawal with a node of the operation's own, done
// by a coroutine or by `async` code.

extension Waitable {
  /// Suspends the calling coroutine, `core`, until the operation is over.
  ///
  /// - Parameters:
  ///   - node: lies on the stack; what it is at the end comes back.
  ///   - timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Throws: `CancellationError`, `TimeoutError`: then the node has been withdrawn.
  @inline(__always)
  final func wait<Node>(
    _ core: CoroutineCore, _ operation: WaitReason.Operation, timeout: Duration?, node makeNode: (Waiter) -> Node,
    attempt: (UnsafeMutablePointer<Node>) -> Attempt, withdraw: (UnsafeMutablePointer<Node>) -> Attempt
  ) throws -> Node {
    let deadline = WaitDeadline.after(timeout)
    var node = makeNode(.coroutine(.passUnretained(core)))
    let cause = wait(core, operation, by: &node, until: deadline, attempt: attempt, withdraw: withdraw)
    try cause.check(timeout)
    return node
  }

  /// Suspends the calling task until the operation is over.
  ///
  /// - Parameter afterwards: gets what the node is at the end.
  /// - Throws: `CancellationError`, `TimeoutError`: then the node has been withdrawn.
  @inline(__always)
  nonisolated(nonsending) final func wait<Node>(
    timeout: Duration?, node makeNode: (Waiter) -> Node,
    attempt: (UnsafeMutablePointer<Node>) -> Attempt, withdraw: (UnsafeMutablePointer<Node>) -> Attempt,
    afterwards: (inout Node) -> Void = { _ in }
  ) async throws {
    let deadline = WaitDeadline.after(timeout)
    let cause = await wait(
      until: deadline, node: makeNode, attempt: attempt, withdraw: withdraw, afterwards: afterwards)
    try cause.check(timeout)
  }
}

/// A primitive in words: `mutex "accounts"`.
func named(_ kind: String, _ name: String) -> String {
  name.isEmpty ? "an unnamed \(kind)" : "\(kind) \"\(name)\""
}
