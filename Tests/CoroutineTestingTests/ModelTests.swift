import CoroutineTestSupport
import Testing

/// What the specifications of `LinearizabilityTests` refuse: histories as a runtime with a defect would leave them. Beside each
/// kind stands one that is right.
@Suite(.ownThreads) struct ModelTests {
  /// An operation of a history. They are performed one after another, beside those that wait.
  indirect enum Step<Model: SequentialSpecification> {
    case did(Model.Operation, Model.Outcome)
    /// The others were performed between its begin and its end.
    case around([Step], Model.Operation, Model.Outcome)
    /// Threw `CancellationError`, to a worker that was cancelled, or that was not.
    case cancelled(Model.Operation)
    case threw(Model.Operation)
    /// Is not over, when no coroutine can go on; of a worker that was not cancelled, or that was.
    case waits(Model.Operation)
    case waitsThoughCancelled(Model.Operation)
  }

  private func isRight<Model: SequentialSpecification>(_ model: Model, _ steps: [Step<Model>]) -> Bool {
    let history = History<Model>()
    let cancelled = Worker()
    cancelled.isCancelled = true
    func perform(_ steps: [Step<Model>]) {
      for step in steps {
        switch step {
        case .did(let operation, let outcome): history.note(operation, by: Worker()) { outcome }
        case .around(let steps, let operation, let outcome):
          history.note(operation, by: Worker()) {
            perform(steps)
            return outcome
          }
        case .cancelled(let operation): history.note(operation, by: cancelled) { throw CancellationError() }
        case .threw(let operation): history.note(operation, by: Worker()) { throw CancellationError() }
        case .waits(let operation): _ = history.begin(operation, by: Worker())
        case .waitsThoughCancelled(let operation): _ = history.begin(operation, by: cancelled)
        }
      }
    }
    perform(steps)
    return history.isAtRest(from: model) && history.isLinearizable(from: model)
  }

  private func right<Model: SequentialSpecification>(
    _ model: Model, _ steps: [Step<Model>], sourceLocation: SourceLocation = #_sourceLocation
  ) {
    #expect(isRight(model, steps), sourceLocation: sourceLocation)
  }

  private func wrong<Model: SequentialSpecification>(
    _ model: Model, _ defect: String, _ steps: [Step<Model>], sourceLocation: SourceLocation = #_sourceLocation
  ) {
    #expect(!isRight(model, steps), "\(defect)", sourceLocation: sourceLocation)
  }

  /// What no operation that waits may do.
  private func onlyTheCancelledAreCancelled<Model: SequentialSpecification>(
    _ model: Model, _ operations: [Model.Operation], sourceLocation: SourceLocation = #_sourceLocation
  ) {
    for operation in operations {
      right(model, [.cancelled(operation)], sourceLocation: sourceLocation)
      wrong(model, "\(operation): a cancel of none", [.threw(operation)], sourceLocation: sourceLocation)
      wrong(
        model, "\(operation): not woken by a cancel", [.waitsThoughCancelled(operation)], sourceLocation: sourceLocation
      )
    }
  }

  @Test(arguments: [0, 1, 2]) func aQueueRefusesWrongHistories(capacity: Int) {
    let model = QueueModel(capacity: capacity)
    right(
      model,
      [.did(.send(1), .sent), .did(.receive, .value(1)), .did(.close, .wasFirst(true)), .did(.receive, .closed)])
    wrong(model, "received twice", [.did(.send(1), .sent), .did(.receive, .value(1)), .did(.tryReceive, .value(1))])
    wrong(model, "received before it was sent", [.did(.tryReceive, .value(1)), .did(.send(1), .sent)])
    wrong(model, "lost", [.did(.send(1), .sent), .did(.tryReceive, .empty)])
    wrong(model, "lost by a close", [.did(.send(1), .sent), .did(.close, .wasFirst(true)), .did(.receive, .closed)])
    wrong(model, "sent by a cancelled send", [.cancelled(.send(1)), .did(.receive, .value(1))])
    wrong(
      model, "taken by a cancelled receive",
      [.did(.send(1), .sent), .cancelled(.receive), .did(.tryReceive, .empty)])
    wrong(model, "sent to a closed one", [.did(.close, .wasFirst(true)), .did(.trySend(1), .sent)])
    wrong(model, "full, though closed", [.did(.close, .wasFirst(true)), .did(.trySend(1), .full)])
    wrong(model, "closed by none", [.did(.trySend(1), .closed)])
    wrong(model, "an end by none", [.did(.receive, .closed)])
    wrong(model, "closed for the first time twice", [.did(.close, .wasFirst(true)), .did(.close, .wasFirst(true))])
    wrong(model, "a sender beside a receiver", [.waits(.send(1)), .waits(.receive)])
    wrong(model, "a receiver that did not hear of a close", [.waits(.receive), .did(.close, .wasFirst(true))])
    wrong(model, "a sender that did not hear of a close", [.waits(.send(1)), .did(.close, .wasFirst(true))])
    wrong(model, "a trySend that waits", [.waits(.trySend(1))])
    wrong(model, "a tryReceive that waits", [.waits(.tryReceive)])
    right(model, [.waits(.receive), .waits(.receive)])
    onlyTheCancelledAreCancelled(model, [.send(1), .receive])
    let fill = (0..<capacity).map { Step<QueueModel>.did(.trySend($0), .sent) }
    right(model, fill + [.did(.trySend(9), .full), .waits(.send(9))])
    guard capacity > 0 else { return }
    wrong(model, "a sender beside room", fill.dropLast() + [.waits(.send(9))])
    wrong(model, "full, beside room", fill.dropLast() + [.did(.trySend(9), .full)])
    wrong(model, "more than it holds", fill + [.did(.send(9), .sent)])
    wrong(model, "a receiver beside an element", [.waits(.receive), .did(.send(1), .sent)])
    guard capacity > 1 else { return }
    right(model, fill + [.did(.receive, .value(0)), .did(.receive, .value(1))])
    wrong(model, "overtaken", fill + [.did(.receive, .value(1)), .did(.receive, .value(0))])
  }

  @Test func onlyOperationsAtTheSameTimeMayChangePlaces() {
    func receivesTheSecond(beginningBoth: Bool) -> Bool {
      let history = History<QueueModel>()
      let one = history.begin(.send(1))
      if !beginningBoth { history.end(one, .returned(.sent)) }
      history.note(.send(2)) { .sent }
      if beginningBoth { history.end(one, .returned(.sent)) }
      history.note(.receive) { .value(2) }
      return history.isLinearizable(from: QueueModel(capacity: 2))
    }
    #expect(receivesTheSecond(beginningBoth: true))
    #expect(!receivesTheSecond(beginningBoth: false))
  }

  @Test func twoQueuesRefuseWrongHistories() {
    let model = TwoQueuesModel(first: QueueModel(capacity: 1), second: QueueModel(capacity: 0))
    let closes: [Step<TwoQueuesModel>] = [.did(.first(.close), .first(.wasFirst(true)))]
    let fill: [Step<TwoQueuesModel>] = [.did(.first(.trySend(1)), .first(.sent))]
    right(model, fill + [.did(.receiveEither, .first(.value(1))), .did(.tryReceiveEither, .neither)])
    wrong(
      model, "took one of both",
      fill + [.did(.receiveEither, .first(.value(1))), .did(.first(.receive), .first(.value(1)))])
    wrong(model, "of the other one", fill + [.did(.receiveEither, .second(.value(1)))])
    wrong(model, "sent at both", [.did(.sendEither(1), .second(.sent)), .did(.first(.receive), .first(.value(1)))])
    wrong(
      model, "sent, though it received",
      fill + [.did(.receiveFirstOrSendSecond(2), .first(.value(1))), .did(.second(.receive), .second(.value(2)))])
    wrong(model, "neither, beside an element", fill + [.did(.tryReceiveEither, .neither)])
    wrong(model, "neither, beside an end", closes + [.did(.tryReceiveEither, .neither)])
    wrong(model, "closed by none", [.did(.receiveEither, .closed)])
    right(model, fill + closes + [.did(.sendEither(2), .closed)])
    wrong(model, "an end before the element", fill + closes + [.did(.receiveFirstOrSendSecond(2), .closed)])
    wrong(model, "received, though it only sends", fill + [.did(.sendEither(2), .first(.value(1)))])
    // Lost wakes.
    right(model, [.waits(.receiveEither), .waits(.receiveEither), .waits(.first(.receive)), .waits(.second(.receive))])
    wrong(model, "a select beside an element", fill + [.waits(.receiveEither)])
    wrong(model, "the same, which might send, too", [.waits(.receiveFirstOrSendSecond(2))] + fill)
    wrong(model, "a select beside a sender", [.waits(.receiveEither), .waits(.second(.send(1)))])
    wrong(model, "a select beside a receiver", [.waits(.receiveFirstOrSendSecond(2)), .waits(.second(.receive))])
    wrong(model, "a select beside another one", [.waits(.receiveFirstOrSendSecond(2)), .waits(.receiveEither)])
    wrong(model, "a select beside room", [.waits(.sendEither(1))])
    right(model, fill + [.waits(.sendEither(2)), .waits(.sendEither(3)), .waits(.second(.send(4)))])
    wrong(model, "a receiver beside a select", fill + [.waits(.sendEither(1)), .waits(.second(.receive))])
    wrong(model, "a sender beside a select", [.waits(.second(.send(1))), .waits(.receiveEither)])
    wrong(model, "a select that did not hear of a close", [.waits(.receiveEither)] + closes)
    wrong(model, "a select that waits, and shall not", [.waits(.tryReceiveEither)])
    onlyTheCancelledAreCancelled(model, [.receiveEither, .receiveFirstOrSendSecond(1), .second(.send(1))])
    wrong(
      model, "taken by a cancelled select",
      fill + [.cancelled(.receiveEither), .did(.first(.tryReceive), .first(.empty))])
    wrong(model, "a select that returned without any", [.did(.receiveEither, .first(.empty))])
  }

  @Test func aPromiseRefusesWrongHistories() {
    let model = PromiseModel()
    let fulfill = Step<PromiseModel>.did(.fulfill(1), .wasFirst(true))
    right(model, [fulfill, .did(.get, .value(1)), .did(.reject, .wasFirst(false)), .did(.get, .value(1))])
    right(model, [.did(.reject, .wasFirst(true)), .did(.fulfill(1), .wasFirst(false)), .did(.get, .rejected)])
    wrong(model, "settled twice", [fulfill, .did(.reject, .wasFirst(true))])
    wrong(model, "settled by none", [.did(.fulfill(1), .wasFirst(false))])
    wrong(model, "a value before it", [.did(.get, .value(1)), fulfill])
    wrong(model, "the second one's value", [fulfill, .did(.fulfill(2), .wasFirst(false)), .did(.get, .value(2))])
    wrong(model, "rejected by none", [.did(.get, .rejected)])
    wrong(model, "rejected, though fulfilled", [fulfill, .did(.get, .rejected)])
    wrong(model, "fulfilled by one that lost", [.did(.reject, .wasFirst(true)), .did(.get, .value(1))])
    right(model, [.waits(.get), .waits(.get)])
    wrong(model, "a waiter that was not woken", [.waits(.get), fulfill])
    wrong(model, "a settling that waits", [.waits(.reject)])
    onlyTheCancelledAreCancelled(model, [.get])
  }

  @Test func aCounterRefusesWrongHistories() {
    let model = CounterModel()
    right(model, [.did(5, 0), .did(7, 5), .did(0, 12)])
    wrong(model, "a lost update", [.did(5, 0), .did(7, 0), .did(0, 7)])
    wrong(model, "added twice", [.did(5, 0), .did(0, 10)])
    wrong(model, "added by one that did not get in", [.cancelled(5), .did(0, 5)])
    wrong(model, "kept by one that did not get in", [.cancelled(5), .waits(7)])
    wrong(model, "a free mutex that is waited for", [.did(5, 0), .waits(7)])
    onlyTheCancelledAreCancelled(model, [5])
  }

  @Test func aSemaphoreRefusesWrongHistories() {
    let model = SemaphoreModel(permits: 1)
    right(model, [.did(.acquire, true), .did(.tryAcquire, false), .waits(.acquire), .waits(.acquire)])
    right(model, [.did(.tryAcquire, true), .did(.release, true), .did(.tryAcquire, true)])
    wrong(model, "a tryAcquire that always fails", [.did(.tryAcquire, false)])
    wrong(model, "the same, after a release", [.did(.acquire, true), .did(.release, true), .did(.tryAcquire, false)])
    wrong(model, "more than there are", [.did(.acquire, true), .did(.acquire, true)])
    wrong(model, "the same, without waiting", [.did(.acquire, true), .did(.tryAcquire, true)])
    wrong(model, "taken by a cancelled one", [.cancelled(.acquire), .did(.tryAcquire, false)])
    wrong(model, "given by a cancelled one", [.did(.acquire, true), .cancelled(.acquire), .did(.acquire, true)])
    wrong(model, "not taken, though not cancelled", [.did(.acquire, false)])
    wrong(model, "a waiter beside a permit", [.waits(.acquire)])
    wrong(model, "a waiter that was not woken", [.did(.acquire, true), .waits(.acquire), .did(.release, true)])
    wrong(model, "a tryAcquire that waits", [.did(.acquire, true), .waits(.tryAcquire)])
    onlyTheCancelledAreCancelled(model, [.acquire])
  }

  @Test func aMailboxRefusesWrongHistories() {
    let model = MailboxModel(capacity: 2, overflow: .suspend, turns: 1)
    let stops: [Step<MailboxModel>] = [.did(.stop, .done), .did(.take, .over)]
    let tell = Step<MailboxModel>.did(.tell(1), .done)
    let take = Step<MailboxModel>.did(.take, .message(1))
    right(model, [tell, take, .did(.allow, .done), .did(.tell(2), .done), .did(.take, .message(2))])
    right(model, [tell, .did(.tell(2), .done), take] + stops + [.did(.end, .dead([2]))])
    wrong(model, "overtaken", [tell, .did(.tell(2), .done), .did(.take, .message(2))])
    wrong(model, "handled twice", [tell, take, .did(.allow, .done), take])
    wrong(model, "handled before it was sent", [take, tell])
    wrong(model, "handled, though not sent", [.cancelled(.tell(1)), take])
    wrong(model, "handled without a turn", [tell, .did(.tell(2), .done), take, .did(.take, .message(2))])
    wrong(model, "more than it holds", [tell, .did(.tell(2), .done), .did(.tell(3), .done)])
    wrong(model, "lost", [tell, .did(.tell(2), .done), take] + stops + [.did(.end, .dead([]))])
    wrong(model, "a dead letter twice", [tell] + stops + [.did(.end, .dead([1, 1]))])
    wrong(model, "a dead letter that was handled", [tell, take] + stops + [.did(.end, .dead([1]))])
    wrong(model, "handled after a stop", [tell] + [.did(.stop, .done), take])
    wrong(model, "told after a stop", stops + [tell])
    wrong(model, "stopped by none", [.did(.tell(1), .stopped)])
    wrong(model, "over, by none", [.did(.take, .over)])
    // Answers.
    let ask = [Step<MailboxModel>.around([take], .ask(1), .answer(0))]
    right(model, ask + stops + [.did(.ask(2), .stopped), .did(.end, .dead([]))])
    right(model, [.around(stops, .ask(1), .stopped), .did(.end, .dead([]))])
    wrong(model, "refused, and a dead letter", [.around(stops, .ask(1), .stopped), .did(.end, .dead([1]))])
    wrong(model, "answered, and not handled", [.did(.ask(1), .answer(0))] + stops)
    wrong(model, "answered before it was handled", [.did(.ask(1), .answer(0)), take])
    wrong(
      model, "another one's answer",
      [tell, .around([take, .did(.allow, .done), .did(.take, .message(2))], .ask(2), .answer(0))])
    wrong(model, "handled, though refused", [.around([take] + stops, .ask(1), .stopped)])
    wrong(model, "refused before the stop", [.did(.ask(1), .stopped)])
    wrong(model, "full, beside room", [tell, .did(.send(2), .full)])
    right(model, [tell, .did(.tell(2), .done), .did(.send(3), .full)])
    wrong(model, "full, where it may wait", [tell, .did(.tell(2), .done), .did(.ask(3), .full)])
    // The message of a cancelled ask is handled or not, that of a cancelled send is.
    right(model, [.cancelled(.ask(1)), take])
    right(model, [.cancelled(.ask(1))] + stops + [.did(.end, .dead([1]))])
    right(model, [.cancelled(.ask(1))] + stops + [.did(.end, .dead([]))])
    right(model, [.cancelled(.send(1)), take])
    wrong(model, "lost by a cancelled send", [.cancelled(.send(1)), .did(.tell(2), .done), .did(.take, .message(2))])
    // Lost wakes.
    right(
      model,
      [tell, take, .did(.tell(2), .done), .did(.tell(3), .done), .waits(.take), .waits(.tell(4)), .waits(.ask(5))])
    right(model, [tell, take, .waits(.take), .waits(.ask(2)), .waits(.send(3))])
    wrong(model, "an actor that was not woken", [.waits(.take), tell])
    wrong(model, "the same by an ask", [.waits(.take), .waits(.ask(1))])
    wrong(model, "the same by a turn", [tell, take, .waits(.take), .did(.tell(2), .done), .did(.allow, .done)])
    wrong(model, "the same by a stop", [.waits(.take), .did(.stop, .done)])
    wrong(model, "a sender beside room", [tell, take, .waits(.take), .waits(.tell(2))])
    wrong(model, "an asker that was handled", [.waits(.ask(1)), .did(.take, .message(1)), .waits(.take)])
    wrong(model, "an asker that did not hear of the stop", [.waits(.ask(1))] + stops)
    wrong(model, "a sender that did not hear of the stop", [tell, .did(.tell(2), .done), .waits(.tell(3))] + stops)
    onlyTheCancelledAreCancelled(model, [.tell(1), .ask(1), .send(1)])
  }

  @Test func aFullMailboxRefusesWrongHistories() {
    let stops: [Step<MailboxModel>] = [.did(.stop, .done), .did(.take, .over)]
    let tell = Step<MailboxModel>.did(.tell(1), .done)
    let failing = MailboxModel(capacity: 1, overflow: .fail, turns: 1)
    right(failing, [tell, .did(.tell(2), .full), .did(.ask(3), .full)] + stops + [.did(.end, .dead([1]))])
    wrong(failing, "full, beside room", [.did(.tell(1), .full)])
    wrong(failing, "waits", [tell, .waits(.tell(2))])
    wrong(failing, "more than it holds", [tell, .did(.tell(2), .done)])
    wrong(
      failing, "a dead letter, though refused", [tell, .did(.tell(2), .full)] + stops + [.did(.end, .dead([1, 2]))])
    let newest = MailboxModel(capacity: 1, overflow: .dropNewest, turns: 1)
    right(newest, [tell, .did(.tell(2), .done), .did(.ask(3), .full)] + stops + [.did(.end, .dead([1, 2]))])
    wrong(
      newest, "lost in silence",
      [tell, .did(.tell(2), .done), .did(.take, .message(1))] + stops + [.did(.end, .dead([]))])
    wrong(newest, "the older one is dropped", [tell, .did(.tell(2), .done), .did(.take, .message(2))])
    wrong(newest, "an error, though it did not ask", [tell, .did(.tell(2), .full)])
    let oldest = MailboxModel(capacity: 1, overflow: .dropOldest, turns: 1)
    right(oldest, [tell, .did(.tell(2), .done), .did(.take, .message(2))] + stops + [.did(.end, .dead([1]))])
    let displaced = Step<MailboxModel>.around([.did(.tell(2), .done)], .ask(1), .full)
    right(oldest, [displaced, .did(.take, .message(2))] + stops + [.did(.end, .dead([]))])
    wrong(oldest, "the newer one is dropped", [tell, .did(.tell(2), .done), .did(.take, .message(1))])
    wrong(
      oldest, "lost in silence",
      [tell, .did(.tell(2), .done), .did(.take, .message(2))] + stops + [.did(.end, .dead([]))])
    wrong(oldest, "handled, though dropped", [displaced, .did(.take, .message(1))])
    wrong(oldest, "refused, with none in its place", [.did(.ask(1), .full)])
    wrong(oldest, "not told that it was dropped", [.waits(.ask(1)), .did(.tell(2), .done), .waits(.take)])
  }

  @Test func aPipeRefusesWrongHistories() {
    let model = PipeModel(capacity: 4096)
    func bytes(_ value: UInt8, _ count: Int) -> PipeModel.Outcome { .bytes([.init(value: value, count: count)]) }
    let write = Step<PipeModel>.did(.write(7, 10), .done)
    let takesAll = Step<PipeModel>.did(.read(20), bytes(7, 10))
    right(model, [write, .did(.read(4), bytes(7, 4)), .did(.read(9), bytes(7, 6))])
    wrong(model, "fewer bytes than there are", [write, .did(.read(4), bytes(7, 3))])
    wrong(model, "lost bytes", [write, .did(.read(4), bytes(7, 4)), .did(.tryRead(9), .refused)])
    wrong(model, "read twice", [write, takesAll, takesAll])
    wrong(model, "written by a cancelled write", [.cancelled(.write(7, 10)), takesAll])
    wrong(model, "taken by a cancelled read", [write, .cancelled(.read(4)), .did(.tryRead(9), .refused)])
    wrong(model, "an end before the bytes", [write, .did(.closeWriter, .done), .did(.read(4), .end)])
    wrong(
      model, "read after a close",
      [.did(.closeReader, .done), .did(.read(4), .closed), .did(.tryRead(4), .refused)])
    wrong(model, "written to one that has gone", [.did(.closeReader, .done), .did(.write(8, 1), .broken), write])
    right(model, [.waits(.read(4)), write, takesAll])
    wrong(model, "a reader that was not woken", [.waits(.read(4)), write])
    wrong(model, "a waiter that did not hear of the end", [.waits(.waitUntilReadable), .did(.closeWriter, .done)])
    right(model, [.waits(.write(8, 4096)), write])
    wrong(model, "a writer that was not woken", [.waits(.write(8, 4096)), write, takesAll])
    wrong(model, "a tryRead that waits", [.waits(.tryRead(4))])
    onlyTheCancelledAreCancelled(model, [.read(4), .write(7, 10), .waitUntilReadable, .waitUntilWritable])
  }
}
