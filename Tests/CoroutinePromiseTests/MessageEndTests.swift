import Coroutine
import CoroutineTestSupport
import Testing

/// A message goes when the actor asks for the next one. Its `deinit` is code of the program's, which may use the actor.
@Suite(.ownThreads) struct MessageEndTests {
  private final class Letter: Sendable {
    let number: Int
    let reply: Reply<Int>?
    private let atEnd: @Sendable () -> Void

    init(_ number: Int, _ reply: Reply<Int>? = nil, atEnd: @escaping @Sendable () -> Void = {}) {
      (self.number, self.reply, self.atEnd) = (number, reply, atEnd)
    }

    deinit { atEnd() }
  }

  private typealias Mailboxes = Channel<UncheckedMailbox<Letter>>

  /// An actor whose mailbox the ends of its messages get by `mailboxes`.
  private static func makeActor(
    _ policy: MailboxPolicy = .unbounded, _ mailboxes: Mailboxes, _ log: Log
  ) -> MessageActor<Letter> {
    MessageActor(mailbox: policy) { mailbox in
      try mailboxes.send(UncheckedMailbox(mailbox: mailbox))
      for letter in mailbox {
        log.add("\(letter.number)")
        letter.reply?.complete(letter.number * 10)
        if letter.number == 9 { break }
      }
    }
  }

  /// It ends once, also if its end takes the next ones.
  @Test(arguments: [MailboxPolicy.unbounded, .bounded(10)])
  func itMayTakeTheNextOnes(_ policy: MailboxPolicy) async throws {
    let log = Log()
    try await serially {
      let mailboxes = Mailboxes(capacity: .unbounded)
      let actor = Self.makeActor(policy, mailboxes, log)
      try actor.tell(
        Letter(1) {
          log.add("the end of 1")
          guard case .received(let kept) = mailboxes.tryReceive() else { return }
          while let letter = kept.mailbox.next() {
            log.add("inside: \(letter.number)")
            if letter.number == 3 { break }
          }
        })
      for number in [2, 3, 9] { try actor.tell(Letter(number) { log.add("the end of \(number)") }) }
      try actor.join()
    }
    #expect(
      log.all == [
        "1", "the end of 1", "inside: 2", "the end of 2", "inside: 3", "the end of 3", "9", "the end of 9",
      ])
  }

  /// Each end takes one: a stack has no room for one inside the other.
  @Test func endsThatTakeOneEachDoNotPileUp() async throws {
    let log = Log()
    try await serially {
      let mailboxes = Channel<UncheckedMailbox<Letter>>(capacity: .unbounded)
      let actor = Self.makeActor(.unbounded, mailboxes, log)
      for _ in 0..<20_000 {
        try actor.tell(
          Letter(1) {
            guard case .received(let kept) = mailboxes.tryReceive() else { return }
            _ = mailboxes.trySend(kept)
            _ = kept.mailbox.next()
          })
      }
      try actor.tell(Letter(2))
      try actor.tell(Letter(9))
      try actor.join()
    }
    #expect(log.all.last == "9")
  }

  /// An actor that is cancelled takes none, whatever has cancelled it.
  @Test(arguments: [MailboxPolicy.unbounded, .bounded(10)])
  func itMayCancelTheActor(_ policy: MailboxPolicy) async throws {
    let log = Log()
    try await serially {
      let actors = Channel<MessageActor<Letter>>(capacity: .unbounded)
      let actor = Self.makeActor(policy, Mailboxes(capacity: .unbounded), log)
      try actors.send(actor)
      try actor.tell(Letter(1) { if case .received(let actor) = actors.tryReceive() { actor.cancel() } })
      for number in 2...3 { try? actor.tell(Letter(number)) }
      try? actor.join()
    }
    #expect(log.all == ["1"])
  }

  /// An ask that it takes and lets go of ends for its asker.
  @Test(arguments: [MailboxPolicy.unbounded, .bounded(10)])
  func itMayTakeAnAsk(_ policy: MailboxPolicy) async throws {
    let log = Log()
    try await serially {
      let mailboxes = Mailboxes(capacity: .unbounded)
      let actor = Self.makeActor(policy, mailboxes, log)
      try actor.tell(
        Letter(1) {
          guard case .received(let kept) = mailboxes.tryReceive() else { return }
          if let letter = kept.mailbox.next() { log.add("inside: \(letter.number)") }
        })
      let answers = (2...4).map { number in actor.send { Letter(number, $0) } }
      for answer in answers { log.add(outcome { log.add("\(try answer.get())") }) }
      actor.cancel()
      try? actor.join()
    }
    #expect(log.all == ["1", "inside: 2", "3", "4", "\(ReplyDropped())", "30", "done", "40", "done"])
  }

  /// The answer to an ask goes with it. If it had no receiver, the handler of lost errors takes the last message there is.
  @Test func theHandlerOfALostAnswerMayTakeTheLastOne() async {
    await #expect(processExitsWith: .success) {
      let log = Log()
      let mailboxes = Mailboxes(capacity: .unbounded)
      CoroutineErrors.unhandled = { _, _ in
        guard case .received(let kept) = mailboxes.tryReceive() else { return }
        if let letter = kept.mailbox.next() { log.add("handler: \(letter.number)") }
      }
      try await serially {
        let actor = MessageActor<Letter> { mailbox in
          try mailboxes.send(UncheckedMailbox(mailbox: mailbox))
          for letter in mailbox {
            log.add("\(letter.number)")
            if letter.number == 9 { break }
          }
        }
        _ = actor.send { Letter(1, $0) }
        try actor.tell(Letter(2))
        Coroutine.yield()
        for number in [3, 9] { try actor.tell(Letter(number)) }
        try actor.join()
      }
      #expect(log.all == ["1", "handler: 2", "3", "9"])
    }
  }
}
