// SPDX-License-Identifier: Apache-2.0

/// The number of things to be done, and the waiters. Pure: no lock, no switch.
///
/// Invariant: there are no waiters at zero. A negative count is a mistake, and final.
struct WaitGroupStateMachine {
  private(set) var count: Int
  private(set) var waiters = WaitQueue<WaitNode>()

  init(count: Int) {
    self.count = count
  }

  /// There is more to be done, or less. Returns the waiters whose wait is over.
  mutating func change(by difference: Int) -> ClaimedWaiters {
    let (sum, isTooMuch) = count.addingReportingOverflow(difference)
    require(!isTooMuch, "a WaitGroup can't count more than Int.max things")
    count = sum
    return count == 0 ? waiters.claimAll() : ClaimedWaiters()
  }

  /// A caller waits for zero.
  mutating func wait(_ node: UnsafeMutablePointer<WaitNode>) -> Attempt {
    if count == 0 { return .done }
    waiters.append(node)
    return .wait
  }

  /// A waiter gives up.
  mutating func withdraw(_ node: UnsafeMutablePointer<WaitNode>) -> Attempt {
    waiters.remove(node)
    return .done
  }

  /// Whether the invariant holds; for tests.
  func checkInvariants() -> Bool {
    count != 0 || waiters.isEmpty
  }
}
