// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import Dispatch
import Synchronization

/// Jobs of the main actor, which the main queue runs: whether its code has gone on without another one in between.
///
/// A task that awaits ends its job, and goes on in one that was enqueued after that. A block that was there before is
/// run first. So the number is another one then, and no other way is known to learn of an `await`.
package enum MainActorJobs {
  private static let count = Atomic<UInt32>(1)
  /// Whether a block is on its way that counts.
  private static let isAwaited = Atomic<Bool>(false)

  /// Whether the caller is code of the main actor's, or runs where that does.
  package static var isOnMainActor: Bool { coroutine_is_main_thread() || QueueScheduler.main.isCurrent }

  /// The present job's number, from here on. On the main actor.
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
