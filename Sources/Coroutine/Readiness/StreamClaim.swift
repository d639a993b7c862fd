// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// Which coroutine has an operation of one direction of a stream under way, its waits included; and whether the last reader has left
/// bytes that it had read ahead.
package struct StreamClaim: ~Copyable, Sendable {
  /// A coroutine's number, or one of those below.
  private let word = Atomic<UInt64>(Self.free)

  private static var free: UInt64 { 0 }
  private static var freeWithBytes: UInt64 { .max }

  package init() {}

  /// Takes it for the coroutine of that number. Returns the number of the one that has it; `nil`: the caller has it now.
  package borrowing func take(for number: UInt64) -> UInt64? {
    var expected = Self.free
    while true {
      // litmus: lock-handover
      let (exchanged, original) = word.compareExchange(expected: expected, desired: number, ordering: .acquiring)
      if exchanged { return nil }
      guard original == Self.free || original == Self.freeWithBytes else { return original }
      expected = original
    }
  }

  package borrowing func giveBack() { word.store(Self.free, ordering: .releasing) }  // litmus: lock-handover

  /// By a reader.
  borrowing func giveBackWithBytes() { word.store(Self.freeWithBytes, ordering: .sequentiallyConsistent) }

  /// Whether the next reader finds bytes at once.
  borrowing func isFreeWithBytes() -> Bool { word.load(ordering: .sequentiallyConsistent) == Self.freeWithBytes }
}
