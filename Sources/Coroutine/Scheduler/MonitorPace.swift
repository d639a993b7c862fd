// SPDX-License-Identifier: Apache-2.0

/// How long a pool's monitor sleeps between two looks at the workers. Pure: no lock, no thread, no clock.
///
/// While they work it looks often: a coroutine that is ready behind one that computes shall not wait for long. Where all of
/// them stand still, in calls that block their threads, there is nothing to see for it, and a thousand looks a second would be
/// for nothing. Then it looks more and more rarely. A worker that goes on after that and makes something ready unparks it.
///
///     brisk ──all stand still──> announced ──all stand still──> rare, rarer …
///       ^                            │                            │
///       └────────────────────────────┴─────── something moves ────┘
struct MonitorPace {
  /// How long it sleeps before the next look.
  private(set) var tick: Duration
  /// Whether workers know that it is going to look rarely. One more brisk look comes after that, for what they have
  /// made ready without having seen it.
  private var isAnnounced = false
  // What the workers had done by the last look that compared.
  private var picks: [UInt32] = []
  private var processorTime: [UInt64?] = []
  /// The worker that was found to move last: asked first, since it is likely to move again.
  private var mover = 0

  static var shortest: Duration { .microseconds(50) }
  /// As long as something moves.
  static var longest: Duration { .microseconds(500) }
  /// While all stand still.
  static var rarest: Duration { .milliseconds(100) }

  init(first tick: Duration = MonitorPace.shortest) {
    self.tick = tick
  }

  /// It has looked, and found nothing to take over. Returns whether all workers stand still: then something that becomes ready
  /// has to unpark the monitor.
  ///
  /// - Parameters:
  ///   - pickCounts: for each worker a number that changes when it picks something to run.
  ///   - time: the processor time of a worker's thread; `nil` where it has none. A system call each.
  mutating func looked(picks pickCounts: [UInt32], processorTime time: (Int) -> UInt64?) -> Bool {
    guard tick >= Self.longest else {
      tick = min(tick * 2, Self.longest)
      return false
    }
    guard !moves(pickCounts, time) else {
      (tick, isAnnounced) = (Self.longest, false)
      return false
    }
    if isAnnounced { tick = min(tick * 2, Self.rarest) }
    isAnnounced = true
    return true
  }

  /// Whether some worker has moved since it was last compared.
  private mutating func moves(_ pickCounts: [UInt32], _ time: (Int) -> UInt64?) -> Bool {
    guard pickCounts == picks else {
      // Those that moved this time are likely to pick again: no processor time is asked for before they don't.
      (picks, processorTime) = (pickCounts, [])
      return true
    }
    guard !processorTime.isEmpty else {
      processorTime = pickCounts.indices.map(time)
      return true
    }
    for offset in 0..<pickCounts.count {
      let index = (mover + offset) % pickCounts.count
      let now = time(index)
      guard now == processorTime[index] else {
        (processorTime[index], mover) = (now, index)
        return true
      }
    }
    return false
  }
}
