// SPDX-License-Identifier: Apache-2.0

/// Takes in coroutines and waits until all of them have ended.
@usableFromInline
package class CoroutineFamily: Waitable {
  /// A coroutine that it has taken in has ended, and has left its stack. Called by the thread that ran it, once. With
  /// the last of them the family may go.
  func childEnded(_ child: CoroutineCore) {
    fatalError(
      "\(type(of: self)) takes in coroutines but does not say what happens at their end: override childEnded(_:)")
  }

  /// A coroutine that it has taken in was held on demand, and its start has been claimed. On the thread that has claimed it,
  /// not under a lock.
  ///
  /// - Returns: whether the caller schedules it; if not, the family will.
  func childStarts(_ child: CoroutineCore) -> Bool { true }

  /// The deadlines around all coroutines that it has taken in, up to the beginning of the coroutine that waits for them; and
  /// what has taken in that one, around which there may be more. To be called by one of them.
  package var deadlines: (known: [DeadlineTimer], outer: CoroutineFamily?) { ([], nil) }
}
