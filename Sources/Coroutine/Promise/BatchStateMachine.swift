// SPDX-License-Identifier: Apache-2.0

/// When a wait for several ends has its outcome. Pure: no lock, no switch.
struct BatchStateMachine {
  enum Goal {
    /// All have ended, in whichever way.
    case allEnded
    /// All have ended, or one of them with an error.
    case allSucceeded
    /// One has ended, in whichever way.
    case firstEnded
    /// One has ended without an error, or all have with one.
    case firstSucceeded
  }

  let goal: Goal
  private(set) var remaining: Int
  /// The one that decided by its end, so that there is no more to wait for.
  private(set) var decisive: Int?
  /// Which have ended, until the wait is over.
  private(set) var ended: [Bool]
  private var waiters = WaitQueue<WaitNode>()

  init(_ count: Int, until goal: Goal) {
    remaining = count
    ended = Array(repeating: false, count: count)
    self.goal = goal
  }

  var isOver: Bool { remaining == 0 || decisive != nil }

  /// One of them has ended. Each ends once.
  mutating func end(_ index: Int, hasFailed: Bool) -> Attempt {
    guard !isOver else { return .done }
    remaining -= 1
    ended[index] = true
    if isDecisive(hasFailed: hasFailed) { decisive = index }
    return isOver ? .wakeAll(waiters.claimAll()) : .done
  }

  private func isDecisive(hasFailed: Bool) -> Bool {
    switch goal {
    case .allEnded: false
    case .allSucceeded: hasFailed
    case .firstEnded: true
    case .firstSucceeded: !hasFailed
    }
  }

  /// A waiter waits until it is over.
  mutating func wait(_ node: UnsafeMutablePointer<WaitNode>) -> Attempt {
    if isOver { return .done }
    waiters.append(node)
    return .wait
  }

  /// A waiter gives up.
  mutating func withdraw(_ node: UnsafeMutablePointer<WaitNode>) -> Attempt {
    waiters.remove(node)
    return .done
  }
}
