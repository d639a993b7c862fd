// SPDX-License-Identifier: Apache-2.0

// Waiters whose wait has ended by a cancel, by a deadline or by another case of a select, and that are still in the queue: they
// withdraw when they have their turn, which may be late. Where a primitive asks whether there are waiters, or how many,
// they must not count.

extension WaitQueue {
  /// The waiter that came first among those whose wait has not ended. Takes out those before it.
  mutating func firstWaiting() -> UnsafeMutablePointer<Node>? {
    while let node = list.first, node.pointee.waiter.hasEnded { list.removeFirst(node) }
    return first
  }

  /// Takes out all waiters whose wait has ended otherwise. Linear in the number of waiters.
  mutating func removeEnded() {
    var next = list.first
    while let node = next {
      next = node.pointee.next
      if node.pointee.waiter.hasEnded { list.remove(node) }
    }
  }
}

extension Waiter {
  /// Whether the wait has ended. For one whose node is in a queue, under that queue's lock: it takes the node out before it waits
  /// again.
  fileprivate var hasEnded: Bool {
    switch self {
    case .coroutine(let core): core._withUnsafeGuaranteedRef { $0.parking.isClaimed }
    case .task(let task): task._withUnsafeGuaranteedRef { $0.parking.isClaimed }
    case .thread(let thread): thread._withUnsafeGuaranteedRef { $0.parking.isClaimed }
    case .listener: false
    }
  }
}
