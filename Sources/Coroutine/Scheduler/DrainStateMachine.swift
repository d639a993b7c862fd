// SPDX-License-Identifier: Apache-2.0

/// When a Dispatch queue's coroutines need one more drain, and which of them a drain may run. Pure: no lock, no queue.
///
/// A launch has a drain of its own, as a block of the queue has a place of its own: a new coroutine begins only when as many
/// launches' drains have begun as there were launches up to its own. Which of these drains runs it does not matter.
///
/// A drain is of use until it ends, but for the time in which a coroutine keeps its thread and waits there.
///
/// Invariant: while the first in line may be run, a drain is to come for it, or looks for one to run, unless `width` drains run
/// others.
struct DrainStateMachine {
  /// Who is first in the line of ready coroutines.
  enum First {
    /// It has had no turn yet.
    case new
    case begun
  }

  /// How many drains at a time are of use.
  let width: Int
  /// How many are of use, or are to come.
  private(set) var drains = 0
  /// How many of them were asked for by wakes, and have not begun.
  private(set) var wakesToCome = 0
  /// How many new coroutines may begin.
  private(set) var mayBegin = 0

  init(width: Int) { self.width = width }

  /// A new coroutine is in line, whose drain the caller submits.
  mutating func launched() { drains += 1 }

  /// One that goes on is in line. Whether the caller submits one more drain for it.
  mutating func woken() -> Bool {
    guard drains < width else { return false }
    drains += 1
    wakesToCome += 1
    return true
  }

  /// A drain has begun, for the first time: it may let others of the queue run, and go on.
  mutating func drainBegins(forLaunch: Bool) {
    if forLaunch { mayBegin += 1 } else { wakesToCome -= 1 }
  }

  /// A drain looks for one to run. Whether that is the first in line; if not, the drain ends: another is to come for that one.
  mutating func takesFirst(_ first: First?) -> Bool {
    guard mayRun(first) else {
      drains -= 1
      return false
    }
    if first == .new { mayBegin -= 1 }
    return true
  }

  /// A drain has taken one, which may compute for long or keep its thread, and `first` is behind it. Whether the caller submits
  /// one more drain, since none is to come for `first`: a wake asks for none while `width` are under way, and they may end before
  /// they come to it, at a coroutine that may not begin yet.
  mutating func tookOne(before first: First?) -> Bool { needsOneMore(for: first) }

  /// A drain's coroutine keeps its thread and waits. Whether the caller submits one more drain in its place.
  mutating func drainStays(before first: First?) -> Bool {
    drains -= 1
    return needsOneMore(for: first)
  }

  /// It goes on.
  mutating func drainGoesOn() { drains += 1 }

  private func mayRun(_ first: First?) -> Bool {
    switch first {
    case nil: false
    case .new: mayBegin > 0
    case .begun: true
    }
  }

  private mutating func needsOneMore(for first: First?) -> Bool {
    mayRun(first) && wakesToCome == 0 && woken()
  }
}
