// SPDX-License-Identifier: Apache-2.0

import CCoroutine

/// Where the accesses to variables that suspended coroutines of the main actor have open are seen by those that run:
/// see shared_accesses.h.
///
/// A loop that runs coroutines of the main actor calls `begin` before its first turn, `lend` before each, and `end` after the
/// last. Nothing is done for other loops.
struct SharedAccesses {
  /// Whether they are this loop's to take off the thread again: not if the loop runs inside of another such one.
  private let areOwn: Bool

  /// Outside of coroutines, or inside of one of the main actor.
  @inline(__always)
  static func begin(forMainActor isMain: Bool) -> SharedAccesses? {
    isMain ? SharedAccesses(areOwn: !coroutine_shared_accesses_are_attached()) : nil
  }

  /// Not inside of a coroutine.
  @inline(__always)
  func lend() {
    if coroutine_shared_accesses_exist() { coroutine_shared_accesses_attach() }
  }

  @inline(__always)
  func end() {
    if areOwn { coroutine_shared_accesses_detach() }
  }
}

extension CoroutineCore {
  /// As `lend`, to the coroutine itself. The loop that has resumed it takes them off the thread.
  final func borrowSharedAccesses() {
    guard coroutine_shared_accesses_exist(), let block else { return }
    coroutine_shared_accesses_lend(&block.pointee.threadState)
  }
}

/// Of swift_thread_state.h. It is not known there what a scheduler is.
@_cdecl("coroutine_belongs_to_main_actor")
package func belongsToMainActor() -> Bool { CoroutineCore.current?.scheduler.belongsToTheMainActor ?? false }
