// SPDX-License-Identifier: Apache-2.0

// Sums that stay at the largest number where they do not fit: such a wait has no end.

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
    // Not by `components`: those of a duration of more than `Int64.max` seconds trap.
    guard attoseconds > 0 else { return 0 }
    let (whole, rest) = attoseconds.quotientAndRemainder(dividingBy: 1_000_000_000)
    return UInt64(clamping: rest == 0 ? whole : whole + 1)
  }

  /// As long, and not negative; the longest, where that does not fit.
  package var withoutSign: Duration {
    self >= .zero ? self : Duration(attoseconds: attoseconds == .min ? .max : -attoseconds)
  }

  package func addingSaturated(_ other: Duration) -> Duration {
    let (sum, isTooLarge) = attoseconds.addingReportingOverflow(other.attoseconds)
    return Duration(attoseconds: !isTooLarge ? sum : other < .zero ? .min : .max)
  }
}

extension UInt64 {
  package func addingSaturated(_ other: UInt64) -> UInt64 {
    let (sum, isTooLarge) = addingReportingOverflow(other)
    return isTooLarge ? .max : sum
  }
}
