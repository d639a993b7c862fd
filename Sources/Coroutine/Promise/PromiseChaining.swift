// SPDX-License-Identifier: Apache-2.0

/// Promises that are made from promises.
///
/// **When and where the closures run.** Each runs once, as a coroutine: it may wait. Those of one promise run one after
/// another, in the order in which they were registered, however they are mixed and on whichever schedulers; also those that
/// are registered after the settlement. None ever runs inside `then` or `fulfill`: on one serial scheduler not before the
/// registration has returned; on a pool of several threads it may run beside the code behind `then`. One that waits
/// for long holds up those behind it: return a promise, or start a coroutine. One that waits for the very promise that it
/// makes waits for ever. They run on the scheduler that was given; by default on that of the coroutine that registers them,
/// outside of one on the pool; code of the main actor (a method, or `{ @MainActor in … }`) on the main queue; with the
/// task-local values of the code that registers them.
///
/// **Cancelling** the promise that a call returns keeps its closure from running, or cancels the coroutine in which it
/// runs. The promise that it was made from goes on.
///
/// **In long chains** give the closures' parameters types, `{ (text: String) in text.count }`: each closure may return a value or
/// a promise, and from the fourth on, where they have operators, the compiler may give up finding out for all of them together.
///
/// Each call takes constant time. Chains of any length are worked off step by step, not by recursion.
extension Promise {
  /// What `transform` makes of the value. Skipped on rejection: the promise returned is rejected with the same error.
  ///
  /// ```swift
  /// let length = page.then { $0.count }
  /// ```
  ///
  /// - Returns: a promise of the result; rejected with what `transform` throws.
  @discardableResult
  public func then<NewValue: Sendable, Target: Scheduler>(
    on scheduler: Target = .inherited, _ transform: sending ((Value) throws -> NewValue)?
  ) -> Promise<NewValue> {
    guard let transform else { missingFunction() }
    return derive(on: scheduler) { outcome in
      .settled(outcome.flatMap { value in Result { try transform(value) } })
    }
  }

  /// The promise that `transform` makes of the value, flattened. Skipped on rejection.
  ///
  /// A `ProgressPromise` is not flattened: return its `promise`.
  ///
  /// ```swift
  /// let image = page.then { fetch(firstImage(in: $0)) }      // a Promise<Image>
  /// ```
  ///
  /// - Returns: a promise that becomes what the returned one becomes; rejected with what `transform` throws.
  @discardableResult
  public func then<NewValue: Sendable, Target: Scheduler>(
    on scheduler: Target = .inherited, _ transform: sending ((Value) throws -> Promise<NewValue>)?
  ) -> Promise<NewValue> {
    guard let transform else { missingFunction() }
    return derive(on: scheduler) { outcome in
      .init(flattening: outcome.flatMap { value in Result { try transform(value) } })
    }
  }

  /// Handles the error. Skipped on fulfilment.
  ///
  /// ```swift
  /// page.then { try show($0) }.catch { print("failed: \($0)") }
  /// ```
  ///
  /// - Returns: a promise that is fulfilled when there is nothing left to do; rejected with what `handle` throws.
  @discardableResult
  public func `catch`<Target: Scheduler>(
    on scheduler: Target = .inherited, _ handle: sending ((any Error) throws -> Void)?
  ) -> Promise<Void> {
    guard let handle else { missingFunction() }
    return derive(on: scheduler) { outcome in
      .settled(outcome.map { _ in }.flatMapError { error in Result { try handle(error) } })
    }
  }

  /// Runs `cleanup` on fulfilment and on rejection. A promise that it makes is not waited for: call that one's `get()`.
  ///
  /// - Returns: a promise that is settled as this one, after `cleanup`; rejected with what `cleanup` throws.
  @discardableResult
  public func finally<Target: Scheduler>(
    on scheduler: Target = .inherited, _ cleanup: sending (() throws -> Void)?
  ) -> Promise {
    guard let cleanup else { missingFunction() }
    return derive(on: scheduler) { outcome in
      .settled(Result { try cleanup() }.flatMap { outcome })
    }
  }

  fileprivate func derive<NewValue: Sendable>(
    on scheduler: some Scheduler,
    _ transform: @escaping (Result<Value, any Error>) -> PromiseStep<Value, NewValue>.Continuation
  ) -> Promise<NewValue> {
    let derived = storage.makeDerived(NewValue.self)
    let target = scheduler is InheritedScheduler ? .inherited : SchedulerReference(scheduler)
    PromiseStep(from: storage, to: derived, on: target, transform)
    return Promise<NewValue>(storage: derived)
  }
}

// MARK: - Recovering

/// The forms of `catch` that recover are members of this protocol. Only `Promise` conforms.
///
/// A closure without a `return`, as `{ error in log(error); show(error) }`, fits every form as far as the compiler can see.
/// Of several it takes the member of a type rather than that of a protocol: the one that handles the error.
public protocol PromiseProtocol<Value>: Sendable {
  /// What the promise is fulfilled with.
  associatedtype Value: Sendable

  /// The promise itself.
  var promise: Promise<Value> { get }
}

extension Promise: PromiseProtocol {
  public var promise: Promise { self }
}

extension PromiseProtocol {
  /// What `recover` makes of the error. Skipped on fulfilment: the promise returned gets the same value.
  ///
  /// ```swift
  /// let text = page.catch { _ in "not there" }
  /// let other: Promise<String> = page.catch { error in throw Unavailable(because: error) }
  /// ```
  ///
  /// A closure that only throws needs the type of the result, as above: otherwise it handles the error. So does one
  /// whose value is an `if` or a `switch`, without `return`.
  ///
  /// - Returns: a promise of the value, this one's or the other; rejected with what `recover` throws.
  @discardableResult
  public func `catch`<Target: Scheduler>(
    on scheduler: Target = .inherited, _ recover: sending ((any Error) throws -> Value)?
  ) -> Promise<Value> {
    guard let recover else { missingFunction() }
    return promise.derive(on: scheduler) { outcome in
      .settled(outcome.flatMapError { error in Result { try recover(error) } })
    }
  }

  /// The promise that `recover` makes of the error, flattened. Skipped on fulfilment.
  ///
  /// - Returns: a promise that becomes what the returned one becomes; rejected with what `recover` throws.
  @discardableResult
  public func `catch`<Target: Scheduler, Other: PromiseProtocol<Value>>(
    on scheduler: Target = .inherited, _ recover: sending ((any Error) throws -> Other)?
  ) -> Promise<Value> {
    guard let recover else { missingFunction() }
    return promise.derive(on: scheduler) { outcome in
      switch outcome {
      case .success: .settled(outcome)
      case .failure(let error): .init(flattening: Result { try recover(error).promise })
      }
    }
  }
}

extension PromiseStep.Continuation {
  fileprivate init(flattening outcome: Result<Promise<Output>, any Error>) {
    switch outcome {
    case .success(let promise): self = .follows(promise.storage)
    case .failure(let error): self = .settled(.failure(error))
    }
  }
}
