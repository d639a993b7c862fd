// SPDX-License-Identifier: Apache-2.0

// Functions that take a closure to be run later, and no scheduler, have a form for closures of the main actor: those
// that say `@MainActor in`, and methods. The compiler prefers it for these and no others. Where a scheduler is named
// they are refused, as functions of other global actors are everywhere: `missingFunction` says how.
//
// (`Coroutine { }` needs no such form: its closure inherits the actor, which is known at run time. That closure has to
// be `@Sendable`; these need not be.)

extension Promise {
  /// What `transform`, code of the main actor, makes of the value: it runs on the main queue. Otherwise as any `then`.
  ///
  /// ```swift
  /// picture.then { @MainActor in self.show($0) }
  /// picture.then(show)
  /// ```
  @discardableResult
  public func then<NewValue: Sendable>(
    _ transform: @escaping @MainActor @Sendable (Value) throws -> NewValue
  ) -> Promise<NewValue> {
    then(on: mainActorScheduler, withoutMainActor(transform))
  }

  /// The promise that `transform`, code of the main actor, makes of the value, flattened: it runs on the main queue.
  @discardableResult
  public func then<NewValue: Sendable>(
    _ transform: @escaping @MainActor @Sendable (Value) throws -> Promise<NewValue>
  ) -> Promise<NewValue> {
    then(on: mainActorScheduler, withoutMainActor(transform))
  }

  /// Handles the error with code of the main actor: it runs on the main queue. Otherwise as any `catch`.
  @discardableResult
  public func `catch`(_ handle: @escaping @MainActor @Sendable (any Error) throws -> Void) -> Promise<Void> {
    `catch`(on: mainActorScheduler, withoutMainActor(handle))
  }

  /// Runs `cleanup`, code of the main actor, on the main queue, on fulfilment and on rejection.
  @discardableResult
  public func finally(_ cleanup: @escaping @MainActor @Sendable () throws -> Void) -> Promise {
    finally(on: mainActorScheduler, withoutMainActor(cleanup))
  }
}

extension PromiseProtocol {
  /// What `recover`, code of the main actor, makes of the error: it runs on the main queue. Otherwise as any `catch`.
  @discardableResult
  public func `catch`(_ recover: @escaping @MainActor @Sendable (any Error) throws -> Value) -> Promise<Value> {
    `catch`(on: mainActorScheduler, withoutMainActor(recover))
  }

  /// The promise that `recover`, code of the main actor, makes of the error, flattened: it runs on the main queue.
  @discardableResult
  public func `catch`<Other: PromiseProtocol<Value>>(
    _ recover: @escaping @MainActor @Sendable (any Error) throws -> Other
  ) -> Promise<Value> {
    `catch`(on: mainActorScheduler, withoutMainActor(recover))
  }
}

extension CoroutineScope {
  /// Starts a child that is code of the main actor: on the main queue. Otherwise as any `launch`.
  ///
  /// ```swift
  /// scope.launch { @MainActor in self.pages.append(try pages.receive()) }
  /// ```
  @discardableResult
  public func launch<Value: Sendable, Failure: Error>(
    name: String = "", stackSize: Int? = nil, _ body: @escaping @MainActor @Sendable () throws(Failure) -> Value
  ) -> Coroutine<Value, Failure> {
    launch(on: mainActorScheduler, name: name, stackSize: stackSize, withoutMainActor(body))
  }

  /// Starts a child that is code of the main actor with a priority of its own: on the main queue. Otherwise as any `launch`.
  ///
  /// The main queue runs all in the order in which they become ready. Tasks that the child waits for, and coroutines that it
  /// creates, have its priority too.
  @discardableResult
  public func launch<Value: Sendable, Failure: Error>(
    priority: TaskPriority, name: String = "", stackSize: Int? = nil,
    _ body: @escaping @MainActor @Sendable () throws(Failure) -> Value
  ) -> Coroutine<Value, Failure> {
    launch(
      on: mainActorScheduler, priority: priority, name: name, stackSize: stackSize, withoutMainActor(body))
  }

  /// Launches a child that is code of the main actor, on the main queue, and starts in another way than the others. Otherwise as
  /// any `launch(start:)`.
  public func launch<Value: Sendable, Failure: Error>(
    start: CoroutineStart, priority: TaskPriority? = nil, name: String = "", stackSize: Int? = nil,
    _ body: @escaping @MainActor @Sendable () throws(Failure) -> Value
  ) -> Coroutine<Value, Failure> {
    launch(
      on: mainActorScheduler, start: start, priority: priority, name: name, stackSize: stackSize,
      withoutMainActor(body))
  }

  /// Starts a child that is code of the main actor, on the main queue, and suspends the calling coroutine until that says that
  /// it is ready. Otherwise as any `start`.
  @_disfavoredOverload @available(*, noasync, message: "start children that report when they are ready in coroutines")
  public func start<Value: Sendable>(
    priority: TaskPriority? = nil, name: String = "", stackSize: Int? = nil,
    _ body: @escaping @MainActor @Sendable (ReadySignal<Value>) throws -> Void
  ) throws -> Value {
    try start(
      on: mainActorScheduler, priority: priority, name: name, stackSize: stackSize, withoutMainActor(body))
  }
}

extension Coroutine where Success == Never, Failure == Never {
  /// Starts a coroutine that is code of the main actor: at once if the caller is on the main queue, otherwise behind those
  /// that are ready there.
  @discardableResult
  public static func immediate<Value: Sendable, Problem: Error>(
    name: String = "", stackSize: Int? = nil, _ body: @escaping @MainActor @Sendable () throws(Problem) -> Value
  ) -> Coroutine<Value, Problem> {
    immediate(on: mainActorScheduler, name: name, stackSize: stackSize, withoutMainActor(body))
  }

  /// Starts a coroutine that is code of the main actor with a priority of its own: at once if the caller is on the main queue,
  /// otherwise behind those that are ready there, in their order. Tasks that it waits for, and coroutines that it creates,
  /// have its priority too.
  @discardableResult
  public static func immediate<Value: Sendable, Problem: Error>(
    priority: TaskPriority, name: String = "", stackSize: Int? = nil,
    _ body: @escaping @MainActor @Sendable () throws(Problem) -> Value
  ) -> Coroutine<Value, Problem> {
    immediate(
      on: mainActorScheduler, priority: priority, name: name, stackSize: stackSize, withoutMainActor(body))
  }

  /// Starts a coroutine that is code of the main actor, on the main queue, and has nothing of its creator.
  @discardableResult
  public static func detached<Value: Sendable, Problem: Error>(
    name: String = "", stackSize: Int? = nil, _ body: @escaping @MainActor @Sendable () throws(Problem) -> Value
  ) -> Coroutine<Value, Problem> {
    detached(on: mainActorScheduler, name: name, stackSize: stackSize, withoutMainActor(body))
  }

  /// Starts a coroutine that is code of the main actor, on the main queue, and has nothing of its creator but a priority of
  /// its own. Tasks that it waits for, and coroutines that it creates, have that too.
  @discardableResult
  public static func detached<Value: Sendable, Problem: Error>(
    priority: TaskPriority, name: String = "", stackSize: Int? = nil,
    _ body: @escaping @MainActor @Sendable () throws(Problem) -> Value
  ) -> Coroutine<Value, Problem> {
    detached(
      on: mainActorScheduler, priority: priority, name: name, stackSize: stackSize, withoutMainActor(body))
  }
}

extension AsyncGenerator {
  /// A generator whose body is code of the main actor: it runs on the main queue. Otherwise as any.
  public init(
    name: String = "", stackSize: Int? = nil, _ body: @escaping @MainActor @Sendable (Yield) throws -> Void
  ) {
    self.init(on: mainActorScheduler, name: name, stackSize: stackSize, withoutMainActor(body))
  }
}

extension MessageActor {
  /// Starts an actor whose body is code of the main actor: on the main queue. Otherwise as any actor.
  public init(
    name: String = "", stackSize: Int? = nil, mailbox: MailboxPolicy = .unbounded,
    supervision: Supervision = Supervision(), _ body: @escaping @MainActor @Sendable (Mailbox<Message>) throws -> Void
  ) {
    self.init(
      on: mainActorScheduler, name: name, stackSize: stackSize, mailbox: mailbox, supervision: supervision,
      withoutMainActor(body))
  }
}

extension Mailbox {
  /// Starts a child whose body is code of the main actor: on the main queue. Otherwise as any `launch`.
  public func launch<Other>(
    name: String = "", stackSize: Int? = nil, mailbox: MailboxPolicy = .unbounded,
    supervision: Supervision = Supervision(), _ body: @escaping @MainActor @Sendable (Mailbox<Other>) throws -> Void
  ) -> MessageActor<Other> {
    launch(
      on: mainActorScheduler, name: name, stackSize: stackSize, mailbox: mailbox, supervision: supervision,
      withoutMainActor(body))
  }
}

extension Supervisor {
  /// Starts an actor whose body is code of the main actor: on the main queue. Otherwise as any `launch`.
  public func launch<Message>(
    name: String = "", stackSize: Int? = nil, mailbox: MailboxPolicy = .unbounded,
    supervision: Supervision = Supervision(), _ body: @escaping @MainActor @Sendable (Mailbox<Message>) throws -> Void
  ) -> MessageActor<Message> {
    launch(
      on: mainActorScheduler, name: name, stackSize: stackSize, mailbox: mailbox, supervision: supervision,
      withoutMainActor(body))
  }
}

// MARK: - Actors that are a state and a function

// The state is made where it is used: on the main queue, too.

extension MessageActor {
  /// Starts an actor that is a state and a function of the main actor: both run on the main queue. Otherwise as any actor.
  public init<State>(
    name: String = "", stackSize: Int? = nil, mailbox: MailboxPolicy = .unbounded,
    state makeState: sending (() throws -> State)?,
    handle: @escaping @MainActor @Sendable (_ state: inout State, _ message: Message) throws -> Void
  ) {
    guard let makeState else { missingFunction() }
    self.init(
      on: mainActorScheduler, name: name, stackSize: stackSize, mailbox: mailbox, state: makeState,
      handle: withoutMainActor(handle))
  }
}

extension Mailbox {
  /// Starts a child that is a state and a function of the main actor: both run on the main queue. Otherwise as any `launch`.
  public func launch<Other, State>(
    name: String = "", stackSize: Int? = nil, mailbox: MailboxPolicy = .unbounded,
    state makeState: sending (() throws -> State)?,
    handle: @escaping @MainActor @Sendable (_ state: inout State, _ message: Other) throws -> Void
  ) -> MessageActor<Other> {
    guard let makeState else { missingFunction() }
    return launch(
      on: mainActorScheduler, name: name, stackSize: stackSize, mailbox: mailbox,
      MessageActor<Other>.body(makeState, withoutMainActor(handle)))
  }
}

extension Supervisor {
  /// Starts an actor that is a state and a function of the main actor: both run on the main queue. Otherwise as any `launch`.
  public func launch<Message, State>(
    name: String = "", stackSize: Int? = nil, mailbox: MailboxPolicy = .unbounded,
    state makeState: sending (() throws -> State)?,
    handle: @escaping @MainActor @Sendable (_ state: inout State, _ message: Message) throws -> Void
  ) -> MessageActor<Message> {
    guard let makeState else { missingFunction() }
    return launch(
      on: mainActorScheduler, name: name, stackSize: stackSize, mailbox: mailbox,
      MessageActor<Message>.body(makeState, withoutMainActor(handle)))
  }
}
