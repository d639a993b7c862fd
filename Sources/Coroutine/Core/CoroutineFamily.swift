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

  /// The deadlines around the children, outwards to the start of the coroutine that waits for them; and that coroutine's own
  /// family, which may have more. Called by a child.
  package var deadlines: (known: [DeadlineTimer], outer: CoroutineFamily?) { ([], nil) }
}
