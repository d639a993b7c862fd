// SPDX-License-Identifier: Apache-2.0

import CoroutineLibc
import Synchronization

/// The kernel's clock that deadlines refer to: CLOCK_MONOTONIC, in nanoseconds. It is not set, and stands still while the
/// machine is suspended.
enum MonotonicClock {
  static var now: UInt64 { read(CLOCK_MONOTONIC) }

  fileprivate static func read(_ clock: clockid_t) -> UInt64 {
    var time = timespec()
    clock_gettime(clock, &time)
    return UInt64(time.tv_sec) &* 1_000_000_000 &+ UInt64(time.tv_nsec)
  }
}

/// The kernel's clock that goes on while the machine is suspended, CLOCK_BOOTTIME, as Swift's `ContinuousClock`.
///
/// It is ahead of `MonotonicClock` by the time that the machine has been suspended, which is constant otherwise. In a time
/// namespace, where each clock has an offset of its own, it may as well be behind. The kernel does not say by how much, and
/// two clocks are never read at once: so it is measured when it has changed, and kept as long as it agrees with the clocks, but
/// for `tolerance`. Hence equal instants are equal deadlines.
enum BootTimeClock {
  /// By how much it is ahead, in nanoseconds, as known so far.
  private static let knownLead = Atomic<Int64>(0)

  /// The monotonic time of an instant, both in nanoseconds. Never too early.
  static func monotonicTime(of instant: UInt64) -> UInt64 {
    var known = knownLead.load(ordering: .relaxed)
    while true {
      let before = MonotonicClock.now
      let boot = MonotonicClock.read(CLOCK_BOOTTIME)
      let after = MonotonicClock.now
      let lead = lead(known, before: before, boot: boot, after: after)
      guard lead != known else { break }
      let (exchanged, now) = knownLead.compareExchange(expected: known, desired: lead, ordering: .relaxed)
      known = exchanged ? lead : now
      if exchanged { break }
    }
    return monotonicTime(of: instant, lead: known)
  }

  /// In nanoseconds: a measurement falls short by the time between two looks at the clocks, some ten of them. Without a tolerance
  /// each later measurement that falls less short would replace the one before, and move deadlines that were equal.
  static var tolerance: Int64 { 10_000 }

  /// By how much it is ahead: `known` if that agrees with the clocks, or is less by no more than `tolerance`. Else the least that
  /// the clocks allow.
  ///
  /// - Parameters:
  ///   - before: the monotonic time before `boot` was read.
  ///   - after: the same after that.
  static func lead(_ known: Int64, before: UInt64, boot: UInt64, after: UInt64) -> Int64 {
    let least = Int64(bitPattern: boot &- after)
    return least - tolerance...max(least, Int64(bitPattern: boot &- before)) ~= known ? known : least
  }

  static func monotonicTime(of instant: UInt64, lead: Int64) -> UInt64 {
    guard lead > 0 else { return instant.addingSaturated(lead.magnitude) }
    return instant > lead.magnitude ? instant - lead.magnitude : 0
  }
}

extension timespec {
  init(nanoseconds: UInt64) {
    self.init(tv_sec: Int(nanoseconds / 1_000_000_000), tv_nsec: Int(nanoseconds % 1_000_000_000))
  }
}
