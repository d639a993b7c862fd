// SPDX-License-Identifier: Apache-2.0

import Dispatch

/// Where coroutines run: something that takes ready coroutines and runs each of them, on a thread of its choice.
///
/// A `DispatchQueue` is one, and so are the default thread pool (`.pool`), and a view of a pool with a limit of its own
/// (`ThreadPool.limited(to:)`). None of them looks at priorities, but one of your own may: `CoroutineJob.priority`. It needs
/// a queue, which the library has, and a thread; here that of some event loop:
///
/// ```swift
/// final class LoopScheduler: Scheduler {
///   private let loop: MyLoop
///   private let ready = CoroutineJobQueue()
///
///   func enqueue(_ job: consuming CoroutineJob) {
///     if ready.append(job) { loop.execute { self.runReady() } }        // once for all that become ready until then
///   }
///   private func runReady() { if ready.run() { loop.execute { self.runReady() } } }
///   var isCurrent: Bool { loop.isCurrent }                             // is the calling thread the loop's?
///   var isSerial: Bool { true }
/// }
/// ```
public protocol Scheduler: AnyObject, Sendable {
  /// Takes a coroutine that is ready to run, and calls its `run()` later, exactly once, outside of any lock.
  ///
  /// Called from any thread, also from inside a coroutine that runs on this scheduler. Must not run it before it returns, nor
  /// suspend the calling coroutine: that may be in the middle of a wait.
  func enqueue(_ job: consuming CoroutineJob)

  /// Whether the calling code already runs where this scheduler would run it. `Coroutine.immediate` asks.
  var isCurrent: Bool { get }

  /// Whether one coroutine at a time runs here, in the order in which they became ready.
  var isSerial: Bool { get }
}

/// A scheduler as a coroutine keeps it, in one word: a pool without an existential, since every wake goes through here,
/// and the shared one, which lives for ever, without a reference to count.
@usableFromInline
enum SchedulerReference: Sendable {
  case sharedPool
  case pool(ThreadPool)
  case queue(QueueScheduler)
  case other(ForeignScheduler)

  @usableFromInline
  init(_ scheduler: some Scheduler) {
    if let pool = scheduler as? ThreadPool {
      self = pool.isShared ? .sharedPool : .pool(pool)
    } else if let queue = scheduler as? DispatchQueue {
      self = .queue(QueueScheduler.of(queue))
    } else if scheduler is InheritedScheduler {
      self = .inherited
    } else if case .other(let other)? = CoroutineCore.currentUncounted?._withUnsafeGuaranteedRef({ $0.scheduler }),
      other.scheduler === scheduler
    {
      self = .other(other)
    } else {
      self = .other(ForeignScheduler(scheduler))
    }
  }

  /// Where a coroutine starts that was given no scheduler: on its creator's, if that is a coroutine; else on the run of a
  /// test that its creator is a part of, or on the pool.
  @usableFromInline
  static var inherited: SchedulerReference {
    CoroutineCore.currentUncounted?._withUnsafeGuaranteedRef { $0.scheduler } ?? run ?? .sharedPool
  }

  /// Where its pool is, if it is one.
  @inline(__always)
  var poolAddress: UnsafeRawPointer? {
    switch self {
    case .sharedPool: UnsafeRawPointer(ThreadPool.sharedCore.toOpaque())
    case .pool(let pool): UnsafeRawPointer(Unmanaged.passUnretained(pool.core).toOpaque())
    case .queue, .other: nil
    }
  }

  /// Whether it is `scheduler`, one of the program's own.
  @inline(__always)
  func refers(to scheduler: any Scheduler) -> Bool {
    if case .other(let other) = self { other.scheduler === scheduler } else { false }
  }

  func enqueue(_ job: consuming CoroutineJob, _ reason: EnqueueReason) {
    switch self {
    case .sharedPool:
      let element = job.take()
      ThreadPool.sharedCore._withUnsafeGuaranteedRef { $0.enqueue(CoroutineJob(element), reason) }
    case .pool(let pool):
      pool.core.enqueue(job, reason)
    // As soon as the token is in its queue the coroutine may run to its end elsewhere, and release its scheduler, which
    // is still in `enqueue`.
    case .queue(let queue):
      let kept = Unmanaged.passRetained(queue)
      queue.enqueue(job)
      kept.release()
    case .other(let other):
      let kept = Unmanaged.passRetained(other)
      other.scheduler.enqueue(job)
      kept.release()
    }
  }

  @usableFromInline
  var isCurrent: Bool {
    switch self {
    case .sharedPool: ThreadPool.shared.isCurrent
    case .pool(let pool): pool.isCurrent
    case .queue(let queue): queue.isCurrent
    case .other(let other): other.scheduler.isCurrent
    }
  }

  var isSerial: Bool {
    switch self {
    case .sharedPool: ThreadPool.shared.isSerial
    case .pool(let pool): pool.isSerial
    case .queue(let queue): queue.isSerial
    case .other(let other): other.scheduler.isSerial
    }
  }

  /// Whether the calling thread, outside of coroutines, is the only one on which they run here: should it block, they wait
  /// for it.
  var isThisThreadAlone: Bool {
    // What a `runUntilComplete` on the main thread has left runs on the main queue.
    if case .pool(let pool) = self, pool.core.isMainActors, MainActorJobs.isOnMainActor { return true }
    return isCurrent && isSerial
  }
}

/// A scheduler of the user's.
@usableFromInline
final class ForeignScheduler: Sendable {
  let scheduler: any Scheduler
  /// The same, if its coroutines may share variables; and if it explores schedules.
  let sharing: (any SharingScheduler)?
  let explorer: (any ExploringScheduler)?

  init(_ scheduler: any Scheduler) {
    self.scheduler = scheduler
    sharing = scheduler as? any SharingScheduler
    // An exploring one is a sharing one: so most schedulers are asked once only.
    explorer = sharing as? any ExploringScheduler
  }
}

extension SchedulerReference {
  /// For people.
  var description: String {
    switch self {
    case .sharedPool: SchedulerText.sharedPool
    case .pool(let pool): pool.core.description
    case .queue(let queue): queue.description
    case .other(let other): "\(type(of: other.scheduler))"
    }
  }
}
