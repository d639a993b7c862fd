// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import Synchronization

/// What is ready on one worker of a pool, and the order in which the worker takes it. Everything in the queue that differs for
/// a pool of one thread is here. (Short cuts elsewhere ask it: `YieldTurn.swift`, `runAhead` in `WaitingForEnd.swift`,
/// `handOff` in `ActorCore.swift`, `OperationBudget.swift`.)
///
/// | | with other workers | the only worker: serial |
/// |---|---|---|
/// | where | the slot, and a ring that others steal from | one line |
/// | what runs next | what was woken here last, some times in a row; then the ring's first | the first of the line |
/// | from outside | a share when there is nothing here, one in a number of picks | all of it, before something is appended |
/// | atomic | the slot, the ring | nothing |
///
/// "The owner" is the worker's own thread: fields and functions marked as its are for it alone, and need no more order
/// than a thread has with itself. The others are atomic.
// Unchecked: by the rule above.
class WorkerQueue: HiddenFromMirrors, @unchecked Sendable {
  /// Its pool, which keeps it alive, and which the thread keeps alive.
  final let core: Unmanaged<PoolCore>
  final let index: Int
  /// Whether it is its pool's only one.
  final let isSerial: Bool
  /// The whole line of a serial pool's only worker. The owner's.
  @exclusivity(unchecked) private final var line = ReadyQueue()
  /// How many coroutines in a row it still takes from the slot. The owner's.
  @exclusivity(unchecked) private final var slotBudget = WorkerQueue.slotBudget
  /// How many it picks before it looks for work from outside. The owner's.
  @exclusivity(unchecked) private final var picksToGlobal = WorkerQueue.globalInterval

  /// What the others' work was worth to it. The owner's.
  @exclusivity(unchecked) private final var stealBackoff = StealBackoff()

  /// The coroutine that one on this worker woke, to run next. The owner puts one where there is none; the thread that
  /// exchanges it for `nil` has it.
  private final let slot = Atomic<WorkRing.Element?>(nil)
  private final let ring = WorkRing()
  /// How often the owner has picked something to run; written by it alone. Two looks at it show whether the owner has been
  /// busy with one coroutine in between.
  private final let picks = Atomic<UInt32>(0)
  /// Whether the pool's monitor looks rarely, so that the owner has to unpark it for what it leaves here. Written under the
  /// pool's lock. In this object, and not the pool's, whose words change with everything that comes from outside.
  final let isMonitoredRarely = Atomic<Bool>(false)

  /// A pair of coroutines that wake each other would keep all others waiting: after this many the ring comes first.
  static var slotBudget: Int { 8 }
  /// A prime number, so as not to fall into step with what the coroutines do.
  static var globalInterval: Int { 61 }

  init(core: PoolCore, index: Int) {
    self.core = .passUnretained(core)
    self.index = index
    isSerial = core.count == 1
  }
}

// MARK: - Putting, by the owner

extension WorkerQueue {
  @inline(__always)
  func put(_ job: consuming CoroutineJob, _ reason: EnqueueReason) {
    switch reason {
    case .launched: append(job, isNew: true)
    case .woken: wake(job)
    case .joined: if ring.isEmpty { wake(job) } else { append(job, isNew: true) }
    case .yielded: append(job, isNew: false)
    }
  }

  /// Takes a coroutine that one on this worker has woken: it runs next, unless another one does.
  @inline(__always)
  private func wake(_ job: consuming CoroutineJob) {
    guard !isSerial, slot.load(ordering: .relaxed) == nil else { return append(job, isNew: true) }
    // No worker is woken: the owner is about to run it, and if it does not, the monitor sees that.
    slot.store(job.take(), ordering: .releasing)  // litmus: claim-result
    unparkRareMonitor()
  }

  @inline(__always)
  private func unparkRareMonitor() {  // litmus: pool-share
    if isMonitoredRarely.load(ordering: .relaxed) { core._withUnsafeGuaranteedRef { $0.unparkMonitor() } }
  }

  /// Takes a coroutine behind those that are ready. `isNew`: it adds to the work that there is.
  @inline(__always)
  private func append(_ job: consuming CoroutineJob, isNew: Bool) {
    guard !isSerial else {
      core._withUnsafeGuaranteedRef { core in
        if core.hasGlobal { core.moveGlobal(to: &line) }
      }
      return line.append(job)
    }
    // A single one is left to the owner, as in the slot; from the second on there is work for another worker.
    let isMore = isNew && (!ring.isEmpty || slot.load(ordering: .relaxed) != nil)
    let element = job.take()
    if !ring.push(element) { overflow(CoroutineJob(element)) }
    if isMore { core._withUnsafeGuaranteedRef { $0.workArrived() } } else { unparkRareMonitor() }
  }

  @inline(never)
  private func overflow(_ job: consuming CoroutineJob) {
    var queue = ReadyQueue()
    ring.moveHalf(to: &queue)
    queue.append(job)
    core._withUnsafeGuaranteedRef { $0.append(&queue, surplusOf: index) }
  }

  /// Keeps one of its share of the work from outside. It has nothing else.
  func keep(_ job: consuming CoroutineJob) {
    guard !isSerial else { return line.append(job) }
    let isKept = ring.push(job.take())
    require(isKept, "a worker's share is larger than its ring")
  }
}

// MARK: - Taking

extension WorkerQueue {
  /// What to run next, if anything is ready here. The owner's.
  @inline(__always)
  func next() -> CoroutineJob? {
    picksToGlobal -= 1
    if picksToGlobal == 0 {
      picksToGlobal = Self.globalInterval
      if let element = core._withUnsafeGuaranteedRef({ $0.takeFromOutside() }) { return CoroutineJob(element) }
    }
    guard !isSerial else { return line.popFirst() }
    picks.store(picks.load(ordering: .relaxed) &+ 1, ordering: .relaxed)
    if slotBudget > 0, let element = takeSlot() {
      slotBudget -= 1
      return CoroutineJob(element)
    }
    slotBudget = Self.slotBudget
    guard let element = ring.pop() ?? takeSlot() else { return nil }
    return CoroutineJob(element)
  }

  /// The next coroutine of a serial pool, if that is sure without a look at what came from outside. The owner's.
  @inline(__always)
  var nextInLine: WorkRing.Element? {
    guard isSerial, picksToGlobal > 1, !core._withUnsafeGuaranteedRef({ $0.hasGlobal }) else { return nil }
    return line.first
  }

  /// Puts one that is ready behind the others, and picks `next`, which is `nextInLine`. The owner's.
  @inline(__always)
  func exchange(_ job: consuming CoroutineJob, for next: WorkRing.Element) -> CoroutineJob {
    picksToGlobal &-= 1
    return line.exchange(job, for: next)
  }

  /// Takes `core` out of the line of a serial pool, if no other is ready there. It counts as a pick. The owner's.
  @inline(__always)
  func takeOnlyOne(_ core: CoroutineCore) -> Bool {
    // One that is pinned to another thread has to run there.
    guard isSerial, line.holdsOnly(core), core.restraint.pins == 0, picksToGlobal > 1,
      !self.core._withUnsafeGuaranteedRef({ $0.hasGlobal }), let job = line.popFirst()
    else { return false }
    picksToGlobal -= 1
    _ = job.take()
    return true
  }

  /// Leaves the line of a serial pool to the next thread that runs it: before what has come from outside. The owner's.
  func moveLine(to global: inout ReadyQueue) {
    line.append(&global)
    global.append(&line)
  }

  /// Leaves all that is ready here to the others. The owner's.
  func moveAll(to global: inout ReadyQueue) {
    guard !isSerial else { return moveLine(to: &global) }
    while let element = takeSlot() ?? ring.pop() { global.append(CoroutineJob(element)) }
  }

  @inline(__always)
  private func takeSlot() -> WorkRing.Element? {
    guard slot.load(ordering: .relaxed) != nil else { return nil }
    return slot.exchange(nil, ordering: .acquiring)  // litmus: claim-result
  }
}

// MARK: - Stealing

extension WorkerQueue {
  /// Gives half of its ring to `thief`, which has nothing: one to run, the others into the thief's ring. Also says
  /// whether it has more.
  func steal(for thief: WorkerQueue) -> (element: WorkRing.Element, moreIsLeft: Bool)? {
    guard let element = ring.steal(into: thief.ring) else { return nil }
    return (element, !ring.isEmpty || !thief.ring.isEmpty)
  }

  /// It had nothing left, and has taken one coroutine in addition to those in its ring: from another worker, or of its
  /// own surplus. The owner's.
  func didTake(isStolen: Bool) {
    guard !isSerial else { return }
    if isStolen {
      stealBackoff.begin(at: MonotonicClock.now, picks: pickCount, taken: ring.count + 1)
    } else {
      stealBackoff = StealBackoff()
    }
  }

  /// Whether it has nothing left so soon that it should not steal, for `pause`. The owner's.
  func hasStolenInVain() -> Bool {
    !isSerial && stealBackoff.end(at: MonotonicClock.now, picks: pickCount)
  }

  /// How long it then does not steal. The owner's.
  var pause: Duration { .nanoseconds(stealBackoff.pause) }

  /// Gives away the coroutine in the slot if the owner has picked nothing since the last look. `seen` remembers the
  /// look.
  func stealStuck(seen: inout UInt32) -> WorkRing.Element? {
    let now = picks.load(ordering: .relaxed)
    defer { seen = now }
    return now == seen ? takeSlot() : nil
  }
}

// MARK: - Whether others are ready

extension WorkerQueue {
  /// Whether, in a serial pool, another one is ready that has to run before one that becomes ready now. The owner's.
  @inline(__always)
  var isSerialAndBusy: Bool {
    isSerial && (!line.isEmpty || core._withUnsafeGuaranteedRef { $0.hasGlobal })
  }

  /// Whether another one is ready here, or has come from outside. The owner's.
  var othersAreReady: Bool { isSerialAndBusy || holdsOthers || core._withUnsafeGuaranteedRef { $0.hasFromOutside } }

  /// Whether another one is ready in this worker's own places. The owner's.
  var holdsOthers: Bool { slot.load(ordering: .relaxed) != nil || (isSerial ? !line.isEmpty : !ring.isEmpty) }
}

// MARK: - For the monitor, the detector of blocked pools, and debuggers

extension WorkerQueue {
  /// How often the owner has picked something to run.
  var pickCount: UInt32 { picks.load(ordering: .relaxed) }

  /// Changes whenever it picks something to run.
  var pickMark: UInt32 {
    guard isSerial else { return pickCount }
    // The owner's alone at other times: the old value or the new one.
    coroutine_sanitizer_begin_unseen()
    defer { coroutine_sanitizer_end_unseen() }
    return UInt32(truncatingIfNeeded: picksToGlobal)
  }

  /// Whether something is ready here that it does not run.
  var holdsReady: Bool {
    coroutine_sanitizer_begin_unseen()
    defer { coroutine_sanitizer_end_unseen() }
    return slot.load(ordering: .relaxed) != nil || !ring.isEmpty || line.first != nil
  }

  /// What is ready here. For `PoolCore.visitReady`.
  func visitReady(_ body: (CoroutineCore) throws -> Void) rethrows {
    if let element = slot.load(ordering: .acquiring) { try body(element.takeUnretainedValue()) }
    try ring.visit { try body($0.takeUnretainedValue()) }
    // At other times only the owner touches the line. It may change during this look.
    coroutine_sanitizer_begin_unseen()
    let first = line.first
    coroutine_sanitizer_end_unseen()
    try ReadyQueue.visit(from: first, body)
  }
}
