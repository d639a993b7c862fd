// SPDX-License-Identifier: Apache-2.0

public import CCoroutine
import CCoroutineSystem
import Context
public import Synchronization

/// A scheduled coroutine, whatever its result: what the schedulers run and the primitives suspend.
///
/// It keeps itself alive from its creation to its end, so that queues hold it without counting. The thread that runs it
/// touches its fields; while it does not run, the one holder of its `CoroutineJob` token or its wait node does: never
/// two threads at once. Where another rule holds, the field says so.
///
/// The stack is allocated when it runs for the first time, and given back before any joiner learns that it has ended.
@usableFromInline
// Unchecked: each field says which thread may touch it.
package class CoroutineCore: Waitable, @unchecked Sendable {
  // The fields lie in the order in which they are declared. First come those that a begin, an end and a join need:
  // these happen on different threads, and each cache line that they need has to travel between them.

  /// 0 as long as an operation may simply be done; otherwise bits of `Interruption`. The other half of the word that
  /// begins with `lock`.
  @usableFromInline final let interruption = Atomic<UInt32>(0)
  /// Where it runs, unless it has hopped elsewhere. Fixed.
  let home: SchedulerReference
  /// On its stack; `nil` before the first run and after the end.
  @exclusivity(unchecked) @usableFromInline package final var block: UnsafeMutablePointer<ControlBlock>?
  /// The body, until it begins. It gets the coroutine, to store its value there. (`Optional<Body>`, not `Body?`: the latter is
  /// first set to `nil`, which the initialiser would then release.)
  @exclusivity(unchecked) private final var body: Optional<Body>
  /// What it is doing, for any reader. Written by itself, the thread that runs it, and its waker.
  final let state = Atomic<CoroutineState>(.ready)
  /// Whether its waits are noted, to find cycles of them. True for one subclass only. Constant after the initialiser.
  @exclusivity(unchecked) @usableFromInline final var notesWaits = false
  /// Whether any caller ever asked for the result.
  final let wasObserved = Atomic<Bool>(false)
  /// Whether it has waited for another one's end. Touched by the coroutine itself only.
  @exclusivity(unchecked) final var hasJoined = false
  /// How often it has handed its thread off. When it wraps to 0, the coroutine yields. Touched by the coroutine itself only.
  @exclusivity(unchecked) final var handOffs: UInt8 = 0
  /// How many operations with a system call it has made, modulo 256. Touched by the coroutine itself only.
  @exclusivity(unchecked) final var systemCalls: UInt8 = 0
  /// How many operations that may wait it may still make before it lets others run. Touched by the coroutine itself only.
  @exclusivity(unchecked) @usableFromInline final var operationsLeft = CoroutineCore.operationsPerTurn
  /// A `StartMode`: 0 for most. Written before it is known, and then by the claimer of its start.
  @usableFromInline final let startMode = Atomic<UInt8>(0)
  /// Its own priority, or that of the task or coroutine that created it; 0 for none. Constant from its launch on. Not a
  /// `TaskPriority`: only the Swift runtime knows the layout of that, so each access would be a call.
  @exclusivity(unchecked) private var rawPriority: UInt8
  /// The creator's task-local bindings, until the first run moves them into the block.
  @exclusivity(unchecked) private var inherited: UInt
  /// Guarded by the lock.
  @exclusivity(unchecked) @usableFromInline final var completion = CompletionStateMachine()
  /// Its kind of result, and the value if it is two plain words at most. Written before the end is published, constant
  /// after that.
  @exclusivity(unchecked) @usableFromInline final var outcome = Outcome.words
  @exclusivity(unchecked) @usableFromInline final var valueWords: (UInt, UInt) = (0, 0)
  /// The family that waits for its end, if any, until then; and its index among the children, guarded by the family's
  /// lock. Not counted: a family lives until its children have ended.
  @exclusivity(unchecked) private(set) final var family: Unmanaged<CoroutineFamily>?
  @exclusivity(unchecked) final var indexInFamily = 0
  /// What keeps it from leaving its thread. Changed by itself.
  @exclusivity(unchecked) @usableFromInline final var restraint = Restraint()
  /// Set once; retained.
  @usableFromInline final let extrasWord = Atomic<Unmanaged<CoroutineExtras>?>(nil)
  /// Where debuggers find it until it begins, if its scheduler can't be looked into; `nil` too if it began at once.
  @exclusivity(unchecked) final var unstartedSlot: UnstartedCoroutines.Slot?
  /// The usable bytes of its stack, or `defaultStackSize`.
  private let stackSize: Int
  private static var defaultStackSize: Int { .min }
  final var hasStackOfDefaultSize: Bool { stackSize == Self.defaultStackSize }

  /// The address of its scheduler's pool, if that is one, and is known; the scheduler keeps it alive. Written by the
  /// holder of the coroutine's `CoroutineJob` token, or by itself.
  @exclusivity(unchecked) final var pool: UnsafeRawPointer?

  // Then the fields for a wait, for a cancel, and for debuggers.

  /// The next one in the ready queue that holds it. Guarded by that queue.
  @exclusivity(unchecked) final var nextReady: Unmanaged<CoroutineCore>?
  /// What it waits for; written by itself before it suspends.
  @exclusivity(unchecked) @usableFromInline package final var waitReason: WaitReason?
  /// The word by which a waker claims its present wait.
  @usableFromInline final let parking = Parking()
  /// Guards `regions` and `cancellationReason`, and is held while `interruption` changes. Not `lock`: a cancel holds it
  /// until a coroutine that is about to wait has got the lock of what it waits for, which may be the `lock` of another.
  final let cancellationLock = Lock()
  /// Unique in the process, counted from 1.
  @usableFromInline package let id: UInt64
  /// The coroutine that created it, by number; 0 outside of any.
  package final let creatorID: UInt64
  /// For people; empty where none was given.
  @usableFromInline package let name: String
  /// For debuggers alone.
  @exclusivity(unchecked) final var record = InspectionRecord()
  /// What its joint waits draw their order from. Touched by the coroutine itself only.
  @exclusivity(unchecked) @usableFromInline final var random = RandomWord()

  @usableFromInline typealias Body = (CoroutineCore) throws -> Void

  @usableFromInline
  enum Outcome {
    /// A value in `valueWords`; before the end nothing.
    case words
    /// A value in a `ValueBox`.
    case box(AnyObject)
    /// What the body threw, or why it could not run.
    case failure(any Error)
  }

  /// What the body threw, or why it could not run.
  @usableFromInline
  final var failure: (any Error)? {
    if case .failure(let failure) = outcome { failure } else { nil }
  }

  /// A coroutine that is not scheduled yet. The caller calls `keepAlive` next.
  ///
  /// A closure and not a method to override: it was made where the result's type is known, and is specialised for it.
  @usableFromInline
  init(
    on scheduler: consuming SchedulerReference, name: consuming String, stackSize: Int?, body: consuming @escaping Body
  ) {
    self.home = consume scheduler
    self.name = consume name
    // The word for "the default" is no size: a caller that asks for it gets the next one, which is as impossible.
    self.stackSize = stackSize.map { max($0, Self.defaultStackSize + 1) } ?? Self.defaultStackSize
    self.inherited = coroutine_thread_state_capture()
    self.body = consume body
    let creator = CoroutineCore.currentUncounted?._withUnsafeGuaranteedRef { ($0.id, $0.rawPriority) }
    creatorID = creator?.0 ?? 0
    rawPriority = creator?.1 ?? 0
    // Last, for `newestID`.
    id = Self.identifiers.wrappingAdd(1, ordering: .releasing).newValue
    super.init()
  }

  /// It keeps itself alive from here on: it must be run to its end. Once, before any other code knows of it.
  ///
  /// Not part of the initialiser, in which the compiler counts a reference up and down around whatever uses `self`.
  @usableFromInline
  final func keepAlive() {
    noteOrigin()
    coroutine_retain_unshared(Unmanaged.passUnretained(self).toOpaque())
  }

  @inline(__always)
  final func noteOrigin() {
    if coroutine_is_inside_task() { rawPriority = Self.priorityOfTask }
    if coroutine_creation_is_noted() { noteCreation() }
  }

  // Not inlined: Swift looks up `Task`'s metadata at the head of the function that uses it, and each creation would pay for it.
  @inline(never)
  private static var priorityOfTask: UInt8 { Task.currentPriority.rawValue }

  /// What a cancel reaches in its place. On the coroutine itself: it is alive then.
  var cancelDelegate: (any CancelDelegate)? { nil }

  /// Called when it will never run; `outcome` says why. Releases the body. The end of something that it captured may be how
  /// others learn of this.
  @usableFromInline
  func dropBody() { body = nil }

  deinit {
    if startMode.load(ordering: .relaxed) & StartMode.held.rawValue != 0 { leaveUnstarted() }
    if case .failure(let failure) = outcome, !wasObserved.load(ordering: .relaxed) { report(failure) }
    extras?.release()
  }

  @inline(never)
  private final func report(_ failure: any Error) {
    // The cancel of a cancelled coroutine needs no report.
    guard cancellationReason == nil || !(failure is CancellationError) else { return }
    CoroutineErrors.report(failure, of: description)
  }

  /// For schedulers that ask, and for tasks that it waits for.
  final var priority: TaskPriority? { rawPriority == 0 ? nil : TaskPriority(rawValue: rawPriority) }

  /// It has a priority of its own. After `keepAlive`, or what stands for that, before another thread can know of it.
  final func prioritise(_ priority: TaskPriority) { rawPriority = priority.rawValue }

  private static let identifiers = Atomic<UInt64>(0)
  /// The endings elsewhere than on a pool's worker, which counts its own.
  private static let endings = Atomic<UInt64>(0)

  /// The highest number of a coroutine.
  static var newestID: UInt64 { identifiers.load(ordering: .acquiring) }

  /// How many were created and have not ended.
  static var liveCount: Int {
    // In this order: one that ends in between is counted as live, not as less than none. litmus: end-result
    let ended = PoolCore.all.all.reduce(endings.load(ordering: .acquiring)) { $0 &+ $1.endedCount }
    return Int(identifiers.load(ordering: .acquiring) &- ended)
  }

  /// Adds `count` endings: one, or those of a worker that does not count them any more. Returns the sum.
  static func addEndings(_ count: UInt64) -> UInt64 { endings.wrappingAdd(count, ordering: .releasing).newValue }

  /// Whether it has ended: then what it has left may be read.
  @usableFromInline @inline(__always)
  package final var isFinished: Bool { state.load(ordering: .acquiring) == .finished }  // litmus: end-result

  /// Whether it is suspended at this moment; in the next it may not be. From any thread.
  package final var isSuspended: Bool { state.load(ordering: .relaxed) == .suspended }

  /// Whether it waits for its turn at this moment. As above.
  package final var isReady: Bool { state.load(ordering: .relaxed) == .ready }

  /// A caller has asked for the result, or the result goes another way: a failure needs no report.
  @usableFromInline
  final func resultIsTaken() { wasObserved.store(true, ordering: .relaxed) }

  override package final func describe(_ operation: WaitReason.Operation) -> String {
    WaitText.end(ofCoroutine: id, name, operation)
  }

  override package final func wakers(_ operation: WaitReason.Operation) -> Wakers {
    operation == .join ? .coroutine(id) : .unknown
  }
}

extension CoroutineCore: ShownWaitable {
  package static var waitFields: [UInt64]? { fieldOffsets("name", "id") }
  package static func waitText(_ operation: WaitOperation, at object: some ForeignWaitable) throws -> String {
    try WaitText.end(ofCoroutine: UInt64(truncatingIfNeeded: object.int(1)), object.string(0), operation)
  }
}

// MARK: - Running

extension CoroutineCore {
  /// The coroutine that runs on this thread, or on behalf of which a nested stack does.
  @inlinable @inline(__always)
  package static var current: CoroutineCore? {
    guard let pointer = coroutine_current() else { return nil }
    return Unmanaged<CoroutineCore>.fromOpaque(pointer).takeUnretainedValue()
  }

  /// The same for `_withUnsafeGuaranteedRef`, without counting a reference: the running coroutine is alive.
  @inlinable @inline(__always)
  static var currentUncounted: Unmanaged<CoroutineCore>? {
    coroutine_current().map { .fromOpaque($0) }
  }

  /// Runs a ready coroutine on the calling thread until it suspends or ends. The scheduler's half of every switch.
  ///
  /// Inlined into the scheduler's loop, always: a function that returns after a switch costs one mispredicted return, and
  /// shifts the predictions of all returns after it, which mostly match otherwise. A round trip between two coroutines would
  /// take a third longer. Other comments say "a mispredicted return": docs/performance/mispredicted-returns.md.
  @inline(__always)
  static func run(_ job: consuming CoroutineJob, isInPool: Bool = false) {
    let core = job.take()
    core._withUnsafeGuaranteedRef { core in
      if core.restraint.pins == 0 { core.run(keepsWorker: false, isInPool: isInPool) } else { core.runPinned() }
    }
  }

  /// - Parameters:
  ///   - keepsWorker: the code below it goes on as the same worker. If the coroutine waits pinned to the thread, the pool does not
  ///     get another thread for that worker.
  ///   - isOnTop: when it suspends, the code below it on this thread goes on, and not the scheduler's loop.
  ///   - isInPool: by a thread of a pool's own: around it no C++ exception is being handled.
  @inline(__always)
  final func run(keepsWorker: Bool, isOnTop: Bool = false, isInPool: Bool = false) {
    guard var block = block ?? start() else { return }
    Self.requireReady(block)
    while let pinned = Self.runTurn(block, keepsWorker: keepsWorker, isOnTop: isOnTop, isInPool: isInPool) {
      Self.requireReady(pinned)
      block = pinned
    }
  }

  /// Runs the coroutine of that block until it suspends or ends, or until another one does, if turns were passed on in
  /// between (`yieldTurn`). Returns `nil` if that one is off this thread; its block if it is pinned to it, and ready
  /// again.
  @inline(__always)
  static func runTurn(
    _ first: UnsafeMutablePointer<ControlBlock>, keepsWorker: Bool, isOnTop: Bool, isInPool: Bool = false
  ) -> UnsafeMutablePointer<ControlBlock>? {
    let resumer = coroutine_current()
    core(of: first)._withUnsafeGuaranteedRef { $0.beginTurn(first) }
    if isOnTop { first.pointee.mode.insert(.onTop) }
    if isInPool {
      coroutine_thread_state_enter_from_loop(&first.pointee.threadState)
    } else {
      coroutine_thread_state_enter(&first.pointee.threadState)
    }
    let block = ControlBlock.resumeTurn(first)
    coroutine_thread_state_leave(&block.pointee.threadState)
    if isOnTop { block.pointee.mode.remove(.onTop) }
    coroutine_set_current(resumer)
    return core(of: block)._withUnsafeGuaranteedRef { $0.endTurn(block, keepsWorker: keepsWorker) }
  }

  @inline(__always)
  static func requireReady(_ block: UnsafeMutablePointer<ControlBlock>) {
    guard block.pointee.state.load(ordering: .relaxed) == .ready else {
      core(of: block)._withUnsafeGuaranteedRef { $0.reportSecondResume() }
    }
  }

  /// Unchecked: the caller has seen a state other than `none` and `nested`, or has made the block: the owner is a
  /// `CoroutineCore`.
  @inline(__always)
  static func core(of block: UnsafeMutablePointer<ControlBlock>) -> Unmanaged<CoroutineCore> {
    .fromOpaque(block.pointee.owner.toOpaque())
  }

  @inline(__always)
  private final func beginTurn(_ block: UnsafeMutablePointer<ControlBlock>) {
    // The order of these two is what a debugger's freeze relies on. litmus: freeze-none
    block.pointee.state.store(.running, ordering: .relaxed)
    if coroutine_turn_begin_is_observed() { beginObservedTurn(block) }

    state.store(.running, ordering: .relaxed)
    coroutine_set_current(Unmanaged.passUnretained(self).toOpaque())
  }

  /// Off its stack. Returns as `runTurn`.
  @inline(__always)
  private final func endTurn(
    _ block: UnsafeMutablePointer<ControlBlock>, keepsWorker: Bool
  ) -> UnsafeMutablePointer<ControlBlock>? {
    reportOpenAccess(block)
    requireNoThreadBoundCode(block)
    if coroutine_turn_is_observed_or_tracked() { endObservedTurn(block) }

    // The context is saved. As soon as the coroutine may be woken it runs elsewhere: this thread touches nothing of it
    // after that.
    let afterSwitch = block.pointee.afterSwitch
    block.pointee.afterSwitch = .none
    guard restraint.pins == 0 else {
      stay(block, afterSwitch, keepsWorker: keepsWorker)
      return block
    }
    switch afterSwitch {
    case .unlock, .unlockAll:
      publishWait(block, afterSwitch)
    case .enqueue:
      block.pointee.state.store(.ready, ordering: .releasing)
      state.store(.ready, ordering: .relaxed)
      CoroutineJob(.passUnretained(self)).enqueueAgain()
    case .finish:
      finish(block)
    case .none:
      fatalError("\(description) left its stack without saying why")
    }
    return nil
  }

  // A function of its own: the text's parts would be loaded before they are needed.
  @inline(never)
  private final func reportSecondResume() -> Never {
    fatalError("\(description) was resumed twice, or while it runs")
  }

  /// Lets others end the wait of a coroutine that has left its stack.
  @inline(__always)
  final func publishWait(_ block: UnsafeMutablePointer<ControlBlock>, _ afterSwitch: ControlBlock.AfterSwitch) {
    block.pointee.state.store(.suspended, ordering: .releasing)  // litmus: freeze-ready
    state.store(.suspended, ordering: .relaxed)
    switch afterSwitch {
    case .unlock(let waitable):
      // A waker that ends the wait now, or a waiter that goes on after it, has to get this lock before what was waited
      // for can go.
      parking.markParkedAsPrepared()
      waitable._withUnsafeGuaranteedRef { $0.lock.unlock() }
    case .unlockAll(let wait):
      // The other way round: once the wait is claimed the list may be gone. A waker that finds a node before waits for
      // this.
      wait.pointee.unlockAll()
      parking.markParked()
    case .enqueue, .finish, .none:
      fatalError("\(description) waits for nothing")
    }
  }

  /// Gets a stack. Without one, or cancelled already, the coroutine ends here, with the error as its result.
  @inline(never)
  private final func start() -> UnsafeMutablePointer<ControlBlock>? {
    // Out of its queue by now, and not yet on a stack: this is where a debugger finds it.
    if unstartedSlot == nil { PoolWorker.showStarting(self) }
    guard !isInterrupted || isStartedAtomically else { return endWithoutRunning(CancellationError()) }
    do throws(StackError) {
      let block = try ControlBlock.create(
        stackSize: hasStackOfDefaultSize ? nil : stackSize, owner: self
      ) { word in
        let block = ControlBlock.entered(word)
        // Its own reference keeps the coroutine alive: nothing to count, nothing to release after the last switch.
        CoroutineCore.core(of: block)._withUnsafeGuaranteedRef { core in
          // A debugger that came meanwhile may have looked at the stacks before this one was there. The turn that has
          // begun would have waited for it.
          core.hideStarting()
          core.runBody()
        }
        block.pointee.afterSwitch = .finish
        // From here on no debugger finds it. Once it is off its stack, `noteTurnEnd` asks whether one has.
        block.pointee.state.store(.none, ordering: .releasing)
        ControlBlock.leave(block)
      }
      block.pointee.threadState = coroutine_thread_state_with_locals(inherited)
      // In this order: a debugger that finds it on its stack does not take it for one that has not begun, too.
      // litmus: end-result
      self.block = block
      block.pointee.state.store(.ready, ordering: .releasing)
      return block
    } catch {
      return endWithoutRunning(error)
    }
  }

  /// On the thread that begins it, where it was shown.
  @inline(__always)
  private final func hideStarting() {
    if let unstartedSlot { UnstartedCoroutines.empty(unstartedSlot) } else { PoolWorker.hideStarting() }
  }

  private final func endWithoutRunning(_ error: any Error) -> UnsafeMutablePointer<ControlBlock>? {
    // During a freeze it is to be found where it is shown, since it is nowhere else. litmus: freeze-none
    if coroutine_inspection_requested() { Freeze.waitForEnd() }
    hideStarting()
    // A debugger that came between may have found it, and it shall not end meanwhile. litmus: freeze-none
    if coroutine_inspection_requested() { Freeze.waitForEnd() }
    dropInheritedBindings()
    // Before the body goes: what goes with it may show others why.
    outcome = .failure(error)
    dropBody()
    if coroutine_notes_are_taken() { noteTurnEnd(.finish) }
    end()
    return nil
  }

  /// What the body captured is released here: on the stack, while the coroutine still counts as running.
  private final func runBody() {
    // Taken, not copied: a copy would have to be counted.
    guard let body = body.take() else { fatalError("\(description) runs twice") }
    do {
      try body(self)
    } catch {
      outcome = .failure(error)
    }
    endLocals()
  }

  /// Releases the values of its coroutine-local variables. On the coroutine.
  final func endLocals() {
    // Again if the end of one has set another.
    while extras?._withUnsafeGuaranteedRef({ $0.locals != nil }) ?? false { locals = nil }
  }

  #if DEBUG
    /// Says once that a coroutine suspends in the middle of an access: another's overlap with it may go unseen.
    private final func reportOpenAccess(_ block: UnsafeMutablePointer<ControlBlock>) {
      guard coroutine_thread_state_has_access(&block.pointee.threadState),
        !Self.hasReportedOpenAccess.exchange(true, ordering: .relaxed)
      else { return }
      CoroutineErrors.print(
        "\(description) suspends while it has an access to a variable open (inside a mutating call, or an inout "
          + "argument): if another coroutine uses the variable meanwhile, that is detected where coroutines share one "
          + "isolation (see Isolation in the documentation), and nowhere else. Said once.")
    }

    private static let hasReportedOpenAccess = Atomic<Bool>(false)

    /// A thread that is pinned stays, with all that belongs to it.
    private final func requireNoThreadBoundCode(_ block: UnsafeMutablePointer<ControlBlock>) {
      if case .finish = block.pointee.afterSwitch { return }
      guard let code = ThreadBoundCode.around(block), restraint.pins == 0 || code == .initialiser else { return }
      let advice =
        code == .initialiser ? "Wait before its first use." : "Wait outside of it, or inside withThreadPinned."
      fatalError("\(description) suspends inside \(code.text). \(code.consequence) \(advice) (Debug builds check.)")
    }
  #else
    @inline(__always)
    private final func reportOpenAccess(_ block: UnsafeMutablePointer<ControlBlock>) {}
    @inline(__always)
    private final func requireNoThreadBoundCode(_ block: UnsafeMutablePointer<ControlBlock>) {}
  #endif

  @inline(__always)
  private final func finish(_ block: UnsafeMutablePointer<ControlBlock>) {
    coroutine_thread_state_release(&block.pointee.threadState)
    self.block = nil
    ControlBlock.destroy(block)
    end()
  }

  /// Publishes the end, off the coroutine's stack, which is back in its pool.
  ///
  /// Not inlined: `run` has to be, which the optimiser does as long as it is small.
  @inline(never)
  private final func end() {
    // Before any joiner learns of it.
    PoolWorker.countEnding()
    lock.lock()
    let waiters = completion.complete()
    // A joiner that sees this takes the result without the lock. This coroutine's own reference lasts until the end of
    // this function. litmus: end-result
    state.store(.finished, ordering: .releasing)
    lock.unlock()
    waiters.wakeAll { $0.wakeJoiner() }
    if let family {
      self.family = nil
      family._withUnsafeGuaranteedRef { $0.childEnded(self) }
    }
    Unmanaged.passUnretained(self).release()
  }

  /// A debugger reads the suspended coroutines: this one stays one of them until it has finished. Observers learn of it
  /// after that.
  @inline(never)
  private final func beginObservedTurn(_ block: UnsafeMutablePointer<ControlBlock>) {
    while coroutine_inspection_requested() {
      block.pointee.state.store(.ready, ordering: .releasing)
      Freeze.waitForEnd()
      block.pointee.state.store(.running, ordering: .relaxed)
    }
    if coroutine_events_are_observed() { notifyResumed() }
  }
}

// MARK: - Starting

extension CoroutineCore {
  /// Puts a new coroutine behind those that are ready on its scheduler.
  @usableFromInline
  final func schedule() {
    if coroutine_launch_is_noted() { noteLaunch() }
    if let pool = home.poolAddress {
      self.pool = pool
    } else if unstartedSlot == nil {
      unstartedSlot = UnstartedCoroutines.add(self)
    }
    CoroutineJob(.passUnretained(self)).enqueue(.launched)
  }

  /// It takes over nothing of its creator. Before it is scheduled.
  @usableFromInline
  final func detach() {
    dropInheritedBindings()
    rawPriority = 0
  }

  /// Drops the task-local bindings that it has inherited. Before it is scheduled.
  final func dropInheritedBindings() {
    var words = coroutine_thread_state_with_locals(inherited)
    coroutine_thread_state_release(&words)
    inherited = 0
  }

  /// A family waits for its end. Before it is scheduled.
  final func willEnd(in family: CoroutineFamily) { self.family = .passUnretained(family) }

  /// Runs a new coroutine on the calling thread until it suspends for the first time.
  @usableFromInline
  final func runImmediately() {
    prepareThread()
    // Where the running task can't be hidden from it, a coroutine must not begin inside one: it would take the task
    // with it.
    let hidesTask = coroutine_thread_state_found() & UInt32(COROUTINE_THREAD_STATE_TASK.rawValue) != 0
    guard hidesTask || withUnsafeCurrentTask(body: { $0 == nil }) else { return schedule() }
    if case .other(let other) = home { other.explorer?.willBegin(self) }
    let accesses = AttachedAccesses(home.sharedAccesses)
    accesses?.attach()
    // One call: with two of them the compiler inlines `run` nowhere, and a joiner that runs what it joins takes a fifth longer.
    run(keepsWorker: true, isOnTop: true)
    accesses?.end()
    Self.current?.attachSharedAccesses()
  }
}
