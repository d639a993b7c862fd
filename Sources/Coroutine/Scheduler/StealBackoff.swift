// SPDX-License-Identifier: Apache-2.0

/// Whether the work that a worker steals is worth its cost for the others. Pure: the time is given.
///
/// A thief takes the memory of what it stole out of the victim's caches, and soon after that the victim fetches it
/// back; and both fight for the same locks, `malloc`'s among them. Turns of a hundred nanoseconds go on faster on one
/// processor than on two that share them. So a worker that was busy for a moment only with what it took over, in turns
/// as short as that, does not steal for a while: for longer each time, until it is worth it again.
/// (docs/performance/work-stealing.md has what this gave, and what other limits did.)
struct StealBackoff {
  /// When it last took something over, in nanoseconds, how much that was, and how often it had picked something to run.
  private var start: UInt64 = 0
  private var taken = 0
  private var startPicks: UInt32 = 0
  /// For how long it lets the others alone, in nanoseconds.
  private(set) var pause: UInt64 = 0

  // In nanoseconds.
  static var shortSteal: UInt64 { 50_000 }
  static var shortTurn: UInt64 { 500 }
  static var shortestPause: UInt64 { 50_000 }
  static var longestPause: UInt64 { 400_000 }

  /// It has nothing of its own, and takes over `taken` of the others'.
  mutating func begin(at now: UInt64, picks: UInt32, taken: Int) {
    start = now
    startPicks = picks
    self.taken = taken
  }

  /// It has nothing left to run, as its last pick has shown. Returns whether it should not steal for now.
  mutating func end(at now: UInt64, picks: UInt32) -> Bool {
    let time = now &- start
    let turns = UInt64(picks &- startPicks)
    // Long help is worth it whatever the turns, if what it took made work of its own.
    let isShort = time < Self.shortSteal || turns < 2 * UInt64(taken)
    guard isShort, time < turns * Self.shortTurn else {
      pause = 0
      return false
    }
    pause = pause == 0 ? Self.shortestPause : min(pause * 2, Self.longestPause)
    return true
  }
}
