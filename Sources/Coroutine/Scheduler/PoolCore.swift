// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import CCoroutineSystem
import Context
import CoroutineLibc
import Dispatch
import Synchronization

/// A pool's workers and what they share: the coroutines that became ready outside of them, and the list of sleeping
/// workers.
///
/// # Where ready coroutines wait
///
/// - In the *slot* of a worker: a coroutine that was woken by one on that worker, when the slot was free. It runs next,
///   while what it was given is still in the processor's cache. After a few in a row from the slot the ring comes
///   first, so that two that wake each other for ever don't keep the others waiting.
/// - In the *ring* of a worker: all others that became ready there. First in, first out; others steal half of it.
/// - In the *global* list, under the lock: what came from other threads, and what a full ring could not take. Every
///   worker looks at it once in a number of picks, and whenever it has nothing else. So it does at the list of *jobs*: those
///   of `async` code, and runs of a `LimitedScheduler`.
///
/// The only worker of a serial pool has neither slot nor ring. It has one line, to which it moves the global list
/// before it appends something itself, so that all run in the order in which they became ready. There is no stealing,
/// and nothing is atomic. A coroutine that yields there switches right to the next one in the line, past the loop,
/// where that makes no difference (`CoroutineCore.yieldTurn`). All of that is in `WorkerQueue`.
///
/// # Which worker is woken
///
/// Waking a thread costs as much as fifty switches of coroutines. So a worker that gets its first ready coroutine, in
/// its slot or its ring, wakes no other: it will run it itself as soon as the one that it runs suspends. From the
/// second on it wakes a sleeping worker, unless one is searching already: a searching worker that finds something, and
/// leaves more behind, wakes the next. What comes from outside wakes a worker by the same rule.
///
/// What if the running coroutine computes for long, or blocks its thread? For that there is the *monitor* (Go's sysmon): while
/// some workers are awake and others are not, one of these sleeps for a moment only, again and again, and looks at all
/// workers. It takes what lies in a ring, and what lies in the slot of a worker that has picked nothing since the last
/// look. So a ready coroutine waits for an idle processor for one or two ticks at most. A tick is 50 to 500
/// microseconds, longer the longer nothing happens. While all that are awake stand still, blocked by a system call, it grows
/// to a tenth of a second: a worker that goes on after that, and leaves something to the monitor, unparks it (`MonitorPace`).
/// When all have fallen asleep the monitor does too: an idle pool costs nothing.
///
/// And what if helping is not worth it? Where turns are very short, two processors may get less done than one. A worker
/// that has found that out (`StealBackoff`) parks instead of searching, as the monitor if there is none, and asks that
/// *sharing pauses*. Until the monitor's next look no worker is woken for what a worker has made ready itself, in its
/// ring or as the surplus of that in the global list. What comes from outside wakes a worker even then.
///
/// Where a program waits for descriptors, the worker that sleeps last, or monitors, sleeps in the `EventPoller`, which
/// says which thread polls when. What an event wakes is ready on that worker, which is awake again before it puts it
/// anywhere.
///
/// # Why no wake-up is lost
///
/// 1. A worker parks only when its slot and its ring are empty, and only it can put something there: a parked worker
///    holds nothing.
/// 2. The global list and the state of the workers are guarded by one lock. A worker that is parked has seen the list
///    empty in the same critical section. A later appender sees it parked, and wakes a worker unless one searches. One
///    that searches looks at the lists again, under the lock, before it parks; if it finds something before that, it wakes the
///    next worker, as long as they have more. While sharing pauses a worker may park
///    although the list is not empty: only if another one is awake, which empties it, and the monitor looks there too.
/// 3. What lies in the slot or ring of a worker that is awake is run by that worker; help from others is a matter of
///    speed. The owner reads without the lock whether help is wanted, and with no barrier between its store and that
///    load: it may miss a worker that has just fallen asleep. Then the monitor sees it a tick later. Whenever one
///    worker is awake and another is parked, there is a monitor or a searching worker: the state machine's tests check
///    that after each event. The exception: an event has woken the last sleeper. To wake another one each time, just to
///    monitor, would cost more than most of what events bring. If it computes for long, the `PollerThread` appoints a
///    monitor after a tick.
///
/// So a wake on its own pool costs one atomic read-modify-write, when the owner takes it out of the slot or the ring, since a
/// thief could be about to; and none in a serial pool.
///
/// Kept alive by its `ThreadPool` and by each of its threads.
// Unchecked: the lock guards what changes.
final class PoolCore: HiddenFromMirrors, @unchecked Sendable {
  let count: Int
  let host: Host
  /// `Fork.count` of the process that has its threads.
  private let madeIn = Fork.count
  @exclusivity(unchecked) private(set) var workers: [PoolWorker] = []  // constant after the initialiser

  private let lock = Lock()
  // Guarded by the lock, all six.
  @exclusivity(unchecked) private var global = ReadyQueue()
  @exclusivity(unchecked) private var jobs = FIFOQueue<PoolJob>()
  @exclusivity(unchecked) private var machine: PoolStateMachine
  @exclusivity(unchecked) private var isEnding = false
  /// The worker whose surplus is in the global list: the one that last had too much. `nil`: all of it comes from
  /// outside, or there is nothing.
  @exclusivity(unchecked) private var surplusOwner: Int?
  /// What the workers know of `machine.monitorsRarely`.
  @exclusivity(unchecked) private var monitoredRarely = false
  // What workers look at without the lock; written under it.
  private let globalCount = Atomic<Int>(0)
  private let hasJobs = Atomic<Bool>(false)
  private let wantsWork = Atomic<Bool>(true)
  /// How often a monitor has looked at the workers, and how often it was unparked because it looked rarely; for tests.
  let looks = Atomic<Int>(0)
  let monitorUnparks = Atomic<Int>(0)
  /// Until then no worker gets a thread, because the system has refused one.
  private let startsAgain = Atomic<UInt64>(0)
  /// What the `BlockedPoolDetector` has seen. For its thread alone.
  @exclusivity(unchecked) var standstill = PoolStandstill()

  /// What its coroutines have open while they are suspended, if they may share variables: those of threads may not.
  let sharedAccesses: SharedAccesses?

  init(count: Int, on host: Host = .threads) {
    self.count = count
    self.host = host
    sharedAccesses = host.makeSharedAccesses()
    machine = PoolStateMachine(count: count)
    workers = (0..<count).map { PoolWorker(core: self, index: $0) }
    _ = MallocTuning.isAllowed
    Self.all.add(self)
    coroutine_publish_debug_layout()
  }

  deinit { Self.all.remove(self) }

  /// Lets the threads end when they have nothing left to run. Called once, when no coroutine is left.
  func end() {
    lock.lock()
    isEnding = true
    let parked = machine.wakeAll()
    lock.unlock()
    for index in parked { _ = workers[index].unpark(starts: false) }
  }
}

// MARK: - What becomes ready

extension PoolCore {
  /// Takes a coroutine that is ready, from any thread.
  func enqueue(_ job: consuming CoroutineJob, _ reason: EnqueueReason) {
    guard let worker = PoolWorker.current(of: self) else { return inject(job) }
    let element = job.take()
    worker._withUnsafeGuaranteedRef { $0.put(CoroutineJob(element), reason) }
  }

  /// From a thread that isn't one of the pool's.
  @inline(never)
  private func inject(_ job: consuming CoroutineJob) {
    requireIsHere()
    // As soon as it is in the list it may run to its end, and the last reference to the pool may go with it.
    let kept = Unmanaged.passRetained(self)
    var queue = ReadyQueue()
    queue.append(job)
    append(&queue, surplusOf: nil)
    kept.release()
  }

  /// Ends the program if its threads are another process's. (The calling thread of `runUntilComplete` may be here.)
  @inline(__always)
  private func requireIsHere() {
    if Fork.count != madeIn, case .threads = host {
      reportLeftInParent("a ThreadPool of \(count) has something to run", "make another pool there")
    }
  }

  /// Appends to the global list: coroutines from outside, or the surplus of one of the workers.
  func append(_ queue: inout ReadyQueue, surplusOf owner: Int?) {  // litmus: pool-park
    let worker = changing {
      global.append(&queue)
      if let owner { surplusOwner = owner }
      return machine.workArrived(isOwn: owner != nil)
    }
    unpark(worker)
  }

  /// A worker has more than it will run next.
  @inline(__always)
  func workArrived() {  // litmus: pool-share
    if wantsWork.load(ordering: .relaxed) { shareWork() }
  }

  @inline(never)
  private func shareWork() { unpark(changing { machine.workArrived() }) }

  /// Whether something waits in the lists, of coroutines or of jobs. The caller holds `lock`.
  private var isSomethingListed: Bool { !global.isEmpty || !jobs.isEmpty }

  /// A change of what the lock guards, with `publish` before the unlock.
  @inline(__always)
  private func changing<Result>(_ body: () -> Result) -> Result {
    lock.lock()
    defer {
      publish()
      lock.unlock()
    }
    return body()
  }

  /// Before each unlock that follows a change: what other threads read without the lock. The caller holds `lock`.
  private func publish() {  // litmus: pool-share, pool-watch
    if global.isEmpty { surplusOwner = nil }
    globalCount.store(global.count, ordering: .releasing)
    hasJobs.store(!jobs.isEmpty, ordering: .relaxed)
    wantsWork.store(machine.wantsWork, ordering: .relaxed)
    if machine.monitorsRarely != monitoredRarely {
      monitoredRarely = machine.monitorsRarely
      for worker in workers { worker.isMonitoredRarely.store(monitoredRarely, ordering: .relaxed) }
    }
    if machine.awake == count { BlockedPoolDetector.begin() }
  }

  /// A worker has made something ready which it leaves to the monitor, and that looks rarely.
  @inline(never)
  func unparkMonitor() {
    let monitor = changing { machine.unparkMonitor() }
    if monitor != nil { monitorUnparks.wrappingAdd(1, ordering: .relaxed) }
    unpark(monitor)
  }

  private func unpark(_ index: Int?) {
    guard let index else { return }
    let worker = workers[index]
    // Not for each coroutine that becomes ready: a refusal takes longer than a short one.
    let pauses = !worker.hasThread && MonotonicClock.now < startsAgain.load(ordering: .relaxed)
    let code = pauses ? EAGAIN : worker.unpark(starts: true)
    if code != 0 { goOnWithout(index, code, wasSearching: true) }
  }
}

// MARK: - Without a thread

extension PoolCore {
  /// A worker's thread keeps a pinned coroutine, and the system refuses another one.
  func retire(_ worker: PoolWorker, _ code: CInt) {
    changing { worker.moveAll(to: &global) }
    goOnWithout(worker.index, code, wasSearching: false)
  }

  /// The workers that have threads go on with what is ready; this one is tried again when something becomes ready later. Where
  /// none has a thread, the caller tries again for about a second, and ends the program after that: nothing would ever run.
  @inline(never)
  private func goOnWithout(_ refusedIndex: Int, _ refusal: CInt, wasSearching: Bool) {
    var (index, code, wasSearching) = (refusedIndex, refusal, wasSearching)
    var backoff = RetryBackoff()
    while true {
      lock.lock()
      var next = machine.startRefused(index, wasSearching: wasSearching)
      let hasWork = isSomethingListed
      // Workers that have a thread sleep behind those that have none.
      if next == nil, hasWork, let last = machine.sleeping.last, workers[last].hasThread {
        next = machine.workArrived(isOwn: false)
      }
      let isLeftAlone = hasWork && machine.awake == 0
      publish()
      lock.unlock()
      let thread = "thread \(index + 1) of a ThreadPool of \(count)"
      if let next {
        _ = workers[next].unpark(starts: false)
      } else if isLeftAlone {
        warnAboutRefusal(of: thread, code, "It is tried again.")
        guard backoff.wait() else {
          refused(thread, code, ", or make the pool smaller: ThreadPool(threads:), the shared one by COROUTINE_THREADS")
        }
        // It may be run by now: others that make something ready try too.
        let again = changing {
          machine.awake == 0 && isSomethingListed ? machine.workArrived(isOwn: false) : nil
        }
        guard let again else { return }
        code = workers[again].unpark(starts: true)
        guard code != 0 else { return }
        (index, wasSearching) = (again, true)
        continue
      } else {
        warnAboutRefusal(of: thread, code, "The pool goes on with those that it has.")
      }
      return startsAgain.store(MonotonicClock.now + Self.pauseOfStarts, ordering: .relaxed)
    }
  }

  /// Nanoseconds.
  private static var pauseOfStarts: UInt64 { 100_000_000 }
}

// MARK: - Jobs of async code

extension PoolCore {
  /// Takes a job, from any thread.
  func enqueue(_ job: PoolJob) {
    requireIsHere()
    let kept = Unmanaged.passRetained(self)
    let worker = changing {
      jobs.append(job)
      return machine.workArrived(isOwn: false)
    }
    unpark(worker)
    kept.release()
  }

  /// Runs the job that came first. On a worker's own stack.
  private func runJob() {
    guard let next = changing({ jobs.popFirst() }) else { return }
    next.run()
  }
}

// MARK: - What the workers take

extension PoolCore {
  /// Whether there is something in the global list, about.
  @inline(__always)
  var hasGlobal: Bool { globalCount.load(ordering: .acquiring) != 0 }

  /// The same, or jobs of `async` code.
  var hasFromOutside: Bool { hasGlobal || hasJobs.load(ordering: .relaxed) }

  /// Work from outside, once in a while: runs one job of `async` code, and takes one coroutine from the global list.
  /// Not in a serial pool, which moves the whole list to its line.
  @inline(never)
  func takeFromOutside() -> WorkRing.Element? {
    if hasJobs.load(ordering: .relaxed) { runJob() }
    if let poller = EventPoller.installed { poller._withUnsafeGuaranteedRef { $0.lookIfDue() } }
    guard count > 1, hasGlobal else { return nil }
    return changing { global.removeFirst()?.take() }
  }

  /// Moves the global list to the end of `queue`.
  @inline(never)
  func moveGlobal(to queue: inout ReadyQueue) {
    changing { queue.append(&global) }
  }

  /// Takes one to run, and a fair share of the rest, for a worker that has nothing. The caller holds `lock`.
  private func takeShare(for worker: PoolWorker) -> CoroutineJob? {
    let share = min(global.count / count, Int(WorkRing.capacity / 2))
    guard let first = global.removeFirst() else { return nil }
    for _ in 1..<max(share, 1) {
      guard let next = global.removeFirst() else { break }
      worker.keep(next)
    }
    return first
  }
}

// MARK: - What the workers do

extension PoolCore {
  /// A thread's life as a worker: until the pool ends, or, if the worker has no thread of its own, until it has nothing
  /// to run. A thread may become another worker meanwhile. Or it hands its worker over and ends: when it is the turn of
  /// a coroutine that is pinned to another thread, that thread gets the worker.
  ///
  /// - Parameters:
  ///   - isSearching: as a woken worker does; else it takes over from another thread.
  ///   - accesses: those that its coroutines share, if they do. Not attached when this returns.
  func work(_ first: PoolWorker, isSearching: Bool, _ accesses: AttachedAccesses?) {
    var worker = first
    var isSearching = isSearching
    var sleeps = true
    if case .callingThread = host { sleeps = false }
    while true {
      if !isSearching {
        while let job = worker.next() {
          accesses?.attach()
          CoroutineCore.run(job, isInPool: true)
          guard worker.isCurrent || PoolWorker.change(&worker) else { return }
        }
      }
      // Before the worker parks: then another thread may take over from this one, with the same accesses.
      accesses?.end()
      guard let job = find(for: worker, isSearching: isSearching, sleeps: sleeps) else { return }
      isSearching = false
      accesses?.attach()
      CoroutineCore.run(job, isInPool: true)
      guard worker.isCurrent || PoolWorker.change(&worker) else { return }
    }
  }

  /// Runs the only worker on the calling thread until `isOver`, beginning with the coroutines that `begin` makes ready.
  /// Those that are left then go on on the queue.
  func runInline(_ begin: () -> Void, until isOver: () -> Bool, beforeSleep: () -> Void = {}) {
    lock.lock()
    let isOnlyOne = machine.workArrived(isOwn: false) == 0 && machine.endSearch(moreIsLeft: false) == nil
    publish()
    lock.unlock()
    require(isOnlyOne, "the pool has a worker already: the calling thread is to be its only one")
    let worker = workers[0]
    worker.hasThread = true
    prepareThread()
    let accesses = AttachedAccesses(sharedAccesses)
    worker.makeCurrent {
      begin()
      while !isOver() {
        accesses?.attach()
        if let job = worker.next() {
          CoroutineCore.run(job)
          continue
        }
        beforeSleep()
        if let job = find(for: worker, isSearching: false) {
          accesses?.attach()
          CoroutineCore.run(job)
        }
      }
    }
    accesses?.end()
    worker.hasThread = false
    lock.lock()
    worker.moveLine(to: &global)
    let goesOn = isSomethingListed
    if goesOn {
      _ = machine.beginSearch()  // as every started worker
    } else {
      _ = machine.park(worker.index, wasSearching: false)
    }
    publish()
    lock.unlock()
    if goesOn { _ = worker.start() }  // on a queue, which refuses nothing
  }

  /// Something to run for a worker that has nothing, found elsewhere. If there is nothing it sleeps until there is, or
  /// parks and returns `nil`. Also `nil` when the pool ends.
  // litmus: pool-park
  func find(for worker: PoolWorker, isSearching: Bool, sleeps: Bool = true) -> CoroutineJob? {
    var isSearching = isSearching
    var hasSearched = false
    if let job = lookForEvents(for: worker) {
      if isSearching { endSearch(moreIsLeft: false) }
      worker.didTake(isStolen: false)
      return job
    }
    var pausesSharing = !isSearching && worker.hasStolenInVain()
    var isStolen = true
    defer { worker.didTake(isStolen: isStolen) }
    while true {
      lock.lock()
      // With no other worker awake, no worker would run what came from outside.
      if pausesSharing, machine.awake == 1 { pausesSharing = false }
      if !pausesSharing, let job = takeShare(for: worker) {
        // What comes from outside has no owner: taking it is not stealing, however short it is.
        isStolen = surplusOwner.map { $0 != worker.index } ?? false
        let helper = isSearching ? searchEnds() : nil
        // The rest of the share lies in its ring.
        let monitor = worker.holdsOthers ? machine.unparkMonitor() : nil
        publish()
        lock.unlock()
        unpark(helper)
        unpark(monitor)
        return job
      }
      if let next = jobs.popFirst() {
        let helper = isSearching ? searchEnds() : nil
        publish()
        lock.unlock()
        unpark(helper)
        (isSearching, hasSearched) = (false, false)
        next.run()
        // It may have made something ready here.
        if let job = worker.next() { return job }
        continue
      }
      guard !isEnding else {
        lock.unlock()
        return nil
      }
      if !hasSearched, !pausesSharing, count > 1, isSearching || machine.beginSearch() {
        isSearching = true
        publish()
        lock.unlock()
        if let job = search(for: worker) { return job }
        // What came from outside meanwhile woke no worker: once more, before it parks.
        hasSearched = true
        continue
      }
      if Fork.count != madeIn, case .threads = host {
        reportLeftInParent(
          "a coroutine that has called fork, or one after it, suspends", "fork where no coroutine runs")
      }
      let park = machine.park(worker.index, wasSearching: isSearching, pausesSharing: pausesSharing)
      publish()
      lock.unlock()
      guard sleeps else { return nil }
      // The waker has counted it as searching, unless it has woken by itself.
      isSearching = true
      switch park {
      case .sleep: if sleep(worker) == .delivered { isSearching = false }
      case .monitor: if let job = monitorOthers(worker, pausesSharing: pausesSharing, &isSearching) { return job }
      }
      if !isSearching, let job = worker.next() {
        isStolen = false
        return job
      }
      hasSearched = false
      pausesSharing = false
    }
  }

  /// Something that an event has made ready, for a worker that has nothing. The only worker of a pool need not look: it
  /// sleeps in the poller, or another pool's does.
  private func lookForEvents(for worker: PoolWorker) -> CoroutineJob? {
    guard count > 1, let poller = EventPoller.installed else { return nil }
    return poller._withUnsafeGuaranteedRef { !$0.isWorkerAsleepHere && $0.look() } ? worker.next() : nil
  }

  /// Looks for work at the other workers. A worker that finds something has ended its search.
  private func search(for worker: PoolWorker) -> CoroutineJob? {
    for _ in 0..<Self.searchRounds {
      let start = worker.randomNumber(below: count)
      for offset in 0..<count {
        let victim = workers[(start + offset) % count]
        if victim !== worker, let (element, moreIsLeft) = victim.steal(for: worker) {
          countSteal(element)
          endSearch(moreIsLeft: moreIsLeft)
          return CoroutineJob(element)
        }
      }
      if hasFromOutside { return nil }
      coroutine_system_relax()
    }
    return nil
  }

  private func endSearch(moreIsLeft: Bool) {
    unpark(changing { searchEnds(moreIsLeft: moreIsLeft) })
  }

  /// A searching worker has found something. Returns the worker to wake, if there is more, there or in the lists: what came
  /// while it searched has woken no worker. The caller holds `lock`.
  private func searchEnds(moreIsLeft: Bool = false) -> Int? {
    let isFromOutside = !jobs.isEmpty || !global.isEmpty && surplusOwner == nil
    return machine.endSearch(moreIsLeft: moreIsLeft || isSomethingListed, isOwn: !isFromOutside)
  }

  /// Looks at all workers once a tick, until it finds something, is woken, or has no worker to monitor and was not woken for a
  /// while. Without a job, `isSearching` is true on return, or false if events have woken the worker.
  private func monitorOthers(_ worker: PoolWorker, pausesSharing: Bool, _ isSearching: inout Bool) -> CoroutineJob? {
    var seen = workers.map(\.pickCount)
    var pace = pausesSharing ? MonitorPace(first: worker.pause) : MonitorPace()
    while true {
      switch self.park(worker, for: pace.tick) {
      case .unparked: return nil
      case .delivered:
        isSearching = false
        return nil
      case .timedOut: break
      }
      looks.wrappingAdd(1, ordering: .relaxed)
      if let found = look(for: worker, seen: &seen) { return found }
      let standsStill = pace.looked(picks: seen) { $0 == worker.index ? nil : workers[$0].processorTime }
      let outcome = changing {
        machine.monitorLooked(worker.index, thereIsMore: isSomethingListed, standsStill: standsStill)
      }
      switch outcome {
      case .goOn: break
      case .search:
        return nil
      case .sleep, .isOver:
        if sleep(worker) == .delivered { isSearching = false }
        return nil
      }
    }
  }

  /// The monitor's look: what lies in a ring, or waits in the slot of a worker that has been busy since the last look.
  private func look(for worker: PoolWorker, seen: inout [UInt32]) -> CoroutineJob? {
    for index in 0..<count where index != worker.index {
      let victim = workers[index]
      guard let element = victim.steal(for: worker)?.element ?? victim.stealStuck(seen: &seen[index]) else { continue }
      countSteal(element)
      lock.lock()
      let wasMonitoring = machine.endMonitoring(worker.index)
      let helper = wasMonitoring ? machine.workArrived() : nil
      publish()
      lock.unlock()
      unpark(helper)
      if !wasMonitoring {
        worker.parker.park()  // the wake is on its way
        endSearch(moreIsLeft: false)
      }
      return CoroutineJob(element)
    }
    return nil
  }

  private func sleep(_ worker: PoolWorker) -> ParkOutcome {
    Self.sleeps.wrappingAdd(1, ordering: .relaxed)
    worker.returnSpareStack()
    return park(worker)
  }

  /// Why a parked worker goes on.
  private enum ParkOutcome {
    /// A waker has chosen it.
    case unparked
    case timedOut
    /// Events have woken coroutines: the worker is busy, and they may be ready on it.
    case delivered
  }

  /// Parks a worker, for a tick at most if one is given: in the poller, if there is one and no other worker is in there.
  private func park(_ worker: PoolWorker, for tick: Duration? = nil) -> ParkOutcome {
    guard let poller = EventPoller.installed, poller._withUnsafeGuaranteedRef({ $0.tryTake() }) else {
      guard let tick else {
        worker.parker.park()
        return .unparked
      }
      return worker.parker.park(for: tick) ? .unparked : .timedOut
    }
    return poller._withUnsafeGuaranteedRef { poller in
      defer { poller.giveBack() }
      while true {
        var wokeByItself: Bool?
        let isUnparked = worker.parker.park(in: poller, for: tick) { wokeByItself = wakeByItself(worker) }
        if let wokeByItself {
          if !wokeByItself {
            // A waker had chosen it before: then it searches, and the wake is on its way, if it has not come.
            if !isUnparked { worker.parker.park() }
            endSearch(moreIsLeft: false)
          }
          return .delivered
        }
        if isUnparked { return .unparked }
        if tick != nil { return .timedOut }
      }
    }
  }

  /// A parked worker has got events. False if a waker has chosen it meanwhile.
  private func wakeByItself(_ worker: PoolWorker) -> Bool {
    changing { machine.wakeByItself(worker.index) }
  }

  /// Wakes a worker that monitors the others, if they have none. For the poller's thread.
  func appointMonitor() {
    unpark(changing { machine.lacksMonitor ? machine.workArrived(isOwn: false) : nil })
  }

  /// Takes note of what the calling worker has taken over from another.
  private func countSteal(_ element: WorkRing.Element) {
    Self.steals.wrappingAdd(1, ordering: .relaxed)
    if coroutine_events_are_observed() { element._withUnsafeGuaranteedRef { $0.notifyStolen() } }
  }

  /// Of all pools, for `CoroutineCounters`. This is not a hot path.
  static let steals = Atomic<Int>(0)
  static let sleeps = Atomic<Int>(0)

  private static var searchRounds: Int { 32 }
}

// MARK: - For the detector of blocked pools, and for debuggers

extension PoolCore {
  static let all = WeakList<PoolCore>()

  /// The first of the global list, at this moment.
  var firstInGlobal: WorkRing.Element? { lock.withLock { global.first } }

  /// Whether the monitor looks rarely at the moment. For tests.
  var monitorsRarely: Bool { lock.withLock { machine.monitorsRarely } }

  /// What its workers have done by now; `nil` if one of them is parked.
  func lookAtWorkers() -> PoolStandstill.Look? {  // litmus: pool-watch
    lock.lock()
    let areAllAwake = machine.awake == count
    let isSomethingLeft = isSomethingListed
    lock.unlock()
    guard areAllAwake else { return nil }
    return PoolStandstill.Look(
      picks: workers.map(\.pickMark), processorTime: workers.map(\.processorTime),
      isSomethingWaiting: isSomethingLeft || workers.contains { $0.holdsReady })
  }
}
