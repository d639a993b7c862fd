// SPDX-License-Identifier: Apache-2.0

/// A promise's lock, and what its state machine decides: all that does not depend on the type of the value.
@usableFromInline
// Unchecked: the name is constant, and the lock guards the machine.
package class PromiseCore: Waitable, @unchecked Sendable {
  final let name: String
  /// Guarded by the lock.
  @exclusivity(unchecked) private final var machine = PromiseStateMachine()

  @usableFromInline
  init(name: String) {
    self.name = name
  }

  final var phase: PromiseStateMachine.Phase { lock.withLock { machine.phase } }

  /// Whether it is settled; if so, the caller may read the outcome, and counts as a reader.
  @usableFromInline
  final func isSettledForObserver() -> Bool {
    lock.withLock {
      guard machine.isSettled else { return false }
      machine.noteObserved()
      return true
    }
  }

  /// Whether it is fulfilled; if so, the caller may read the value. It is no reader of an error.
  @usableFromInline
  final var hasValue: Bool { phase == .fulfilled }

  @usableFromInline
  enum Settlement {
    case done
    /// Another one came first.
    case tooLate(isWorthReporting: Bool)
  }

  /// Settles it. `keep` puts the outcome where it is read, under the lock; called if this is the first settlement.
  ///
  /// In this order: handlers of a cancel run, the last one first; waiters are woken; the first observer is scheduled.
  @usableFromInline
  final func settle(as phase: PromiseStateMachine.Phase, isCancel: Bool = false, _ keep: () -> Void) -> Settlement {
    lock.lock()
    switch machine.settle(as: phase, isCancel: isCancel) {
    case .settled(let waiters, let observer, let cancelHandlers):
      keep()
      let readers = claimReaders()
      lock.unlock()
      if isCancel {
        for handler in cancelHandlers.reversed() { handler() }
      }
      waiters.wakeAll()
      readers.wakeAll()
      observer?.begin()
      return .done
    case .tooLate(let isWorthReporting):
      lock.unlock()
      return .tooLate(isWorthReporting: isWorthReporting)
    }
  }

  /// It is being settled: ends the waits for something else of it. The caller holds `lock`.
  @usableFromInline
  func claimReaders() -> ClaimedWaiters { ClaimedWaiters() }

  /// Records the wait of a coroutine for it, if the code that has to settle it may itself wait for that coroutine: a
  /// cycle. Called if that coroutine answers messages.
  func noteWait(of core: CoroutineCore) -> NotedWait { .nothing }

  /// The coroutine waits no longer for this one.
  func noteEndOfWait(of core: CoroutineCore) {}

  @usableFromInline
  enum NotedWait {
    /// No wait for it is a part of a cycle.
    case nothing
    /// It is recorded, until `noteEndOfWait`.
    case noted
    /// It would wait for ever: the error that says so.
    case cycle(any Error)
  }

  /// How many wait for it, or for the observers before them. For tests.
  final var waiterAndObserverCount: Int { lock.withLock { machine.waiterAndObserverCount } }

  /// Whether the outcome is an error that was never read. In `deinit`, where no code can read it any more.
  final var isErrorLost: Bool { machine.phase == .rejected && !machine.wasObserved }

  override package final func describe(_ operation: WaitReason.Operation) -> String {
    WaitText.promise(name, operation)
  }
}

// MARK: - Waiting

extension PromiseCore {
  /// Suspends the calling coroutine until it is settled, the time is up, or the caller is cancelled.
  ///
  /// - Throws: the error that `noteWait` has found, if the code that has to settle this one waits for the caller's
  ///   answer.
  @usableFromInline
  final func wait(until deadline: UInt64 = WaitDeadline.never) throws -> WakeCause {
    let core = CoroutineCore.running(for: "Promise.get()")
    guard core.notesWaits else { return wait(core, until: deadline) }
    switch noteWait(of: core) {
    case .nothing: return wait(core, until: deadline)
    case .cycle(let error): throw error
    case .noted:
      defer { noteEndOfWait(of: core) }
      return wait(core, until: deadline)
    }
  }

  private final func wait(_ core: CoroutineCore, until deadline: UInt64) -> WakeCause {
    var node = WaitNode(.coroutine(.passUnretained(core)))
    return wait(core, .promise, by: &node, until: deadline) {
      machine.wait($0)
    } withdraw: {
      machine.withdraw($0)
      return .done
    }
  }

  /// Suspends the calling task until it is settled, the time is up, or the caller is cancelled.
  @usableFromInline
  nonisolated(nonsending) final func wait(until deadline: UInt64 = WaitDeadline.never) async -> WakeCause {
    await wait(until: deadline) {
      WaitNode($0)
    } attempt: {
      machine.wait($0)
    } withdraw: {
      machine.withdraw($0)
      return .done
    }
  }

  /// Blocks the calling thread until it is settled, or the time is up.
  @usableFromInline
  final func waitBlocking(until deadline: UInt64 = WaitDeadline.never, at call: BlockingCall) -> WakeCause {
    call.requireNoCoroutine(insteadUse: "get()")
    return block(until: deadline, at: call) {
      WaitNode($0)
    } attempt: {
      machine.wait($0)
    } withdraw: {
      machine.withdraw($0)
      return .done
    }
  }
}

// MARK: - One of several things that a select waits for

// The caller holds `lock`, in all of them. A waiter for a promise that is not chosen does not count as a reader of its outcome.
extension PromiseCore {
  @usableFromInline
  final var isSettledNow: Bool { machine.isSettled }

  @usableFromInline
  final func enqueue(_ node: UnsafeMutablePointer<WaitNode>) { machine.enqueue(node) }

  @usableFromInline
  final func withdraw(_ node: UnsafeMutablePointer<WaitNode>) { machine.withdraw(node) }
}

// MARK: - Listeners

extension PromiseCore {
  /// Calls `listener` at the settlement, once; false if it is settled already.
  final func join(_ listener: WaitListener) -> Bool {
    lock.withLock {
      guard case .wait = machine.listen(listener.node) else { return false }
      listener.enter()
      return true
    }
  }

  /// No longer calls `listener`, unless it is being called this moment. Whether this keeps it from being called.
  @discardableResult
  final func withdraw(_ listener: WaitListener) -> Bool {
    lock.lock()
    let wasQueued = machine.withdraw(listener.node)
    lock.unlock()
    if wasQueued { listener.leave() }
    return wasQueued
  }

  /// A caller has the outcome, or will have it: an error needs no report.
  final func resultIsTaken() { lock.withLock { machine.noteObserved() } }

  final func observe(_ observer: PromiseObserver) {
    lock.lock()
    let next = machine.observe(observer)
    lock.unlock()
    next?.begin()
  }

  /// Whether the observer was still waiting for those before it.
  final func withdraw(_ observer: PromiseObserver) -> Bool {
    lock.withLock { machine.withdraw(observer) }
  }

  final func observerIsDone() {
    lock.lock()
    let next = machine.observerIsDone()
    lock.unlock()
    next?.begin()
  }

  /// Calls `handler` when it is cancelled, at once if it was.
  final func onCancel(_ handler: @escaping @Sendable () -> Void) {
    lock.lock()
    let action = machine.addCancelHandler(handler)
    lock.unlock()
    if case .call = action { handler() }
  }
}

/// A promise's outcome; `PromiseCore` has all that does not depend on its type.
@usableFromInline
// Unchecked: the outcome is written once, under the lock, before any waiter is woken, and constant after that.
class PromiseStorage<Value: Sendable>: PromiseCore, @unchecked Sendable {
  @exclusivity(unchecked) @usableFromInline final var outcome: Result<Value, any Error>?

  @inlinable
  override init(name: String) {
    super.init(name: name)
  }

  deinit {
    if isErrorLost, case .failure(let error)? = outcome, !(error is PromiseAbandoned) {
      CoroutineErrors.report(error, of: describe(.promise))
    }
  }

  /// A promise that is settled when this one is: a wait that is recorded for this one is recorded for that.
  func makeDerived<NewValue: Sendable>(_ type: NewValue.Type) -> PromiseStorage<NewValue> {
    PromiseStorage<NewValue>(name: "")
  }

  /// The outcome. For callers that know that there is one.
  @inlinable
  final var settledOutcome: Result<Value, any Error> {
    guard let outcome else { fatalError("a promise is not settled, but a waiter was told so") }
    return outcome
  }

  /// The outcome of a wait that ended for this cause.
  @inlinable
  final func value(after cause: WakeCause, timeout: Duration? = nil) throws -> Value {
    try cause.check(timeout)
    return try settledOutcome.get()
  }

  /// The outcome, if there is one.
  @inlinable
  final var currentOutcome: Result<Value, any Error>? { isSettledForObserver() ? outcome : nil }

  /// Whether this is the first settlement.
  @inlinable @discardableResult
  final func settle(_ outcome: Result<Value, any Error>) -> Bool {
    if case .done = settle(as: .init(outcome), { self.outcome = outcome }) { true } else { false }
  }

  /// The same for what users hold: a second settlement of a promise is reported, once.
  @inlinable
  final func settleOnce(_ outcome: Result<Value, any Error>) -> Bool {
    switch settle(as: .init(outcome), { self.outcome = outcome }) {
    case .done: return true
    case .tooLate(let isWorthReporting):
      if isWorthReporting { reportSecond(outcome) }
      return false
    }
  }

  @usableFromInline
  final func reportSecond(_ ignored: Result<Value, any Error>) {
    SettledTwice.report(ignored, of: describe(.promise))
  }

  @usableFromInline
  final func cancel() -> Bool {
    if case .done = settle(as: .cancelled, isCancel: true, { outcome = .failure(CancellationError()) }) {
      true
    } else {
      false
    }
  }

  /// Becomes what another promise becomes.
  final func follow(_ other: PromiseStorage, on scheduler: SchedulerReference) {
    guard other !== self else {
      settle(.failure(PromiseFollowsItself()))
      return
    }
    PromiseFollower(of: other, settling: self, on: scheduler)
  }
}

extension PromiseStateMachine.Phase {
  @inlinable
  init<Value>(_ outcome: Result<Value, any Error>) {
    switch outcome {
    case .success: self = .fulfilled
    case .failure(let error): self = error is CancellationError ? .cancelled : .rejected
    }
  }
}

/// What the copies of one resolver share: when it goes, the promise can not be settled any more.
@usableFromInline
final class ResolverOwner<Value: Sendable>: Sendable {
  @usableFromInline let storage: PromiseStorage<Value>

  @inlinable
  init(_ storage: PromiseStorage<Value>) {
    self.storage = storage
  }

  deinit {
    // Tested first: it is nearly always settled by now, and the rest looks up the types of a generic outcome.
    if storage.phase == .pending { storage.settle(.failure(PromiseAbandoned(ofPromise: storage.name))) }
  }
}
