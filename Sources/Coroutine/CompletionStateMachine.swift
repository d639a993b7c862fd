/// When a coroutine has ended, and who waits for that. Pure: no lock, no switch.
@usableFromInline
struct CompletionStateMachine {
  @usableFromInline
  enum State {
    case running(WaitQueue)
    case finished
  }

  @usableFromInline var state = State.running(WaitQueue())
  /// Whether anybody ever asked for the result.
  @usableFromInline var wasObserved = false

  @inlinable
  init() {}

  @usableFromInline
  enum JoinAction {
    /// The waiter is in the queue, and will be woken.
    case wait
    /// There is nothing to wait for; the waiter was not kept.
    case finished
  }

  /// Somebody wants the result.
  @inlinable
  mutating func join(_ node: UnsafeMutablePointer<WaitNode>) -> JoinAction {
    wasObserved = true
    switch state {
    case .finished:
      return .finished
    case .running(var waiters):
      waiters.append(node)
      state = .running(waiters)
      return .wait
    }
  }

  /// The result is there. Returns those to be woken.
  @inlinable
  mutating func complete() -> WaitQueue {
    guard case .running(let waiters) = state else { preconditionFailure("a coroutine ended twice") }
    state = .finished
    return waiters
  }
}
