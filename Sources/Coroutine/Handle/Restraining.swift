// SPDX-License-Identifier: Apache-2.0

/// Runs `body`, in which the calling coroutine must not suspend: a suspension ends the program with the coroutine's name.
///
/// For code that holds a lock that belongs to the thread (`Mutex`, a pthread lock) and calls something that might wait:
/// the coroutine could go on elsewhere, and the lock would never be unlocked.
///
/// ```swift
/// cache.withLock { entries in
///   withoutSuspension { entries[key] = makeEntry() }      // traps if makeEntry() waits for anything
/// }
/// ```
///
/// They nest. A `yield` of a generator is no suspension, since it stays on the thread; but as long as the generator's body
/// is inside, its consumer is too. Outside of coroutines it runs `body` and nothing else.
///
/// - Parameter body: runs at once, on the caller's thread.
/// - Throws: what `body` throws.
@_disfavoredOverload @available(*, noasync, message: "an async function suspends at each 'await'")
public func withoutSuspension<Result: ~Copyable, Failure: Error>(
  _ body: () throws(Failure) -> Result
) throws(Failure) -> Result {
  guard let core = CoroutineCore.current else { return try body() }
  core.restraint.bans += 1
  defer {
    core.requireIsCurrent(atTheEndOf: "withoutSuspension")
    core.restraint.bans -= 1
  }
  return try body()
}

/// Runs `body` on one thread: a suspension in it keeps the thread, which blocks until the coroutine goes on.
///
/// For what belongs to a thread and must outlast a wait: a lock of the system's, a graphics context, a thread-local of a C
/// library.
///
/// ```swift
/// try withThreadPinned {
///   pthread_mutex_lock(lock)
///   defer { pthread_mutex_unlock(lock) }
///   try requests.send(request)      // comes back on this thread
/// }
/// ```
///
/// A `ThreadPool` goes on meanwhile with another thread, which it starts: each wait costs as much as a thread. What the
/// coroutine waits for may run in the same pool, even in a serial one, and the rule that one at a time runs there holds.
/// It comes back when one of the pool's threads is free. If all of them block in a lock that it holds, it never does.
///
/// A concurrent `DispatchQueue` goes on with another of Dispatch's threads, which may take a second to come if as many as there
/// are processors are kept. A barrier block of the queue, and all behind it, waits until the coroutine has suspended outside.
///
/// Elsewhere the thread is missing: on a serial queue, in `runUntilComplete` and on a serial scheduler of one's own nothing else
/// runs until the wait is over; a view of a pool (`limited(to:)`) and a scheduler of several threads have one less. On all but a
/// `ThreadPool` `Coroutine.yield()` returns at once. Where `Coroutine.immediate` runs the coroutine inside of another, that one
/// waits with it. In a run of a test no other coroutine runs meanwhile, but the run's tasks do, and its time goes on.
///
/// They nest. A generator whose body is inside pins its consumer too. Outside of coroutines it runs `body` and nothing else.
///
/// - Parameter body: runs on one thread, to its end; on a pool others may run before it begins. Must not move to another
///   scheduler by `on`: traps otherwise.
/// - Throws: what `body` throws.
@_disfavoredOverload @available(*, noasync, message: "a task can't be pinned to a thread")
public func withThreadPinned<Result: ~Copyable, Failure: Error>(
  _ body: () throws(Failure) -> Result
) throws(Failure) -> Result {
  guard let core = CoroutineCore.current else { return try body() }
  core.leaveHandedOffTurn()
  if core.pin == nil { core.pin = ThreadPin() }
  core.restraint.pins += 1
  defer {
    core.requireIsCurrent(atTheEndOf: "withThreadPinned")
    core.restraint.pins -= 1
    if core.restraint.pins == 0 { core.pin = nil }
  }
  return try body()
}

extension CoroutineCore {
  /// Whether its code runs in `withThreadPinned`.
  package final var isPinned: Bool { restraint.pins > 0 }
}
