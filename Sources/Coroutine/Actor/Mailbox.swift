// SPDX-License-Identifier: Apache-2.0

/// An actor's side of its mailbox, for its body: the messages, and what else an actor does.
///
/// To be used on the actor's own coroutine: it traps elsewhere.
public struct Mailbox<Message: Sendable>: Sequence, IteratorProtocol {
  @usableFromInline let storage: ActorStorage<Message>

  init(_ storage: ActorStorage<Message>) {
    self.storage = storage
  }

  /// The next message; suspends the actor until there is one. The message before it counts as handled from here on.
  ///
  /// - Returns: `nil` when the actor is to end, or to start again, and when no handle is left that could send to it.
  ///   The code after the loop runs; in an actor that was cancelled, what it waits for throws (see
  ///   `withCancellationShield`). Inside a shield it is `nil` when a stopped actor's mailbox is empty; for one that is to start
  ///   again, behind the messages that came together with the one before.
  @inlinable
  @available(*, noasync, message: "an actor's body is not async code")
  public func next() -> Message? {
    storage.next()
  }

  /// Handles each message, until the actor is to end. When `handle` throws, the message has failed, and the supervisor
  /// decides. It may decide to go on with the next message, since what is outside of `handle` stays as it is.
  ///
  /// ```swift
  /// MessageActor<Order> { mailbox in
  ///   var total = 0
  ///   try mailbox.handleEach { order in total += try price(of: order) }
  /// }
  /// ```
  ///
  /// - Throws: what `handle` has thrown, if the supervisor does not say `resume`.
  @inlinable
  @available(*, noasync, message: "an actor's body is not async code")
  public func handleEach(_ handle: (Message) throws -> Void) throws {
    storage.beginHandling()
    while let message = storage.next() {
      do {
        try handle(message)
      } catch {
        guard storage.decideToResume(after: error) else { throw error }
      }
    }
  }

  /// The actor itself, to send to, or to pass on to others.
  public var actor: MessageActor<Message> { MessageActor(ActorOwner(storage)) }
}

// MARK: - Children

extension Mailbox {
  /// Starts a child: an actor that is supervised by this one's policy, and that ends before this one does. Its children
  /// are stopped when the body ends, for whatever reason, the last one first, each waited for; a body that is run again
  /// launches its children again. Until then a child does not end for want of a sender.
  ///
  /// The other parameters are those of `MessageActor.init`.
  public func launch<Other>(
    name: String = "", stackSize: Int? = nil, mailbox: MailboxPolicy = .unbounded,
    supervision: Supervision = Supervision(), _ body: sending ((Mailbox<Other>) throws -> Void)?
  ) -> MessageActor<Other> {
    guard let body else { missingFunction() }
    return MessageActor(
      on: .inherited, name, stackSize, mailbox, supervision, under: parent(), body)
  }

  /// Starts a child on another scheduler.
  public func launch<Other>(
    on scheduler: some Scheduler, name: String = "", stackSize: Int? = nil, mailbox: MailboxPolicy = .unbounded,
    supervision: Supervision = Supervision(), _ body: sending ((Mailbox<Other>) throws -> Void)?
  ) -> MessageActor<Other> {
    guard let body else { missingFunction() }
    return MessageActor(
      on: SchedulerReference(scheduler), name, stackSize, mailbox, supervision, under: parent(), body)
  }

  private func parent() -> SupervisorNode {
    storage.requireOwn(for: "Mailbox.launch")
    return storage.supervisor()
  }

  /// Sends this actor a message when another one ends: at once if it has. The message comes whether there is room in the
  /// mailbox or not. Until then this actor does not end for want of a sender.
  ///
  /// ```swift
  /// mailbox.watch(worker) { end in .workerEnded(end) }
  /// ```
  ///
  /// It watches until its body ends; a body that is run again watches again. Two actors that watch each other keep each other from
  /// ending for want of a sender: cancel one of them.
  public func watch<Other>(
    _ other: MessageActor<Other>, _ message: @escaping @Sendable (ActorEnd) -> Message
  ) {
    let actor = actor
    storage.watch(other.storage) { actor.owner.storage.deliverUrgently(message($0)) }
  }
}
