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
/// A child's error counts even if nobody called its `get()`. That a cancelled child throws `CancellationError` is no
/// failure.
///
/// - Parameters:
///   - name: for backtraces and messages.
///   - body: runs at once, on the calling coroutine.
/// - Returns: what `body` returned.
/// - Throws: the first failure, of a child or of `body`; `ScopeError` if there were others beside it; `CancellationError`
///   if the coroutine was cancelled before its children had ended.
/// - Precondition: called inside a coroutine: traps elsewhere.
@_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
public func withScope<Result>(name: String = "", _ body: (CoroutineScope) throws -> Result) throws -> Result {
  let core = CoroutineCore.running(for: "withScope")
  let storage = ScopeStorage(name: name)
  let region = CancellationRegion(of: core) { storage.cancelChildren(reason: $0) }
  storage.open(region)
  var result: Result?
  do { result = try body(CoroutineScope(storage)) } catch { storage.bodyFailed(error) }
  storage.joinChildren()
  storage.open(nil)
  region.close()
  if let failure = storage.outcome { throw failure }
  // Unless only the scope itself was: then what `body` returned is what it wanted to return.
  if storage.childrenWereCancelled, CoroutineCore.current?.isInterrupted == true { throw CancellationError() }
  guard let result else { fatalError("a scope's body ended with neither a result nor an error") }
  return result
}

/// Runs `body` with a scope for coroutines that must not outlive it, in `async` code.
///
/// As the synchronous form, except that a child's failure cancels its siblings, but not what `body` itself awaits.
nonisolated(nonsending) public func withScope<Result>(
  name: String = "", _ body: nonisolated(nonsending) (CoroutineScope) async throws -> Result
) async throws -> Result {
  let storage = ScopeStorage(name: name)
  return try await withTaskCancellationHandler {
    var result: Result?
    do { result = try await body(CoroutineScope(storage)) } catch { storage.bodyFailed(error) }
    // In a task of its own, which nobody cancels.
    await Task { await storage.joinChildren() }.value
    if let failure = storage.outcome { throw failure }
    if storage.childrenWereCancelled, Task.isCancelled { throw CancellationError() }
    guard let result else { fatalError("a scope's body ended with neither a result nor an error") }
    return result
  } onCancel: {
    storage.cancelChildren(reason: CancellationError())
  }
}

/// Where coroutines are launched that `withScope` waits for. Copies are the same scope; it may be handed to the children,
/// who may launch more. Launching after its end traps.
public struct CoroutineScope: Sendable {
  @usableFromInline let storage: ScopeStorage

  init(_ storage: ScopeStorage) {
    self.storage = storage
  }

  /// Starts a child: a coroutine that the scope waits for. On the scheduler of the calling coroutine, or on the pool.
  ///
  /// The parameters are those of `Coroutine.init(name:stackSize:_:)`. Callable from any thread.
  @discardableResult @inlinable
  public func launch<Value: Sendable, Failure: Error>(
    name: String = "", stackSize: Int? = nil, _ body: sending (() throws(Failure) -> Value)?
  ) -> Coroutine<Value, Failure> {
    guard let body else { missingFunction() }
    let child = CoroutineStorage.create(on: .inherited, name: name, stackSize: stackSize, body: body)
    storage.adopt(child)
    child.schedule()
    return Coroutine(storage: child)
  }

  /// Starts a child on a scheduler.
  @discardableResult @inlinable
  public func launch<Value: Sendable, Failure: Error>(
    on scheduler: some Scheduler, name: String = "", stackSize: Int? = nil,
    _ body: sending (() throws(Failure) -> Value)?
  ) -> Coroutine<Value, Failure> {
    guard let body else { missingFunction() }
    let reference = SchedulerReference(scheduler)
    let child = CoroutineStorage.create(on: reference, name: name, stackSize: stackSize, body: body)
    storage.adopt(child)
    child.schedule()
    return Coroutine(storage: child)
  }

  /// Cancels the children, those to come too, and what the scope's body waits for, in a coroutine. The scope ends without
  /// an error if its body does. Callable from any thread; the first reason counts.
  public func cancel(reason: (any Error)? = nil) {
    storage.cancel(reason: reason ?? CancellationError())
  }
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
}

/// Several failures in one scope.
public struct ScopeError: Error, CustomStringConvertible {
  /// The one that came first, for which the others were cancelled.
  public let first: any Error
  /// Those that came beside it, of children in the order in which they ended, then the body's.
  public let others: [any Error]

  public var description: String {
    "\(first) (and beside it: " + others.map { "\($0)" }.joined(separator: ", ") + ")"
  }
}
