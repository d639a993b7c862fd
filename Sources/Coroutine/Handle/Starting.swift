// SPDX-License-Identifier: Apache-2.0

/// When a coroutine starts, and what a cancel means before it begins: `Coroutine.init(start:priority:name:stackSize:_:)`.
public enum CoroutineStart: Sendable {
  /// On demand: by `start()`, or when a caller waits for its end. It never runs without that, and goes with its last handle;
  /// what `finally` was given runs then. Until it is started no dump or census shows it, since no thread is to run it;
  /// `Coroutine.statistics` counts it as live.
  ///
  /// To ask is to wait, however short: `get(timeout: .zero)` and `join(timeout: .zero)` start it, and so does a `select` with its
  /// `onValue` or `onEnd`, whichever case is chosen. `isFinished` and `state` don't.
  ///
  /// A child of a scope stays without a handle, too, until the scope's end:
  /// `CoroutineScope.launch(start:priority:name:stackSize:_:)`.
  case lazy
  /// At once, as any other; and its body begins even if it was cancelled before that. Then the first operation in it that
  /// may suspend throws. For bodies that have to give something back which they were handed.
  case atomic
}

extension Coroutine {
  /// Creates a coroutine that starts in another way than the others. On the scheduler of the coroutine that creates it; else
  /// on the pool, or on the main queue for code of the main actor.
  ///
  /// ```swift
  /// let index = Coroutine(start: .lazy) { try buildIndex() }
  /// // …
  /// let hits = try index.get().hits(for: word)        // starts it, if no caller has before
  /// ```
  ///
  /// The other parameters are those of `init(name:stackSize:_:)`; `priority` is that of `init(priority:name:stackSize:_:)`, or
  /// `nil` for the creator's.
  ///
  /// - Precondition: `body` is not isolated to an actor, except the main actor: traps otherwise.
  public init(
    start: CoroutineStart, priority: TaskPriority? = nil, name: String = "", stackSize: Int? = nil,
    @_inheritActorContext @_implicitSelfCapture @_eagerMove _ body:
      @Sendable @escaping @isolated(any) () throws(Failure) -> Success
  ) {
    self.init(
      start, on: .inherited(isolation: body.isolation), priority: priority, name: name, stackSize: stackSize,
      withoutIsolation(body))
  }

  /// Creates a coroutine on a scheduler that starts in another way than the others.
  ///
  /// The other parameters are those of `init(on:priority:name:stackSize:_:)`; without a priority it has its creator's.
  public init(
    on scheduler: some Scheduler, start: CoroutineStart, priority: TaskPriority? = nil, name: String = "",
    stackSize: Int? = nil,
    _ body: sending (() throws(Failure) -> Success)?
  ) {
    guard let body else { missingFunction() }
    self.init(
      start, on: SchedulerReference(scheduler), priority: priority, name: name, stackSize: stackSize, body)
  }

  private init(
    _ start: CoroutineStart, on scheduler: SchedulerReference, priority: TaskPriority?, name: String, stackSize: Int?,
    _ body: sending @escaping () throws(Failure) -> Success
  ) {
    switch start {
    case .lazy:
      storage = CoroutineStorage(on: scheduler, name: name, stackSize: stackSize, body: body)
      storage.holdOnDemand()
      if let priority { storage.prioritise(priority) }
    case .atomic:
      storage = CoroutineStorage.create(on: scheduler, name: name, stackSize: stackSize, body: body)
      storage.setStartsAtomically()
      if let priority { storage.prioritise(priority) }
      storage.schedule()
    }
  }

  /// Starts a coroutine that was created with `.lazy`, if no caller has before. Callable from any thread. Without effect on all
  /// others, also on one that waits for room in a scope with a limit.
  ///
  /// - Returns: whether this call started it.
  @discardableResult
  public func start() -> Bool { storage.startOnDemand() }
}
