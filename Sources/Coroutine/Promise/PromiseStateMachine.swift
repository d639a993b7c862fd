// SPDX-License-Identifier: Apache-2.0

/// Whether a promise is settled, its waiters, and its observers in their order. Pure: no lock, no switch.
///
/// Invariants: once it is settled it has no waiter and keeps no handler of a cancel. Observers run one after
/// another, in the order in which they registered, and at most one at a time; none before the promise is settled.
@usableFromInline
struct PromiseStateMachine {
  @usableFromInline
  enum Phase: Equatable {
    case pending
    case fulfilled
    case rejected
    /// Rejected with a `CancellationError`.
    case cancelled
  }

  private(set) var phase = Phase.pending
  private var waiters = WaitQueue<WaitNode>()
  private var observers = PromiseObserverQueue()
  private var isObserverRunning = false
  private var cancelHandlers: [@Sendable () -> Void] = []
  private var isLateSettlementKnown = false
  /// Whether `cancel()` has settled it: a rejection by `CancellationError` makes it cancelled, too.
  private var wasCancelled = false
  /// Whether a reader has got the outcome, or an observer will. A wait that ended otherwise does not count.
  private(set) var wasObserved = false

  var isSettled: Bool { phase != .pending }

  /// A waiter wants the outcome: `done` if it is there.
  mutating func wait(_ node: UnsafeMutablePointer<WaitNode>) -> Attempt {
    guard isSettled else {
      enqueue(node)
      return .wait
    }
    wasObserved = true
    return .done
  }

  /// A waiter waits for the settlement, among other things: the outcome is observed if that is chosen in the end.
  mutating func enqueue(_ node: UnsafeMutablePointer<WaitNode>) {
    require(!isSettled, "a waiter joins a promise that is settled")
    waiters.append(node)
  }

  /// A listener wants to know of the settlement: `done` if it has come. Where the outcome is read then, its owner says so.
  mutating func listen(_ node: UnsafeMutablePointer<WaitNode>) -> Attempt {
    if isSettled { return .done }
    enqueue(node)
    return .wait
  }

  /// A waiter gives up.
  ///
  /// - Returns: whether it still waited.
  @discardableResult
  mutating func withdraw(_ node: UnsafeMutablePointer<WaitNode>) -> Bool {
    waiters.remove(node)
  }

  enum SettleAction {
    /// It was the first: wake these, and schedule this observer, which comes first. Call the handlers if it was a
    /// cancel; release them in any case.
    case settled(ClaimedWaiters, PromiseObserver?, cancelHandlers: [@Sendable () -> Void])
    /// It changes nothing. The first such settlement is worth a report, unless it only lost to a cancel.
    case tooLate(isWorthReporting: Bool)
  }

  /// The outcome is there.
  ///
  /// - Parameter isCancel: whether by `cancel()`.
  mutating func settle(as phase: Phase, isCancel: Bool = false) -> SettleAction {
    guard !isSettled else {
      let isWorthReporting = self.phase != .cancelled && !isLateSettlementKnown
      isLateSettlementKnown = true
      return .tooLate(isWorthReporting: isWorthReporting)
    }
    self.phase = phase
    wasCancelled = isCancel
    var handlers: [@Sendable () -> Void] = []
    swap(&handlers, &cancelHandlers)
    let claimed = waiters.claimAll()
    if claimed.haveWaiter { wasObserved = true }
    return .settled(claimed, nextObserver(), cancelHandlers: handlers)
  }

  enum CancelHandlerAction {
    case none
    /// It was cancelled before.
    case call
  }

  /// A handler is to run when it is cancelled.
  mutating func addCancelHandler(_ handler: @escaping @Sendable () -> Void) -> CancelHandlerAction {
    if isSettled { return wasCancelled ? .call : .none }
    cancelHandlers.append(handler)
    return .none
  }

  /// An observer registers.
  ///
  /// - Returns: the observer that is to run now, if one is.
  mutating func observe(_ observer: PromiseObserver) -> PromiseObserver? {
    wasObserved = true
    observers.append(observer)
    return nextObserver()
  }

  /// An observer withdraws.
  ///
  /// - Returns: whether it was not to run yet.
  mutating func withdraw(_ observer: PromiseObserver) -> Bool {
    observers.remove(observer)
  }

  /// The observer that was to run is done.
  ///
  /// - Returns: the one that is to run now.
  mutating func observerIsDone() -> PromiseObserver? {
    require(isObserverRunning, "an observer of a promise was done twice")
    isObserverRunning = false
    return nextObserver()
  }

  /// The outcome was looked at, or will be.
  mutating func noteObserved() {
    wasObserved = true
  }

  private mutating func nextObserver() -> PromiseObserver? {
    guard isSettled, !isObserverRunning, let next = observers.popFirst() else { return nil }
    isObserverRunning = true
    return next
  }

  /// The number of waiters and of observers that wait for those before them, for tests.
  var waiterAndObserverCount: Int { waiters.count + observers.count }

  /// Whether the invariants hold; for tests.
  func checkInvariants() -> Bool {
    if isSettled {
      waiters.isEmpty && cancelHandlers.isEmpty && (isObserverRunning || observers.isEmpty)
    } else {
      !isObserverRunning
    }
  }
}
