// SPDX-License-Identifier: Apache-2.0

/// Which of a pool's workers sleep, and which to wake for new work. Pure: no lock, no thread.
///
/// A worker is busy (it runs coroutines), searching (it looks for work at the others'), the monitor, or asleep. Those that
/// have never been started count as asleep. `PoolCore` says why there is a monitor.
struct PoolStateMachine {
  /// The workers asleep. The last one to fall asleep is woken first: its caches are the warmest.
  private(set) var sleeping: [Int]
  /// How many search.
  private(set) var searching = 0
  /// The worker that monitors the others, if there is one.
  private(set) var monitor: Int?
  /// Whether the monitor looks rarely, since all workers stand still: what becomes ready unparks it.
  private(set) var monitorsRarely = false
  /// Whether workers do not help each other until the monitor's next look: the last helper had too little to do.
  private(set) var sharingPauses = false
  let count: Int

  init(count: Int) {
    self.count = count
    sleeping = Array((0..<count).reversed())
  }

  /// Workers that are busy or search.
  var awake: Int { count - sleeping.count - (monitor == nil ? 0 : 1) }

  /// Whether more work of a worker's own is a reason to wake another: not while one searches, which will find it.
  var wantsWork: Bool { searching == 0 && awake < count && !sharingPauses }

  /// There is something to run. Returns the worker to wake, if there is one: from now on it searches.
  ///
  /// - Parameter isOwn: whether a worker made it ready itself, and will run it if no other does.
  mutating func workArrived(isOwn: Bool = true) -> Int? {
    guard searching == 0, awake < count, !(isOwn && sharingPauses) else { return nil }
    searching += 1
    if let worker = sleeping.popLast() { return worker }
    return takeMonitor()
  }

  private mutating func takeMonitor() -> Int? {
    defer { monitor = nil }
    (sharingPauses, monitorsRarely) = (false, false)
    return monitor
  }

  /// Something is ready that no worker was woken for, since the monitor would see it soon. Returns that, to be woken, if it looks
  /// rarely: it searches, and then monitors as at the beginning.
  mutating func unparkMonitor() -> Int? {
    guard monitorsRarely else { return nil }
    searching += 1
    return takeMonitor()
  }

  /// The system has refused a thread for a worker: one that was chosen to wake up, or a busy one whose thread keeps a
  /// pinned coroutine. It holds nothing. Returns the worker to wake in its place: the monitor, which has a thread. All
  /// others that have one are chosen before those that have none.
  mutating func startRefused(_ worker: Int, wasSearching: Bool) -> Int? {
    sleeping.insert(worker, at: 0)
    if wasSearching { searching -= 1 }
    guard searching == 0, let next = takeMonitor() else { return nil }
    searching += 1
    return next
  }

  /// A busy worker has run out of work. Whether it may search: half of those awake at most, since they get into each
  /// other's way.
  mutating func beginSearch() -> Bool {
    guard searching * 2 < awake else { return false }
    searching += 1
    return true
  }

  /// A searching worker has found something, and is busy. Returns the worker to wake: it takes over the search if there
  /// is more to find, or the monitoring.
  ///
  /// - Parameter isOwn: whether some worker has made ready what is left.
  mutating func endSearch(moreIsLeft: Bool, isOwn: Bool = true) -> Int? {
    searching -= 1
    return moreIsLeft || monitor == nil ? workArrived(isOwn: isOwn) : nil
  }

  enum Park {
    case monitor, sleep
  }

  /// A worker has nothing to do.
  ///
  /// - Parameter pausesSharing: it has helped in vain, and asks that sharing pauses.
  mutating func park(_ worker: Int, wasSearching: Bool, pausesSharing: Bool = false) -> Park {
    if wasSearching { searching -= 1 }
    // Without a worker that works there is nothing to monitor.
    guard monitor == nil, awake > 1 else {
      sleeping.append(worker)
      if monitor != nil, pausesSharing { sharingPauses = true }
      return .sleep
    }
    monitor = worker
    sharingPauses = pausesSharing
    return .monitor
  }

  enum MonitorStep {
    /// It was chosen to wake up: it searches, and the wake is on its way.
    case isOver
    /// It searches, for work that no worker was woken for.
    case search
    /// All others sleep: it does too, now.
    case sleep
    case goOn
  }

  /// The monitor has looked, and seen nothing that one of the workers holds.
  ///
  /// - Parameters:
  ///   - thereIsMore: whether the lists have work. While sharing pauses no worker was woken for a surplus there.
  ///   - standsStill: whether no worker has moved for a while.
  mutating func monitorLooked(_ worker: Int, thereIsMore: Bool = false, standsStill: Bool = false) -> MonitorStep {
    guard monitor == worker else { return .isOver }
    sharingPauses = false
    if thereIsMore {
      _ = takeMonitor()
      searching += 1
      return .search
    }
    guard awake == 0 else {
      monitorsRarely = standsStill
      return .goOn
    }
    _ = takeMonitor()
    sleeping.append(worker)
    return .sleep
  }

  /// The monitor has found something, and is busy. False if it was chosen to wake up meanwhile: then it searches, and the
  /// wake is on its way.
  mutating func endMonitoring(_ worker: Int) -> Bool {
    guard monitor == worker else { return false }
    _ = takeMonitor()
    return true
  }

  /// A parked worker has got something to run by itself, and is busy. False if it was chosen to wake up meanwhile: then it
  /// searches, and the wake is on its way.
  ///
  /// No other worker is woken to monitor instead: `lacksMonitor`.
  mutating func wakeByItself(_ worker: Int) -> Bool {
    guard !endMonitoring(worker) else { return true }
    guard let index = sleeping.lastIndex(of: worker) else { return false }
    sleeping.remove(at: index)
    return true
  }

  /// Whether a worker is awake and another is parked, and none monitors or searches. Only after `wakeByItself`.
  var lacksMonitor: Bool { monitor == nil && searching == 0 && awake > 0 && awake < count }

  /// Takes out all that are parked.
  mutating func wakeAll() -> [Int] {
    defer {
      searching += sleeping.count + (monitor == nil ? 0 : 1)
      sleeping = []
      _ = takeMonitor()
    }
    return sleeping + (monitor.map { [$0] } ?? [])
  }

  /// Whether each worker does one thing, and what the monitor's next look ends has a monitor; for tests.
  func checkInvariants() -> Bool {
    Set(sleeping).count == sleeping.count && !sleeping.contains { $0 == monitor } && searching >= 0
      && searching <= awake && (monitor != nil || !sharingPauses && !monitorsRarely)
  }
}
