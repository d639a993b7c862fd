// SPDX-License-Identifier: Apache-2.0

/// One wait for one outcome, in whichever order they come. Pure: no lock, no switch.
@usableFromInline
struct SuspensionStateMachine<Value> {
  @usableFromInline
  enum State {
    case open
    case waiting(UnsafeMutablePointer<WaitNode>)
    case settled(Result<Value, any Error>)
    /// The wait is over, with an outcome or without: it was cancelled.
    case taken(hadOutcome: Bool)
  }

  @usableFromInline var state = State.open
  @usableFromInline var isSecondKnown = false

  @inlinable
  init() {}

  @inlinable
  mutating func wait(_ node: UnsafeMutablePointer<WaitNode>) -> Attempt {
    switch state {
    case .open:
      state = .waiting(node)
      return .wait
    case .settled:
      return .done
    case .waiting, .taken:
      fatalError("one suspension is waited for twice")
    }
  }

  @usableFromInline
  enum SettleAction {
    case none
    case wake(Waiter)
    /// It changes nothing. The first one after an outcome is worth a report; one that lost to a cancel is not.
    case tooLate(isWorthReporting: Bool)
  }

  @inlinable
  mutating func settle(_ outcome: Result<Value, any Error>) -> SettleAction {
    switch state {
    case .open:
      state = .settled(outcome)
      return .none
    case .waiting(let node):
      // Its wait was claimed otherwise: it is on its way to `withdraw`.
      guard node.pointee.waiter.claim(node.pointee.cause) else {
        return .tooLate(isWorthReporting: false)
      }
      state = .settled(outcome)
      return .wake(node.pointee.waiter)
    case .settled, .taken(hadOutcome: true):
      defer { isSecondKnown = true }
      return .tooLate(isWorthReporting: !isSecondKnown)
    case .taken(hadOutcome: false):
      return .tooLate(isWorthReporting: false)
    }
  }

  /// The wait has ended otherwise. From here on a resumer finds no node.
  @inlinable
  mutating func withdraw() -> Attempt {
    if case .waiting = state { state = .taken(hadOutcome: false) }
    return .done
  }

  /// The wait is over. Takes the outcome; `nil` if it ended without one.
  @inlinable
  mutating func take() -> Result<Value, any Error>? {
    guard case .settled(let outcome) = state else {
      state = .taken(hadOutcome: false)
      return nil
    }
    state = .taken(hadOutcome: true)
    return outcome
  }
}
