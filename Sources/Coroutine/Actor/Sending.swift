extension MessageActor {
  /// Sends a message, and does not wait: for the answer there is a promise, to be waited for later, or not at all.
  ///
  /// ```swift
  /// let count = counter.send { .get($0) }
  /// let other = try compute()
  /// print(try count.get() + other)
  /// ```
  ///
  /// Only a waiter of the promise gets an error; without one, `CoroutineErrors.unhandled` gets it.
  ///
  /// - Returns: what the actor answers, or the errors of `ask`; where `ask` would wait for room, `MailboxFull`. A promise that
  ///   is cancelled makes `Reply.isWanted` false. Its `get()` throws `AskCycle` in an actor for which the other one waits, as
  ///   does that of what `then` makes of it; for `values(of:)` and `results(of:)` it has failed with that.
  @discardableResult
  public func send<Value: Sendable>(_ message: (Reply<Value>) -> Message) -> Promise<Value> {
    let reply = ReplyStorage<Value>()
    let end = ReplyEnd(reply)
    return post(message(Reply(end)), end, reply)
  }

  /// Sends a message, and does not wait. The promise is fulfilled when the message has been handled.
  ///
  /// For a message without a waiter, `tell(_:)` does the same for less.
  ///
  /// - Returns: an end of the wait, or what the actor threw while it handled the message; `ActorStopped` if it ended before
  ///   it got there; `MailboxFull` if there was no room.
  @discardableResult
  public func send(_ message: Message) -> Promise<Void> {
    let receipt = Receipt()
    return post(message, ReplyEnd(receipt), receipt)
  }

  private func post<Value>(_ message: Message, _ end: ReplyEnd, _ reply: ReplyStorage<Value>) -> Promise<Value> {
    reply.recipient = storage
    let promise = Promise(storage: AnswerStorage<Value>(name: name, reply))
    let resolver = Promise<Value>.Resolver(end: PromiseEnd(promise.storage))
    reply.onAnswer = { [unowned reply] in resolver.settle(with: Result { try reply.takeOutcome() }) }
    resolver.onCancel { _ = reply.giveUp() }
    var letter: Letter<Message>?
    switch storage.deliver(message, end, &letter) {
    case .delivered: break
    case .full: end.fail(MailboxFull(actor: name))
    case .refused(let error): end.fail(error)
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
    return AskGraph.enter(asker, waitsFor: recipient, reply).map { .circle($0) } ?? .noted
  }

  override func noteEndOfWait(of core: CoroutineCore) {
    if let asker = core.asker { AskGraph.leave(asker) }
  }

  override func wakers(_ operation: WaitReason.Operation) -> Wakers { reply.wakers(operation) }
}
