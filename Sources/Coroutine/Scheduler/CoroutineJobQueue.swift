// SPDX-License-Identifier: Apache-2.0

import Context

/// Ready coroutines in the order in which they came: a scheduler of your own consists of this and a thread.
///
/// Any thread appends to it. The owner runs what is in it, and gets one request to do so, not one for each coroutine:
///
/// ```swift
/// final class LoopScheduler: Scheduler {
///   private let loop: MyLoop
///   private let ready = CoroutineJobQueue()
///
///   func enqueue(_ job: consuming CoroutineJob) {
///     if ready.append(job) { loop.execute { self.runReady() } }
///   }
///   private func runReady() {
///     if ready.run(limit: 256) { loop.execute { self.runReady() } } // after what else the loop has to do
///   }
///   var isCurrent: Bool { loop.isCurrent }
///   var isSerial: Bool { true }
/// }
/// ```
///
/// Coroutines that wake each other while they run are in the same run, up to its limit: a hundred thousand messages between
/// two of them cost a few hundred calls of `execute`. Queueing allocates nothing. The queue is guarded by a lock of a few
/// instructions, which is never held while a coroutine runs.
///
/// A coroutine in it is one that can go on and does not. So the owner has to see to it that each appended one is run: a
/// queue that is dropped with coroutines in it ends the program with the name of the first, as a dropped `CoroutineJob`
/// does. Debuggers and dumps see those in it as ready, or as not begun. In a child by `fork` it can be used like any
/// object of one thread, by a scheduler that needs no other thread.
// Unchecked: the lock guards what changes.
public final class CoroutineJobQueue: HiddenFromMirrors, @unchecked Sendable {
  private let lock = Lock()
  // Guarded by the lock, both.
  @exclusivity(unchecked) private var ready = ReadyQueue()
  /// How many requested runs have not ended: while something is ready there is at least one.
  @exclusivity(unchecked) private var runs = 0
  /// How many runs are requested while others have not ended.
  private let width: Int

  /// An empty queue, for an owner that runs one coroutine at a time.
  public convenience init() { self.init(width: 1) }

  /// - Parameter width: how many runs at a time are of use.
  init(width: Int) {
    self.width = width
  }

  deinit {
    // The token that is dropped says so.
    _ = ready.popFirst()
  }

  /// Appends a coroutine. Callable from any thread, and from coroutines that the queue runs. Constant time, no allocation.
  ///
  /// - Returns: whether the owner has to be notified to call `run(limit:)`: the queue had been run empty, and the owner was
  ///   not notified since. Where `false` is returned, a run that was asked for before will come to this coroutine. An owner
  ///   that looks into the queue by itself before it sleeps need not be notified by its own thread.
  public func append(_ job: consuming CoroutineJob) -> Bool {  // litmus: pool-park
    lock.lock()
    defer { lock.unlock() }
    ready.append(job)
    guard runs < width else { return false }
    runs += 1
    return true
  }

  /// Runs what is ready on the calling thread, one after another, each until it suspends or ends: also what becomes
  /// ready meanwhile, up to the limit.
  ///
  /// The coroutines' code sees this thread's thread-locals. Not under a lock; not inside of a coroutine. More calls
  /// than were requested do no harm. Nor do calls of several threads at once, but then the scheduler is not serial.
  ///
  /// - Parameter limit: how many turns at most. `run(limit: queue.count)`: of those that are ready now.
  /// - Returns: whether there are some left: then call it again, after the thread's other work. There is no other
  ///   request to run those.
  /// - Precondition: the limit is not negative: traps otherwise.
  public func run(limit: Int = 256) -> Bool { run(limit: limit, nil) }

  /// - Parameter accesses: what the coroutines may share (`SharingScheduler`).
  package func run(limit: Int, _ accesses: SharedAccesses?) -> Bool {
    require(limit >= 0, "CoroutineJobQueue.run(limit: \(limit)): no fewer turns than none")
    prepareThread()
    let accesses = AttachedAccesses(accesses)
    defer { accesses?.end() }
    for _ in 0..<limit {
      guard let next = takeNext() else { return false }
      accesses?.attach()
      // Here, and not in a function that returns after the switch: see `run`.
      CoroutineCore.run(next)
    }
    return !endRunIfEmpty()
  }

  /// How many are ready. Of another moment at once, where other threads append.
  public var count: Int { lock.withLock { ready.count } }

  /// Whether none is ready. Of another moment at once, where other threads append.
  public var isEmpty: Bool { lock.withLock { ready.isEmpty } }

  /// The one that came first, for a run. Without one the run has ended.
  private func takeNext() -> CoroutineJob? {  // litmus: pool-park
    lock.lock()
    defer { lock.unlock() }
    guard let next = ready.popFirst() else {
      endRun()
      return nil
    }
    return next
  }

  /// Whether it has ended.
  private func endRunIfEmpty() -> Bool {
    lock.withLock {
      guard ready.isEmpty else { return false }
      endRun()
      return true
    }
  }

  // The caller holds `lock`. A run that was not requested may have ended one that was.
  private func endRun() { runs = max(0, runs - 1) }
}
