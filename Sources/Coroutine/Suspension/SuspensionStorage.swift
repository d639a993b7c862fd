// SPDX-License-Identifier: Apache-2.0

public import Context
public import Synchronization

/// A suspension's lock, and what its state machine decides.
@usableFromInline
// Unchecked: the lock guards the machine, the rest is constant.
final class SuspensionStorage<Value: Sendable>: Waitable, @unchecked Sendable {
  /// The work that will settle it has not begun: it waits for a thread. For debuggers. In front of what differs from type to
  /// type, see `ShownWaitable`.
  @usableFromInline let awaitsThread = Atomic<Bool>(false)
  /// Guarded by the lock.
  @exclusivity(unchecked) @usableFromInline var machine = SuspensionStateMachine<Value>()
  /// Whose suspension it is, for messages: it may be gone when a second resume comes. 0 in `async` code.
  @usableFromInline let coroutine: (id: UInt64, name: String)

  @inlinable
  init(of core: CoroutineCore) {
    coroutine = (core.id, core.name)
    super.init()
  }

  /// That of a task.
  override init() {
    coroutine = (0, "")
    super.init()
  }

  /// The coroutine's side. Called once. No outcome: it was cancelled before there was one.
  @inlinable
  func wait(_ core: CoroutineCore, _ operation: WaitReason.Operation) -> Result<Value, any Error>? {
    wait(core, operation, until: WaitDeadline.never).outcome
  }

  /// The same until a deadline. No outcome: why it ended.
  @inlinable
  func wait(
    _ core: CoroutineCore, _ operation: WaitReason.Operation, until deadline: UInt64
  ) -> (outcome: Result<Value, any Error>?, cause: WakeCause) {
    var node = WaitNode(.coroutine(.passUnretained(core)))
    let cause = wait(core, operation, by: &node, until: deadline) {
      machine.wait($0)
    } withdraw: { _ in
      machine.withdraw()
    }
    // Again under the lock: a late second resume may be looking.
    return (lock.withLock { machine.take() }, cause)
  }

  /// The task's side, in place of the coroutine's.
  nonisolated(nonsending) func wait() async -> Result<Value, any Error>? {
    _ = await wait {
      WaitNode($0)
    } attempt: {
      machine.wait($0)
    } withdraw: { _ in
      machine.withdraw()
    }
    return lock.withLock { machine.take() }
  }

  /// The callback's side. Whether it was the first, and a waiter gets the outcome.
  @inlinable
  func settle(_ outcome: Result<Value, any Error>) -> Bool {
    lock.lock()
    let action = machine.settle(outcome)
    lock.unlock()
    switch action {
    case .none: return true
    case .wake(let waiter):
      waiter.wake()
      return true
    case .tooLate(let isWorthReporting):
      if isWorthReporting { SettledTwice.report(outcome, of: origin) }
      return false
    }
  }

  @usableFromInline
  var origin: String { "withSuspension in \(CoroutineCore.describe(id: coroutine.id, name: coroutine.name))" }

  override package func describe(_ operation: WaitReason.Operation) -> String {
    WaitText.suspension(operation, awaitsThread: awaitsThread.load(ordering: .relaxed))
  }
}

/// What the copies of one `Resumption` share: when it goes, no resumer is left.
@usableFromInline
final class ResumptionOwner<Value: Sendable>: Sendable {
  @usableFromInline let storage: SuspensionStorage<Value>
  /// Whether one of the copies was called: there is nothing left to do at the end. Set before that copy goes.
  @usableFromInline let isUsed = Atomic<Bool>(false)

  @inlinable
  init(_ storage: SuspensionStorage<Value>) {
    self.storage = storage
  }

  @inlinable
  func settle(_ outcome: Result<Value, any Error>) -> Bool {
    isUsed.store(true, ordering: .relaxed)
    return storage.settle(outcome)
  }

  @inlinable
  deinit {
    if !isUsed.load(ordering: .relaxed) { _ = storage.settle(.failure(SuspensionAbandoned())) }
  }
}
