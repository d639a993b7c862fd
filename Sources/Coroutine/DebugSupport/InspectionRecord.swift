// SPDX-License-Identifier: Apache-2.0

import CCoroutine

/// What a coroutine keeps for debuggers alone. Written only by code that may touch the coroutine's fields.
package struct InspectionRecord {
  /// When it became suspended or ready, in nanoseconds of the timers' clock, as of the kernel's last tick; 0: unknown.
  private(set) var since: UInt64 = 0
  /// The number of the latest pass of more than one freeze that has seen it (`Inspection.Pass`). Touched only during a
  /// freeze, by the thread that began it.
  var seenBy: UInt32 = 0

  /// It becomes suspended or ready.
  mutating func note() {
    if coroutine_times_are_recorded() { since = coroutine_coarse_time() }
  }
}
