// SPDX-License-Identifier: Apache-2.0

import CCoroutineSystem
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
    sem_post(semaphore)
  }

  /// Blocks the thread until another one signals.
  package func wait() {
    while sem_wait(semaphore) != 0 {}  // interrupted by a signal
  }

  /// Blocks the thread until another one signals, or until `deadline`, in nanoseconds of CLOCK_MONOTONIC. Returns
  /// whether one did.
  package func wait(until deadline: UInt64) -> Bool {
    var time = timespec(nanoseconds: deadline)
    return coroutine_system_semaphore_wait(semaphore, &time) == 0
  }
}
