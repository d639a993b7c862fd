/// Who ends a wait by doing its part, as far as that is certain: what a search for deadlocks goes by. (A cancel and a
/// deadline end waits too; they are looked at elsewhere.)
///
/// Where there is any doubt it is `anybody`. So a deadlock may be missed, but none is made up.
package enum Wakers: Equatable, Sendable {
  /// It is not known who: any coroutine, task, thread or callback that has what is waited for.
  case anybody
  /// This coroutine, and nobody else.
  case coroutine(UInt64)
  /// All of these coroutines: as long as one of them does not do its part the wait lasts.
  case all([UInt64])
  /// All coroutines of a scope, by its address.
  case scope(UInt)
  /// One of those is enough.
  case any([Wakers])
  /// All of the coroutines that read, and whoever waits for the lock before: `queued` wait in all, and any of those could
  /// be the one.
  case readers([UInt64], queued: Int)

  /// The coroutine that holds a lock; `nil`: a task or a thread does, or nobody.
  init(holder: UInt64?) {
    self = holder.map { .coroutine($0) } ?? .anybody
  }
}
