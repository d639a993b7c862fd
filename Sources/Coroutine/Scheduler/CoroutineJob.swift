// SPDX-License-Identifier: Apache-2.0

import CCoroutine

/// The right to run a coroutine once: a scheduler gets it, keeps it in its queue and calls `run`.
///
/// One word, so that queueing allocates nothing; not copyable, so that resuming twice does not compile. Therefore no
/// closure that escapes can capture one: it waits in a `CoroutineJobQueue`. Dropping one without running it would leave
/// a coroutine, and its joiners, waiting for ever: that traps.
public struct CoroutineJob: ~Copyable, Sendable {
  private let core: Unmanaged<CoroutineCore>

  @usableFromInline
  package init(_ core: Unmanaged<CoroutineCore>) {
    self.core = core
  }

  /// The number of the coroutine: `Coroutine.id`.
  public var id: UInt64 { core._withUnsafeGuaranteedRef { $0.id } }

  /// The name that the coroutine was given; empty without one.
  public var name: String { core._withUnsafeGuaranteedRef { $0.name } }

  /// The priority that the coroutine was given, or that of the task or coroutine that created it; `nil`: neither has one.
  ///
  /// For schedulers that have an order of their own, which is theirs alone: the library's run in the order in which coroutines
  /// become ready.
  public var priority: TaskPriority? { core._withUnsafeGuaranteedRef { $0.priority } }

  /// Runs the coroutine on the calling thread until it suspends or ends.
  ///
  /// For implementations of `Scheduler`. Not under a lock. The calling thread needs no preparation; the coroutine's
  /// body sees this thread's thread-locals.
  public consuming func run() {
    prepareThread()
    CoroutineCore.run(self)
  }

  /// The same for a scheduler whose coroutines may share variables: one turn, past its queue.
  ///
  /// It returns behind the switch, which `CoroutineCore.run` warns of. Inlining it would gain nothing: a handler of a
  /// channel calls it, which returns to that channel anyway.
  package consuming func run(_ accesses: SharedAccesses) {
    prepareThread()
    let accesses = AttachedAccesses(accesses)
    accesses?.attach()
    CoroutineCore.run(self)
    accesses?.end()
  }

  /// Hands the coroutine to its own scheduler; directly into the line, if the calling thread is the one that would put
  /// it there.
  @inline(__always)
  consuming func enqueue(_ reason: EnqueueReason) {
    let core = take()
    core._withUnsafeGuaranteedRef { coroutine in
      if let pool = coroutine.pool, let worker = PoolWorker.current(ofPoolAt: pool) {
        worker._withUnsafeGuaranteedRef { $0.put(CoroutineJob(core), reason) }
      } else {
        Self.enqueueElsewhere(core, reason)
      }
    }
  }

  /// The same where inlining would make the scheduler's loop so large that the switch is no longer part of it: see
  /// `CoroutineCore.run`.
  @inline(never)
  consuming func enqueueAgain() { enqueue(.yielded) }

  @inline(never)
  private static func enqueueElsewhere(_ core: Unmanaged<CoroutineCore>, _ reason: EnqueueReason) {
    core._withUnsafeGuaranteedRef { coroutine in
      let scheduler = coroutine.scheduler
      // Before it may run: from then on the field is its own.
      coroutine.pool = scheduler.poolAddress
      scheduler.enqueue(CoroutineJob(core), reason)
    }
  }

  /// Whether it has had a turn.
  var hasBegun: Bool { core._withUnsafeGuaranteedRef { $0.block != nil } }

  /// Gives up the token for what it stands for.
  package consuming func take() -> Unmanaged<CoroutineCore> {
    let core = self.core
    discard self
    return core
  }

  deinit {
    let lost = core._withUnsafeGuaranteedRef { $0.description }
    require(false, "a scheduler dropped \(lost) instead of running it")
  }
}

/// Why a coroutine is ready: it decides where it lines up in a pool. Elsewhere all go to the end of one line.
@usableFromInline
enum EnqueueReason {
  /// It is new: behind those that are ready.
  case launched
  /// A waker woke it: it runs next on the waker's worker, if the slot there is free.
  case woken
  /// It has waited for a coroutine's end, not for the first time: the same if none is ready there, else behind the
  /// ready ones.
  case joined
  /// It lets others run first: behind those that are ready.
  case yielded
}

/// Coroutines that wait to run, first in, first out, linked through themselves. Guarded by its owner's lock.
struct ReadyQueue: ~Copyable {
  private(set) var first: Unmanaged<CoroutineCore>?
  private var last: Unmanaged<CoroutineCore>?
  private(set) var count = 0

  var isEmpty: Bool { first == nil }

  /// Of which kind the one that came first is; `nil` if there is none.
  var beginsWith: DrainStateMachine.First? { first?._withUnsafeGuaranteedRef { $0.block == nil ? .new : .begun } }

  func holdsOnly(_ core: CoroutineCore) -> Bool {
    first?.toOpaque() == Unmanaged.passUnretained(core).toOpaque() && count == 1
  }

  /// Appends one. Constant time, no allocation.
  mutating func append(_ job: consuming CoroutineJob) {
    let core = job.take()
    core._withUnsafeGuaranteedRef { $0.nextReady = nil }
    if let last { last._withUnsafeGuaranteedRef { $0.nextReady = core } } else { first = core }
    last = core
    count += 1
  }

  /// Appends one, and takes out the one that came first, which is `next`.
  @inline(__always)
  mutating func exchange(_ job: consuming CoroutineJob, for next: Unmanaged<CoroutineCore>) -> CoroutineJob {
    let core = job.take()
    core._withUnsafeGuaranteedRef { $0.nextReady = nil }
    last?._withUnsafeGuaranteedRef { $0.nextReady = core }
    last = core
    // If there was no other one, that is `core`.
    first = next._withUnsafeGuaranteedRef { $0.nextReady }
    return CoroutineJob(next)
  }

  /// Appends all of another queue, which is empty afterwards. Constant time.
  mutating func append(_ other: inout ReadyQueue) {
    guard let otherFirst = other.first else { return }
    if let last { last._withUnsafeGuaranteedRef { $0.nextReady = otherFirst } } else { first = otherFirst }
    last = other.last
    count += other.count
    other.first = nil
    other.last = nil
    other.count = 0
  }

  /// Takes out the one that came first, for a turn.
  mutating func popFirst() -> CoroutineJob? {
    let core = removeFirst()
    if count > Self.fewForTheCache { prefetchNext() }
    return core
  }

  /// Takes out the one that came first, to keep it elsewhere.
  @inline(__always)
  mutating func removeFirst() -> CoroutineJob? {
    guard let core = first else { return nil }
    first = core._withUnsafeGuaranteedRef { $0.nextReady }
    if first == nil { last = nil }
    count -= 1
    return CoroutineJob(core)
  }

  /// This many coroutines, with the memory that a turn touches, about fit into the nearest cache: then nothing is
  /// fetched.
  static var fewForTheCache: Int { 32 }

  /// Where very many are ready, each has left the caches since its last turn, and a turn would wait for one line of
  /// memory after the other: object, block, frames. So they are fetched during the turns before. The object is fetched
  /// two turns ahead, as it leads to the stack.
  @inline(__always)
  private func prefetchNext() {
    first?._withUnsafeGuaranteedRef { next in
      if let then = next.nextReady { CoroutineCore.prefetch(then) }
      next.prefetchStack()
    }
  }
}

extension ReadyQueue {
  /// Those from `first` on. For debuggers, during a freeze, without the queue's lock: the list may change meanwhile,
  /// but none of the coroutines in it goes away.
  static func visit(from first: Unmanaged<CoroutineCore>?, _ body: (CoroutineCore) throws -> Void) rethrows {
    var next = first
    while let link = next {
      let core = link.takeUnretainedValue()
      coroutine_sanitizer_begin_unseen()
      next = core.nextReady
      coroutine_sanitizer_end_unseen()
      try body(core)
    }
  }
}
