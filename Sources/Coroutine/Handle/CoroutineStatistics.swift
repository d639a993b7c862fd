// SPDX-License-Identifier: Apache-2.0

import Context

/// What the runtime has in use at a moment: for tests that nothing is left behind, and for monitoring.
///
/// The numbers are taken one after another, while everything else goes on.
public struct CoroutineStatistics: Equatable, Sendable {
  /// Coroutines that were created and have not ended.
  public let liveCoroutines: Int
  /// Stacks in use: by coroutines that have begun, and by generators.
  public let stacksInUse: Int
  /// Waits with a deadline, and timeouts, that are pending.
  public let pendingTimers: Int
}

extension Coroutine where Success == Never, Failure == Never {
  /// What the runtime has in use now. Callable from any thread; linear in the number of pools of stacks.
  public static var statistics: CoroutineStatistics {
    let spareStacks = PoolCore.all.all.reduce(0) { $0 + $1.spareStackCount }
    return CoroutineStatistics(
      liveCoroutines: CoroutineCore.liveCount,
      // Those that became spare, or were so no more, between the two looks must not make it less than none.
      stacksInUse: max(0, StackPool.allShared.reduce(0) { $0 + $1.liveCount } - spareStacks),
      pendingTimers: TimerService.shared.count)
  }
}
