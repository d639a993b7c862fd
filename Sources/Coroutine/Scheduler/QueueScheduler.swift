// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import Context
public import Dispatch
import Synchronization

/// Coroutines run on a queue: on the main queue, on a serial one (one after another, in the order in which they became
/// ready), or on a concurrent one.
///
/// Memory: a small object for each queue on which coroutines run, and one of a few words that stays with the queue.
extension DispatchQueue: Scheduler {
  public func enqueue(_ job: consuming CoroutineJob) {
    QueueScheduler.of(self).enqueue(job)
  }

  public var isCurrent: Bool {
    QueueScheduler.of(self).isCurrent
  }

  /// Known of the main queue only: Dispatch does not say so of others, which answer `false`.
  public var isSerial: Bool {
    // Not by its label, which any queue may have; nor is there one object for it.
    QueueScheduler.of(self) === QueueScheduler.main
  }
}

extension Scheduler where Self == DispatchQueue {
  /// The main queue: `Coroutine(on: .main) { … }`.
  public static var main: DispatchQueue { DispatchQueue.main }
}

/// The ready coroutines of one Dispatch queue, and the blocks that drain them.
///
/// A Dispatch call costs more than a hundred switches, so a wake makes one only while fewer drains are under way than the
/// machine could run in parallel. On a serial queue Dispatch lets one drain run at a time, in which coroutines wake each
/// other without a call; the order is that of the one list either way.
///
/// A launch makes a call each time, as a block does: so those launched and the queue's blocks begin in the order in which
/// they were given to it. `DrainStateMachine` counts.
///
/// It lives as long as a coroutine of its queue, and keeps the queue alive; the queue knows it by a tag, weakly.
// Unchecked: the lock guards what changes.
@usableFromInline
final class QueueScheduler: Scheduler, HiddenFromMirrors, @unchecked Sendable {
  private let queue: DispatchQueue
  /// The queue's, kept where readers of another process find it.
  private let label: String
  private let tag: Tag
  /// `Fork.count` of the process whose Dispatch runs it.
  private let madeIn = Fork.count
  /// Held by a launch until its drain is submitted: several threads' drains are submitted in the order in which their coroutines are
  /// in line. Not `lock`: Dispatch may have to wait for a thread.
  private let launches = Lock()
  private let lock = Lock()
  // Guarded by `lock`, both.
  @exclusivity(unchecked) private var ready = ReadyQueue()
  @exclusivity(unchecked) private var machine = DrainStateMachine(width: ThreadPool.processorCount)

  private init(_ queue: DispatchQueue, tag: Tag) {
    self.queue = queue
    label = queue.label
    self.tag = tag
  }

  @usableFromInline
  func enqueue(_ job: consuming CoroutineJob) {  // litmus: pool-park
    if Fork.count != madeIn {
      reportLeftInParent("\(description) has something to run", "run it there in runUntilComplete")
    }
    guard job.hasBegun else { return launch(job) }
    lock.lock()
    ready.append(job)
    let isDrainNeeded = machine.woken()
    lock.unlock()
    if isDrainNeeded { submitDrain(forLaunch: false) }
  }

  private func launch(_ job: consuming CoroutineJob) {
    launches.lock()
    lock.lock()
    ready.append(job)
    machine.launched()
    lock.unlock()
    submitDrain(forLaunch: true)
    launches.unlock()
  }

  private func submitDrain(forLaunch: Bool) {
    queue.async {
      self.lock.withLock { self.machine.drainBegins(forLaunch: forLaunch) }
      self.drain()
    }
  }

  /// Runs ready coroutines. After a number of turns it lets the queue's other blocks run.
  private func drain() {
    prepareThread()
    let accesses = AttachedAccesses(isSerial ? .ofMainActor : nil)
    defer { accesses?.end() }
    for _ in 0..<Self.batch {
      guard let next = takeNext() else { return }
      accesses?.attach()
      // Here, and not in a function that returns after the switch: see `run`.
      CoroutineCore.run(next)
    }
    queue.async { self.drain() }
  }

  private func takeNext() -> CoroutineJob? {  // litmus: pool-park
    lock.lock()
    guard machine.takesFirst(ready.beginsWith), let next = ready.popFirst() else {
      lock.unlock()
      return nil
    }
    let isDrainNeeded = machine.tookOne(before: ready.beginsWith)
    lock.unlock()
    if isDrainNeeded { submitDrain(forLaunch: false) }
    return next
  }

  /// The coroutine that the calling drain runs waits and keeps the thread.
  func drainStays() {
    if lock.withLock({ machine.drainStays(before: ready.beginsWith) }) { submitDrain(forLaunch: false) }
  }

  /// It goes on.
  func drainGoesOn() { lock.withLock { machine.drainGoesOn() } }

  @usableFromInline
  var isCurrent: Bool { DispatchQueue.getSpecific(key: Self.key) === tag }
  @usableFromInline
  var isSerial: Bool { self === Self.main }
  /// Whether there are coroutines that are ready and do not run at present. Of another moment at once.
  var hasReady: Bool { lock.withLock { !ready.isEmpty } }
  /// For people.
  var description: String { SchedulerText.queue(label) }

  private static let batch = 256
}

extension QueueScheduler {
  /// What a queue keeps of its scheduler.
  private final class Tag: Sendable {
    /// Guarded by `QueueScheduler.creation`.
    nonisolated(unsafe) weak var scheduler: QueueScheduler?
  }

  private static let key = DispatchSpecificKey<Tag>()
  private static let creation = Lock()
  /// Whether `fork` knows of that lock. A child asks for the main queue's scheduler as soon as one of its threads waits.
  private static let isCreationKept = Atomic<Bool>(false)
  /// The main queue's, which lives for ever. Not a `static let`: a child would wait for ever for the thread that was making
  /// it at the moment of the fork.
  private static let knownMain = Atomic<Unmanaged<QueueScheduler>?>(nil)

  /// The main queue's: each wait of a plain thread asks for it.
  static var main: QueueScheduler {
    if let known = knownMain.load(ordering: .acquiring) { return known.takeUnretainedValue() }
    let main = of(.main)
    let kept = Unmanaged.passRetained(main)
    let isFirst = knownMain.compareExchange(expected: nil, desired: kept, ordering: .acquiringAndReleasing).exchanged
    if !isFirst { kept.release() }
    return main
  }

  /// The scheduler of a queue, made when there is none.
  static func of(_ queue: DispatchQueue) -> QueueScheduler {
    // Before anything is locked: it takes the dynamic linker's lock.
    coroutine_make_thread_keys()
    if !isCreationKept.load(ordering: .relaxed), !isCreationKept.exchange(true, ordering: .acquiringAndReleasing) {
      creation.keepFreeInChildren()
    }
    creation.lock()
    defer { creation.unlock() }
    let tag: Tag
    if let known = queue.getSpecific(key: key) {
      if let scheduler = known.scheduler { return scheduler }
      tag = known
    } else {
      tag = Tag()
      queue.setSpecific(key: key, value: tag)
    }
    let scheduler = QueueScheduler(queue, tag: tag)
    tag.scheduler = scheduler
    return scheduler
  }
}
