// SPDX-License-Identifier: Apache-2.0

import CMeasurement

/// The blocks that `malloc` allocates, counted by a `malloc` that replaces it.
enum Allocations {
  /// How many blocks `work` allocated, on all threads.
  static func counted(_ work: () -> Void) -> Int {
    allocations_start()
    work()
    return Int(allocations_stop())
  }
}
