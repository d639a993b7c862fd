// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import Dispatch
import Synchronization

/// Turns of the main queue, which is the main actor's: whether code of that has gone on without one in between.
///
/// A task that awaits gives the turn up, and goes on in one that was asked for after that. A block that was there before is
/// run first. So the number is another one then, and no other way is known to learn of an `await`.
package enum MainActorTurns {
  private static let count = Atomic<UInt32>(1)
  /// Whether a block is on its way that counts.
  private static let isAwaited = Atomic<Bool>(false)

  /// Whether the caller is code of the main actor's, or runs where that does.
  package static var isOnMainActor: Bool { coroutine_is_main_thread() || QueueScheduler.main.isCurrent }

  /// The present turn's number, from here on. On the main actor.
  static func beginCounting() -> UInt32 {
    if !isAwaited.exchange(true, ordering: .relaxed) {
      DispatchQueue.main.async {
        isAwaited.store(false, ordering: .relaxed)
        count.wrappingAdd(1, ordering: .relaxed)
      }
    }
    return now
  }

  static var now: UInt32 { count.load(ordering: .relaxed) }
}
