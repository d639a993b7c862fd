// SPDX-License-Identifier: Apache-2.0

import CCoroutineSystem
import Synchronization

/// The runtime's own lock: a word, a futex under contention, and one atomic read-modify-write without.
///
/// There are three reasons not to use `Synchronization.Mutex`. This lock belongs to no thread: a coroutine may lock it
/// on one thread and unlock it on another. Every atomic operation on it is compiled from Swift source, so
/// ThreadSanitizer sees all of them; `Mutex` has its slow path in a library that is not instrumented, which shows as
/// false races. And it sleeps in `Futex` alone, where a scheduler that explores interleavings can take over.
///
/// # Why an unlock is a plain store, and what makes up for it
///
/// An exchange would show for certain whether a waiter has to be woken. It would cost a second atomic
/// read-modify-write, which was a third of a channel's message. Here an unlock looks for sleepers, and stores. A waiter
/// that announces itself after the look is overwritten by the store. Nearly always it then finds the word changed when
/// it is about to sleep, and does not sleep. But the holder's thread may lose its processor before the store, for
/// longer than it takes to fall asleep: then the wake is lost. (An AArch64 processor may look ahead, before what the
/// holder reads last: then the time is longer by that.) So no waiter sleeps for longer than `longestSleep` without
/// another look: a lost wake costs about that much time. There are never two holders: only a locker that finds a 0
/// enters, and only the holder stores one. docs/memory-model.md has the litmus tests, and says why there is no
/// membarrier(2) here, by which no wake would be lost.
///
/// Not recursive, not fair: a thread that comes along may overtake those that sleep. Declare it with `let`, as a stored
/// property of a class or a global: its address is its identity.
@usableFromInline
package struct Lock: ~Copyable, Sendable {
  /// 0: free. 1: held. 2: held, and there may be sleepers, so the unlock is to wake one.
  @usableFromInline let state = Atomic<UInt32>(0)

  @inlinable
  package init() {}

  /// Takes the lock, waiting as long as another holds it. A holder that locks it again waits for ever.
  @inlinable
  @inline(__always)
  package borrowing func lock() {
    guard tryLock() else { return lockContended() }
  }

  /// Takes the lock if it is free.
  @inlinable
  @inline(__always)
  package borrowing func tryLock() -> Bool {  // litmus: lock-handover
    state.compareExchange(
      expected: 0, desired: 1, successOrdering: .acquiring, failureOrdering: .relaxed
    ).exchanged
  }

  /// Gives the lock back, from whichever thread or stack. Traps if it is not held, as far as one thread can know.
  ///
  /// The store is the last access to the lock's memory: as soon as it is done another thread may take the lock and free
  /// what contains it.
  @inlinable
  @inline(__always)
  package borrowing func unlock() {
    guard state.load(ordering: .relaxed) == 1 else { return unlockContended() }
    state.store(0, ordering: .releasing)  // litmus: lock-handover, lock-lost-wake, lock-stale-look, lock-counted
  }

  /// Runs `body` with the lock held. `body` must neither suspend nor call foreign code.
  @inlinable
  @inline(__always)
  package borrowing func withLock<Result: ~Copyable, Failure: Error>(
    _ body: () throws(Failure) -> Result
  ) throws(Failure) -> Result {
    lock()
    defer { unlock() }
    return try body()
  }

  /// Gives back the lock for a holder that this process, a child of `fork`, does not have. For a lock that guards
  /// nothing which could be half done.
  package borrowing func freeInChild() { state.store(0, ordering: .releasing) }

  /// How often a contender looks again before it sleeps, after pauses that grow: some microseconds in all, about what a
  /// sleep and a wake take. The runtime's critical sections take some ten nanoseconds.
  private static var looks: Int { 12 }
  /// The longest pause, in the processor's instructions for that: long enough for the holder to use the lock some ten
  /// times more. Each look takes the lock's cache line, and what it guards, away from the holder.
  private static var longestPause: Int { 64 }
  /// The cost of a lost wake. It needs a holder that has lost its processor, which takes about as long by itself. And
  /// the sleepers of a lock that is held for long use little time for a thousand looks a second.
  private static var longestSleep: Duration { .milliseconds(1) }

  @usableFromInline
  @inline(never)
  borrowing func lockContended() {
    var pause = 1
    for _ in 0..<Lock.looks {
      for _ in 0..<pause { coroutine_system_relax() }
      let found = state.load(ordering: .relaxed)
      if found == 0 && tryLock() { return }
      // Others sleep already: join them instead of keeping a processor from the holder.
      if found == 2 { break }
      pause = min(2 * pause, Lock.longestPause)
    }
    // A waiter cannot know whether others still do, so from here on it always leaves a 2 behind. At worst the
    // last of them makes one wake too many.
    var sleeps = 0  // of a millisecond, none of which a wake has ended
    while state.exchange(2, ordering: .acquiring) != 0 {  // litmus: lock-handover, lock-lost-wake
      // Not idle: it goes on by itself.
      sleeps = Futex.wait(on: state, while: 2, for: Lock.longestSleep, isIdle: false) ? 0 : sleeps + 1
      if sleeps > 0 { Fork.requireAnotherThread(waited: sleeps) }
    }
  }

  /// The exchange is the last access to the lock's memory here, too: the wake uses the address as a mere name.
  @usableFromInline
  @inline(never)
  borrowing func unlockContended() {
    guard state.exchange(0, ordering: .releasing) == 2 else { fatalError("Lock.unlock: the lock is not held") }
    Futex.wake(1, on: state)
  }
}
