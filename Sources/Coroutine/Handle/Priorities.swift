// SPDX-License-Identifier: Apache-2.0

// Coroutines with priorities of their own. Separate forms, so that the usual ones do not pass an optional priority.

extension Coroutine {
  /// Starts a coroutine with a priority of its own. On the scheduler of the coroutine that creates it; else on the pool, or on
  /// the main queue for code of the main actor.
  ///
  /// The priority is the scheduler's to obey: one of your own finds it in the `CoroutineJob`. `ThreadPool` and Dispatch queues
  /// run all in the order in which they become ready, so that a coroutine that others wait for is never starved. Tasks that
  /// the coroutine waits for, and coroutines that it creates, have its priority too. Without one it has that of its creator.
  ///
  /// ```swift
  /// Coroutine(on: scheduler, priority: .high) { try answer(request) }
  /// ```
  ///
  /// The other parameters are those of `init(name:stackSize:_:)`.
  ///
  /// - Precondition: `body` is not isolated to an actor, except the main actor: traps otherwise.
  @discardableResult
  public init(
    priority: TaskPriority, name: String = "", stackSize: Int? = nil,
    @_inheritActorContext @_implicitSelfCapture @_eagerMove _ body:
      @Sendable @escaping @isolated(any) () throws(Failure) -> Success
  ) {
    self.init(
      priority, on: .inherited(isolation: body.isolation), name: name, stackSize: stackSize, withoutIsolation(body))
  }

  /// Starts a coroutine on a scheduler with a priority of its own: `init(priority:name:stackSize:_:)`.
  @discardableResult
  public init(
    on scheduler: some Scheduler, priority: TaskPriority, name: String = "", stackSize: Int? = nil,
    _ body: sending (() throws(Failure) -> Success)?
  ) {
    guard let body else { missingFunction() }
    self.init(priority, on: SchedulerReference(scheduler), name: name, stackSize: stackSize, body)
  }

  private init(
    _ priority: TaskPriority, on scheduler: SchedulerReference, name: String, stackSize: Int?,
    _ body: sending @escaping () throws(Failure) -> Success
  ) {
    storage = CoroutineStorage.create(on: scheduler, name: name, stackSize: stackSize, body: body)
    storage.prioritise(priority)
    storage.schedule()
  }
}

extension Coroutine where Success == Never, Failure == Never {
  /// Starts a coroutine that has nothing of its creator, with a priority of its own: `detached(on:name:stackSize:_:)` and
  /// `init(priority:name:stackSize:_:)`.
  @discardableResult
  public static func detached<Value: Sendable, Problem: Error>(
    on scheduler: some Scheduler = ThreadPool.shared, priority: TaskPriority, name: String = "",
    stackSize: Int? = nil, _ body: sending (() throws(Problem) -> Value)?
  ) -> Coroutine<Value, Problem> {
    guard let body else { missingFunction() }
    let reference = SchedulerReference(scheduler)
    let storage = CoroutineStorage.create(on: reference, name: name, stackSize: stackSize, body: body)
    storage.detach()
    storage.prioritise(priority)
    storage.schedule()
    return Coroutine<Value, Problem>(storage: storage)
  }

  /// Starts a coroutine with a priority of its own, and runs it at once, on the calling thread, until it suspends for the
  /// first time: `immediate(name:stackSize:_:)` and `init(priority:name:stackSize:_:)`. The priority counts from then on.
  @discardableResult
  public static func immediate<Value: Sendable, Problem: Error>(
    priority: TaskPriority, name: String = "", stackSize: Int? = nil,
    _ body: sending (() throws(Problem) -> Value)?
  ) -> Coroutine<Value, Problem> {
    guard let body else { missingFunction() }
    let storage = CoroutineStorage.create(on: .inherited, name: name, stackSize: stackSize, body: body)
    storage.prioritise(priority)
    storage.runImmediately()
    return Coroutine<Value, Problem>(storage: storage)
  }

  /// Starts a coroutine on a scheduler with a priority of its own, at once if the caller is on that:
  /// `immediate(on:name:stackSize:_:)` and `init(priority:name:stackSize:_:)`.
  @discardableResult
  public static func immediate<Value: Sendable, Problem: Error>(
    on scheduler: some Scheduler, priority: TaskPriority, name: String = "", stackSize: Int? = nil,
    _ body: sending (() throws(Problem) -> Value)?
  ) -> Coroutine<Value, Problem> {
    guard let body else { missingFunction() }
    let reference = SchedulerReference(scheduler)
    let storage = CoroutineStorage.create(on: reference, name: name, stackSize: stackSize, body: body)
    storage.prioritise(priority)
    if reference.isCurrent { storage.runImmediately() } else { storage.schedule() }
    return Coroutine<Value, Problem>(storage: storage)
  }
}
