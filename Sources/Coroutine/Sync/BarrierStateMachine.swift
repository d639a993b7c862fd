// SPDX-License-Identifier: Apache-2.0

/// The waiters that have arrived at a barrier in this round. Pure: no lock, no switch.
///
/// Invariant: there are as many waiters as have arrived, and fewer than parties.
struct BarrierStateMachine {
  typealias Node = UnsafeMutablePointer<BarrierNode>

  let parties: Int
  private(set) var arrived = 0
  private(set) var waiters = WaitQueue<BarrierNode>()

  init(parties: Int) {
    self.parties = parties
  }

  /// A waiter arrives. The last one releases the others.
  mutating func arrive(_ node: Node) -> Attempt {
    guard arrived + 1 == parties else {
      arrived += 1
      waiters.append(node)
      return .wait
    }
    arrived = 0
    node.pointee.isLast = true
    return .wakeAll(waiters.claimAll())
  }

  /// A waiter gives up, if its round is not over meanwhile.
  mutating func withdraw(_ node: Node) {
    if waiters.remove(node) { arrived -= 1 }
  }
}

/// A waiter at a barrier.
struct BarrierNode: WaitingNode {
  var wait: WaitNode
  var isLast = false
}
