// SPDX-License-Identifier: Apache-2.0

import CCoroutineSystem
import Coroutine

/// Runs each job on a thread of its own: a run takes its thread for itself, and those of Swift's pool are for others.
final class RunThread: TaskExecutor {
  /// Whether the run of the calling code is on such a thread: then its body shares no variable with other code.
  @TaskLocal static var isApart = false

  /// Calls `body` on such a thread, in the calling task.
  static func call<Result>(_ body: @Sendable () throws -> sending Result) async throws -> sending Result {
    try await withTaskExecutorPreference(RunThread()) { try $isApart.withValue(true, operation: body) }
  }

  func enqueue(_ job: consuming ExecutorJob) {
    let start = Unmanaged.passRetained(Start(job: UnownedJob(job), executor: self))
    let code = coroutine_system_start_thread_on(
      8 << 20,
      { argument in
        let start = Unmanaged<Start>.fromOpaque(argument!).takeRetainedValue()
        start.job.runSynchronously(on: start.executor.asUnownedTaskExecutor())
        return nil
      }, start.toOpaque())
    require(code == 0, "a run of a test needs a thread, and gets none: error \(code)")
  }

  private final class Start: Sendable {
    let job: UnownedJob
    let executor: RunThread

    init(job: UnownedJob, executor: RunThread) {
      self.job = job
      self.executor = executor
    }
  }
}
