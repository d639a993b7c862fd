// SPDX-License-Identifier: Apache-2.0

extension MessageActor {
  /// Starts an actor that consists of a state and a function: the state is made when it begins, and again when it is
  /// started again.
  ///
  /// ```swift
  /// let counter = MessageActor<Counting>(state: { 0 }) { count, message in
  ///   switch message {
  ///   case .increment: count += 1
  ///   case .get(let reply): reply.complete(count)
  ///   }
  /// }
  /// ```
  ///
  /// - Parameters:
  ///   - name: for backtraces and messages.
  ///   - stackSize: of its coroutine, in bytes; `nil`: the usual size.
  ///   - mailbox: how many messages wait, and what happens to one more.
  ///   - makeState: makes the state, on the actor's coroutine.
  ///   - handle: handles a message. When it throws, and the supervisor says `resume`, the state stays as it is.
  public init<State>(
    name: String = "", stackSize: Int? = nil, mailbox: MailboxPolicy = .unbounded,
    state makeState: sending (() throws -> State)?,
    handle: sending ((_ state: inout State, _ message: Message) throws -> Void)?
  ) {
    guard let makeState, let handle else { missingFunction() }
    self.init(
      on: .inherited, name, stackSize, mailbox, Supervision(), under: nil, Self.body(makeState, handle))
  }

  /// Starts an actor that is a state and a function, on a scheduler.
  public init<State>(
    on scheduler: some Scheduler, name: String = "", stackSize: Int? = nil, mailbox: MailboxPolicy = .unbounded,
    state makeState: sending (() throws -> State)?,
    handle: sending ((_ state: inout State, _ message: Message) throws -> Void)?
  ) {
    guard let makeState, let handle else { missingFunction() }
    self.init(
      on: SchedulerReference(scheduler), name, stackSize, mailbox, Supervision(), under: nil,
      Self.body(makeState, handle))
  }

  static func body<State>(
    _ makeState: @escaping () throws -> State, _ handle: @escaping (inout State, Message) throws -> Void
  ) -> (Mailbox<Message>) throws -> Void {
    { mailbox in
      var state = try makeState()
      try mailbox.handleEach { try handle(&state, $0) }
    }
  }
}

extension Mailbox {
  /// Starts a child that is a state and a function. See `MessageActor.init(name:stackSize:mailbox:state:handle:)`.
  public func launch<Other, State>(
    name: String = "", stackSize: Int? = nil, mailbox: MailboxPolicy = .unbounded,
    state makeState: sending (() throws -> State)?,
    handle: sending ((_ state: inout State, _ message: Other) throws -> Void)?
  ) -> MessageActor<Other> {
    guard let makeState, let handle else { missingFunction() }
    return launch(name: name, stackSize: stackSize, mailbox: mailbox, MessageActor<Other>.body(makeState, handle))
  }

  /// Starts a child that is a state and a function, on another scheduler.
  public func launch<Other, State>(
    on scheduler: some Scheduler, name: String = "", stackSize: Int? = nil, mailbox: MailboxPolicy = .unbounded,
    state makeState: sending (() throws -> State)?,
    handle: sending ((_ state: inout State, _ message: Other) throws -> Void)?
  ) -> MessageActor<Other> {
    guard let makeState, let handle else { missingFunction() }
    return launch(
      on: scheduler, name: name, stackSize: stackSize, mailbox: mailbox, MessageActor<Other>.body(makeState, handle))
  }
}
