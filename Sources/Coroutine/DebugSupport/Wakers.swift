// SPDX-License-Identifier: Apache-2.0

/// The wakers that can end a wait by doing their part, as far as that is certain: a search for deadlocks goes by them.
/// (A cancel and a deadline end waits too; they are looked at elsewhere.)
///
/// Where there is any doubt it is `unknown`. So a deadlock may be missed, but none is made up.
package enum Wakers: Equatable, Sendable {
  /// The waker is not known: any coroutine, task, thread or callback that has what is waited for.
  case unknown
  /// This coroutine, and no other.
  case coroutine(UInt64)
  /// All of these coroutines: as long as one of them does not do its part the wait lasts.
  case all([UInt64])
  /// All coroutines of a scope, by its address.
  case scope(UInt)
  /// One of those is enough.
  case any([Wakers])
  /// The lock's readers, and its other waiters, `queued` with this one; any of them may be the one that wakes it, by its
  /// unlock or by giving up.
  case readers([UInt64], queued: Int)

  /// The coroutine that holds a lock; `nil`: a task or a thread holds it, or it is free.
  init(holder: UInt64?) {
    self = holder.map { .coroutine($0) } ?? .unknown
  }
}
