// SPDX-License-Identifier: Apache-2.0

import Context
import Coroutine
import Dispatch

/// Where that goes on which outlives a run. The run's thread is its caller's again by then.
///
/// On one queue, since the run's coroutines may share what its one thread has kept apart. It is the main queue if code of the
/// main actor has called the run: that stood in for this queue, so that code of the main actor may be among them.
// Unchecked: the lock guards the queue.
final class LateTurns: @unchecked Sendable {
  private let areMainActors: Bool
  private let lock = Lock()
  /// Most runs need none. Guarded by the lock.
  @exclusivity(unchecked) private var own: DispatchQueue?

  /// On the thread of the run.
  init() { areMainActors = MainActorJobs.isOnMainActor }

  /// - Parameter accesses: the run's. It has no turns of its own any more, so that they are the queue's alone.
  func give(to core: Unmanaged<CoroutineCore>, _ accesses: SharedAccesses) {
    queue.async { CoroutineJob(core).run(accesses) }
  }

  func give(to job: UnownedJob, of run: TestRun) {
    queue.async { job.runSynchronously(on: run.asUnownedTaskExecutor()) }
  }

  private var queue: DispatchQueue {
    guard !areMainActors else { return .main }
    return lock.withLock {
      if let own { return own }
      let queue = DispatchQueue(label: "coroutine-test-late")
      own = queue
      return queue
    }
  }
}
