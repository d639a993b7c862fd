// SPDX-License-Identifier: Apache-2.0

/// The maker of a value, and the waiters for it. Pure: no lock, no switch.
///
/// Invariants: there are no waiters without a maker, and there is no maker of a value that is there.
struct OnceStateMachine {
  typealias Node = UnsafeMutablePointer<OnceNode>

  private(set) var isMade = false
  /// `none` without one.
  private(set) var maker = LockHolder.none
  private(set) var makerBlock = HolderBlock.none
  private(set) var waiters = WaitQueue<OnceNode>()

  /// A caller wants the value. `.done` if it is there, or if the caller is to make it.
  mutating func begin(_ node: Node) -> Attempt {
    if isMade { return .done }
    guard maker == .none else {
      waiters.append(node)
      return .wait
    }
    appoint(node)
    return .done
  }

  /// The value is there. Returns those that have waited for it.
  mutating func succeed() -> ClaimedWaiters {
    isMade = true
    (maker, makerBlock) = (.none, .none)
    return waiters.claimAll()
  }

  /// The maker has failed. Returns the next one, if there is a waiter.
  mutating func fail() -> Waiter? {
    (maker, makerBlock) = (.none, .none)
    guard let next = waiters.popClaimed() else { return nil }
    appoint(next)
    return next.pointee.wait.waiter
  }

  /// A waiter gives up.
  mutating func withdraw(_ node: Node) -> Attempt {
    waiters.remove(node)
    return .done
  }

  private mutating func appoint(_ node: Node) {
    node.pointee.mustMake = true
    (maker, makerBlock) = (node.pointee.holder, node.pointee.block)
  }

  /// Whether the invariants hold; for tests.
  func checkInvariants() -> Bool {
    maker == .none ? waiters.isEmpty : !isMade
  }
}

/// A caller that wants the value.
struct OnceNode: WaitingNode {
  var wait: WaitNode
  /// The caller, as the maker.
  let holder: LockHolder
  let block: HolderBlock
  /// It has to make the value.
  var mustMake = false
}
