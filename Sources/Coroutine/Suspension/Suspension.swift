// SPDX-License-Identifier: Apache-2.0

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
///   - onCancel: runs on the coroutine when it is cancelled before it was resumed: stops the work, whose result is not
///     needed any more.
/// - Returns: what `resume.returning(_:)` was given.
/// - Throws: what `resume.throwing(_:)` was given; `CancellationError` if the coroutine is cancelled before that;
///   `SuspensionAbandoned` when the last copy of `resume` is gone unused, since no waker is left.
/// - Precondition: called inside a coroutine: traps elsewhere.
@inlinable
@_disfavoredOverload @available(*, noasync, message: "use withCheckedThrowingContinuation in async code")
public func withSuspension<Value: Sendable>(
  _ start: (Resumption<Value>) -> Void, onCancel: () -> Void = {}
) throws -> Value {
  try awaitResumption(as: .suspension, start, onCancel: onCancel)
}

/// - Parameter operation: what dumps say that the coroutine waits for.
@inlinable
func awaitResumption<Value: Sendable>(
  as operation: WaitReason.Operation, _ start: (Resumption<Value>) -> Void, onCancel: () -> Void = {}
) throws -> Value {
  let core = CoroutineCore.running(for: "withSuspension")
  let storage = SuspensionStorage<Value>(of: core)
  start(Resumption(storage))
  CoroutineCore.requireIsCurrent(.passUnretained(core), behindClosureOf: "withSuspension")
  guard let outcome = storage.wait(core, operation) else {
    onCancel()
    throw CancellationError()
  }
  return try outcome.get()
}

/// Wakes the coroutine that waits in `withSuspension`, once, from any thread, before or after it suspends.
///
/// The first call wins and returns `true`. Later ones return `false` and change nothing, and so does one that comes
/// when the coroutine was cancelled meanwhile. That a callback came twice is reported once through
/// `CoroutineErrors.unhandled`, as `SettledTwice`. Not for signal handlers, as no waking call here is: the signal may
/// interrupt a thread in the middle of such a call. Let the handler post a semaphore, and a thread wait for it.
public struct Resumption<Value: Sendable>: Sendable {
  @usableFromInline let owner: ResumptionOwner<Value>

  @inlinable
  init(_ storage: SuspensionStorage<Value>) {
    owner = ResumptionOwner(storage)
  }

  /// Lets the coroutine go on with `value`.
  @inlinable @discardableResult
  public func returning(_ value: Value) -> Bool {
    owner.settle(.success(value))
  }

  /// Lets `withSuspension` throw `error`.
  @inlinable @discardableResult
  public func throwing(_ error: any Error) -> Bool {
    owner.settle(.failure(error))
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

  /// Lets the coroutine go on with a callback's result: its value, or its error, which `withSuspension` throws.
  @inlinable @discardableResult
  public func callAsFunction(with result: Result<Value, any Error>) -> Bool {
    owner.settle(result)
  }

  /// The same, by a result whose errors are of one type.
  @inlinable @discardableResult @_disfavoredOverload
  public func callAsFunction<Failure: Error>(with result: Result<Value, Failure>) -> Bool {
    owner.settle(result.mapError { $0 as any Error })
  }
}

/// The last copy of a `Resumption` was dropped without having been used.
public struct SuspensionAbandoned: Error, CustomStringConvertible {
  public var description: String {
    "a suspended coroutine was abandoned: the last copy of its Resumption was dropped without being called"
  }

  @usableFromInline init() {}
}
