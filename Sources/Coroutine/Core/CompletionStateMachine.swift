/// When a coroutine has ended, and who waits for that. Pure: no lock, no switch.
@usableFromInline
struct CompletionStateMachine {
  @usableFromInline var waiters = WaitQueue()
  @usableFromInline var isFinished = false

  @inlinable
  init() {}

  /// Somebody wants the result: `done` if it is there.
  @inlinable
  mutating func join(_ node: UnsafeMutablePointer<WaitNode>) -> Attempt {
    if isFinished { return .done }
    waiters.append(node)
    return .wait
  }

  /// Somebody gives up.
  ///
  /// - Returns: whether it still waited.
  @inlinable @discardableResult
  mutating func leave(_ node: UnsafeMutablePointer<WaitNode>) -> Bool {
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
