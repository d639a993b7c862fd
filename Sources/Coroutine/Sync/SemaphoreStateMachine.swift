// SPDX-License-Identifier: Apache-2.0

/// The free permits, the waiters, and how many each wants. Pure: no lock, no switch.
///
/// Invariant: the first waiter in the queue, if its wait has not ended, wants more permits than are free, in each of the cases
/// by which it waits there. The exception: one before it has given up, and has not withdrawn yet. Its withdrawal grants the
/// permits. The number may be negative: that many of the permits that come back are taken away. A waiter for none does not wait
/// for these.
struct SemaphoreStateMachine {
  typealias Node = UnsafeMutablePointer<SemaphoreNode>

  private(set) var available: Int
  private(set) var waiters = WaitQueue<SemaphoreNode>()

  init(permits: Int) {
    available = permits
  }

  /// A caller wants permits: behind the waiters.
  mutating func acquire(_ node: Node) -> Attempt {
    if tryAcquire(node.pointee.count) { return .done }
    waiters.append(node)
    return .wait
  }

  /// A select that has just found too few waits for more. It does not look again: a waiter before it may have been cancelled in
  /// between, without this lock, and withdraws behind it, which grants.
  mutating func enqueue(_ node: Node) { waiters.append(node) }

  /// A caller wants permits now or not at all.
  mutating func tryAcquire(_ count: Int) -> Bool {
    guard waiters.firstWaiting() == nil, count <= max(0, available) else { return false }
    available -= count
    return true
  }

  /// There are more permits, or fewer. Returns the waiters that have got theirs.
  mutating func changePermits(by difference: Int) -> ClaimedWaiters {
    let (sum, isTooMuch) = available.addingReportingOverflow(difference)
    require(
      !isTooMuch, "a Semaphore can't have \(difference > 0 ? "more than Int.max" : "fewer than Int.min") permits")
    available = sum
    return grant()
  }

  /// Permits come back. Returns the waiters that have got theirs.
  mutating func release(_ count: Int) -> ClaimedWaiters {
    changePermits(by: count)
  }

  /// A waiter gives up: those behind it may have waited only for it.
  mutating func withdraw(_ node: Node) -> ClaimedWaiters {
    waiters.remove(node)
    return grant()
  }

  /// Gives permits to the longest waiters, as far as they go.
  private mutating func grant() -> ClaimedWaiters {
    var granted = ClaimedWaiters()
    while let node = nextToGrant() {
      guard waiters.claim(node) else { continue }
      available -= node.pointee.count
      granted.append(node)
    }
    return granted
  }

  /// A node of the first waiter for which there are enough permits. A select with several cases has entered the queue with all
  /// of them in one step, so their nodes follow each other, and it is not held up by one of its own.
  private mutating func nextToGrant() -> Node? {
    var next = waiters.firstWaiting()
    while let node = next, node.pointee.count > max(0, available) {
      next = node.waitNode.pointee.next.map { Node(at: $0) }
      guard next?.pointee.wait.waiter.isSame(as: node.pointee.wait.waiter) == true else { return nil }
    }
    return next
  }

  /// Whether the invariant holds; for tests.
  ///
  /// - Parameter someHaveToWithdraw: whether a waiter whose wait has ended has not withdrawn yet.
  func checkInvariants(someHaveToWithdraw: Bool) -> Bool {
    if someHaveToWithdraw { return true }
    var machine = self  // which the look leaves as it is, as all waiters in the queue wait
    return machine.nextToGrant() == nil
  }
}

extension Waiter {
  /// Whether both are of one wait: only that of a select has several nodes, and only coroutines and tasks wait by a select.
  fileprivate func isSame(as other: Waiter) -> Bool {
    switch (self, other) {
    case (.coroutine(let core), .coroutine(let other)): core.toOpaque() == other.toOpaque()
    case (.task(let task), .task(let other)): task.toOpaque() == other.toOpaque()
    default: false
    }
  }
}

/// A waiter for permits.
struct SemaphoreNode: WaitingNode {
  var wait: WaitNode
  let count: Int
}
