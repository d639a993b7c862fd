// SPDX-License-Identifier: Apache-2.0

extension MessageActor {
  /// Sends a message, and does not wait: the answer comes by a promise, which may be awaited later, or not at all.
  ///
  /// ```swift
  /// let count = counter.send { .get($0) }
  /// let other = try compute()
  /// print(try count.get() + other)
  /// ```
  ///
  /// Only a waiter of the promise gets an error; without one, `CoroutineErrors.unhandled` gets it.
  ///
  /// - Returns: the promise of the actor's answer, or of the errors of `ask`; `MailboxFull` where `ask` would wait for
  ///   room. If the promise is cancelled, `Reply.isWanted` is false. In an actor that the other one waits for, its
  ///   `get()` throws `AskCycle`, as does that of a promise that `then` derives from it; for `values(of:)` and
  ///   `results(of:)` it has failed with that.
  @discardableResult
  public func send<Value: Sendable>(_ message: (Reply<Value>) -> Message) -> Promise<Value> {
    let reply = ReplyStorage<Value>()
    let owner = ReplyOwner(reply)
    return post(message(Reply(owner)), owner, reply)
  }

  /// Sends a message, and does not wait. The promise is fulfilled when the message has been handled.
  ///
  /// For a message without a waiter, `tell(_:)` does the same for less.
  ///
  /// - Returns: a promise that fails with the end of the wait, or with what the actor threw while it handled the
  ///   message; `ActorStopped` if it ended before it got there; `MailboxFull` if there was no room.
  @discardableResult
  public func send(_ message: Message) -> Promise<Void> {
    let receipt = Receipt()
    return post(message, ReplyOwner(receipt), receipt)
  }

  private func post<Value>(_ message: Message, _ owner: ReplyOwner, _ reply: ReplyStorage<Value>) -> Promise<Value> {
    reply.recipient = storage
    let promise = Promise(storage: AnswerStorage<Value>(name: name, reply))
    let resolver = Promise<Value>.Resolver(owner: ResolverOwner(promise.storage))
    reply.onAnswer = { [unowned reply] in resolver.settle(with: Result { try reply.takeOutcome() }) }
    resolver.onCancel { _ = reply.abandon() }
    var envelope: Envelope<Message>?
    switch storage.deliver(message, owner, &envelope) {
    case .delivered: break
    case .full: owner.fail(MailboxFull(actor: name))
    case .refused(let error): owner.fail(error)
    }
    return promise
  }
}

/// The storage of a promise that is not settled before an actor has answered, and that knows the actor: that of a
/// `send`, and those derived from it.
///
/// It keeps the answer, and that keeps it, by `onAnswer`, until there is an answer, or until none can come or none is
/// needed.
// Unchecked: as a promise's; `reply` is constant.
final class AnswerStorage<Value: Sendable>: PromiseStorage<Value>, @unchecked Sendable {
  private let reply: ReplyCore

  init(name: String, _ reply: ReplyCore) {
    self.reply = reply
    super.init(name: name)
  }

  override func makeDerived<NewValue: Sendable>(_ type: NewValue.Type) -> PromiseStorage<NewValue> {
    AnswerStorage<NewValue>(name: "", reply)
  }

  override func noteWait(of core: CoroutineCore) -> NotedWait {
    guard let asker = core.asker, let recipient = reply.recipient else { return .nothing }
    return AskGraph.addEdge(from: asker, to: recipient, reply).map { .cycle($0) } ?? .noted
  }

  override func noteEndOfWait(of core: CoroutineCore) {
    if let asker = core.asker { AskGraph.removeEdge(from: asker, reply) }
  }

  override func wakers(_ operation: WaitReason.Operation) -> Wakers { reply.wakers(operation) }
}
