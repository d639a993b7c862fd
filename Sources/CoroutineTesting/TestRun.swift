// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import CCoroutineSystem
import Context
import Coroutine

/// One run of a body: the scheduler of its coroutines, which takes all decisions from a `ScheduleSource`, and their
/// time.
///
/// The thread that calls `run` runs them all, one at a time, and the tasks that they wait for. What comes from other
/// threads (callbacks, work that blocks, tasks) is put in line when the thread next looks; then the run can't be
/// repeated exactly.
// Unchecked: what is not guarded by the lock belongs to the thread of the run.
final class TestRun: ExploringScheduler, @unchecked Sendable {
  /// The run's time.
  let timers: TimerService

  let sharedAccesses = MainActorJobs.isOnMainActor ? SharedAccesses.ofMainActor : SharedAccesses()

  private let source: any ScheduleSource
  let options: ExplorationOptions
  /// How long at most it waits, in real time, for what is not a part of it.
  private let patience: Patience
  private let thread: coroutine_system_thread
  /// When the run must have ended, in real time.
  let end: UInt64?

  /// The coroutines and tasks that could go on, in the order in which they became ready.
  private var ready: [Runnable] = []
  /// The one that has the next turn, where that is decided already.
  private var next: Runnable?
  /// Those that have not ended, by their numbers in the process, and how many there have been.
  private(set) var members: [UInt64: Member] = [:]
  private var memberCount = 0
  /// Their numbers in the run, by those in the process, also of those that have ended: an error may be lost later.
  private var numbers: [UInt64: Int] = [:]
  /// Those that began at once, on top of another's turn, and may end there.
  var beginners: [UInt64] = []
  /// Those that run on another scheduler, by their numbers in the process.
  private var away: Set<UInt64> = []
  /// Those that were launched in the run on other schedulers. Guarded by the lock.
  private var outsiders = Outsiders()
  /// For which of them it waits at present, by their numbers in the process, and how long.
  private var awaited: [UInt64: Duration] = [:]
  /// Those that ran on for as long as it waited. It does not wait as long again, until it sees one suspended.
  private var busy: [UInt64: Duration] = [:]
  /// When it last saw that they waited for their turn, by the kernel's time. What they then do is waited for from there on.
  private var lastQueued: [UInt64: UInt64] = [:]
  /// When it last saw that some have ended.
  private var latestEnd: UInt64?
  /// The coroutine that has the turn.
  private var running: Member?

  private var decisions = 0
  /// Those that were not the first possibility.
  private var choices: [Int: Int] = [:]
  /// Which case a select looks at first, unless the schedule has it otherwise: by chance, as outside of runs, but the same in each
  /// run. If it were always the first one, that could keep the others from ever being chosen.
  private var usualCases = SplitMix(seed: 0)
  private var turns = 0
  private var problem: ScheduleProblem?
  /// The run is over, as far as it counts: what is left is cancelled.
  private(set) var isOver = false
  /// Whether a coroutine was woken from another thread.
  private var hadHelp = false
  /// That it waits at its end.
  private var hasSaidThatItWaits = false
  /// How long it has waited in real time to no avail, in nanoseconds.
  private var waitedInVain: UInt64 = 0

  private let lock = Lock()
  /// Guarded by the lock.
  private var inbox: [Incoming] = []
  /// No turns are given any more. Written under the lock, by the thread of the run.
  private var hasEnded = false
  /// The coroutines that have not ended by then, by their numbers in the process. Guarded by the lock.
  private var leftOver: Set<UInt64> = []
  let arrival = ThreadSemaphore()
  private let lateTurns = LateTurns()

  /// So long another thread may be late with what it has begun.
  static let moment = Duration.seconds(1)

  struct Patience {
    /// For callbacks that may come from anywhere.
    var awaitsCallbacks: Bool
    var limit: Duration
    /// How long at least, where there is no time to go on to: for other threads than those that run coroutines.
    var courtesy: Duration
    /// How long the run's time stands still for what may be over soon.
    var grace: Duration
    /// How long the run may take, in real time; `nil`: as long as its turns take.
    var runLimit: Duration?
  }

  /// What may happen in the run if nothing comes from outside.
  enum Outlook {
    /// The time goes on.
    case timers
    case nothing
    /// The body has ended, and the time with it.
    case end
  }

  /// A coroutine of the run.
  struct Member {
    let core: CoroutineCore
    /// Counted from 1 in the order in which they were launched: the same in each run by the same schedule.
    let number: Int
  }

  /// A coroutine or task that could go on.
  private enum Runnable {
    case coroutine(Member)
    case task(UnownedJob)

    /// Tasks have none of their own.
    var number: Int {
      switch self {
      case .coroutine(let member): member.number
      case .task: -2
      }
    }
  }

  private enum Incoming: Sendable {
    case coroutine(Unmanaged<CoroutineCore>)
    case task(UnownedJob)
    /// One that no caller has got, and where it comes from.
    case lostError(any Error, String)
    /// Of code of the run's that runs elsewhere.
    case failedExpectation(String)
  }

  struct Result {
    var problem: ScheduleProblem?
    var choices: [Int: Int]
    var decisions: Int
    var hadHelp: Bool
    var hasWaited: Bool
  }

  // Unchecked: called on the thread of the run only.
  private struct Body: @unchecked Sendable {
    let call: () throws -> Void
  }

  init(_ source: any ScheduleSource, _ options: ExplorationOptions, patience: Patience) {
    self.source = source
    self.options = options
    self.patience = patience
    end = patience.runLimit.map { TimerService.shared.kernelTime.addingSaturated($0.nanosecondsRoundedUp) }
    let thread = coroutine_system_own_thread()
    self.thread = thread
    // A task's timer: then the time has somewhere to go.
    // Kept: see `ExploringScheduler.withRun`.
    coroutine_sanitizer_begin_kept()
    timers = TimerService(startingAt: TestClock.beginning) { [arrival] in
      if coroutine_system_own_thread() != thread { arrival.signal() }
    }
    coroutine_sanitizer_end_kept()
  }

  // MARK: The run

  /// Runs the body in the first coroutine, and all that it launches, until all have ended or none can go on.
  func run(_ body: @escaping () throws -> Void) -> Result {
    let root = timers.withVirtualTime {
      CoroutineErrors.withTaker({ [weak self] in self?.take($0, $1) ?? false }) {
        Self.$current.withValue(self) { withRun { runToEnd(Body(call: body)) } }
      }
    }
    withExtendedLifetime(root) {}
    return Result(
      problem: problem, choices: choices, decisions: decisions, hadHelp: hadHelp, hasWaited: waitedInVain > 0)
  }

  private func runToEnd(_ body: Body) -> Coroutine<Void, any Error> {
    // Kept, with its scheduler: as above.
    coroutine_sanitizer_begin_kept()
    let root = Coroutine(on: self, name: "body") { try body.call() }
    coroutine_sanitizer_end_kept()
    while problem == nil, takeTurn(isBodyOver: root.isFinished) || forgetBeginners() {}
    if root.isFinished {
      // Its error is the run's alone.
      do { try root.getBlocking() } catch { fail(.thrown, error) }
    }
    if problem == nil, !members.isEmpty { fail(root.isFinished ? .leftOver : .deadlock) }
    endRemaining()
    if let body = members[root.id] { requireNoAccess(of: body.core) }
    return root
  }

  /// The run that the calling code is a part of.
  @TaskLocal static var current: TestRun?

  /// Other code has found out that the run has failed: a test's expectation. From any thread. Whether the run has not ended, so
  /// that it is the run's affair.
  func noteFailure(_ text: String) -> Bool {
    guard isCurrent else { return putInLine(.failedExpectation(text)) }
    if problem == nil, !isOver { problem = ScheduleProblem(kind: .expectation, text: text, waiting: []) }
    return true
  }

  /// Whether a coroutine or task had a turn, or time went on.
  private func takeTurn(isBodyOver: Bool) -> Bool {
    emptyInbox()
    guard problem == nil else { return false }
    // When the body has ended its time stands still: a coroutine that waits for it then was left over.
    let due = isBodyOver ? nil : timers.nextDeadline
    if let ready = chooseNext(due) {
      // Meanwhile it is one that could go on.
      next = ready
      let isCounted = countTurn()
      next = nil
      if isCounted {
        run(ready)
      } else {
        // Not lost: it goes on once it is cancelled.
        self.ready.insert(ready, at: 0)
      }
    } else if !ready.isEmpty || !waitOutside(isBodyOver ? .end : due == nil ? .nothing : .timers) {
      guard let due else { return false }
      if countTurn(isStepOfTime: true) { timers.advance(to: due) }
    }
    return true
  }

  /// Counts a turn, or a step of the time: a ticker goes on for ever beside those that wait for each other. Whether it may
  /// be.
  private func countTurn(isStepOfTime: Bool = false) -> Bool {
    turns += 1
    // Each step may have waited in real time before.
    let looks = isStepOfTime || turns.isMultiple(of: Self.turnsPerLook)
    let isLate = looks && end.map { TimerService.shared.kernelTime > $0 } == true
    if turns > options.turnLimit || isLate { fail(.endless) }
    return problem == nil
  }

  private func run(_ ready: Runnable) {
    switch ready {
    case .coroutine(let member):
      running = member
      let accesses = AttachedAccesses(sharedAccesses)
      accesses?.attach()
      CoroutineJob(.passUnretained(member.core)).run()
      accesses?.end()
      running = nil
      if member.core.isFinished { forget(member.core.id) }
    case .task(let job):
      job.runSynchronously(on: asUnownedTaskExecutor())
    }
    forgetBeginners()
  }

  /// Runs the task that has been ready for longest. False: none is.
  func runTask() -> Bool {
    guard let index = ready.firstIndex(where: { if case .task = $0 { true } else { false } }) else { return false }
    run(ready.remove(at: index))
    return true
  }

  /// It has ended. As it goes, an error of its that no caller has got is this run's, which looks at the members then: so they are
  /// not being changed at that moment.
  func forget(_ id: UInt64) {
    let member = members.removeValue(forKey: id)
    withExtendedLifetime(member) {}
  }

  /// Lets go of the coroutines that have not ended: each is cancelled, and goes on for a while as in an ordinary run.
  private func endRemaining() {
    // Their errors count, and what they have found.
    releaseEndedOutsiders()
    emptyInbox()
    isOver = true
    // The one that was to be next goes on, too.
    if let next = next.take() { ready.insert(next, at: 0) }
    for member in sortedMembers { AnyCoroutine(current: member.core).cancel() }
    let saysSoAt = endOfReturns
    var rest = Self.mostTurnsAtEnd
    while !(members.isEmpty && ready.isEmpty), rest > 0 {
      // Those that others have woken, by the cancel among them.
      emptyInbox()
      if !ready.isEmpty {
        rest -= 1
        run(ready.removeFirst())
      } else if !waitForReturns(sayingSoAt: saysSoAt) {
        // While one computes elsewhere its time stands still, as before.
        guard let due = timers.nextDeadline else { break }
        rest -= 1
        timers.advance(to: due)
      }
    }
    // Those come back that do when the steps are used up. They have no turn.
    while waitForReturns(sayingSoAt: saysSoAt) { emptyInbox() }
    let unbegun = takeUnbegun()
    let (late, dropped) = lock.withLock {
      hasEnded = true
      leftOver = Set(members.keys)
      defer { (inbox, outsiders) = ([], Outsiders()) }
      return (unbegun + inbox, outsiders)
    }
    // Without the lock: whatever goes with them may launch others.
    withExtendedLifetime(dropped) {}
    for incoming in late where !isLeftOver(incoming) { runElsewhere(incoming) }
    // Some ignore it, or wait shielded, for ever: they stay suspended, and what they refer to has to stay, too.
    if !members.isEmpty { Self.abandonedLock.withLock { Self.abandoned.append(self) } }
  }

  /// What is ready but no coroutine that has begun. It goes on without the run, as what comes later.
  private func takeUnbegun() -> [Incoming] {
    defer { ready = [] }
    return ready.compactMap { runnable -> Incoming? in
      switch runnable {
      case .task(let job): return .task(job)
      case .coroutine(let member) where !member.core.hasBegun:
        members[member.core.id] = nil
        return .coroutine(.passUnretained(member.core))
      case .coroutine: return nil
      }
    }
  }

  /// How long it waits at its end without a word: as long as the rest of its patience, or for a moment.
  private var endOfReturns: UInt64 {
    let now = TimerService.shared.kernelTime
    let moment = now.addingSaturated(min(patience.limit, Self.moment).nanosecondsRoundedUp)
    let limit = patience.limit.nanosecondsRoundedUp
    let rest = now.addingSaturated(limit - min(limit, waitedInVain))
    return max(moment, min(rest, self.end ?? .max))
  }

  /// Waits for members that run on other schedulers, however long: they use what the test's caller has given to them, who must
  /// not go on beside them. Whether something came from there.
  private func waitForReturns(sayingSoAt end: UInt64) -> Bool {
    while true {
      let now = TimerService.shared.kernelTime
      // One that is still suspended there ignores the cancel.
      // One that only waits for its turn there may do so for ever: for the thread of the run, or a loop that was shut down.
      let expected = away.compactMap { members[$0] }.first {
        !$0.core.isSuspended && !$0.core.isFinished && (now < end || !$0.core.isReady)
      }
      // It may have come between the two looks.
      if arrival.wait(until: expected == nil ? now : now.addingSaturated(Self.waitBetweenLooks)) { return true }
      guard let expected else { return false }
      if now >= end, !hasSaidThatItWaits {
        hasSaidThatItWaits = true
        CoroutineErrors.print("the test is over, and waits for this to return: \(describe(expected))")
      }
    }
  }

  private static let abandonedLock = Lock()
  // Guarded by the lock.
  nonisolated(unsafe) private static var abandoned: [TestRun] = []

  private var sortedMembers: [Member] { members.values.sorted { $0.number < $1.number } }

  // MARK: What went wrong

  private func fail(_ kind: ScheduleFailure.Kind, _ error: (any Error)? = nil, _ text: String = "") {
    guard problem == nil, !isOver else { return }
    var waiting = sortedMembers.map(describe)
    // Those that it waits for in vain may be elsewhere.
    if kind == .deadlock || kind == .leftOver || kind == .endless {
      waiting += lock.withLock { outsiders.cores }.sorted { $0.id < $1.id }.compactMap(describeOutsider)
    }
    problem = ScheduleProblem(kind: kind, error: error, text: text, waiting: waiting)
  }

  /// What one does that another scheduler runs; `nil` if it has ended.
  private func describeOutsider(_ core: CoroutineCore) -> String? {
    let text: String
    if let suspension = Inspection.suspension(of: core) {
      text = withNumbersOfRun(suspension.waitsFor)
    } else if core.isFinished {
      return nil
    } else {
      text = core.isReady ? "could go on" : "runs"
    }
    return "\(core.description) of the process, on another scheduler: \(text)"
  }

  private func describe(_ member: Member) -> String {
    let name = member.core.name
    let text: String =
      if running?.number == member.number {
        "runs"
      } else if next?.number == member.number || ready.contains(where: { $0.number == member.number }) {
        "could go on"
      } else if away.contains(member.core.id) {
        // Others run it: nothing of it can be looked at.
        "is on another scheduler"
      } else if let reason = member.core.waitReason {
        withNumbersOfRun(reason.description)
      } else {
        "not known"
      }
    return "coroutine \(member.number)\(name.isEmpty ? "" : " \"\(name)\""): \(text)"
  }

  /// The coroutines that a text names by their numbers in the process have those of the run instead.
  private func withNumbersOfRun(_ text: String) -> String {
    text.replacing(/coroutine (\d+)/) { match in
      guard let id = UInt64(match.1), let number = numbers[id] else { return String(match.0) }
      return "coroutine \(number)"
    }
  }

  /// An error that no caller has got. Whether it is the run's: not after its end. From any thread.
  private func take(_ error: any Error, _ origin: String) -> Bool {
    guard !options.isExpected(error) else { return true }
    guard isCurrent else { return putInLine(.lostError(error, origin)) }
    // Those that were cancelled at the end may end as they like.
    fail(.unhandledError, error, withNumbersOfRun(origin))
    return true
  }

  // MARK: Decisions

  /// Takes one out of those that are ready; `nil`: none is, or time goes on first.
  private func chooseNext(_ due: UInt64?) -> Runnable? {
    if let next {
      self.next = nil
      return next
    }
    guard !ready.isEmpty else { return nil }
    let timeIsOne = options.time == .anytime && due != nil
    let count = ready.count + (timeIsOne ? 1 : 0)
    let choice = choose(.turn, of: count) { ready.map(\.number) + (timeIsOne ? [-1] : []) }
    return choice < ready.count ? ready.remove(at: choice) : nil
  }

  private func choose(_ decision: Decision, of count: Int, _ numbers: () -> [Int]) -> Int {
    guard count > 1, !isOver, problem == nil else { return 0 }
    let choice = source.choose(decision, of: count, numbers)
    if choice > 0 { choices[decisions] = choice }
    decisions += 1
    return choice
  }

  /// `core`, which runs, could go on, but need not.
  private func decide(whether core: CoroutineCore) {
    guard options.preemption == .atOperations, !ready.isEmpty, next == nil, !isOver, problem == nil,
      let member = members[core.id], core.isInterruptible
    else { return }
    let choice = choose(.preemption, of: ready.count + 1) { [member.number] + ready.map(\.number) }
    guard choice > 0 else { return }
    next = ready.remove(at: choice - 1)
    CoroutineCore.yieldTurn(.passUnretained(core))
  }

  // MARK: As a scheduler

  var isCurrent: Bool { coroutine_system_own_thread() == thread && !hasEnded }

  var isSerial: Bool { true }

  func enqueue(_ job: consuming CoroutineJob) {
    let core = job.take()
    guard isCurrent else { return arrive(.coroutine(core)) }
    let member = member(core.takeUnretainedValue())
    ready.append(.coroutine(member))
    if let current = CoroutineCore.current {
      decide(whether: current)
    } else if next == nil, running?.number == member.number {
      source.didYield(member.number)
    }
  }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    if isCurrent { ready.append(.task(job)) } else { arrive(.task(job)) }
  }

  func reachOperation(_ core: CoroutineCore) { decide(whether: core) }

  func chooseCase(of count: Int) -> Int {
    // What runs elsewhere is no part of the schedule.
    guard isCurrent else { return Int.random(in: 0..<count) }
    return (usualCases.next(below: count) + choose(.selectCase, of: count) { [] }) % count
  }

  func willBegin(_ core: CoroutineCore) {
    guard isCurrent else { return }
    beginners.append(member(core).core.id)
  }

  func willMoveAway(_ core: CoroutineCore) {
    // One that begins elsewhere, in a task, is no member yet.
    if isCurrent { away.insert(core.id) }
  }

  func willRunElsewhere(_ core: CoroutineCore) {
    let ended = lock.withLock { hasEnded ? [] : outsiders.add(core) }
    withExtendedLifetime(ended) {}
  }

  private func member(_ core: CoroutineCore) -> Member {
    away.remove(core.id)
    if let known = members[core.id] { return known }
    memberCount += 1
    let member = Member(core: core, number: memberCount)
    members[core.id] = member
    numbers[core.id] = member.number
    core.markExplored()
    return member
  }

  // MARK: Other threads

  private func arrive(_ incoming: Incoming) {
    if !putInLine(incoming), !isLeftOver(incoming) { runElsewhere(incoming) }
  }

  /// Whether the run, which has not ended, will look at it.
  private func putInLine(_ incoming: Incoming) -> Bool {
    let isLate = lock.withLock {
      if !hasEnded { inbox.append(incoming) }
      return hasEnded
    }
    if !isLate { arrival.signal() }
    return !isLate
  }

  /// Whether it has ignored its cancel at the end of the run. It stays suspended: the test goes on with what it refers to.
  private func isLeftOver(_ late: Incoming) -> Bool {
    guard case .coroutine(let core) = late else { return false }
    let id = core._withUnsafeGuaranteedRef(\.id)
    return lock.withLock { leftOver.contains(id) }
  }

  /// A task may outlive the run that it was created in. What it launches then, and what that wakes, goes on without: others may
  /// wait for it. Its time stands still.
  private func runElsewhere(_ late: Incoming) {
    switch late {
    case .coroutine(let core): lateTurns.give(to: core, sharedAccesses)
    case .task(let job): lateTurns.give(to: job, of: self)
    case .lostError(let error, let origin): CoroutineErrors.unhandled(error, origin)
    case .failedExpectation: break
    }
  }

  func emptyInbox() {
    let arrived = lock.withLock {
      defer { inbox = [] }
      return inbox
    }
    for incoming in arrived {
      // What comes while it cancels what is left had no part in what it has found.
      if !isOver { hadHelp = true }
      switch incoming {
      case .coroutine(let core): ready.append(.coroutine(member(core.takeUnretainedValue())))
      case .task(let job): ready.append(.task(job))
      case .lostError(let error, let origin):
        // Late, of one that the run has not cancelled.
        if isOver {
          CoroutineErrors.unhandled(error, origin)
        } else {
          fail(.unhandledError, error, withNumbersOfRun(origin))
        }
      case .failedExpectation(let text): _ = noteFailure(text)
      }
    }
  }

  /// No coroutine in the run can go on. Whether there is something to look at: one was woken from outside, for which this
  /// waits if a coroutine waits for that.
  private func waitOutside(_ outlook: Outlook) -> Bool {
    let begin = TimerService.shared.kernelTime
    while true {
      let end = min(endOfPatience(since: begin, outlook), self.end ?? .max)
      // An event that was there has woken one, on this thread; or an outsider's error was lost.
      if !ready.isEmpty || problem != nil { return true }
      let now = TimerService.shared.kernelTime
      guard now < end else {
        // One that was looked at may have woken another just before that.
        if arrival.wait(until: begin) { return true }
        if begin < end { noteWaitInVain(since: begin, until: now) }
        return false
      }
      // What is waited for may change meanwhile.
      if arrival.wait(until: min(end, now + Self.waitBetweenLooks)) { return true }
    }
  }

  /// What it has waited for has not come.
  func noteWaitInVain(since begin: UInt64, until now: UInt64) {
    waitedInVain += now - begin
    busy.merge(awaited, uniquingKeysWith: max)
  }

  /// Until when to wait for what is no part of the run, if none could go on since `begin`.
  func endOfPatience(since begin: UInt64, _ outlook: Outlook) -> UInt64 {
    var limit = Duration.zero
    // What may be over soon, or wait for the run's time.
    let some =
      switch outlook {
      case .timers: patience.grace
      case .nothing: patience.limit
      case .end: min(patience.limit, Self.moment)
      }
    var onlyTimeIsAwaited = true
    // None is ready, but for those that wait for the thread, and for nothing else, while another one keeps it.
    let waitForThread = Set(ready.map(\.number))
    for member in members.values where !waitForThread.contains(member.number) {
      guard !away.contains(member.core.id) else {
        onlyTimeIsAwaited = false
        // While it computes no time passes.
        limit = max(limit, member.core.isSuspended ? some : patience.limit)
        continue
      }
      guard let reason = member.core.waitReason else { continue }
      if reason.operation != .sleep { onlyTimeIsAwaited = false }
      let awaitsCallback = patience.awaitsCallbacks && outlook == .nothing
      switch reason.operation {
      case .blocking: limit = patience.limit
      case .async: limit = max(limit, some)
      case .join:
        if isForStranger(reason) { limit = max(limit, some) }
      case .read, .write, .accept, .connect, .select:
        guard reason.isAnyDescriptorReady != nil else { break }
        _ = EventPoller.deliverEvents()
        // Another thread may have taken the event, and not delivered it yet.
        limit = max(limit, reason.isAnyDescriptorReady == true ? patience.limit : some)
      case .suspension where awaitsCallback, .promise where awaitsCallback: limit = patience.limit
      default: break
      }
      // A callback may send, release, signal.
      if outlook != .timers { limit = max(limit, patience.courtesy) }
    }
    guard !members.isEmpty else { return begin }
    let limitForOutsiders =
      switch outlook {
      case .timers: onlyTimeIsAwaited ? Outsiders.grace : max(Outsiders.grace, patience.courtesy)
      case .nothing, .end: some
      }
    lookAtOutsiders(since: begin, outlook) {
      outlook == .timers && isEndAwaited($0) ? patience.limit : limitForOutsiders
    }
    limit = max(limit, awaited.values.max() ?? .zero)
    let end = begin.addingSaturated(limit.nanosecondsRoundedUp)
    guard let latestEnd, !onlyTimeIsAwaited else { return end }
    // Its thread is about to wake those that wait for that, or has.
    return max(end, latestEnd + (outlook == .timers ? Outsiders.grace : Self.moment).nanosecondsRoundedUp)
  }

  /// Finds out which of the coroutines that were launched on other schedulers to wait for, and how long: whatever a member
  /// waits for, it may come from there.
  private func lookAtOutsiders(since begin: UInt64, _ outlook: Outlook, _ limit: (CoroutineCore) -> Duration) {
    releaseEndedOutsiders()
    let now = TimerService.shared.kernelTime
    awaited = [:]
    for core in lock.withLock({ outsiders.cores }) where !core.isFinished {
      var limit = limit(core)
      if !core.isSuspended {
        let longest = max(limit, min(patience.limit, Outsiders.queueing))
        if core.isReady {
          limit = longest
          lastQueued[core.id] = now
        } else if let queued = lastQueued[core.id], queued > begin {
          // It has had its turn since then only. One that gets a turn again and again, and never ends, is not waited for longer.
          limit = min(longest, limit + .nanoseconds(queued - begin))
        }
        if limit > busy[core.id] ?? .zero { awaited[core.id] = limit }
        continue
      }
      forgetOutsider(core.id)
      // What it waits for may need the run's time; or one in the run, and then both are held up.
      let timeEnds = outlook == .end && timers.nextDeadline != nil
      if outlook != .timers, Outsiders.waitsForOthers(core, orTime: !timeEnds) { awaited[core.id] = limit }
    }
  }

  private func releaseEndedOutsiders() {
    let (ended, someHaveEnded) = lock.withLock { (outsiders.removeEnded(), outsiders.haveSomeEnded()) }
    if someHaveEnded { latestEnd = TimerService.shared.kernelTime }
    for core in ended { forgetOutsider(core.id) }
  }

  private func forgetOutsider(_ outsider: UInt64) { (busy[outsider], lastQueued[outsider]) = (nil, nil) }

  /// Whether this wait is for the end of a coroutine that is no part of the run.
  private func isForStranger(_ reason: WaitReason) -> Bool {
    // Also where it has ended: then its thread is about to say so.
    guard let core = reason.object?.takeUnretainedValue() as? CoroutineCore else { return false }
    return members[core.id] == nil
  }

  /// Whether a member or a task waits for the outsider's end, by itself or with that of the other children of its scope.
  private func isEndAwaited(_ outsider: CoroutineCore) -> Bool {
    func isMember(_ id: UInt64) -> Bool { members[id] != nil }
    return outsider.isAwaited(by: isMember)
      || (outsider.familyOfLiving as? ScopeStorage)?.isAwaited(by: isMember) ?? false
  }
}
