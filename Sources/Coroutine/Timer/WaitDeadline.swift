// SPDX-License-Identifier: Apache-2.0

/// Deadlines of waits: nanoseconds on the timers' clock.
@usableFromInline
package enum WaitDeadline {
  /// No deadline.
  @inlinable package static var never: UInt64 { .max }
  /// Don't wait at all.
  @inlinable package static var now: UInt64 { 0 }

  /// When `timeout` will be over; at once if it is zero or less.
  @usableFromInline
  package static func after(_ timeout: Duration) -> UInt64 {
    timeout <= .zero ? now : TimerService.shared.deadline(after: timeout)
  }

  /// As above; `never` without a timeout.
  @inlinable @inline(__always)
  package static func after(_ timeout: Duration?) -> UInt64 {
    guard let timeout else { return never }
    return after(timeout)
  }
}
