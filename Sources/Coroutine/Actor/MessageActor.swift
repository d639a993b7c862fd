// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// A coroutine with a mailbox: it handles one message at a time, and no other code has access to its state.
///
/// ```swift
/// enum Counting {
///   case increment
///   case get(Reply<Int>)
/// }
///
/// let counter = MessageActor<Counting>(name: "counter") { mailbox in
///   var count = 0
///   for message in mailbox {
///     switch message {
///     case .increment: count += 1
///     case .get(let reply): reply.complete(count)
///     }
///   }
/// }
/// try counter.tell(.increment)
/// print(try counter.ask { .get($0) })         // 1
/// ```
///
/// - **Messages** are handled in the order in which one sender sends them; those of different senders in some order.
///   Different actors run at the same time. A message may wait for anything while it is handled: the next one comes after it.
/// - **tell** sends. **ask** sends a message with a `Reply` in it, and waits for the answer: a value, or an error. An error
///   that is thrown while a message is handled is the answer too, if there was none before.
/// - **Nothing is lost in silence.** A message to an actor that has ended is refused with `ActorStopped`. Messages that
///   are left in its mailbox then are answered with that, or given to `DeadLetters.handler`, as are messages that fail.
/// - **Its end.** An actor ends when its body returns, when it is cancelled, when it fails and its supervisor says so,
///   and when the last `MessageActor` that could send to it is gone, and all messages that were sent are handled.
/// - **Failures.** An actor that throws ends, unless it has a supervisor: that of `Mailbox.launch`, which starts
///   children, or a `Supervisor`. The body makes the state: when it is run again, everything in it is as in the
///   beginning, and the mailbox is as it was. An error outside of any message that ends it, while it has no watcher, is
///   reported through `CoroutineErrors.unhandled`. So is one that its body throws when it is to end, or to start again, for
///   another reason: it changes nothing about that. (A `CancellationError` is none.)
/// - **Cycles.** An actor that asks itself, or asks one that waits for it, gets `AskCycle` instead of waiting for
///   ever. The same holds for a wait for the promise of a `send`, for a promise that `then` derives from it, and for
///   several by `values(of:)`. Where the answer will come from elsewhere, `Reply.handedOn()` says so. A coroutine that
///   an actor has launched asks for itself: when it asks, it is not known whether the actor waits for it, and can't be
///   cancelled meanwhile. That is a deadlock, which `CoroutineDebug`'s detector reports.
///
/// All functions may be called from any thread; those that may wait exist for coroutines, for `async` code, and, with
/// `Blocking` in their names, for threads. Copies are the same actor. Each message takes constant time, and allocates
/// only in the mailbox.
public struct MessageActor<Message: Sendable>: Sendable {
  @usableFromInline let owner: ActorOwner<Message>

  @usableFromInline
  init(_ owner: ActorOwner<Message>) {
    self.owner = owner
  }

  @inlinable @inline(__always)
  var storage: ActorStorage<Message> { owner.storage }

  /// Starts an actor, on the scheduler of the coroutine that creates it, or, created elsewhere, on the pool.
  ///
  /// - Parameters:
  ///   - name: for backtraces and messages.
  ///   - stackSize: usable bytes; `nil` for the default.
  ///   - mailbox: how many messages wait at most, and what becomes of one more.
  ///   - supervision: what happens to its children, `Mailbox.launch`, when they fail.
  ///   - body: takes the messages. Run again, from its beginning, when the actor is started again.
  public init(
    name: String = "", stackSize: Int? = nil, mailbox: MailboxPolicy = .unbounded,
    supervision: Supervision = Supervision(), _ body: sending ((Mailbox<Message>) throws -> Void)?
  ) {
    guard let body else { missingFunction() }
    self.init(on: .inherited, name, stackSize, mailbox, supervision, under: nil, body)
  }

  /// Starts an actor on a scheduler: a `DispatchQueue`, `.pool`, one of your own.
  public init(
    on scheduler: some Scheduler, name: String = "", stackSize: Int? = nil, mailbox: MailboxPolicy = .unbounded,
    supervision: Supervision = Supervision(), _ body: sending ((Mailbox<Message>) throws -> Void)?
  ) {
    guard let body else { missingFunction() }
    self.init(on: SchedulerReference(scheduler), name, stackSize, mailbox, supervision, under: nil, body)
  }

  init(
    on scheduler: SchedulerReference, _ name: String, _ stackSize: Int?, _ mailbox: MailboxPolicy,
    _ supervision: Supervision, under parent: SupervisorNode?, _ body: @escaping (Mailbox<Message>) throws -> Void
  ) {
    let storage = ActorStorage<Message>(
      name: name, on: scheduler, stackSize: stackSize, mailbox: mailbox, parent: parent, policy: supervision, body: body
    )
    owner = ActorOwner(storage)
    storage.start()
  }

  /// The name it was given; empty without one.
  public var name: String { storage.name }
}

// MARK: - Telling

extension MessageActor {
  /// Sends a message. Waits only where the mailbox is full and its policy is to suspend.
  ///
  /// - Parameters:
  ///   - message: what the actor is to handle.
  ///   - timeout: how long to wait for room at most; zero or less: does not wait; `nil`: without a limit.
  /// - Throws: `ActorStopped` if the actor has ended; `MailboxFull` if the mailbox is full and its policy is to fail, or it
  ///   is the actor's own, which would wait for itself for ever; `CancellationError` or `TimeoutError` if the caller is
  ///   cancelled, or time is up, while it waits for room.
  /// - Precondition: called inside a coroutine where the mailbox is full and its policy is to suspend: traps elsewhere.
  @inlinable
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func tell(_ message: consuming Message, timeout: Duration? = nil) throws {
    guard storage.lockIfRoom() else { return try tellSlowly(consume message, timeout) }
    storage.keep(consume message)
  }

  @inlinable @inline(never)
  func tellSlowly(_ message: consuming Message, _ timeout: Duration?) throws {
    var envelope: Envelope<Message>?
    switch storage.deliver(consume message, nil, &envelope) {
    case .delivered: return
    case .refused(let error): throw error
    case .full:
      let core = CoroutineCore.running(for: "MessageActor.tell(_:), which found the mailbox full,")
      // Only the actor itself can make room.
      guard core !== storage.coroutine else { throw MailboxFull(actor: name) }
      let cause = storage.waitForRoom(core, &envelope, until: WaitDeadline.after(timeout))
      try storage.check(cause, envelope == nil, timeout)
    }
  }

  /// Sends a message, in `async` code. Waits only where the mailbox is full and its policy is to suspend.
  ///
  /// - Parameters:
  ///   - message: what the actor is to handle.
  ///   - timeout: how long to wait for room at most; zero or less: does not wait; `nil`: without a limit.
  /// - Throws: as the synchronous form.
  @inlinable
  nonisolated(nonsending) public func tell(_ message: consuming Message, timeout: Duration? = nil) async throws {
    var envelope: Envelope<Message>?
    switch storage.deliver(consume message, nil, &envelope) {
    case .delivered: return
    case .refused(let error): throw error
    case .full:
      let cause = await storage.waitForRoom(&envelope, until: WaitDeadline.after(timeout))
      try storage.check(cause, envelope == nil, timeout)
    }
  }

  /// Sends a message, on a plain thread, which it blocks where the mailbox is full and its policy is to suspend.
  ///
  /// - Parameters:
  ///   - message: what the actor is to handle.
  ///   - timeout: how long to wait for room at most; zero or less: does not wait; `nil`: without a limit.
  ///   - file: the caller's, for messages.
  ///   - line: the caller's, for messages.
  /// - Throws: as `tell(_:timeout:)`.
  /// - Precondition: not called inside a coroutine: traps otherwise; and does not have to wait on the only thread on which the
  ///   actor runs, as the main thread is for an actor on the main queue: traps otherwise.
  @inlinable
  @available(*, noasync, message: "use 'await tell()' in async code")
  public func tellBlocking(
    _ message: consuming Message, timeout: Duration? = nil, file: StaticString = #fileID, line: UInt = #line
  ) throws {
    storage.requireNoCoroutine()
    var envelope: Envelope<Message>?
    switch storage.deliver(consume message, nil, &envelope) {
    case .delivered: return
    case .refused(let error): throw error
    case .full:
      storage.requireAnotherThread()
      try storage.check(
        storage.waitForRoomBlocking(
          &envelope, until: WaitDeadline.after(timeout), at: BlockingCall("tellBlocking(_:timeout:)", file, line)),
        envelope == nil, timeout)
    }
  }
}

// MARK: - Asking

extension MessageActor {
  /// Sends a message with a `Reply` in it, and waits for the answer. Suspends the calling coroutine.
  ///
  /// ```swift
  /// let count = try counter.ask(timeout: .seconds(1)) { .get($0) }
  /// ```
  ///
  /// The asker may go on as soon as the actor has answered, and does at the latest when the actor has handled the message or
  /// waits for something.
  ///
  /// - Parameters:
  ///   - timeout: how long to wait at most, for room in the mailbox and for the answer; zero or less: does not wait;
  ///     `nil`: without a limit. The message is handled all the same: `Reply.isWanted` shows the actor that there is no
  ///     waiter.
  ///   - message: makes the message. Called at once.
  /// - Returns: what the actor gave to `Reply.complete(_:)`.
  /// - Throws: what it gave to `Reply.fail(_:)`, or threw while it handled the message; `ReplyDropped` if no answer can
  ///   come any more; `ActorStopped` if the actor ended before it got to the message; `MailboxFull` by the policy of
  ///   the mailbox; `AskCycle` if the actor waits for the caller; `CancellationError` if the caller is cancelled;
  ///   `TimeoutError`.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @inlinable
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func ask<Value: Sendable>(timeout: Duration? = nil, _ message: (Reply<Value>) -> Message) throws -> Value {
    try storage.ask(timeout: timeout, message)
  }

  /// Sends a message with a `Reply` in it, and waits for the answer. In `async` code.
  ///
  /// Parameters and errors are those of the synchronous form.
  @inlinable
  nonisolated(nonsending) public func ask<Value: Sendable>(
    timeout: Duration? = nil, _ message: (Reply<Value>) -> Message
  ) async throws -> Value {
    try await storage.ask(timeout: timeout, message)
  }

  /// Sends a message with a `Reply` in it, and waits for the answer. Blocks the calling thread.
  ///
  /// Parameters and errors are those of `ask(timeout:_:)`.
  ///
  /// - Precondition: not called inside a coroutine, nor on the only thread that could run the actor (such as the main
  ///   thread, for an actor of the main queue): traps otherwise.
  @inlinable
  @available(*, noasync, message: "use 'await ask()' in async code")
  public func askBlocking<Value: Sendable>(
    timeout: Duration? = nil, file: StaticString = #fileID, line: UInt = #line, _ message: (Reply<Value>) -> Message
  ) throws -> Value {
    try storage.askBlocking(timeout: timeout, at: BlockingCall("askBlocking(timeout:_:)", file, line), message)
  }
}

// MARK: - Ending

extension MessageActor {
  /// Cancels the actor: its loop ends, or the operation that it waits in throws `CancellationError`, and the code after
  /// that runs. It takes no more messages from now on. Callable from any thread, any number of times.
  public func cancel() {
    storage.request(.stop)
  }

  /// How it has ended; `nil` as long as it has not.
  public var end: ActorEnd? { storage.ending }

  /// Calls `handler` with its end, once; at once if it has ended. Runs on the actor's coroutine otherwise, in the order
  /// in which the watchers came; must not block.
  public func watch(_ handler: @escaping @Sendable (ActorEnd) -> Void) {
    storage.watch(handler)
  }

  /// Waits for the end of the actor and of its children. Suspends the calling coroutine.
  ///
  /// - Throws: what the actor failed with; `CancellationError` if the caller is cancelled. That the actor was cancelled is no
  ///   error.
  /// - Precondition: called inside a coroutine, and not by the actor itself: traps otherwise.
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func join() throws {
    _ = CoroutineCore.running(for: "MessageActor.join()")
    try storage.coroutine.waitForEnd().check()
    try storage.throwFailure()
  }

  /// Waits for the end of the actor and of its children. In `async` code.
  ///
  /// - Throws: what the actor failed with; `CancellationError` if the caller is cancelled.
  nonisolated(nonsending) public func join() async throws {
    try await storage.coroutine.waitForEnd().check()
    try storage.throwFailure()
  }

  /// Waits for the end of the actor and of its children. Blocks the calling thread.
  ///
  /// - Parameters:
  ///   - file: the caller's, for messages.
  ///   - line: the caller's, for messages.
  /// - Throws: what the actor failed with.
  /// - Precondition: not called inside a coroutine, nor on the only thread that could run the actor (such as the main
  ///   thread, for an actor of the main queue): traps otherwise.
  @available(*, noasync, message: "use 'await join()' in async code")
  public func joinBlocking(file: StaticString = #fileID, line: UInt = #line) throws {
    try storage.coroutine.blockUntilEnd(at: BlockingCall("joinBlocking()", file, line)).check()
    try storage.throwFailure()
  }

  /// Waits for the end of the actor and of its children, but no longer than `timeout`. Otherwise as `join()`.
  ///
  /// - Parameter timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Throws: `TimeoutError`, and what `join()` throws.
  /// - Precondition: as for `join()`.
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func join(timeout: Duration?) throws {
    _ = CoroutineCore.running(for: "MessageActor.join(timeout:)")
    try storage.coroutine.waitForEnd(until: WaitDeadline.after(timeout)).check(timeout)
    try storage.throwFailure()
  }

  /// Waits for the end of the actor and of its children, but no longer than `timeout`. In `async` code.
  ///
  /// - Parameter timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Throws: `TimeoutError`, and what `join()` throws.
  nonisolated(nonsending) public func join(timeout: Duration?) async throws {
    try await storage.coroutine.waitForEnd(until: WaitDeadline.after(timeout)).check(timeout)
    try storage.throwFailure()
  }

  /// Waits for the end of the actor and of its children, but no longer than `timeout`. Blocks the calling thread.
  ///
  /// - Parameters:
  ///   - timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  ///   - file: the caller's, for messages.
  ///   - line: the caller's, for messages.
  /// - Throws: `TimeoutError`, and what `joinBlocking()` throws.
  /// - Precondition: as for `joinBlocking()`.
  @available(*, noasync, message: "use 'await join(timeout:)' in async code")
  public func joinBlocking(timeout: Duration?, file: StaticString = #fileID, line: UInt = #line) throws {
    let call = BlockingCall("joinBlocking(timeout:)", file, line)
    try storage.coroutine.blockUntilEnd(until: WaitDeadline.after(timeout), at: call).check(timeout)
    try storage.throwFailure()
  }
}

extension ActorCore {
  fileprivate final func throwFailure() throws {
    if case .failed(let error) = ending { throw error }
  }
}

/// What the copies of one `MessageActor` share: when the last of an actor's is gone, no messages can come any more.
@usableFromInline
final class ActorOwner<Message: Sendable>: Sendable {
  @usableFromInline let storage: ActorStorage<Message>

  @usableFromInline
  init(_ storage: ActorStorage<Message>) {
    self.storage = storage
    storage.handles.wrappingAdd(1, ordering: .relaxed)
  }

  deinit {
    storage.handleDropped()
  }
}

// MARK: - Equality and description: as those of all handles (Handle/Handles.swift)

extension MessageActor: Hashable, CustomStringConvertible {
  /// Whether both are the same actor.
  public static func == (left: MessageActor, right: MessageActor) -> Bool { left.storage === right.storage }

  public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(storage)) }

  /// The name it was given, and how it has ended, if it has by now.
  public var description: String { describeActor(name) + (end.map { ": \($0)" } ?? "") }
}
