import Glibc

/// The kernel's clock that deadlines refer to: CLOCK_MONOTONIC, in nanoseconds. It is not set, and stands still while the
/// machine is suspended.
enum MonotonicClock {
  static var now: UInt64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(time.tv_sec) &* 1_000_000_000 &+ UInt64(time.tv_nsec)
  }
}

extension timespec {
  init(nanoseconds: UInt64) {
    self.init(tv_sec: Int(nanoseconds / 1_000_000_000), tv_nsec: Int(nanoseconds % 1_000_000_000))
  }
}

extension Duration {
  /// In nanoseconds, rounded up, so that no wait is too short; the longest that fits, if it is longer. Not for negative
  /// ones.
  @usableFromInline
  package var nanosecondsRoundedUp: UInt64 {
    // Up to 18 seconds, as most are, by one division: `components` takes 180 instructions.
    if let attoseconds = UInt64(exactly: attoseconds) {
      let (whole, rest) = attoseconds.quotientAndRemainder(dividingBy: 1_000_000_000)
      return rest == 0 ? whole : whole + 1
    }
    let (seconds, attoseconds) = components
    require(seconds >= 0 && attoseconds >= 0, "a negative duration, \(self), is no time to wait")
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
