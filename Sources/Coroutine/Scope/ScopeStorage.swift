// SPDX-License-Identifier: Apache-2.0

import Context

/// A scope's lock, its children, and what its state machine decides.
@usableFromInline
// Unchecked: the lock guards what changes.
package final class ScopeStorage: CoroutineFamily, @unchecked Sendable {
  // Guarded by the lock, all of them.
  @exclusivity(unchecked) private var machine: ScopeStateMachine
  @exclusivity(unchecked) private var children = ScopeChildren()
  /// Those of them that are held until they are started, by number. Kept alive: the program may have dropped its handles.
  @exclusivity(unchecked) private var held: [UInt64: CoroutineCore] = [:]
  /// Children that have failed, if it outlives its owner, until a joiner gets it: the failure of any other one is reported with its
  /// last reference.
  @exclusivity(unchecked) private var unreported: [CoroutineCore] = []
  /// Why the children are cancelled, if they are: later children are cancelled from the start.
  @exclusivity(unchecked) private var reason: (any Error)?
  /// Whether the children that there were have been taken, to be cancelled.
  @exclusivity(unchecked) private var childrenAreTaken = false
  /// Whether a child was cancelled before it had ended.
  @exclusivity(unchecked) private var isCutShort = false
  /// The part of the owner's run that a failure ends; none in `async` code.
  @exclusivity(unchecked) private var region: CancellationRegion?

  /// Whether its children are cancelled, and those to come.
  var isCancelled: Bool { lock.withLock { reason != nil } }

  let name: String
  /// The coroutine that it belongs to, by number; 0 in `async` code.
  let ownerID: UInt64

  /// Whether it lives as long as it has children, rather than as long as a function that waits for them.
  private let outlivesOwner: Bool
  /// Gets the failures of children, which are no failures of the scope then.
  private let onChildFailure: FailureHandler?

  package typealias FailureHandler = @Sendable (any Error) -> Void

  init(name: String, limit: Int?, outlivesOwner: Bool = false, onChildFailure: FailureHandler?) {
    require(limit ?? 1 > 0, "at least 1 child of \(WaitText.scope(name)) has to run, not \(limit ?? 0)")
    self.name = name
    ownerID = outlivesOwner ? 0 : CoroutineCore.current?.id ?? 0
    self.outlivesOwner = outlivesOwner
    self.onChildFailure = onChildFailure
    machine = ScopeStateMachine(limit: limit ?? .max)
  }

  /// The scope's body runs in `region` from here on.
  func open(_ region: CancellationRegion?) {
    lock.withLock { self.region = region }
  }

  override package var deadlines: (known: [DeadlineTimer], outer: CoroutineFamily?) {
    lock.withLock { region }?.deadlines ?? ([], nil)
  }

  /// Takes in a coroutine that is not scheduled yet. Whether the caller is to schedule it; if not, the scope will.
  @usableFromInline
  func adopt(_ child: CoroutineCore) -> Bool {
    own(child)
    lock.lock()
    let action = machine.launch()
    requireOpen(action != .refuse, for: child)
    if action == .queue {
      child.holdInQueue()
      children.enqueue(child)
    } else {
      children.append(child)
    }
    let reason = self.reason
    if reason != nil { isCutShort = true }
    retainForChild()
    lock.unlock()
    if let reason { child.cancel(reason: reason) }
    return action == .start
  }

  /// The scope takes its failure, if there is one; a scope that outlives its owner only where that joins it. Before another thread
  /// could start the child.
  private func own(_ child: CoroutineCore) {
    child.willEnd(in: self)
    if !outlivesOwner { child.resultIsTaken() }
  }

  private func requireOpen(_ isOpen: Bool, for child: CoroutineCore) {
    require(isOpen, "\(child.description) was launched in \(description), which has ended. Launch before it ends.")
  }

  /// Takes in a coroutine that is held on demand: the caller does not schedule it.
  func adoptHeld(_ child: CoroutineCore) {
    own(child)
    lock.lock()
    requireOpen(machine.launchHeld(), for: child)
    children.append(child)
    held[child.id] = child
    let reason = self.reason
    if reason != nil { isCutShort = true }
    retainForChild()
    lock.unlock()
    if let reason { child.cancel(reason: reason) }
  }

  /// The child's reference to a scope that outlives its owner, given back when the child ends. The caller holds `lock`: after
  /// its unlock another thread may let the child run and end.
  private func retainForChild() {
    if outlivesOwner { _ = Unmanaged.passRetained(self) }
  }

  /// It is started by its handle, a waiter or a canceller: now it needs a slot, unless it is only to end.
  override func childStarts(_ child: CoroutineCore) -> Bool {
    lock.lock()
    // Without it, the scope's end has counted it already.
    let kept = held.removeValue(forKey: child.id)
    if kept != nil { machine.heldStarts() }
    guard machine.limit != .max, !child.wasStartedByCanceller, !machine.takeSlot() else {
      lock.unlock()
      return true
    }
    children.remove(child)
    child.holdInQueueOnceMore()
    children.enqueue(child)
    lock.unlock()
    // Its canceller has found it neither held nor begun.
    if child.isCancelled { child.startHeld(.byCanceller) }  // litmus: look-locked
    return false
  }

  /// A child has ended, and has left its stack. With the last of them the scope may go.
  override func childEnded(_ child: CoroutineCore) {
    if let failure = child.failure { return childFailed(child, failure) }
    let outlivesOwner = self.outlivesOwner
    lock.lock()
    children.remove(child)
    let (_, woken) = machine.childEnded(nil)
    let next = machine.limit == .max ? nil : startNext(after: child)
    // After the last child the owner may release the scope at once: none of it is touched after this.
    lock.unlock()
    woken.wakeAll()
    next?.schedule()
    if outlivesOwner { Unmanaged.passUnretained(self).release() }
  }

  @inline(never)
  private func childFailed(_ child: CoroutineCore, _ error: any Error) {
    // That a child which was cancelled says so is no failure.
    var failure = error is CancellationError && child.isCancelled ? nil : error
    // It is used after the unlock.
    let kept = Unmanaged.passRetained(self)
    let outlivesOwner = self.outlivesOwner
    defer {
      // Nothing of it is touched behind its last reference.
      if outlivesOwner { kept.release() }
      kept.release()
    }
    // While the child still counts as alive: so the scope ends after this.
    if let error = failure, let onChildFailure {
      child.resultIsTaken()
      onChildFailure(error)
      failure = nil
    }
    lock.lock()
    children.remove(child)
    if outlivesOwner, failure != nil { unreported.append(child) }
    let (isFirstFailure, woken) = machine.childEnded(failure)
    let next = machine.limit == .max ? nil : startNext(after: child)
    let region = region
    lock.unlock()
    if isFirstFailure, let failure { cancel(region, reason: failure) }
    woken.wakeAll()
    next?.schedule()
  }

  /// Gives the slot of a child that has ended to the next one in the queue, which the caller schedules after the unlock.
  private func startNext(after child: CoroutineCore) -> CoroutineCore? {
    guard !child.wasStartedByCanceller else { return nil }
    machine.giveSlotBack()
    while let next = children.popQueued() {
      // One that was cancelled in the queue has been started by that, and is about to end.
      guard next.claimStart() != nil else { continue }
      guard machine.takeSlot() else { fatalError("a slot was given back, and there is none") }
      return next
    }
    return nil
  }

  /// The body has ended with an error, perhaps that of a child that it waited for.
  func bodyFailed(_ error: any Error) {
    let isCancel = error is CancellationError && Coroutine.isCancelled
    lock.withLock { machine.bodyFailed(error, isCancel: isCancel) }
    // That a body ends because it was cancelled is no reason of its own.
    cancelChildren(reason: Coroutine.cancellationReason ?? error)
  }

  /// Cancels all children, those to come too. The first reason counts.
  func cancelChildren(reason: any Error) {
    let all = takeChildren(toCancelFor: reason)
    guard !all.isEmpty else { return }
    CancelSteps.cancel(all, lock.withLock { self.reason } ?? reason)
  }

  /// The same for those to come. The caller cancels the others: they are returned, the first time.
  func takeChildren(toCancelFor reason: any Error) -> [CoroutineCore] {
    lock.withLock {
      guard !childrenAreTaken else { return [] }
      childrenAreTaken = true
      if self.reason == nil { self.reason = reason }
      let all = children.all
      if !all.isEmpty { isCutShort = true }
      return all
    }
  }

  /// Cancels the children and what the body waits for.
  func cancel(reason: any Error) {
    cancel(lock.withLock { region }, reason: reason)
  }

  /// The region comes first: the body may wait for the children, and must not find that this very cancel has ended them. Its
  /// handler cancels them.
  private func cancel(_ region: CancellationRegion?, reason: any Error) {
    // What the body launches once it has learned of this never begins, and the children get this reason, not the body's.
    lock.withLock { if self.reason == nil { self.reason = reason } }
    region?.cancel(reason: reason)
    // Where there is no region, as in `async` code, or it is closed.
    cancelChildren(reason: reason)
  }

  /// Those that have not ended, in the order of their launches.
  var liveChildren: [CoroutineCore] { lock.withLock { children.all } }

  /// Whether children were cancelled that had not ended: they may not have done their work.
  var childrenWereCancelled: Bool { lock.withLock { isCutShort } }

  /// Ends the scope, if no child lives. Whether it has ended: then it takes no more.
  ///
  /// If none live but those that were never started, nothing may ever start them: they are cancelled, and end soon. One that is
  /// being started at this moment goes on.
  private func close() -> Bool {
    lock.lock()
    guard machine.onlyHeldLive else {
      defer { lock.unlock() }
      return machine.close()
    }
    let all = held
    held = [:]
    for _ in all { machine.heldStarts() }
    lock.unlock()
    for child in all.values.sorted(by: { $0.id < $1.id }) {
      // One that was started since may be held again, for want of a slot: that is started.
      guard child.claimStart(.byCanceller, ifHeld: .onDemand) != nil else { continue }
      child.cancel(reason: CancellationError())
      child.schedule()
    }
    return false
  }

  /// Suspends the running coroutine until no child lives, cancelled or not. Those that were never started are cancelled when
  /// all others have ended.
  ///
  /// The coroutine may be another one than the scope's opener: a generator's body can be moved.
  func joinChildren() {
    guard !close() else { return }
    guard let core = CoroutineCore.current else {
      fatalError(
        "\(description) ends outside of coroutines, before its children: the generator whose body is inside was resumed "
          + "or dropped there. Do that inside a coroutine, which can wait for them.")
    }
    var shield: CancellationRegion?
    defer { shield?.close() }
    while !close() {
      // The canceller has cancelled the children too: they end soon, and are waited for all the same.
      if join(core) == .cancelled { shield = CancellationRegion(of: core, isShield: true) }
    }
  }

  /// The same for a task, which is never cancelled.
  nonisolated(nonsending) func joinChildren() async {
    while !close() { _ = await join() }
  }

  /// Suspends the running coroutine until no child lives but those that are held, or it is cancelled. More may be launched
  /// after that.
  func join(until deadline: UInt64) -> WakeCause {
    let core = CoroutineCore.running(for: "CoroutineScope.join()")
    require(
      core.family?.toOpaque() != Unmanaged.passUnretained(self).toOpaque(),
      "\(core.description) is a child of \(description), and would wait for its own end: join a scope from outside")
    return join(core, until: deadline)
  }

  /// The same for the calling task.
  nonisolated(nonsending) func join(until deadline: UInt64 = WaitDeadline.never) async -> WakeCause {
    await wait(until: deadline) {
      WaitNode($0)
    } attempt: {
      machine.join($0)
    } withdraw: {
      machine.withdraw($0)
    }
  }

  /// The same for the calling thread, which is blocked.
  func joinBlocking(until deadline: UInt64, at call: BlockingCall) -> WakeCause {
    call.requireNoCoroutine(insteadUse: "join()")
    if deadline != WaitDeadline.now {
      // Those that are held until they are started are not waited for.
      let awaited = lock.withLock { children.all.filter { held[$0.id] == nil } }
      for child in awaited { child.requireNotOnlyHere(call) }
    }
    return block(until: deadline, at: call) {
      WaitNode($0)
    } attempt: {
      machine.join($0)
    } withdraw: {
      machine.withdraw($0)
    }
  }

  private func join(_ core: CoroutineCore, until deadline: UInt64 = WaitDeadline.never) -> WakeCause {
    var node = WaitNode(.coroutine(.passUnretained(core)))
    return wait(core, .join, by: &node, until: deadline) {
      machine.join($0)
    } withdraw: {
      machine.withdraw($0)
    }
  }

  /// Throws for the failures, if there are any, when all has ended. No other code has to hear of them then.
  func throwFailures() throws {
    // In one step: a child that fails after that is not among either.
    let (children, body, failed) = lock.withLock {
      defer { unreported = [] }
      return (machine.childFailures, machine.bodyFailure, unreported)
    }
    guard let failure = Self.outcome(Self.withoutRepeats(children), body) else { return }
    for child in failed { child.resultIsTaken() }
    throw failure
  }

  private static func outcome(
    _ children: [any Error], _ bodyFailure: (error: any Error, isFirst: Bool, isCancel: Bool)?
  ) -> (any Error)? {
    var body = bodyFailure
    // A body that was cancelled has nothing of its own to report, also where it ended first.
    if body?.isCancel == true, !children.isEmpty { body = nil }
    guard let first = body?.isFirst == true ? body?.error : children.first else { return nil }
    var others = body?.isFirst == true ? children : Array(children.dropFirst())
    // Nor has one that passes a child's error on.
    if let body, !body.isFirst, !(body.error is CancellationError),
      !children.contains(where: { isSame($0, body.error) })
    {
      others.append(body.error)
    }
    if let body, body.isFirst { others.removeAll { isSame($0, body.error) } }
    return others.isEmpty ? first : ScopeError(first: first, others: others)
  }

  /// A child that has waited for another one may pass its error on: that is one failure.
  private static func withoutRepeats(_ errors: [any Error]) -> [any Error] {
    guard errors.count > 1 else { return errors }
    var boxes: Set<UInt> = []
    return errors.filter { boxes.insert(box(of: $0)).inserted }
  }

  override package func describe(_ operation: WaitReason.Operation) -> String {
    WaitText.children(ofScope: name)
  }

  override package func wakers(_ operation: WaitReason.Operation) -> Wakers {
    .scope(UInt(bitPattern: Unmanaged.passUnretained(self).toOpaque()))
  }

  /// Whether a task waits for the children, or a coroutine for whose number `isMember`. From any thread.
  package func isAwaited(by isMember: (UInt64) -> Bool) -> Bool {
    lock.withLock { machine.joiners.hasWaiter(isMember) }
  }

  /// How many wait for the children, those included that have given up but not yet withdrawn. For tests.
  var joinerCount: Int { lock.withLock { machine.joiners.count } }

  private var description: String { WaitText.scope(name) }
}
