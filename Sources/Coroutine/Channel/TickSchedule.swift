// SPDX-License-Identifier: Apache-2.0

/// When a ticker's ticks are due: at the multiples of its period since it began. Pure.
struct TickSchedule {
  let period: UInt64
  /// When the next tick is due; `UInt64.max`: never.
  private(set) var due: UInt64

  /// - Parameter period: in nanoseconds, not zero.
  init(every period: UInt64, from now: UInt64) {
    self.period = period
    due = now.addingSaturated(period)
  }

  /// The tick that was due has fired: the next one is the first that is due after `now`. Those in between, which a late
  /// driver has missed, are dropped.
  mutating func advance(past now: UInt64) {
    let late = now > due ? now - due : 0
    let (step, isTooFar) = (late / period + 1).multipliedReportingOverflow(by: period)
    due = isTooFar ? .max : due.addingSaturated(step)
  }
}
