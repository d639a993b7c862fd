// SPDX-License-Identifier: Apache-2.0

/// Runs `body` with a scope for coroutines that must not outlive it: all of them have ended when it returns.
///
/// ```swift
/// let pages = try withScope { scope in
///   let first = scope.launch { try fetch(a) }
///   let second = scope.launch { try fetch(b) }
///   return try [first.get(), second.get()]
/// }
/// ```
///
/// When a child throws, the other children are cancelled and whatever `body` waits for throws; when `body` throws, or the
/// coroutine around it is cancelled, the children are cancelled. All are waited for in any case: cancellation is
/// cooperative, so a child that ignores it holds up the end.
///
/// A child's error counts even if its `get()` was never called. That a cancelled child throws `CancellationError` is no
/// failure.
///
/// - Parameters:
///   - name: for backtraces and messages.
///   - limit: how many children may run at once; `nil`: all. At least 1: traps otherwise. Those beyond it are queued, and start
///     in the order of their launches as others end: `launch` itself never waits, since it may be called from anywhere.
///     One that is queued is an object, without a stack; where that is too much, let the launcher acquire a
///     `Semaphore`. A child that waits for one which is queued behind it keeps its slot meanwhile: both may wait for ever.
///   - onChildFailure: gets the error of each child that fails, which has no other effect then: the other children and
///     `body` go on, and the scope does not throw it. (Kotlin's `supervisorScope`.) Runs on the thread on which the
///     child ended, before the scope ends; must not block, nor suspend. `nil`: a failure cancels the others, as said
///     above.
///   - body: runs at once, on the calling coroutine. Its own error cancels the children in any case.
/// - Returns: what `body` returned.
/// - Throws: the first failure, of a child or of `body`; `ScopeError` if there were others beside it; `CancellationError`
///   if the coroutine was cancelled before its children had ended.
/// - Precondition: called inside a coroutine: traps elsewhere.
@_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
public func withScope<Result>(
  name: String = "", limit: Int? = nil, onChildFailure: (@Sendable (any Error) -> Void)? = nil,
  _ body: (CoroutineScope) throws -> Result
) throws -> Result {
  try runScope(ScopeStorage(name: name, limit: limit, onChildFailure: onChildFailure), body)
}

/// The same for a body that returns nothing, also where all that it does is to launch.
///
/// (Swift 6.3 crashes where such a `withScope` is all of the body of a coroutine whose type is written out, if it can
/// be generic only.)
@_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
public func withScope(
  name: String = "", limit: Int? = nil, onChildFailure: (@Sendable (any Error) -> Void)? = nil,
  _ body: (CoroutineScope) throws -> Void
) throws {
  try runScope(ScopeStorage(name: name, limit: limit, onChildFailure: onChildFailure), body)
}

/// The same for a body whose last word is a launch: the child, which has ended, may be left unused.
@discardableResult
@_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
public func withScope<Value: Sendable, Failure: Error>(
  name: String = "", limit: Int? = nil, onChildFailure: (@Sendable (any Error) -> Void)? = nil,
  _ body: (CoroutineScope) throws -> Coroutine<Value, Failure>
) throws -> Coroutine<Value, Failure> {
  try runScope(ScopeStorage(name: name, limit: limit, onChildFailure: onChildFailure), body)
}

private func runScope<Result>(_ storage: ScopeStorage, _ body: (CoroutineScope) throws -> Result) throws -> Result {
  let core = CoroutineCore.running(for: "withScope")
  let region = CancellationRegion(of: core) { storage.takeChildren(toCancelFor: $0) }
  storage.open(region)
  var result: Result?
  do { result = try body(CoroutineScope(storage)) } catch { storage.bodyFailed(error) }
  storage.joinChildren()
  storage.open(nil)
  region.close()
  try storage.throwFailures()
  // Unless only the scope itself was cancelled: then what `body` returned is the result.
  if storage.childrenWereCancelled, CoroutineCore.current?.isInterrupted == true { throw CancellationError() }
  guard let result else { fatalError("a scope's body ended with neither a result nor an error") }
  return result
}

/// Runs `body` with a scope for coroutines that must not outlive it, in `async` code.
///
/// As the synchronous form, except that a child's failure cancels its siblings, but not what `body` itself awaits.
nonisolated(nonsending) public func withScope<Result>(
  name: String = "", limit: Int? = nil, onChildFailure: (@Sendable (any Error) -> Void)? = nil,
  _ body: nonisolated(nonsending) (CoroutineScope) async throws -> Result
) async throws -> Result {
  try await runScope(ScopeStorage(name: name, limit: limit, onChildFailure: onChildFailure), body)
}

/// The same for a body that returns nothing, also where all that it does is to launch.
nonisolated(nonsending) public func withScope(
  name: String = "", limit: Int? = nil, onChildFailure: (@Sendable (any Error) -> Void)? = nil,
  _ body: nonisolated(nonsending) (CoroutineScope) async throws -> Void
) async throws {
  try await runScope(ScopeStorage(name: name, limit: limit, onChildFailure: onChildFailure), body)
}

/// The same for a body whose last word is a launch: the child, which has ended, may be left unused.
@discardableResult
nonisolated(nonsending) public func withScope<Value: Sendable, Failure: Error>(
  name: String = "", limit: Int? = nil, onChildFailure: (@Sendable (any Error) -> Void)? = nil,
  _ body: nonisolated(nonsending) (CoroutineScope) async throws -> Coroutine<Value, Failure>
) async throws -> Coroutine<Value, Failure> {
  try await runScope(ScopeStorage(name: name, limit: limit, onChildFailure: onChildFailure), body)
}

private func runScope<Result>(
  _ storage: ScopeStorage, isolation: isolated (any Actor)? = #isolation,
  _ body: nonisolated(nonsending) (CoroutineScope) async throws -> Result
) async throws -> Result {
  try await withTaskCancellationHandler {
    // Captured, so that this closure runs on the caller's actor, and with it `body`, which may use what that isolates: Swift 6.3
    // takes a closure of a `nonisolated(nonsending)` function for one of no actor.
    _ = isolation
    var result: Result?
    do { result = try await body(CoroutineScope(storage)) } catch { storage.bodyFailed(error) }
    // In a task of its own, which is never cancelled.
    await Task<Void, Never>(executorPreference: preferredExecutor) { await storage.joinChildren() }.value
    try storage.throwFailures()
    if storage.childrenWereCancelled, Task.isCancelled { throw CancellationError() }
    guard let result else { fatalError("a scope's body ended with neither a result nor an error") }
    return result
  } onCancel: {
    cancelOnThisThread { storage.cancelChildren(reason: CancellationError()) }
  }
}

/// Launches coroutines that belong together: those that `withScope` waits for, or those of an object of its own
/// (`init(name:limit:onChildFailure:)`). Copies are the same scope; it may be handed to the children, which may launch
/// more. Launching after the end of `withScope` traps.
public struct CoroutineScope: Sendable {
  @usableFromInline let storage: ScopeStorage
  /// Cancels the children when the last copy is gone; none for the scope of a `withScope`.
  let owner: ScopeOwner?

  init(_ storage: ScopeStorage, owner: ScopeOwner? = nil) {
    self.storage = storage
    self.owner = owner
  }

  /// The name it was given; empty without one.
  public var name: String { storage.name }

  /// Whether its children were cancelled: by `cancel()`, since one has failed, or since its time was up. What is launched from
  /// then on never begins. From any thread.
  public var isCancelled: Bool { storage.isCancelled }

  /// Starts a child: a coroutine that the scope waits for. On the scheduler of the calling coroutine, or on the pool. In a scope
  /// that is cancelled it never begins.
  ///
  /// The parameters are those of `Coroutine.init(name:stackSize:_:)`. Callable from any thread.
  ///
  /// - Precondition: the scope has not ended: traps otherwise.
  @discardableResult @inlinable
  public func launch<Value: Sendable, Failure: Error>(
    name: String = "", stackSize: Int? = nil, _ body: sending (() throws(Failure) -> Value)?
  ) -> Coroutine<Value, Failure> {
    guard let body else { missingFunction() }
    let child = CoroutineStorage.create(on: .inherited, name: name, stackSize: stackSize, body: body)
    if storage.adopt(child) { child.schedule() }
    return Coroutine(storage: child)
  }

  /// Starts a child on a scheduler. Otherwise as `launch(name:stackSize:_:)`.
  ///
  /// - Precondition: the scope has not ended: traps otherwise.
  @discardableResult @inlinable
  public func launch<Value: Sendable, Failure: Error>(
    on scheduler: some Scheduler, name: String = "", stackSize: Int? = nil,
    _ body: sending (() throws(Failure) -> Value)?
  ) -> Coroutine<Value, Failure> {
    guard let body else { missingFunction() }
    let reference = SchedulerReference(scheduler)
    let child = CoroutineStorage.create(on: reference, name: name, stackSize: stackSize, body: body)
    if storage.adopt(child) { child.schedule() }
    return Coroutine(storage: child)
  }

  /// Starts a child with a priority of its own: `Coroutine.init(priority:name:stackSize:_:)`.
  ///
  /// - Precondition: the scope has not ended: traps otherwise.
  @discardableResult
  public func launch<Value: Sendable, Failure: Error>(
    priority: TaskPriority, name: String = "", stackSize: Int? = nil,
    _ body: sending (() throws(Failure) -> Value)?
  ) -> Coroutine<Value, Failure> {
    guard let body else { missingFunction() }
    return launch(priority, .inherited, name, stackSize, body)
  }

  /// Starts a child on a scheduler with a priority of its own: `Coroutine.init(on:priority:name:stackSize:_:)`.
  ///
  /// - Precondition: the scope has not ended: traps otherwise.
  @discardableResult
  public func launch<Value: Sendable, Failure: Error>(
    on scheduler: some Scheduler, priority: TaskPriority, name: String = "", stackSize: Int? = nil,
    _ body: sending (() throws(Failure) -> Value)?
  ) -> Coroutine<Value, Failure> {
    guard let body else { missingFunction() }
    return launch(priority, SchedulerReference(scheduler), name, stackSize, body)
  }

  private func launch<Value: Sendable, Failure: Error>(
    _ priority: TaskPriority, _ scheduler: SchedulerReference, _ name: String, _ stackSize: Int?,
    _ body: sending @escaping () throws(Failure) -> Value
  ) -> Coroutine<Value, Failure> {
    let child = CoroutineStorage.create(on: scheduler, name: name, stackSize: stackSize, body: body)
    child.prioritise(priority)
    if storage.adopt(child) { child.schedule() }
    return Coroutine(storage: child)
  }

  /// Cancels the children, those to come too, and what the scope's body waits for, in a coroutine. The scope ends without
  /// an error if its body does. Callable from any thread; the first reason counts.
  public func cancel(reason: (any Error)? = nil) {
    storage.cancel(reason: reason ?? CancellationError())
  }

  /// The children that have not ended, at this moment, in the order of their launches: also those that wait for a slot.
  ///
  /// ```swift
  /// for child in scope.children { child.cancel() }          // the scope itself goes on, and may launch more
  /// ```
  ///
  /// Lazy ones that were not started are among them: to join one starts it.
  ///
  /// Callable from any thread. Takes time proportional to their number, and to its logarithm.
  public var children: [AnyCoroutine] { storage.liveChildren.map { AnyCoroutine($0) } }
}

extension CoroutineScope {
  // As in `AsyncBodies.swift`.
  @available(
    *, unavailable,
    message: "a coroutine's body is not async: wait in it by 'try Coroutine.await { try await … }', or use a Task"
  )
  @discardableResult
  public func launch<Value: Sendable>(
    on scheduler: some Scheduler = .inherited, name: String = "", stackSize: Int? = nil,
    _ body: @Sendable @escaping @isolated(any) () async throws -> Value
  ) -> Coroutine<Value, any Error> {
    fatalError("unavailable")
  }

  @available(
    *, unavailable,
    message: "a coroutine's body is not async: wait in it by 'try Coroutine.await { try await … }', or use a Task"
  )
  @discardableResult
  public func launch<Value: Sendable>(
    on scheduler: some Scheduler = .inherited, priority: TaskPriority, name: String = "", stackSize: Int? = nil,
    _ body: @Sendable @escaping @isolated(any) () async throws -> Value
  ) -> Coroutine<Value, any Error> {
    fatalError("unavailable")
  }
}

/// Several failures in one scope.
///
/// An error that a child or the body passes on as it is, `catch { …; throw error }`, counts once. One that is caught by its type and
/// thrown again, `catch let error as Problem { throw error }`, is another one.
public struct ScopeError: Error, CustomStringConvertible {
  /// The one that came first, for which the others were cancelled.
  public let first: any Error
  /// The other failures, of children in the order in which they ended, then the body's.
  public let others: [any Error]

  public var description: String {
    "\(first) (and beside it: " + others.map { "\($0)" }.joined(separator: ", ") + ")"
  }
}
