// SPDX-License-Identifier: Apache-2.0

import CCoroutine

/// Where the accesses to variables that suspended coroutines of the main actor have open are seen by those that run:
/// see shared_accesses.h.
///
/// A loop that runs coroutines of the main actor calls `begin` before its first turn, `attach` before each, and `end` after the
/// last; so does `Coroutine.immediate`. Nothing is done for other loops.
struct SharedAccesses {
  /// Whether they are this loop's to take off the thread again: not if the loop runs inside of another such one.
  private let areOwn: Bool

  /// Where coroutines of the main actor run, also inside of one.
  @inline(__always)
  static func begin(forMainActor isMain: Bool) -> SharedAccesses? {
    isMain ? SharedAccesses(areOwn: !coroutine_shared_accesses_are_attached()) : nil
  }

  @inline(__always)
  func attach() {
    if coroutine_shared_accesses_exist() { coroutine_shared_accesses_attach() }
  }

  @inline(__always)
  func end() {
    if areOwn { coroutine_shared_accesses_detach() }
  }
}

extension CoroutineCore {
  /// As `attach`, to the coroutine itself, which belongs to the main actor and goes on. The loop that has resumed it takes them
  /// off the thread. Not where it runs on top of other code: in that code's list they would stand before accesses of its own.
  /// Nor inside a task on its stack, which would take the chain with it when it suspends.
  final func attachSharedAccesses() {
    guard coroutine_shared_accesses_exist(), let block, !block.pointee.mode.contains(.onTop),
      scheduler.belongsToTheMainActor, !coroutine_is_inside_task()
    else { return }
    coroutine_shared_accesses_attach_behind(&block.pointee.threadState)
  }
}
