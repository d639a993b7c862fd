// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// Which coroutine reads from a stream, or writes to it: from the beginning of an operation to its end, its waits included. And
/// whether the last reader has left bytes that it had read ahead: in the same word, so that no waiter finds these while another
/// reader has the stream.
package struct StreamClaim: ~Copyable, Sendable {
  /// The number of the coroutine that has the stream, or one of the two below.
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

  /// The same by a reader that leaves bytes.
  borrowing func giveBackWithBytes() { word.store(Self.freeWithBytes, ordering: .sequentiallyConsistent) }

  /// Whether the next reader finds bytes at once.
  borrowing func isFreeWithBytes() -> Bool { word.load(ordering: .sequentiallyConsistent) == Self.freeWithBytes }
}
