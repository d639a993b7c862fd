// SPDX-License-Identifier: Apache-2.0

/// Suspends the calling coroutine until a callback of the form `(value, error)` is called: the form of most callback
/// APIs. There are other forms for a callback that gets an error only, or a `Result`.
///
/// ```swift
/// let user = try awaitCallback { done in server.fetchUser(id, completion: done) }
/// ```
///
/// A function that returns such a task (`func login(…) -> (@escaping (User?, (any Error)?) -> Void) -> Void`) goes in as it
/// is: `try awaitCallback(login(account, password))`. Any other form of callback is for `withSuspension`.
///
/// The callback may come at once, from any thread, and more than once: the first call counts, later ones are harmless and
/// reported once through `CoroutineErrors.unhandled`.
///
/// - Parameters:
///   - start: begins the work and keeps the callback. Runs at once, on the coroutine's stack.
///   - onCancel: runs on the coroutine when it is cancelled before the callback came: stops the work, whose result is
///     not needed any more.
/// - Returns: the callback's value.
/// - Throws: the callback's error, whether or not there is a value as well; `CallbackWithoutOutcome` if there is neither;
///   `CancellationError` if the coroutine is cancelled before the callback came; `SuspensionAbandoned` if the last copy of
///   the callback is dropped without having been called.
/// - Precondition: called inside a coroutine: traps elsewhere.
@available(*, noasync, message: "use withCheckedThrowingContinuation in async code")
public func awaitCallback<Value: Sendable>(
  _ start: (_ done: @escaping @Sendable (Value?, (any Error)?) -> Void) -> Void, onCancel: () -> Void = {}
) throws -> Value {
  _ = CoroutineCore.running(for: "awaitCallback")
  return try withSuspension { resume in
    start { value, error in resume(with: callbackOutcome(value, error)) }
  } onCancel: {
    onCancel()
  }
}

/// Suspends the calling coroutine until a callback is called with nothing, or with an error.
///
/// ```swift
/// try awaitCallback { done in file.close(completion: done) }
/// ```
///
/// - Throws: the callback's error; else as the form with a value.
/// - Precondition: called inside a coroutine: traps elsewhere.
@available(*, noasync, message: "use withCheckedThrowingContinuation in async code")
public func awaitCallback(
  _ start: (_ done: @escaping @Sendable ((any Error)?) -> Void) -> Void, onCancel: () -> Void = {}
) throws {
  _ = CoroutineCore.running(for: "awaitCallback")
  try withSuspension { (resume: Resumption<Void>) in
    start { error in
      if let error { resume.throwing(error) } else { resume.returning(()) }
    }
  } onCancel: {
    onCancel()
  }
}

/// Suspends the calling coroutine until a callback is called with a `Result`.
///
/// ```swift
/// let page = try awaitCallback { done in server.fetchPage(number, completion: done) }
/// ```
///
/// - Throws: the result's error; else as the form with a value.
/// - Precondition: called inside a coroutine: traps elsewhere.
@_disfavoredOverload @available(*, noasync, message: "use withCheckedThrowingContinuation in async code")
public func awaitCallback<Value: Sendable>(
  _ start: (_ done: @escaping @Sendable (Result<Value, any Error>) -> Void) -> Void, onCancel: () -> Void = {}
) throws -> Value {
  try awaitResult(start, onCancel)
}

/// Suspends the calling coroutine until a callback is called with a `Result` of one type of error. Otherwise as the form
/// with `any Error`.
///
/// - Throws: the result's error; else as the form with a value.
/// - Precondition: called inside a coroutine: traps elsewhere.
@_disfavoredOverload @available(*, noasync, message: "use withCheckedThrowingContinuation in async code")
public func awaitCallback<Value: Sendable, Failure: Error>(
  _ start: (_ done: @escaping @Sendable (Result<Value, Failure>) -> Void) -> Void, onCancel: () -> Void = {}
) throws -> Value {
  try awaitResult(start, onCancel)
}

private func awaitResult<Value: Sendable, Failure: Error>(
  _ start: (@escaping @Sendable (Result<Value, Failure>) -> Void) -> Void, _ onCancel: () -> Void
) throws -> Value {
  _ = CoroutineCore.running(for: "awaitCallback")
  return try withSuspension { resume in
    start { resume(with: $0) }
  } onCancel: {
    onCancel()
  }
}

/// What a callback of the form `(value, error)` was called with.
func callbackOutcome<Value>(_ value: Value?, _ error: (any Error)?) -> Result<Value, any Error> {
  if let error { return .failure(error) }
  guard let value else { return .failure(CallbackWithoutOutcome()) }
  return .success(value)
}

/// A callback was called with neither a value nor an error, where one of them was promised.
public struct CallbackWithoutOutcome: Error, CustomStringConvertible {
  public var description: String { "a callback was called with neither a value nor an error" }

  init() {}
}
