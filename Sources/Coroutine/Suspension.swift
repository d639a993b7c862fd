public import Context

/// Suspends the calling coroutine until a callback delivers a value: the bridge to every API with a completion handler.
///
/// ```swift
/// let data = try withSuspension { resume in
///   fetch(url) { data, error in
///     if let data { resume.returning(data) } else { resume.throwing(error!) }
///   }
/// }
/// ```
///
/// - Parameter start: begins the work and keeps `resume`. Runs at once, on the coroutine's stack, not under a lock. It may
///   resume before it returns: then the coroutine does not suspend at all.
/// - Returns: what `resume.returning(_:)` was given.
/// - Throws: what `resume.throwing(_:)` was given; `SuspensionAbandoned` when the last copy of `resume` is gone unused,
///   since nobody could ever wake the coroutine.
/// - Precondition: called inside a coroutine: traps elsewhere.
@inlinable
@_disfavoredOverload @available(*, noasync, message: "use withCheckedThrowingContinuation in async code")
public func withSuspension<Value: Sendable>(_ start: (Resumption<Value>) -> Void) throws -> Value {
  let core = CoroutineCore.running(for: "withSuspension")
  let storage = SuspensionStorage<Value>()
  start(Resumption(storage))
  return try storage.wait(core)
}

/// Wakes the coroutine that waits in `withSuspension`, once, from any thread, before or after it suspends.
///
/// The first call wins and returns `true`. Later ones return `false` and change nothing.
public struct Resumption<Value: Sendable>: Sendable {
  @usableFromInline let end: SuspensionEnd<Value>

  @inlinable
  init(_ storage: SuspensionStorage<Value>) {
    end = SuspensionEnd(storage)
  }

  /// Lets the coroutine go on with `value`.
  @inlinable @discardableResult
  public func returning(_ value: Value) -> Bool {
    end.storage.settle(.success(value))
  }

  /// Lets `withSuspension` throw `error`.
  @inlinable @discardableResult
  public func throwing(_ error: any Error) -> Bool {
    end.storage.settle(.failure(error))
  }
}

extension Resumption where Value == Void {
  /// Lets the coroutine go on.
  @inlinable @discardableResult
  public func callAsFunction() -> Bool { returning(()) }
}

extension Resumption {
  /// Lets the coroutine go on with `value`.
  @inlinable @discardableResult
  public func callAsFunction(_ value: Value) -> Bool { returning(value) }
}

/// The last copy of a `Resumption` was dropped without having been used.
public struct SuspensionAbandoned: Error, CustomStringConvertible {
  public var description: String {
    "a suspended coroutine was abandoned: the last copy of its Resumption was dropped without being called"
  }

  @usableFromInline init() {}
}

/// What the copies of one `Resumption` share: when it goes, nobody can resume any more.
@usableFromInline
final class SuspensionEnd<Value: Sendable>: Sendable {
  @usableFromInline let storage: SuspensionStorage<Value>

  @inlinable
  init(_ storage: SuspensionStorage<Value>) {
    self.storage = storage
  }

  @inlinable
  deinit {
    storage.settle(.failure(SuspensionAbandoned()))
  }
}

@usableFromInline
final class SuspensionStorage<Value: Sendable>: Waitable, @unchecked Sendable {
  // Sendable: guarded by the lock.
  @exclusivity(unchecked) @usableFromInline var machine = SuspensionStateMachine<Value>()

  @inlinable
  override init() { super.init() }

  /// The coroutine's side. Called once.
  @inlinable
  func wait(_ core: CoroutineCore) throws -> Value {
    var node = WaitNode(.coroutine(.passUnretained(core)))
    return try withUnsafeMutablePointer(to: &node) { node in
      lock.lock()
      switch machine.wait(node) {
      case .suspend: core.park(.suspension, at: self)
      case .goOn: lock.unlock()
      }
      // Again under the lock: a late second resume may be looking.
      lock.lock()
      let outcome = machine.take()
      lock.unlock()
      return try outcome.get()
    }
  }

  /// The callback's side. Whether it was the first.
  @inlinable @discardableResult
  func settle(_ outcome: Result<Value, any Error>) -> Bool {
    lock.lock()
    let action = machine.settle(outcome)
    lock.unlock()
    switch action {
    case .none: return true
    case .wake(let waiter):
      waiter.wake()
      return true
    case .tooLate: return false
    }
  }

  override package func describe(_ operation: WaitReason.Operation) -> String {
    "a callback"
  }
}

/// One wait for one outcome, in whichever order they come. Pure: no lock, no switch.
@usableFromInline
struct SuspensionStateMachine<Value> {
  @usableFromInline
  enum State {
    case open
    case waiting(Waiter)
    case settled(Result<Value, any Error>)
    case taken
  }

  @usableFromInline var state = State.open

  @inlinable
  init() {}

  @usableFromInline
  enum WaitAction { case suspend, goOn }

  @inlinable
  mutating func wait(_ node: UnsafeMutablePointer<WaitNode>) -> WaitAction {
    switch state {
    case .open:
      state = .waiting(node.pointee.waiter)
      return .suspend
    case .settled:
      return .goOn
    case .waiting, .taken:
      preconditionFailure("one suspension is waited for twice")
    }
  }

  @usableFromInline
  enum SettleAction {
    case none
    case wake(Waiter)
    case tooLate
  }

  @inlinable
  mutating func settle(_ outcome: Result<Value, any Error>) -> SettleAction {
    switch state {
    case .open:
      state = .settled(outcome)
      return .none
    case .waiting(let waiter):
      state = .settled(outcome)
      return .wake(waiter)
    case .settled, .taken:
      return .tooLate
    }
  }

  /// Takes the outcome, once it is there.
  @inlinable
  mutating func take() -> Result<Value, any Error> {
    guard case .settled(let outcome) = state else { preconditionFailure("a coroutine was woken without an outcome") }
    state = .taken
    return outcome
  }
}
