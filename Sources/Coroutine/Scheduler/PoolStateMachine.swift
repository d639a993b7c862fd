// SPDX-License-Identifier: Apache-2.0

/// Which of a pool's workers sleep, and which to wake for new work. Pure: no lock, no thread.
///
/// A worker is busy (it runs coroutines), searching (it looks for work at the others'), the watcher, or asleep. Those that
/// have never been started count as asleep. `PoolCore` tells why there is a watcher.
struct PoolStateMachine {
  /// The workers asleep. The last one to fall asleep is woken first: its caches are the warmest.
  private(set) var sleeping: [Int]
  /// How many search.
  private(set) var searching = 0
  /// The worker that watches the others, if there is one.
  private(set) var watcher: Int?
  /// Whether the watcher looks rarely, since all workers stand still: what becomes ready unparks it.
  private(set) var watchesRarely = false
  /// Whether workers do not help each other until the watcher's next look: the last helper had too little to do.
  private(set) var sharingPauses = false
  let count: Int

  init(count: Int) {
    self.count = count
    sleeping = Array((0..<count).reversed())
  }

  /// Workers that are busy or search.
  var awake: Int { count - sleeping.count - (watcher == nil ? 0 : 1) }

  /// Whether more work of a worker's own is a reason to wake another: not while one searches, which will find it.
  var wantsWork: Bool { searching == 0 && awake < count && !sharingPauses }

  /// There is something to run. Returns the worker to wake, if there is one: from now on it searches.
  ///
  /// - Parameter isOwn: whether a worker made it ready itself, and will run it if no other does.
  mutating func workArrived(isOwn: Bool = true) -> Int? {
    guard searching == 0, awake < count, !(isOwn && sharingPauses) else { return nil }
    searching += 1
    if let worker = sleeping.popLast() { return worker }
    return takeWatcher()
  }

  private mutating func takeWatcher() -> Int? {
    defer { watcher = nil }
    (sharingPauses, watchesRarely) = (false, false)
    return watcher
  }

  /// Something is ready that no worker was woken for, since the watcher would see it soon. Returns that, to be woken, if it looks
  /// rarely: it searches, and then watches as at the beginning.
  mutating func unparkWatcher() -> Int? {
    guard watchesRarely else { return nil }
    searching += 1
    return takeWatcher()
  }

  /// The system has refused a thread for a worker: one that was chosen to wake up, or a busy one whose thread keeps a
  /// pinned coroutine. It holds nothing. Returns the worker to wake in its place: the watcher, which has a thread. All
  /// others that have one are chosen before those that have none.
  mutating func startRefused(_ worker: Int, wasSearching: Bool) -> Int? {
    sleeping.insert(worker, at: 0)
    if wasSearching { searching -= 1 }
    guard searching == 0, let next = takeWatcher() else { return nil }
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
  /// is more to find, or the watch.
  ///
  /// - Parameter isOwn: whether some worker has made ready what is left.
  mutating func endSearch(moreIsLeft: Bool, isOwn: Bool = true) -> Int? {
    searching -= 1
    return moreIsLeft || watcher == nil ? workArrived(isOwn: isOwn) : nil
  }

  enum Park {
    case watch, sleep
  }

  /// A worker has nothing to do.
  ///
  /// - Parameter pausesSharing: it has helped in vain, and asks that sharing pauses.
  mutating func park(_ worker: Int, wasSearching: Bool, pausesSharing: Bool = false) -> Park {
    if wasSearching { searching -= 1 }
    // Without a worker that works there is nothing to watch.
    guard watcher == nil, awake > 1 else {
      sleeping.append(worker)
      if watcher != nil, pausesSharing { sharingPauses = true }
      return .sleep
    }
    watcher = worker
    sharingPauses = pausesSharing
    return .watch
  }

  enum Watch {
    /// It was chosen to wake up: it searches, and the wake is on its way.
    case isOver
    /// It searches, for work that no worker was woken for.
    case search
    /// All others sleep: it does too, now.
    case sleep
    case goOn
  }

  /// The watcher has looked, and seen nothing that one of the workers holds.
  ///
  /// - Parameters:
  ///   - thereIsMore: whether the lists have work. While sharing pauses no worker was woken for a surplus there.
  ///   - standsStill: whether no worker has moved for a while.
  mutating func watched(_ worker: Int, thereIsMore: Bool = false, standsStill: Bool = false) -> Watch {
    guard watcher == worker else { return .isOver }
    sharingPauses = false
    if thereIsMore {
      _ = takeWatcher()
      searching += 1
      return .search
    }
    guard awake == 0 else {
      watchesRarely = standsStill
      return .goOn
    }
    _ = takeWatcher()
    sleeping.append(worker)
    return .sleep
  }

  /// The watcher has found something, and is busy. False if it was chosen to wake up meanwhile: then it searches, and the
  /// wake is on its way.
  mutating func endWatch(_ worker: Int) -> Bool {
    guard watcher == worker else { return false }
    _ = takeWatcher()
    return true
  }

  /// A parked worker has got something to run by itself, and is busy. False if it was chosen to wake up meanwhile: then it
  /// searches, and the wake is on its way.
  ///
  /// No other worker is woken to watch instead: `lacksWatcher`.
  mutating func wakeByItself(_ worker: Int) -> Bool {
    guard !endWatch(worker) else { return true }
    guard let index = sleeping.lastIndex(of: worker) else { return false }
    sleeping.remove(at: index)
    return true
  }

  /// Whether a worker is awake and another is parked, and none watches or searches. Only after `wakeByItself`.
  var lacksWatcher: Bool { watcher == nil && searching == 0 && awake > 0 && awake < count }

  /// Takes out all that are parked.
  mutating func wakeAll() -> [Int] {
    defer {
      searching += sleeping.count + (watcher == nil ? 0 : 1)
      sleeping = []
      _ = takeWatcher()
    }
    return sleeping + (watcher.map { [$0] } ?? [])
  }

  /// Whether each worker does one thing, and what the watcher's next look ends has a watcher; for tests.
  func checkInvariants() -> Bool {
    Set(sleeping).count == sleeping.count && !sleeping.contains { $0 == watcher } && searching >= 0
      && searching <= awake && (watcher != nil || !sharingPauses && !watchesRarely)
  }
}
