// SPDX-License-Identifier: Apache-2.0

import Coroutine
import Glibc

/// Runs each job on a thread of its own: a run takes its thread for itself, and those of Swift's pool are for others.
final class RunThread: TaskExecutor {
  /// Calls `body` on such a thread, in the calling task.
  static func call<Result>(_ body: @Sendable () throws -> sending Result) async throws -> sending Result {
    try await withTaskExecutorPreference(RunThread()) { try body() }
  }

  func enqueue(_ job: consuming ExecutorJob) {
    let turn = Unmanaged.passRetained(Turn(job: UnownedJob(job), executor: self))
    var attributes = pthread_attr_t()
    pthread_attr_init(&attributes)
    pthread_attr_setstacksize(&attributes, 8 << 20)
    pthread_attr_setdetachstate(&attributes, CInt(PTHREAD_CREATE_DETACHED))
    var thread = pthread_t()
    let code = pthread_create(
      &thread, &attributes,
      { argument in
        let turn = Unmanaged<Turn>.fromOpaque(argument!).takeRetainedValue()
        turn.job.runSynchronously(on: turn.executor.asUnownedTaskExecutor())
        return nil
      }, turn.toOpaque())
    require(code == 0, "a run of a test needs a thread, and gets none: error \(code)")
    pthread_attr_destroy(&attributes)
  }

  private final class Turn: Sendable {
    let job: UnownedJob
    let executor: RunThread

    init(job: UnownedJob, executor: RunThread) {
      self.job = job
      self.executor = executor
    }
  }
}
