/// Which of a pool's workers sleep, and whom to wake for new work. Pure: no lock, no thread.
///
/// A worker is busy (it runs coroutines), searching (it looks for work at the others'), the watcher, or asleep. Those that
/// have never been started count as asleep. `PoolCore` tells why there is a watcher.
struct PoolStateMachine {
  /// The workers asleep: who fell asleep last is woken first, its caches are the warmest.
  private(set) var sleeping: [Int]
  /// How many search.
  private(set) var searching = 0
  /// Who sleeps with one eye open, if anybody.
  private(set) var watcher: Int?
  let count: Int

  init(count: Int) {
    self.count = count
    sleeping = Array((0..<count).reversed())
  }

  /// Workers that are busy or search.
  var awake: Int { count - sleeping.count - (watcher == nil ? 0 : 1) }

  /// Whether new work is a reason to wake somebody: not while one searches, who will find it.
  var wantsWork: Bool { searching == 0 && awake < count }

  /// There is something to run. Returns whom to wake, if anybody: from now on it searches.
  mutating func workArrived() -> Int? {
    guard wantsWork else { return nil }
    searching += 1
    if let worker = sleeping.popLast() { return worker }
    defer { watcher = nil }
    return watcher
  }

  /// A busy worker has run out of work. Whether it may search: half of those awake at most, since they get into each
  /// other's way.
  mutating func beginSearch() -> Bool {
    guard searching * 2 < awake else { return false }
    searching += 1
    return true
  }

  /// A searching worker has found something, and is busy. Returns whom to wake: somebody who takes over the search if
  /// there is more to find, or the watch.
  mutating func endSearch(moreIsLeft: Bool) -> Int? {
    searching -= 1
    return moreIsLeft || watcher == nil ? workArrived() : nil
  }

  enum Rest {
    case watch, sleep
  }

  /// A worker has nothing to do.
  mutating func rest(_ worker: Int, wasSearching: Bool) -> Rest {
    if wasSearching { searching -= 1 }
    // Without anybody who works there is nothing to watch.
    guard watcher == nil, awake > 1 else {
      sleeping.append(worker)
      return .sleep
    }
    watcher = worker
    return .watch
  }

  enum Watch {
    /// It was chosen to wake up: it searches, and the wake is on its way.
    case isOver
    /// Everybody else sleeps: it does too, now.
    case sleep
    case goOn
  }

  /// The watcher has looked and seen nothing.
  mutating func watched(_ worker: Int) -> Watch {
    guard watcher == worker else { return .isOver }
    guard awake == 0 else { return .goOn }
    watcher = nil
    sleeping.append(worker)
    return .sleep
  }

  /// The watcher has found something, and is busy. False if it was chosen to wake up meanwhile: then it searches, and the
  /// wake is on its way.
  mutating func endWatch(_ worker: Int) -> Bool {
    guard watcher == worker else { return false }
    watcher = nil
    return true
  }

  /// Takes out everybody who rests.
  mutating func wakeAll() -> [Int] {
    defer {
      searching += sleeping.count + (watcher == nil ? 0 : 1)
      sleeping = []
      watcher = nil
    }
    return sleeping + (watcher.map { [$0] } ?? [])
  }
}
