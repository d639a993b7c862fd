// SPDX-License-Identifier: Apache-2.0

/// How many children a scope has, how many of them may run, what failed in it, and the joiners. Pure: no lock, no
/// switch.
///
/// Children that are held until they are started live, too, but no joiner waits for them: when there are no others, it has to
/// end them, or leaves them.
///
/// Invariants: there are joiners only while children live that are not held; a scope that has closed has no child; no more
/// than `limit` children have a slot, and one is free only while none is queued.
struct ScopeStateMachine {
  /// How many children may run at once.
  let limit: Int
  /// How many children have not ended.
  private(set) var liveCount = 0
  /// How many of them are held until they are started.
  private(set) var heldCount = 0
  /// How many children have a slot among those that run. Not counted where there is no limit.
  private(set) var slotsTaken = 0
  /// What children threw, in the order in which they ended.
  private(set) var childFailures: [any Error] = []
  /// What the body threw, whether a child had failed before that, and whether it only says that the body was cancelled.
  private(set) var bodyFailure: (error: any Error, isFirst: Bool, isCancel: Bool)?
  private(set) var isClosed = false
  private(set) var joiners = WaitQueue<WaitNode>()

  init(limit: Int = .max) {
    self.limit = limit
  }

  enum LaunchAction { case start, queue, refuse }

  /// A child is being launched. Returns whether it starts at once, has to wait for a slot, or comes too late.
  mutating func launch() -> LaunchAction {
    guard !isClosed else { return .refuse }
    liveCount += 1
    guard limit != .max else { return .start }
    return takeSlot() ? .start : .queue
  }

  /// A child is being launched that begins when it is started. Returns whether it is taken in, or comes too late.
  mutating func launchHeld() -> Bool {
    guard !isClosed else { return false }
    liveCount += 1
    heldCount += 1
    return true
  }

  /// A child that was held is being started. Whether it has a slot is another question.
  mutating func heldStarts() { heldCount -= 1 }

  /// Whether all that keeps the scope from its end are children that were never started.
  var onlyHeldLive: Bool { heldCount > 0 && liveCount == heldCount }

  /// A child wants to start that was queued, or held. Returns whether there is a slot for it, which it has now.
  mutating func takeSlot() -> Bool {
    guard slotsTaken < limit else { return false }
    slotsTaken += 1
    return true
  }

  /// A child that has a slot has ended: the slot is for another one.
  mutating func giveSlotBack() { slotsTaken -= 1 }

  /// A child has ended.
  ///
  /// - Parameter failure: the error that it threw, unless that only reports its own cancellation, or is handled
  ///   elsewhere.
  /// - Returns: whether this is the scope's first failure, so that the others are to be cancelled; the waiters to wake.
  mutating func childEnded(_ failure: (any Error)?) -> (isFirstFailure: Bool, woken: ClaimedWaiters) {
    liveCount -= 1
    var isFirst = false
    if let failure {
      isFirst = childFailures.isEmpty && bodyFailure == nil
      childFailures.append(failure)
    }
    return (isFirst, liveCount == heldCount ? joiners.claimAll() : ClaimedWaiters())
  }

  /// The body threw.
  mutating func bodyFailed(_ error: any Error, isCancel: Bool = false) {
    bodyFailure = (error, childFailures.isEmpty, isCancel)
  }

  /// A joiner waits for the children that still live, and are not held.
  mutating func join(_ node: UnsafeMutablePointer<WaitNode>) -> Attempt {
    guard liveCount > heldCount else { return .done }
    joiners.append(node)
    return .wait
  }

  /// A joiner gives up.
  mutating func withdraw(_ node: UnsafeMutablePointer<WaitNode>) -> Attempt {
    joiners.remove(node)
    return .done
  }

  /// Ends the scope, if no child lives. Whether it has ended: then it takes no more.
  mutating func close() -> Bool {
    isClosed = liveCount == 0
    return isClosed
  }

  /// Whether the invariants hold; for tests.
  func checkInvariants() -> Bool {
    0...liveCount ~= heldCount && 0...limit ~= slotsTaken && slotsTaken <= liveCount - heldCount
      && (joiners.isEmpty || liveCount > heldCount) && (!isClosed || liveCount == 0)
  }
}
