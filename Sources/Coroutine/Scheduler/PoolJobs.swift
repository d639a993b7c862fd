// SPDX-License-Identifier: Apache-2.0

/// The pool's threads run `async` code, too:
///
/// ```swift
/// await withTaskExecutorPreference(ThreadPool.shared) { … }
/// Task(executorPreference: ThreadPool.shared) { … }
/// ```
///
/// Jobs and coroutines take turns, and jobs run in the order in which they came: a task's priority goes to the coroutines
/// and tasks that it creates, but puts it before no other here. A job runs on the thread's own stack, never on a
/// coroutine's, and inside it there is no current coroutine: it uses the `async` forms. The executor must be kept alive as
/// long as a task prefers it.
extension ThreadPool: TaskExecutor {
  public func enqueue(_ job: consuming ExecutorJob) {
    core.enqueue(PoolJob(job: UnownedJob(job), pool: self))
  }
}

/// A job of `async` code that waits for a pool's thread.
struct PoolJob {
  let job: UnownedJob
  /// Keeps the executor alive until the job has run.
  let pool: ThreadPool
}
