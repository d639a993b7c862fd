import CSystem
import Glibc
import Synchronization

/// A count that threads wait for: POSIX's semaphore, which the sanitizers know, in memory that does not move.
final class ThreadSemaphore: Sendable {
  // The semaphore's own atomics synchronise every use.
  nonisolated(unsafe) private let semaphore = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)

  init() {
    sem_init(semaphore, 0, 0)
  }

  deinit {
    sem_destroy(semaphore)
    semaphore.deallocate()
  }

  func signal() {
    sem_post(semaphore)
  }

  /// Blocks the thread until somebody signals.
  func wait() {
    while sem_wait(semaphore) != 0 {}  // interrupted by a signal
  }

  /// Blocks the thread until somebody signals, or until `deadline`, in nanoseconds of CLOCK_MONOTONIC. Whether somebody did.
  func wait(until deadline: UInt64) -> Bool {
    var time = timespec(nanoseconds: deadline)
    return csystem_semaphore_wait(semaphore, &time) == 0
  }
}

/// A plain thread that waits for something of the runtime's, once.
@usableFromInline
package final class BlockedThread: Sendable {
  /// Who ends the wait.
  @usableFromInline let parking = Parking()
  private let semaphore = ThreadSemaphore()
  /// Orders what the waker did, after its claim too, before what the thread does. The semaphore does so as well, but in a
  /// wait with a deadline by this clock ThreadSanitizer does not see it.
  private let wasUnblocked = Atomic<Bool>(false)

  @usableFromInline
  init() {}

  /// Waits until somebody has claimed the wait and unblocks the thread, or until the deadline, if nobody has by then.
  @usableFromInline
  func block(until deadline: UInt64) -> WakeCause {
    if deadline == WaitDeadline.never || !semaphore.wait(until: deadline) && !parking.claim(.timedOut) {
      semaphore.wait()
    }
    _ = wasUnblocked.load(ordering: .acquiring)
    return parking.cause
  }

  /// For the one who has claimed its wait.
  @usableFromInline
  func unblock() {
    wasUnblocked.store(true, ordering: .releasing)
    semaphore.signal()
  }
}
