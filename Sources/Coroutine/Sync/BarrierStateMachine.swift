// SPDX-License-Identifier: Apache-2.0

/// The waiters that have arrived at a barrier in this round. Pure: no lock, no switch.
///
/// Invariant: there are fewer waiters than parties. Some may have given up, and not yet have withdrawn.
struct BarrierStateMachine {
  typealias Node = UnsafeMutablePointer<BarrierNode>

  let parties: Int
  private(set) var waiters = WaitQueue<BarrierNode>()

  init(parties: Int) {
    self.parties = parties
  }

  /// A waiter arrives. The last one releases the others.
  mutating func arrive(_ node: Node) -> Attempt {
    if waiters.count + 1 == parties { waiters.removeEnded() }
    guard waiters.count + 1 == parties else {
      waiters.append(node)
      return .wait
    }
    node.pointee.isLast = true
    return .wakeAll(waiters.claimAll())
  }

  /// A waiter gives up, if its round is not over meanwhile.
  mutating func withdraw(_ node: Node) {
    waiters.remove(node)
  }

  /// Whether the invariant holds; for tests.
  func checkInvariants() -> Bool {
    waiters.count < parties
  }
}

/// A waiter at a barrier.
struct BarrierNode: WaitingNode {
  var wait: WaitNode
  var isLast = false
}
