// SPDX-License-Identifier: Apache-2.0

/// When a coroutine has ended, and which waiters wait for that. Pure: no lock, no switch.
@usableFromInline
struct CompletionStateMachine {
  @usableFromInline private(set) var waiters = WaitQueue<WaitNode>()
  @usableFromInline private(set) var isFinished = false

  @inlinable
  init() {}

  /// A joiner wants the result: `done` if it is there.
  @inlinable
  mutating func join(_ node: UnsafeMutablePointer<WaitNode>) -> Attempt {
    if isFinished { return .done }
    enqueue(node)
    return .wait
  }

  /// A waiter waits for the end, among other things.
  @inlinable
  mutating func enqueue(_ node: UnsafeMutablePointer<WaitNode>) { waiters.append(node) }

  /// A joiner gives up.
  ///
  /// - Returns: whether it still waited.
  @inlinable @discardableResult
  mutating func withdraw(_ node: UnsafeMutablePointer<WaitNode>) -> Bool {
    waiters.remove(node)
  }

  /// The result is there. Returns those to be woken.
  @inlinable @inline(__always)
  mutating func complete() -> ClaimedWaiters {
    require(!isFinished, "a coroutine ended twice")
    isFinished = true
    return waiters.claimAll()
  }
}
