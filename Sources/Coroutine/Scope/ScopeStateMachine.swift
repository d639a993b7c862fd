/// How many children a scope has, what failed in it, and who waits for the last child. Pure: no lock, no switch.
///
/// Invariants: the owner waits only while children live; a scope that has closed has none.
struct ScopeStateMachine {
  /// How many children have not ended.
  private(set) var liveCount = 0
  /// What children threw, in the order in which they ended.
  private(set) var childFailures: [any Error] = []
  /// What the body threw, and whether a child had failed before that.
  private(set) var bodyFailure: (error: any Error, isFirst: Bool)?
  private(set) var isClosed = false
  private var owner: UnsafeMutablePointer<WaitNode>?

  /// A child is being launched. Whether the scope still takes one.
  mutating func launch() -> Bool {
    guard !isClosed else { return false }
    liveCount += 1
    return true
  }

  /// A child has ended.
  ///
  /// - Parameter failure: what it threw, unless that tells of its own cancellation only.
  /// - Returns: whether this is the scope's first failure, so that the others are to be cancelled; whom to wake.
  mutating func childEnded(_ failure: (any Error)?) -> (isFirstFailure: Bool, woken: Attempt) {
    liveCount -= 1
    var isFirst = false
    if let failure {
      isFirst = childFailures.isEmpty && bodyFailure == nil
      childFailures.append(failure)
    }
    guard liveCount == 0, let owner else { return (isFirst, .done) }
    self.owner = nil
    return (isFirst, owner.pointee.waiter.claim(owner.pointee.cause) ? .wake(owner.pointee.waiter) : .done)
  }

  /// The body threw.
  mutating func bodyFailed(_ error: any Error) {
    bodyFailure = (error, childFailures.isEmpty)
  }

  /// The owner waits for the children that still live.
  mutating func join(_ node: UnsafeMutablePointer<WaitNode>) -> Attempt {
    guard liveCount > 0 else { return .done }
    owner = node
    return .wait
  }

  /// The owner's wait has ended otherwise.
  mutating func stopJoining() -> Attempt {
    owner = nil
    return .done
  }

  /// Ends the scope, if no child lives. Whether it has ended: then it takes no more.
  mutating func close() -> Bool {
    isClosed = liveCount == 0
    return isClosed
  }

  /// Whether the invariants hold; for tests.
  func checkInvariants() -> Bool {
    liveCount >= 0 && (owner == nil || liveCount > 0) && (!isClosed || liveCount == 0)
  }
}
