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
/// - Parameters:
///   - start: begins the work and keeps `resume`. Runs at once, on the coroutine's stack, not under a lock, also if the
///     coroutine is cancelled already. It may resume before it returns: then the coroutine does not suspend at all.
///   - onCancel: runs on the coroutine when it is cancelled before it was resumed: stops the work, whose result nobody
///     waits for any more.
/// - Returns: what `resume.returning(_:)` was given.
/// - Throws: what `resume.throwing(_:)` was given; `CancellationError` if the coroutine is cancelled before that;
///   `SuspensionAbandoned` when the last copy of `resume` is gone unused, since nobody could ever wake the coroutine.
/// - Precondition: called inside a coroutine: traps elsewhere.
@inlinable
@_disfavoredOverload @available(*, noasync, message: "use withCheckedThrowingContinuation in async code")
public func withSuspension<Value: Sendable>(
  _ start: (Resumption<Value>) -> Void, onCancel: () -> Void = {}
) throws -> Value {
  let core = CoroutineCore.running(for: "withSuspension")
  let storage = SuspensionStorage<Value>()
  start(Resumption(storage))
  guard let outcome = storage.wait(core) else {
    onCancel()
    throw CancellationError()
  }
  return try outcome.get()
}

/// Wakes the coroutine that waits in `withSuspension`, once, from any thread, before or after it suspends.
///
/// The first call wins and returns `true`. Later ones return `false` and change nothing, and so does one that comes when
/// the coroutine was cancelled meanwhile.
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

  /// The coroutine's side. Called once. No outcome: it was cancelled before there was one.
  @inlinable
  func wait(_ core: CoroutineCore) -> Result<Value, any Error>? {
    var node = WaitNode(.coroutine(.passUnretained(core)))
    _ = withUnsafeMutablePointer(to: &node) { node in
      wait(core, .suspension) {
        machine.wait(node)
      } withdraw: {
        .done
      }
    }
    // Again under the lock: a late second resume may be looking.
    return lock.withLock { machine.take() }
  }

  /// The callback's side. Whether it was the first, and somebody gets the outcome.
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
    case waiting(UnsafeMutablePointer<WaitNode>)
    case settled(Result<Value, any Error>)
    case taken
  }

  @usableFromInline var state = State.open

  @inlinable
  init() {}

  @inlinable
  mutating func wait(_ node: UnsafeMutablePointer<WaitNode>) -> Attempt {
    switch state {
    case .open:
      state = .waiting(node)
      return .wait
    case .settled:
      return .done
    case .waiting, .taken:
      fatalError("one suspension is waited for twice")
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
    case .waiting(let node):
      // Cancelled otherwise: it is on its way to `take`.
      guard node.pointee.waiter.claim(node.pointee.cause) else { return .tooLate }
      state = .settled(outcome)
      return .wake(node.pointee.waiter)
    case .settled, .taken:
      return .tooLate
    }
  }

  /// The wait is over. Takes the outcome; `nil` if it ended without one.
  @inlinable
  mutating func take() -> Result<Value, any Error>? {
    defer { state = .taken }
    guard case .settled(let outcome) = state else { return nil }
    return outcome
  }
}
