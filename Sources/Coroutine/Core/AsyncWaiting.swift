// SPDX-License-Identifier: Apache-2.0

extension Waitable {
  /// Suspends the calling task if it has to wait, as `wait(_ task:…)` does, with a node of its own: on the heap, since a
  /// task has no stack to wait on.
  ///
  /// - Parameter afterwards: gets what the node is at the end. It is in no queue any more.
  @inlinable @inline(__always)
  nonisolated(nonsending) package final func wait<Node: ~Copyable>(
    until deadline: UInt64 = WaitDeadline.never, node makeNode: (Waiter) -> Node,
    attempt: (UnsafeMutablePointer<Node>) -> Attempt, withdraw: (UnsafeMutablePointer<Node>) -> Attempt,
    afterwards: (inout Node) -> Void = { _ in }
  ) async -> WakeCause {
    let task = WaitingTask()
    let node = UnsafeMutablePointer<Node>.allocate(capacity: 1)
    node.initialize(to: makeNode(.task(.passUnretained(task))))
    let cause = await wait(task, until: deadline) {
      attempt(node)
    } withdraw: {
      withdraw(node)
    }
    afterwards(&node.pointee)
    node.deinitialize(count: 1).deallocate()
    return cause
  }
}
