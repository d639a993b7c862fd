// SPDX-License-Identifier: Apache-2.0

/// Starts actors and decides what happens to those that fail, from outside of any actor. (An actor supervises the
/// children that its body starts by `Mailbox.launch`.)
///
/// ```swift
/// let supervisor = Supervisor(Supervision(.oneForAll, restarts: 3, within: .seconds(10)), name: "storage")
/// let index: MessageActor<Lookup> = supervisor.launch(name: "index") { mailbox in try serve(mailbox) }
/// …
/// await supervisor.stop()
/// ```
///
/// Its actors do not end for want of a sender, as others do, before it is gone itself.
///
/// An error that is escalated stops all of its actors, and is reported through `CoroutineErrors.unhandled`. Copies are the
/// same supervisor. All functions may be called from any thread.
public struct Supervisor: Sendable {
  private let owner: SupervisorOwner
  private var node: SupervisorNode { owner.node }

  /// A supervisor without actors.
  ///
  /// - Parameters:
  ///   - policy: what becomes of an actor that fails.
  ///   - name: for messages.
  public init(_ policy: Supervision = Supervision(), name: String = "") {
    owner = SupervisorOwner(SupervisorNode(name: name, policy: policy, owner: nil))
  }

  /// Starts an actor. The parameters are those of `MessageActor.init`. After `stop()` it ends before it begins.
  public func launch<Message>(
    name: String = "", stackSize: Int? = nil, mailbox: MailboxPolicy = .unbounded,
    supervision: Supervision = Supervision(), _ body: sending ((Mailbox<Message>) throws -> Void)?
  ) -> MessageActor<Message> {
    guard let body else { missingFunction() }
    return MessageActor(on: .inherited, name, stackSize, mailbox, supervision, under: node, body)
  }

  /// Starts an actor on a scheduler.
  public func launch<Message>(
    on scheduler: some Scheduler, name: String = "", stackSize: Int? = nil, mailbox: MailboxPolicy = .unbounded,
    supervision: Supervision = Supervision(), _ body: sending ((Mailbox<Message>) throws -> Void)?
  ) -> MessageActor<Message> {
    guard let body else { missingFunction() }
    return MessageActor(on: SchedulerReference(scheduler), name, stackSize, mailbox, supervision, under: node, body)
  }

  /// Starts an actor that is a state and a function. See `MessageActor.init(name:stackSize:mailbox:state:handle:)`.
  public func launch<Message, State>(
    name: String = "", stackSize: Int? = nil, mailbox: MailboxPolicy = .unbounded,
    state makeState: sending (() throws -> State)?,
    handle: sending ((_ state: inout State, _ message: Message) throws -> Void)?
  ) -> MessageActor<Message> {
    guard let makeState, let handle else { missingFunction() }
    return launch(name: name, stackSize: stackSize, mailbox: mailbox, MessageActor<Message>.body(makeState, handle))
  }

  /// Starts an actor that is a state and a function, on a scheduler.
  public func launch<Message, State>(
    on scheduler: some Scheduler, name: String = "", stackSize: Int? = nil, mailbox: MailboxPolicy = .unbounded,
    state makeState: sending (() throws -> State)?,
    handle: sending ((_ state: inout State, _ message: Message) throws -> Void)?
  ) -> MessageActor<Message> {
    guard let makeState, let handle else { missingFunction() }
    return launch(
      on: scheduler, name: name, stackSize: stackSize, mailbox: mailbox, MessageActor<Message>.body(makeState, handle))
  }

  /// Stops the actors one after another, the last one first, and waits for each. Suspends the calling coroutine, cancelled
  /// or not.
  ///
  /// - Precondition: called inside a coroutine, and not by one of the actors, nor by one below them: traps otherwise. Nor by what
  ///   one of these waits for, such as a child of its `withScope`, or an `await`: it would wait for ever.
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func stop() {
    node.requireOutside(CoroutineCore.running(for: "Supervisor.stop()"))
    node.close()
    node.stopAll()
  }

  /// Stops the actors one after another, the last one first, and waits for each. In `async` code; goes on to the end when
  /// the task is cancelled.
  nonisolated(nonsending) public func stop() async {
    node.close()
    while let actor = node.last {
      actor.request(.stop)
      // In a task of its own, which nothing cancels.
      _ = await Task<WakeCause, Never>(executorPreference: preferredExecutor) {
        await actor.coroutine.waitForEnd()
      }.value
      node.remove(actor)
    }
  }
}

/// What the copies of one `Supervisor` share.
private final class SupervisorOwner: Sendable {
  let node: SupervisorNode

  init(_ node: SupervisorNode) {
    self.node = node
  }

  deinit {
    node.abandon()
  }
}
