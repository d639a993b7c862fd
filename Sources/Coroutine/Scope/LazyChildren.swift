// SPDX-License-Identifier: Apache-2.0

// Children that start in another way than the others: lazy ones, and those whose start no cancel prevents.

extension CoroutineScope {
  /// Launches a child that starts in another way than the others: `.lazy`, or `.atomic`.
  ///
  /// ```swift
  /// try withScope { scope in
  ///   let index = scope.launch(start: .lazy) { try buildIndex() }
  ///   for query in queries {
  ///     show(try query.isPlain ? look(for: query) : index.get().hits(for: query))     // built at the first query that needs it
  ///   }
  /// }                                                                               // or never
  /// ```
  ///
  /// A lazy child begins by `start()`, or when it is first waited for, as `CoroutineStart.lazy` says; it takes its place among a
  /// limited number of children then. The scope does not wait for ever for one that was never started: when its body and all other
  /// children have ended, it is cancelled, and never runs. A waiter for it in the end gets a `CancellationError`, and what
  /// `finally` was given runs. So it is no failure to have asked for nothing. (Kotlin's scopes wait for a lazy child until some
  /// code starts it.) The scope keeps it until then, also without a handle. The `join()` of a scope that is an object does not
  /// wait for it, and leaves it as it is.
  ///
  /// The other parameters are those of `Coroutine.init(start:priority:name:stackSize:_:)`. Callable from any thread.
  ///
  /// - Returns: the child's handle. There is no other way to start a lazy one.
  /// - Precondition: the scope has not ended: traps otherwise.
  public func launch<Value: Sendable, Failure: Error>(
    start: CoroutineStart, priority: TaskPriority? = nil, name: String = "", stackSize: Int? = nil,
    _ body: sending (() throws(Failure) -> Value)?
  ) -> Coroutine<Value, Failure> {
    guard let body else { missingFunction() }
    return launch(start, .inherited, priority, name, stackSize, body)
  }

  /// Launches a child on a scheduler that starts in another way than the others.
  ///
  /// - Precondition: the scope has not ended: traps otherwise.
  public func launch<Value: Sendable, Failure: Error>(
    on scheduler: some Scheduler, start: CoroutineStart, priority: TaskPriority? = nil, name: String = "",
    stackSize: Int? = nil, _ body: sending (() throws(Failure) -> Value)?
  ) -> Coroutine<Value, Failure> {
    guard let body else { missingFunction() }
    return launch(start, SchedulerReference(scheduler), priority, name, stackSize, body)
  }

  private func launch<Value: Sendable, Failure: Error>(
    _ start: CoroutineStart, _ scheduler: SchedulerReference, _ priority: TaskPriority?, _ name: String,
    _ stackSize: Int?, _ body: sending @escaping () throws(Failure) -> Value
  ) -> Coroutine<Value, Failure> {
    let child: CoroutineStorage<Value, Failure>
    switch start {
    case .lazy:
      child = CoroutineStorage(on: scheduler, name: name, stackSize: stackSize, body: body)
      child.holdOnDemand()
      if let priority { child.prioritise(priority) }
      storage.adoptHeld(child)
    case .atomic:
      child = CoroutineStorage.create(on: scheduler, name: name, stackSize: stackSize, body: body)
      child.setStartsAtomically()
      if let priority { child.prioritise(priority) }
      if storage.adopt(child) { child.schedule() }
    }
    return Coroutine(storage: child)
  }

  // As in `AsyncBodies.swift`.
  @available(
    *, unavailable,
    message: "a coroutine's body is not async: wait in it by 'try Coroutine.await { try await … }', or use a Task"
  )
  public func launch<Value: Sendable>(
    on scheduler: some Scheduler = .inherited, start: CoroutineStart, priority: TaskPriority? = nil, name: String = "",
    stackSize: Int? = nil, _ body: @Sendable @escaping @isolated(any) () async throws -> Value
  ) -> Coroutine<Value, any Error> {
    fatalError("unavailable")
  }
}
