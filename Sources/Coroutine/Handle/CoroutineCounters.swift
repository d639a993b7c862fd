// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// What has happened since the program began, in numbers that only grow. `CoroutineStatistics` is what is in use.
public struct CoroutineCounters: Equatable, Sendable {
  /// Coroutines that were created.
  public let createdCoroutines: Int
  /// How often a thread of a pool that had nothing to do took something over from another one.
  public let steals: Int
  /// How often a thread of a pool fell asleep.
  public let threadSleeps: Int
}

extension Coroutine where Success == Never, Failure == Never {
  /// What has happened until now. Callable from any thread; three loads. They are counted where it costs no hot path
  /// anything, or are needed anyway: there is nothing to switch on.
  public static var counters: CoroutineCounters {
    CoroutineCounters(
      createdCoroutines: Int(CoroutineCore.newestID),
      steals: PoolCore.steals.load(ordering: .relaxed),
      threadSleeps: PoolCore.sleeps.load(ordering: .relaxed))
  }
}
