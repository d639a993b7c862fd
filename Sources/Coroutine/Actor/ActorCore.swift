// SPDX-License-Identifier: Apache-2.0

import Context
public import Synchronization

/// The coroutine of an actor. Its class lets an asker be recognised as an actor.
@usableFromInline
// Unchecked: as its superclass; its own field says what guards it.
final class ActorCoroutine: CoroutineCore, @unchecked Sendable {
  // Sendable: written once, before it is scheduled. The actor is alive while its coroutine runs, and nothing reads the
  // field otherwise.
  @exclusivity(unchecked) @usableFromInline fileprivate(set) unowned(unsafe) var actor: ActorCore?

  fileprivate init(_ name: String, on scheduler: SchedulerReference, stackSize: Int?, body: @escaping Body) {
    super.init(on: scheduler, name: name, stackSize: stackSize, body: body)
    keepAlive()
    notesWaits = true
  }

  override var cancelDelegate: (any CancelDelegate)? { actor }
}

extension ActorCore: CancelDelegate {
  final func cancelCoroutine() { request(.stop) }

  final var isCancelled: Bool { lock.withLock { life.isStopped } }
}

extension CoroutineCore {
  /// The actor whose coroutine it is.
  @usableFromInline
  final var asker: ActorCore? { notesWaits ? unsafeDowncast(self, to: ActorCoroutine.self).actor : nil }
}

/// An actor, whatever its messages: its life, from one run of its body to the next, its children, its watchers.
///
/// One coroutine runs the body all its life long, so that a waiter for the actor's end waits for that of the coroutine.
/// It is never cancelled: each run of the body has a region of its own that is, and the code after it may wait as it
/// needs.
@usableFromInline
// Unchecked: each field says what guards it.
class ActorCore: Waitable, @unchecked Sendable {
  @usableFromInline final let name: String
  final let parent: SupervisorNode?
  private final let policy: Supervision
  @usableFromInline final let coroutine: ActorCoroutine
  /// The same, without a reference to count.
  @usableFromInline final let core: Unmanaged<CoroutineCore>

  // Guarded by the lock, all of them.
  @exclusivity(unchecked) private(set) final var life = ActorStateMachine()
  @exclusivity(unchecked) private final var region: CancellationRegion?
  @exclusivity(unchecked) final var watchers = Watchers()
  /// The actors that its body watches, by the numbers of its watches.
  @exclusivity(unchecked) final var watched: [UInt64: ActorCore] = [:]

  // The actor's own, on its coroutine.
  @exclusivity(unchecked) private final var children: SupervisorNode?
  /// What has been decided about the failure that ends the body.
  @exclusivity(unchecked) private final var verdict: Supervision.Directive?
  /// Whether the body has taken no message since it was started, or since the supervisor has decided about a failure in it.
  @exclusivity(unchecked) @usableFromInline final var isFresh = true
  /// Whether the failure reached an asker, the handler of dead letters, or the supervisor to which it was escalated.
  @exclusivity(unchecked) private final var isFailureKnown = false

  /// Whether an asker has handed its thread off to it, and it has taken no further message since. Written by the waker
  /// that has claimed its wait for a message, and by itself while it runs.
  @exclusivity(unchecked) @usableFromInline final var runsOnHandOff = false
  /// The actor that it asks, if it does. Guarded by the lock of `AskGraph`.
  @exclusivity(unchecked) final var asks = AskGraph.Asks()
  /// Its slot among its supervisor's actors, if it has one. Guarded by the lock of `parent`.
  @exclusivity(unchecked) final var slotInSupervisor: Int?

  /// How many handles there are from which messages can come; a supervisor has one too, as long as it
  /// is held.
  @usableFromInline final let handles: Atomic<Int>

  init(
    name: String, on scheduler: SchedulerReference, stackSize: Int?, parent: SupervisorNode?, policy: Supervision
  ) {
    self.name = name
    self.parent = parent
    self.policy = policy
    handles = Atomic(parent == nil ? 0 : 1)
    let birth = Birth()
    coroutine = ActorCoroutine(name, on: scheduler, stackSize: stackSize) { _ in birth.actor.take()?.liveAndLeave() }
    core = .passUnretained(coroutine)
    super.init()
    coroutine.actor = self
    birth.actor = self
  }

  /// The whole of its coroutine. The actor may go when this returns, and what goes with it is released on the coroutine: which is
  /// no actor's any more by then.
  private final func liveAndLeave() {
    live()
    coroutine.actor = nil
    coroutine.notesWaits = false
  }

  /// Makes it known and lets it begin.
  final func start() {
    parent?.adopt(self)
    coroutine.schedule()
  }

  // MARK: What depends on the type of the messages

  /// Runs the body once.
  func runBody() throws { fatalError("an actor without a body") }
  /// The message that was handled ended with this: answers, and reports an error. Returns whether it was reported for a
  /// message.
  func endMessage(_ failure: (any Error)?) -> Bool { false }
  /// Takes no more messages. The caller holds `lock`. Returns the senders whose wait for room is over.
  func closeMailbox() -> ClaimedWaiters { ClaimedWaiters() }
  /// Answers the messages left in the mailbox, and releases the body.
  func clear() {}

  override package final func describe(_ operation: WaitReason.Operation) -> String {
    WaitText.message(forActor: name, operation)
  }

  override package final func wakers(_ operation: WaitReason.Operation) -> Wakers {
    operation == .send ? Wakers(holder: coroutine.id) : .unknown
  }

  /// The closure that the coroutine begins with. Released unused only where there was no stack to run on: then the
  /// actor ends without a run, by that failure.
  private final class Birth {
    var actor: ActorCore?

    deinit {
      guard let actor else { return }
      actor.refuseMessages()
      // The actor reports it: the coroutine's own report would be a second one.
      actor.coroutine.resultIsTaken()
      actor.end(actor.coroutine.failure.map { .failed($0) } ?? .cancelled)
    }
  }
}

// MARK: - Life

extension ActorCore {
  /// The whole life, on the coroutine.
  private final func live() {
    while true {
      let failure = runOnce()
      let outcome = lock.withLock { life.bodyEnded(failure) }
      endWatches()
      let isAnswered = endMessage(messageFailure(failure, outcome))
      endTaken()
      let end = end(after: outcome, failure, isAnswered: isAnswered)
      // One of the children may wait, shielded, for an answer that it would not get.
      if end != nil { refuseMessages() }
      children?.close()
      children?.stopAll()
      children = nil
      if let end { return self.end(end) }
      // A new state: those of the coroutine, too.
      coroutine.endLocals()
      endTaken()
    }
  }

  /// How it ends after a run of the body; `nil`: the body is run again.
  ///
  /// - Parameter isAnswered: whether a message was answered by, or reported with, `messageFailure`.
  private final func end(
    after outcome: ActorStateMachine.Outcome, _ failure: (any Error)?, isAnswered: Bool
  ) -> ActorEnd? {
    // What was decided about this failure decides about no later one.
    let verdict = self.verdict.take()
    switch outcome {
    case .restart:
      isFailureKnown = isAnswered || isFailureKnown
      if verdict == nil, !isAnswered { reportUnheard(failure) }
      // Another actor's failure restarts it, unless its own was to end it.
      return decidedEnd(failure, verdict)
    case .end(let end):
      isFailureKnown = isAnswered || isFailureKnown
      if verdict == nil, !isAnswered { reportUnheard(failure) }
      // A stop ends it as stopped, unless its own failure was to end it: a supervisor that escalates the failure stops all of
      // its actors. If the body has swallowed the failure and run on until the stop, it counts as stopped.
      return failure is CancellationError ? end : decidedEnd(failure, verdict) ?? end
    case .judge(let error, let isEscalated, let mayRestart):
      if isEscalated, !(failure is CancellationError), let own = decidedEnd(failure, verdict) {
        // The child that has escalated it leaves it to this actor, which ends for another reason.
        if !own.isFailure(error) { CoroutineErrors.report(error, of: describeActor(name)) }
        return own
      }
      // A message that it has interrupted got that one.
      if isEscalated, verdict == nil, let failure, !isSame(failure, error) { reportUnheard(failure) }
      // What is known, or was decided, about a failure of its own is no word on another actor's.
      isFailureKnown = isAnswered || !isEscalated && isFailureKnown
      let decided = isEscalated ? nil : verdict
      return end(by: error, decided ?? judge(error, mayResume: false, mayRestart: mayRestart))
    }
  }

  /// The run ends for another reason than the body's own error, which decides about nothing: no supervisor learns of it.
  private final func reportUnheard(_ failure: (any Error)?) {
    guard let failure, !(failure is CancellationError) else { return }
    CoroutineErrors.report(failure, of: describeActor(name))
  }

  /// The end by the body's own failure, if the supervisor has decided that while the body ran.
  private final func decidedEnd(_ failure: (any Error)?, _ verdict: Supervision.Directive?) -> ActorEnd? {
    guard let failure, let verdict else { return nil }
    return end(by: failure, verdict)
  }

  /// What a decision about a failure means for a body that has ended; `nil`: it is run again.
  private final func end(by failure: any Error, _ verdict: Supervision.Directive) -> ActorEnd? {
    // It is its parent's failure now, or has been reported as the supervisor's.
    if verdict == .escalate { isFailureKnown = true }
    return verdict == .stop || verdict == .escalate ? .failed(failure) : nil
  }

  /// The failure of the message that was being handled, if the body has ended with it.
  private final func messageFailure(
    _ failure: (any Error)?, _ outcome: ActorStateMachine.Outcome
  ) -> (any Error)? {
    switch outcome {
    case .judge(let error, _, _): error
    case .restart where failure is CancellationError: ActorRestarted(actor: name)
    case .end(.cancelled) where failure is CancellationError: ActorStopped(actor: name)
    case .restart, .end: failure
    }
  }

  /// One run of the body. What it failed with.
  private final func runOnce() -> (any Error)? {
    let region = CancellationRegion(of: coroutine)
    defer { region.close() }
    // Also where it does not begin: it ends by another failure than the last run then.
    isFailureKnown = false
    lock.lock()
    let begins = life.begin()
    if begins { self.region = region }
    lock.unlock()
    guard begins else { return nil }
    isFresh = true
    defer { lock.withLock { self.region = nil } }
    do {
      try runBody()
      return nil
    } catch {
      return error
    }
  }

  /// What its supervisor says about a failure.
  private final func judge(_ error: any Error, mayResume: Bool, mayRestart: Bool) -> Supervision.Directive {
    parent?.judge(self, error, mayResume: mayResume, mayRestart: mayRestart) ?? .stop
  }

  /// A message has failed, in a body that could go on. Whether it is to.
  @usableFromInline
  final func decideToResume(after error: any Error) -> Bool {
    // What ends the body for another reason is no failure.
    guard lock.withLock({ life.request == nil }) else { return false }
    let isKnown = endMessage(error)
    endTaken()
    let verdict = judge(error, mayResume: true, mayRestart: true)
    if verdict == .resume { return true }
    isFailureKnown = isKnown
    self.verdict = verdict
    // Whether the body goes on all the same shows when it takes a message.
    isFresh = true
    return false
  }

  /// The body handles messages, perhaps again: it has swallowed the error that was to end it, so the decision about that error
  /// must not apply to a later one.
  @usableFromInline
  final func beginHandling() { (verdict, isFailureKnown) = (nil, false) }

  /// The body takes its first message since it was started, or since the supervisor has decided about a failure: it has done
  /// without that, too, as in `beginHandling`.
  @usableFromInline @inline(never)
  final func noteFirstMessage() {
    isFresh = false
    (verdict, isFailureKnown) = (nil, false)
    lock.withLock { life.noteMessage() }
    parent?.noteProgress()
  }

  /// A child has taken a message: starting this one, whose body may only supervise, was of use.
  final func noteChildProgress() {
    lock.withLock { life.noteProgress() }
    parent?.noteProgress()
  }

  /// What is in the mailbox is not handled any more, nor what would come.
  private final func refuseMessages() {
    lock.lock()
    let senders = closeMailbox()
    lock.unlock()
    senders.wakeAll()
    clear()
    endTaken()
  }

  /// Messages that code of the user's has taken meanwhile have been handled: in the `deinit` of one that has ended, or of what
  /// the body had captured, or in the handler of dead letters.
  private final func endTaken() { _ = endMessage(nil) }

  /// After it has refused messages.
  private final func end(_ end: ActorEnd) {
    lock.lock()
    let late = life.finish(end)
    let watchers = self.watchers
    self.watchers = Watchers()
    lock.unlock()
    if case .failed(let error) = end, !isFailureKnown, watchers.isEmpty {
      CoroutineErrors.report(error, of: describeActor(name))
    }
    // Not again where the body has ended with the same, which it got as the answer of that child.
    if let late, !end.isFailure(late) { CoroutineErrors.report(late, of: describeActor(name)) }
    for watcher in watchers.inOrder { watcher(end) }
    parent?.remove(self)
  }
}

extension ActorEnd {
  /// Whether it is a failure with this very error.
  fileprivate func isFailure(_ error: any Error) -> Bool {
    if case .failed(let own) = self { isSame(own, error) } else { false }
  }
}

// MARK: - What others want of it

extension ActorCore {
  /// Lets it stop, start again, or fail. Callable from any thread.
  final func request(_ request: ActorStateMachine.Request) {
    lock.lock()
    let (interrupts, outdone) = life.request(request)
    let region = interrupts ? self.region : nil
    lock.unlock()
    // Before the mailbox is closed: a sender that is refused may know that the actor takes no more of what is in it.
    region?.cancel(reason: CancellationError())
    let isStop = if case .stop = request { true } else { false }
    if isStop || interrupts {
      lock.lock()
      let senders = isStop ? closeMailbox() : ClaimedWaiters()
      // From here on no sender can hand it a message past the closed mailbox. One that waits in a shield goes on only by this.
      let wasIdle = (isStop || isToStartAgain) && claimIdle()
      lock.unlock()
      senders.wakeAll()
      if wasIdle { CoroutineCore.wake(core) }
    }
    // The child that has escalated it leaves it to this actor, which ends for another reason.
    if case .fail(let error) = outdone { CoroutineErrors.report(error, of: describeActor(name)) }
  }

  /// A handle has gone: it may have been the last one that could send.
  @usableFromInline
  final func handleDropped() {
    // litmus: actor-handles
    guard handles.wrappingSubtract(1, ordering: .acquiringAndReleasing).newValue == 0 else { return }
    // It looks at the count under the lock, before it waits. Meanwhile it may have made another handle of its mailbox.
    lock.lock()
    let isWaiting = handles.load(ordering: .acquiring) == 0 && claimIdle()
    lock.unlock()
    if isWaiting { CoroutineCore.wake(core) }
  }

  /// Ends the actor's wait for a message, if it waits for one. The caller has to wake it, and may hand it a message
  /// before. With the lock or without: one that waits has nothing in its mailbox, and goes on only by being claimed.
  @inlinable @inline(__always)
  final func claimIdle() -> Bool {
    core._withUnsafeGuaranteedRef { $0.parking.claimIdle() }
  }

  /// Whether it waits for a message. Under the lock, in which a wait begins, false lasts.
  @inlinable
  final var isIdle: Bool {
    @inline(__always) get { core._withUnsafeGuaranteedRef { $0.parking.isParkedIdle } }
  }

  /// Whether its body is to end while the mailbox stays open: what is in that is for the next run, or is not handled. One that is
  /// to stop waits until the mailbox is closed, and may handle what was accepted until then. The caller holds `lock`.
  @usableFromInline final var isToStartAgain: Bool {
    switch life.request {
    case .restart?, .fail?: true
    case .stop?, nil: false
    }
  }

  /// How it has ended, if it has.
  final var ending: ActorEnd? { lock.withLock { life.end } }

  /// On a coroutine: waits for the end, cancelled or not.
  final func waitForEndShielded() {
    _ = withCancellationShield { coroutine.waitForEnd() }
  }

  /// Its children's supervisor. On its coroutine.
  final func supervisor() -> SupervisorNode {
    // Behind the end of the body, as in a watcher, nothing waits for children any more: one that is launched there ends before it
    // begins, and must not look for this actor, which may go before it does.
    guard lock.withLock({ life.isRunning }) else {
      let node = SupervisorNode(name: name, policy: policy, owner: nil)
      node.close()
      return node
    }
    if let children { return children }
    let node = SupervisorNode(name: name, policy: policy, owner: self)
    children = node
    return node
  }
}

// MARK: - Handing over

extension ActorCore {
  /// Lets the actor, whose wait for a message the caller has claimed, go on.
  ///
  /// Called by a coroutine that is going to wait for the actor anyway, on the same pool. It hands its thread off to the
  /// actor, and goes on when the actor suspends: two switches, where going by the queue takes four, and a look at each.
  /// For both sides it is as if the actor had been run next and the caller right after it. The actor gives the thread
  /// back before its next message. A hand-off does not let others run: after some in a row the asker does.
  ///
  /// In a serial pool only where no coroutine is ready that would have to run first. Not by a caller that must not
  /// leave its thread, or must not wait: it would depend on luck whether it does. Nor by one with a deadline: it has to
  /// go on in time, even if the actor blocks the thread.
  @usableFromInline
  final func handOff(by asker: Unmanaged<CoroutineCore>) {
    guard let pool = core._withUnsafeGuaranteedRef({ $0.restraint.pins == 0 ? $0.pool : nil }),
      let worker = PoolWorker.current(ofPoolAt: pool), !worker._withUnsafeGuaranteedRef({ $0.isSerialAndBusy }),
      asker._withUnsafeGuaranteedRef({ $0.isUnrestrained })
    else { return CoroutineCore.wake(core) }
    let isSerial = worker._withUnsafeGuaranteedRef { $0.isSerial }
    asker._withUnsafeGuaranteedRef { runHandedOff(by: $0, pool, isSerial: isSerial) }
  }

  /// The second half of `handOff`. A function of its own, since the first one needs no registers to be saved.
  @inline(never)
  private final func runHandedOff(by asker: CoroutineCore, _ pool: UnsafeRawPointer, isSerial: Bool) {
    guard !asker.hasAnyDeadline else { return CoroutineCore.wake(core) }
    runsOnHandOff = true
    let accesses = AttachedAccesses(ofPoolAt: pool)
    accesses?.attach()
    coroutine.wakeHere()
    if let accesses {
      accesses.end()
      asker.attachSharedAccesses()
    }
    asker.handOffs &+= 1
    // In a serial pool, coroutines that the actor has made ready would have run before the asker.
    if asker.handOffs == 0 || isSerial && PoolWorker.isSerialAndBusy(ofPoolAt: pool) { asker.yieldTurn() }
  }

  /// The actor has more to do than what it was handed the thread for.
  @usableFromInline @inline(never)
  final func returnThread() {
    runsOnHandOff = false
    coroutine.yieldTurn()
  }
}

extension ActorCore {
  @usableFromInline @inline(never)
  final func reportForeignUse(_ operation: StaticString) -> Never {
    guard CoroutineCore.currentUncounted != nil else { reportNoCoroutine(for: operation) }
    fatalError(
      "the mailbox of \(describeActor(name)) is used outside of the actor's own body: send the actor a message")
  }
}
