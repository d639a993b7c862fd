import CSystem
import Synchronization

/// The runtime's own lock: a word, two instructions when nobody contends, a futex when somebody does.
///
/// It exists beside `Synchronization.Mutex` for three reasons. It belongs to no thread: a coroutine may lock it on one
/// thread and unlock it on another. Every atomic operation on it is compiled from Swift source, so ThreadSanitizer sees
/// all of them; `Mutex` has its slow path in a library that is not instrumented, which shows as races that are none. And
/// it sleeps in `Futex` alone, where a scheduler that explores interleavings can take over.
///
/// Not recursive, not fair: a thread that comes along may overtake those that sleep. Declare it with `let`, as a stored
/// property of a class or a global: its address is its identity.
@usableFromInline
package struct Lock: ~Copyable, Sendable {
  /// 0: free. 1: held. 2: held, and there may be sleepers, so the unlock must wake one.
  @usableFromInline let state = Atomic<UInt32>(0)

  @inlinable
  package init() {}

  /// Takes the lock, waiting as long as another holds it. Locking again what one holds waits for ever.
  @inlinable
  @inline(__always)
  package borrowing func lock() {
    guard tryLock() else { return lockContended() }
  }

  /// Takes the lock if it is free.
  @inlinable
  @inline(__always)
  package borrowing func tryLock() -> Bool {
    state.compareExchange(
      expected: 0, desired: 1, successOrdering: .acquiring, failureOrdering: .relaxed
    ).exchanged
  }

  /// Gives the lock back, from whichever thread or stack. Traps if it is not held.
  @inlinable
  @inline(__always)
  package borrowing func unlock() {
    let previous = state.exchange(0, ordering: .releasing)
    if previous != 1 { unlockContended(previous) }
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

  /// How often a contender looks again before it sleeps, after pauses that grow: some microseconds in all, about what a
  /// sleep and a wake take. The runtime's critical sections take some ten nanoseconds.
  private static var looks: Int { 12 }
  /// The longest pause, in the processor's instructions for that: long enough for the holder to use the lock some ten
  /// times more. Each look takes the lock's cache line, and what it guards, away from him.
  private static var longestPause: Int { 64 }

  @usableFromInline
  @inline(never)
  borrowing func lockContended() {
    var pause = 1
    for _ in 0..<Lock.looks {
      for _ in 0..<pause { csystem_relax() }
      let found = state.load(ordering: .relaxed)
      if found == 0 && tryLock() { return }
      // Others sleep already: join them instead of keeping a processor from the holder.
      if found == 2 { break }
      pause = min(2 * pause, Lock.longestPause)
    }
    // Whoever has waited cannot know whether others still do, so from here on it always leaves a 2 behind. At worst the
    // last of them makes one wake too many.
    while state.exchange(2, ordering: .acquiring) != 0 {
      Futex.wait(on: state, while: 2)
    }
  }

  /// The exchange in `unlock` was the last access to the lock's memory: as soon as it is done another thread may take
  /// the lock and free what contains it. The wake uses the address as a mere name.
  @usableFromInline
  @inline(never)
  borrowing func unlockContended(_ previous: UInt32) {
    guard previous == 2 else { fatalError("Lock.unlock: the lock is not held") }
    Futex.wake(1, on: state)
  }
}
