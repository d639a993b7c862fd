// SPDX-License-Identifier: Apache-2.0

import CCoroutine

/// How often a coroutine is, at present, inside of what keeps it from leaving its thread. Changed by itself.
@usableFromInline
struct Restraint: BitwiseCopyable {
  /// In `withoutSuspension`; in the upper half, in `cancelOnThisThread`.
  @usableFromInline var bans: UInt32 = 0
  /// In `withThreadPinned`.
  @usableFromInline var pins: UInt32 = 0

  fileprivate static var oneCancel: UInt32 { 1 << 16 }
  /// Whether only cancels ban it, and a pin lifts that: it comes back to the lock.
  var isLifted: Bool { pins > 0 && bans & (Self.oneCancel - 1) == 0 }
}

extension CoroutineCore {
  /// Whether it may suspend, and go on elsewhere.
  @inline(__always)
  final var isUnrestrained: Bool { restraint.bans | restraint.pins == 0 }

  /// Whether it may wait in spite of its bans.
  @usableFromInline @inline(never)
  final var mayWaitPinned: Bool { restraint.isLifted }

  /// What was begun on one coroutine must end on it: what runs nested may have been moved to another.
  final func requireIsCurrent(atTheEndOf function: StaticString) {
    if CoroutineCore.current !== self { reportEndElsewhere(of: function, description) }
  }

  /// Yields first if another coroutine has handed its thread to this one: that one could not go on while this one pins the
  /// thread, though it may be what this one waits for. (A coroutine begun on top of another has no pool yet; there the other
  /// one waits for it.)
  final func leaveHandedOffTurn() {
    guard pool != nil, let block, block.pointee.mode.contains(.onTop), isUnrestrained, !coroutine_is_inside_task(),
      ThreadBoundCode.aroundCaller(on: block) == nil  // else it has to stay: the other one waits for it
    else { return }
    yieldTurn()
  }

  @inline(never)
  final func reportBannedSuspension() -> Never {
    fatalError(
      "\(description) suspends (\(waitReason.map { "\($0.operation)" } ?? "turn")) inside withoutSuspension, or in "
        + "a handler that a task's cancel runs. Wait outside of it, use a form that doesn't wait, or keep the thread with "
        + "withThreadPinned.")
  }
}

/// Cancels a task, or does what the cancel of one leads to. The Swift runtime keeps a lock of the thread's meanwhile, inside which
/// the task's handlers run: a coroutine must not suspend there, and ends the program by name. One that keeps its thread may.
@inline(never)
func cancelOnThisThread(_ cancel: () -> Void) {
  guard let core = CoroutineCore.current else { return cancel() }
  core.restraint.bans += Restraint.oneCancel
  defer { core.restraint.bans -= Restraint.oneCancel }
  cancel()
}
