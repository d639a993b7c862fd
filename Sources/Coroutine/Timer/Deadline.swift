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
/// It is ahead of `MonotonicClock` by the time that the machine has been suspended, which is constant otherwise. The kernel
/// does not tell it, and two clocks are never read at once: so it is measured when it has changed, and kept as long as it
/// agrees with the clocks. Hence equal instants are equal deadlines.
enum BootTimeClock {
  private static let timeSuspended = Atomic<UInt64>(0)

  /// The monotonic time of an instant, both in nanoseconds. Never too early.
  static func monotonicTime(of instant: UInt64) -> UInt64 {
    var known = timeSuspended.load(ordering: .relaxed)
    while true {
      let before = MonotonicClock.now
      let boot = MonotonicClock.read(CLOCK_BOOTTIME)
      let after = MonotonicClock.now
      let least = boot > after ? boot - after : 0
      if least...max(least, boot - before) ~= known { break }
      let (exchanged, now) = timeSuspended.compareExchange(expected: known, desired: least, ordering: .relaxed)
      known = exchanged ? least : now
      if exchanged { break }
    }
    return instant > known ? instant - known : 0
  }
}

extension timespec {
  init(nanoseconds: UInt64) {
    self.init(tv_sec: Int(nanoseconds / 1_000_000_000), tv_nsec: Int(nanoseconds % 1_000_000_000))
  }
}

extension Duration {
  /// In nanoseconds, rounded up, so that no wait is too short; the longest that fits, if it is longer. A negative
  /// duration, of a late caller, is none.
  @usableFromInline
  package var nanosecondsRoundedUp: UInt64 {
    // Up to 18 seconds, as most are, by one division: `components` takes 180 instructions.
    if let attoseconds = UInt64(exactly: attoseconds) {
      let (whole, rest) = attoseconds.quotientAndRemainder(dividingBy: 1_000_000_000)
      return rest == 0 ? whole : whole + 1
    }
    let (seconds, attoseconds) = components
    guard seconds >= 0, attoseconds >= 0 else { return 0 }
    let (whole, isTooLong) = UInt64(seconds).multipliedReportingOverflow(by: 1_000_000_000)
    return isTooLong ? .max : whole.addingSaturated((UInt64(attoseconds) + 999_999_999) / 1_000_000_000)
  }
}

extension UInt64 {
  func addingSaturated(_ other: UInt64) -> UInt64 {
    let (sum, isTooLarge) = addingReportingOverflow(other)
    return isTooLarge ? .max : sum
  }
}
