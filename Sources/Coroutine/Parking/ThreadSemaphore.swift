// SPDX-License-Identifier: Apache-2.0

import CCoroutineSystem
import Context
import CoroutineLibc

/// A count that threads wait for: POSIX's semaphore, which the sanitizers know, in memory that does not move.
package final class ThreadSemaphore: Sendable {
  // The semaphore's own atomics synchronise every use.
  nonisolated(unsafe) private let semaphore = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)

  package init() {
    sem_init(semaphore, 0, 0)
  }

  deinit {
    sem_destroy(semaphore)
    semaphore.deallocate()
  }

  package func signal() {
    // The waiter may be done, and this with it, once it is posted.
    let semaphore = semaphore
    sem_post(semaphore)
    #if COROUTINE_INTERLEAVINGS
      Interleaving.explorer?.reachAccess()
      _ = Interleaving.explorer?.wake(1, at: semaphore)
    #endif
  }

  /// Blocks the thread until another one signals.
  package func wait() {
    #if COROUTINE_INTERLEAVINGS
      if waitInterleaved(isTimed: false) != nil { return }
    #endif
    while sem_wait(semaphore) != 0 {}  // interrupted by a signal
  }

  /// Blocks the thread until another one signals, or until `deadline`, in nanoseconds of CLOCK_MONOTONIC. Returns
  /// whether one did.
  package func wait(until deadline: UInt64) -> Bool {
    #if COROUTINE_INTERLEAVINGS
      if let wasSignalled = waitInterleaved(isTimed: true) { return wasSignalled }
    #endif
    var time = timespec(nanoseconds: deadline)
    return coroutine_system_semaphore_wait(semaphore, &time) == 0
  }

  #if COROUTINE_INTERLEAVINGS
    /// `nil`: this is no thread of an explorer's.
    private func waitInterleaved(isTimed: Bool) -> Bool? {
      guard let explorer = Interleaving.explorer else { return nil }
      explorer.reachAccess()
      while sem_trywait(semaphore) != 0 {
        guard let sleep = explorer.sleep(at: semaphore, isTimed: isTimed) else { return nil }
        if sleep == .timedOut { return sem_trywait(semaphore) == 0 }
      }
      return true
    }
  #endif
}
