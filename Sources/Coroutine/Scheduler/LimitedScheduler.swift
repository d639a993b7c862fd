// SPDX-License-Identifier: Apache-2.0

/// A view of a pool with a limit of its own: `ThreadPool.limited(to:)`.
///
/// It has a line, and no threads. A run of it is work of the pool's threads like any other, and there are no more runs at
/// once than the limit. Each ends after a while, or as soon as one of its coroutines has woken one of the pool's.
public final class LimitedScheduler: Scheduler {
  private let pool: ThreadPool
  private let ready: CoroutineJobQueue
  /// How many coroutines run at once, at most.
  public let limit: Int

  fileprivate init(of pool: ThreadPool, limit: Int) {
    self.pool = pool
    self.limit = limit
    ready = CoroutineJobQueue(width: limit)
  }

  /// The line says whether one more run is needed.
  public func enqueue(_ job: consuming CoroutineJob) {
    if ready.append(job) { requestRun() }
  }

  /// Whether a coroutine of this view runs the calling code.
  public var isCurrent: Bool {
    CoroutineCore.currentUncounted?._withUnsafeGuaranteedRef { core in
      if case .other(let other) = core.scheduler { other.scheduler === self } else { false }
    } ?? false
  }

  /// Whether one coroutine at a time runs here, in the order in which they became ready: with a limit of 1, or on a pool of one
  /// thread.
  public var isSerial: Bool { limit == 1 || pool.isSerial }

  /// Kept alive by the pool's work until its run is over.
  private func requestRun() { pool.core.enqueue(PoolJob(runOf: self)) }

  /// On a thread of the pool, on its own stack.
  func run() {
    for _ in 0..<Self.turnsPerRun {
      guard ready.run(limit: 1) else { return }
      // Other workers hardly come to what waits in this worker's own slot or ring: that first.
      if PoolWorker.current(of: pool.core)?._withUnsafeGuaranteedRef({ $0.holdsOthers }) ?? true { break }
    }
    requestRun()
  }

  /// About as many as a worker runs of its own coroutines before it looks for other work.
  private static var turnsPerRun: Int { 64 }
}

extension ThreadPool {
  /// A scheduler that runs coroutines on this pool's threads, but no more than `limit` at once, whatever else runs there.
  /// (Kotlin's `limitedParallelism`.)
  ///
  /// ```swift
  /// let database = ThreadPool.shared.limited(to: 4)          // four of the pool's threads at most
  /// for query in queries { Coroutine(on: database) { try run(query) } }
  /// ```
  ///
  /// A coroutine that is suspended does not count: what has to be limited across suspensions takes a `Semaphore`, or a scope
  /// with a `limit:`. With a limit of 1 its coroutines run one at a time, in the order in which they became ready, though not
  /// on one thread. Each call makes a view with a limit of its own. Those that are ready wait in one line, which all its
  /// threads share: for very many short turns on several threads the pool itself is faster.
  ///
  /// - Parameter limit: at least 1: traps otherwise. The pool's threads are a limit, too.
  public func limited(to limit: Int) -> LimitedScheduler {
    require(limit > 0, "at least 1 coroutine of a view of a ThreadPool has to run, not \(limit)")
    return LimitedScheduler(of: self, limit: min(limit, threadCount))
  }
}
