// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import Context
import CoroutineLibc
import Dispatch
import Synchronization

/// Threads that run coroutines: the default scheduler.
///
/// ```swift
/// let sums = (0..<100).map { part in Coroutine(on: .pool) { sum(of: part) } }
/// ```
///
/// A pool of one thread is serial: its coroutines run one at a time, strictly in the order in which they became ready.
/// With more threads the order is that, roughly. A coroutine that another one wakes runs soon, on the waker's thread,
/// as long as the others do not have to wait too long for it; a new one, and one that yields, lines up behind the
/// others.
///
/// The threads start as they are needed. Those of the shared pool stay; those of another one end when the last reference
/// to the pool is gone and the last coroutine on it has ended.
///
/// The first pool lets the C library keep a few megabytes of freed memory for the next coroutines, in the whole process. Where
/// very many have ended, what they had goes back to the kernel. ``keepFreedMemory(_:)`` is how a program chooses otherwise.
public final class ThreadPool: Scheduler {
  /// The pool that coroutines run on by default, also called `.pool`. It has `sharedThreadCount` threads.
  public static let shared = {
    let pool = ThreadPool(threads: SharedPoolSize.fixed())
    knownSharedCore.store(.passUnretained(pool.core), ordering: .releasing)
    return pool
  }()

  /// Whether it is the shared one, which need not be there: whoever has that has had it made.
  var isShared: Bool {
    Self.knownSharedCore.load(ordering: .acquiring)?.toOpaque() == Unmanaged.passUnretained(core).toOpaque()
  }

  /// How many threads it has, at most.
  public var threadCount: Int { core.count }

  let core: PoolCore

  /// The shared pool's: it lives for ever, so that no wake has to count a reference to it.
  static var sharedCore: Unmanaged<PoolCore> {
    @inline(__always) get { knownSharedCore.load(ordering: .acquiring) ?? lookUpSharedCore() }
  }

  // Once it is known this is a load. A `static let` that needs code to begin is a call of the Swift runtime each time.
  private static let knownSharedCore = Atomic<Unmanaged<PoolCore>?>(nil)

  @inline(never)
  private static func lookUpSharedCore() -> Unmanaged<PoolCore> {
    Unmanaged.passUnretained(shared.core)
  }

  /// A pool of its own, in addition to the shared one.
  ///
  /// - Parameter threads: at least 1, and no more than 2²², as many as Linux can have: traps otherwise. With 1 the pool is serial.
  public init(threads: Int) {
    require(threads > 0, "a ThreadPool needs at least one thread, not \(threads)")
    require(threads <= Self.mostThreads, "a ThreadPool can have \(Self.mostThreads) threads at most, not \(threads)")
    core = PoolCore(count: threads)
  }

  /// One worker without a thread, for `PoolCore.runInline`.
  init(callingThreadOfMainQueue isMain: Bool) {
    core = PoolCore(count: 1, on: .callingThread(then: isMain ? .main : .global(), isMain: isMain))
  }

  /// The largest number of a thread in Linux (PID_MAX_LIMIT). Each thread has a slot in the pool before it is started, and an
  /// array of very many more slots is made too short by Swift 6.3, without a word.
  static var mostThreads: Int { 1 << 22 }

  deinit {
    core.end()
  }

  public func enqueue(_ job: consuming CoroutineJob) {
    core.enqueue(job, .launched)
  }

  /// Whether the calling thread is one of the pool's.
  public var isCurrent: Bool { PoolWorker.current(of: core) != nil }

  /// Whether the pool has one thread only.
  public var isSerial: Bool { core.count == 1 }
}

extension ThreadPool {
  /// How many processors the process may use: its affinity, not the machine's size.
  public static let processorCount = Int(coroutine_processor_count())

  /// How many threads the shared pool has: what was set here, or else the environment variable `COROUTINE_THREADS`, or else
  /// `processorCount`.
  ///
  /// To be set at the program's start, by any thread.
  ///
  /// - Precondition: from 1 to 2²², and set before the shared pool is used for the first time: traps otherwise. So does a value
  ///   of `COROUTINE_THREADS` that is not a number of threads.
  public static var sharedThreadCount: Int {
    get { SharedPoolSize.current }
    set { SharedPoolSize.set(newValue) }
  }
}

extension Scheduler where Self == ThreadPool {
  /// The default pool of threads.
  public static var pool: ThreadPool { .shared }
}

/// The size of the shared pool: can be chosen until the pool is made.
private enum SharedPoolSize {
  private static let lock = Lock()
  // Guarded by the lock, both.
  nonisolated(unsafe) private static var chosen: Int?
  nonisolated(unsafe) private static var isFixed = false

  static var current: Int {
    lock.withLock { chosen } ?? initial
  }

  static func set(_ count: Int) {
    require(
      1...ThreadPool.mostThreads ~= count,
      "ThreadPool.sharedThreadCount must be from 1 to \(ThreadPool.mostThreads), not \(count)")
    let isTooLate = lock.withLock {
      if !isFixed { chosen = count }
      return isFixed
    }
    require(
      !isTooLate,
      "ThreadPool.sharedThreadCount was set when the shared pool had been used already: set it at the program's start, or "
        + "the environment variable COROUTINE_THREADS")
  }

  /// The size that the pool is made with.
  static func fixed() -> Int {
    lock.withLock {
      isFixed = true
      return chosen
    } ?? initial
  }

  private static let initial: Int = {
    guard let value = getenv("COROUTINE_THREADS") else { return ThreadPool.processorCount }
    let text = String(cString: value)
    guard let count = Int(text), 1...ThreadPool.mostThreads ~= count else {
      fatalError(
        "the environment variable COROUTINE_THREADS must be a number of threads, from 1 to \(ThreadPool.mostThreads), not "
          + "\"\(text)\"")
    }
    return count
  }()
}

extension PoolCore {
  /// Where the workers run.
  enum Host {
    /// On threads of their own.
    case threads
    /// On the calling thread, and after that, as long as there is something to run, on a queue: see `runUntilComplete`.
    case callingThread(then: DispatchQueue, isMain: Bool)
  }

  /// Whether its coroutines belong to the main actor: in `runUntilComplete`, in place of the main queue.
  var isMainActors: Bool { if case .callingThread(then: _, isMain: true) = host { true } else { false } }
}

extension PoolCore.Host {
  func makeSharedAccesses() -> SharedAccesses? {
    switch self {
    case .threads: nil
    case .callingThread(then: _, let isMain): isMain ? .ofMainActor : SharedAccesses()
    }
  }
}
