// SPDX-License-Identifier: Apache-2.0

import CCoroutine

/// How many operations that might have waited a coroutine makes in one turn.
///
/// Where a channel always has an element, or a semaphore a permit, nothing suspends the coroutine, and the others of
/// its thread would not get a turn. So each operation that may wait counts, and after a fixed number of them the
/// coroutine yields once, if others are ready there. It counts before it has claimed or locked anything.
///
/// A channel's buffer has no time for that: every n-th slot of it counts for many (`ElementRing.countsAtAppend`).
extension CoroutineCore {
  /// As many as with tokio: no other coroutine waits long for the thread, and a yield costs little in comparison.
  @inlinable static var operationsPerTurn: UInt8 { 128 }

  /// Counts an operation that may wait. Without a lock.
  @inlinable @inline(__always)
  package final func countOperation() {
    if !hasOperationLeft() { yieldForOthers() }
  }

  /// Counts an operation that may wait: false if `yieldForOthers` is to come first.
  @inlinable @inline(__always)
  final func hasOperationLeft() -> Bool {
    operationsLeft &-= 1
    return operationsLeft != 0
  }

  /// Counts the many operations that a counted slot of a buffer stands for, as half of a turn: false if
  /// `yieldForOthers` is to come first.
  ///
  /// So the second such slot in a turn ends it. The first one must not. A sender and a receiver that wait for each
  /// other now and then would yield in between for nothing, and a worker that steals would part them: four senders and
  /// four receivers on two processors took two to four times as long.
  final func hasOperationLeftAtCountedSlot() -> Bool {
    let left = operationsLeft
    operationsLeft = left - min(left, Self.operationsPerTurn / 2)
    return operationsLeft != 0
  }

  /// Lets the others run, if there are any, and it may suspend here.
  @usableFromInline @inline(never)
  final func yieldForOthers() {
    operationsLeft = Self.operationsPerTurn
    if othersAreReady, mayYieldUnasked { yieldTurn() }
  }

  /// Counts an operation that might have waited, and costs a system call. Each sixty-fourth lets the others run: a connection
  /// whose peer always has something to say must not keep its thread for ever. Those that it waited for count, too: beside them
  /// one turn in sixty-four is little. Inside an access, too: whether such an operation waits is up to the peer.
  package final func countReadyOperation() {
    systemCalls &+= 1
    if systemCalls.isMultiple(of: Self.systemCallsPerTurn), maySuspendUnasked { yieldTurn() }
  }

  private static var systemCallsPerTurn: UInt8 { 64 }

  /// Whether the runtime may suspend it where its code does not wait. Code that must not suspend relies on operations that need
  /// not wait: inside an access to a variable that other coroutines may share.
  final var mayYieldUnasked: Bool {
    if hasAccessesOfItsOwn, scheduler.isIsolated, scheduler.sharedAccesses != nil { return false }
    return maySuspendUnasked
  }

  private final var maySuspendUnasked: Bool {
    guard isUnrestrained, !coroutine_is_inside_task(), let block, ThreadBoundCode.aroundCaller(on: block) == nil
    else { return false }
    // One that was begun at once runs to its first wait before its creator goes on, and this is none.
    return pool != nil || !block.pointee.mode.contains(.onTop)
  }

  /// Whether others are ready where it runs, as far as that is known: of a pool it is.
  private final var othersAreReady: Bool {
    guard let pool, let worker = PoolWorker.current(ofPoolAt: pool) else { return true }
    return worker._withUnsafeGuaranteedRef { $0.othersAreReady }
  }
}

extension Waitable {
  /// `keepsLockUnlessCancelled` for an operation that is to be counted: lets others run first, if that is due. The caller
  /// holds `lock`: this gives it back meanwhile. `countingMany`: a counted slot of a buffer was reached.
  @inlinable @inline(__always)
  final func keepsLockAfterCounting(_ core: CoroutineCore, countingMany: Bool) -> Bool {
    guard !countingMany, core.hasOperationLeft() else { return relocksAfterOthers(core, countingMany: countingMany) }
    return keepsLockUnlessCancelled(core)
  }

  @usableFromInline @inline(never)
  final func relocksAfterOthers(_ core: CoroutineCore, countingMany: Bool) -> Bool {
    if countingMany, core.hasOperationLeftAtCountedSlot() { return keepsLockUnlessCancelled(core) }
    unlock(for: core)
    core.yieldForOthers()
    return lockUnlessCancelled(core)
  }
}
