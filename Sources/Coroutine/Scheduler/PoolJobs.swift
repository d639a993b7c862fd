// SPDX-License-Identifier: Apache-2.0

/// The pool's threads run `async` code, too:
///
/// ```swift
/// await withTaskExecutorPreference(ThreadPool.shared) { … }
/// Task(executorPreference: ThreadPool.shared) { … }
/// ```
///
/// A thread that has no coroutine to run takes a job; one that is busy takes a job after some sixty turns of coroutines. So
/// jobs make sure but slow progress beside coroutines that keep all threads busy. They begin in the order in which they came:
/// a task's priority goes to the coroutines and tasks that it creates, but puts it before no other here. A job runs on the
/// thread's own stack, never on a coroutine's, and inside it there is no current coroutine: it uses the `async` forms. The
/// executor must be kept alive as long as a task prefers it.
extension ThreadPool: TaskExecutor {
  public func enqueue(_ job: consuming ExecutorJob) {
    core.enqueue(PoolJob(UnownedJob(job), of: self))
  }
}

/// What runs on a pool's thread between two coroutines.
struct PoolJob {
  private let work: Work

  private enum Work {
    /// A job of `async` code; the executor is kept alive until it has run.
    case job(UnownedJob, ThreadPool)
    /// Coroutines of a view of the pool.
    case run(LimitedScheduler)
  }

  fileprivate init(_ job: UnownedJob, of pool: ThreadPool) { work = .job(job, pool) }

  init(runOf view: LimitedScheduler) { work = .run(view) }

  func run() {
    switch work {
    case .job(let job, let pool): job.runSynchronously(on: pool.asUnownedTaskExecutor())
    case .run(let view): view.run()
    }
  }
}
