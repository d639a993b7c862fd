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
    _ policy: MailboxPolicy, _ mailboxes: Mailboxes, _ log: Log, answers: Bool = true
  ) -> MessageActor<Letter> {
    MessageActor(mailbox: policy) { mailbox in
      try mailboxes.send(UncheckedMailbox(mailbox: mailbox))
      for letter in mailbox {
        log.add("\(letter.number)")
        if answers { letter.reply?.complete(letter.number * 10) }
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

  /// The end of a message takes the next one, which is an ask; that of its lost answer the next one, and so on.
  @Test func endsOfBothKindsDoNotPileUp() async {
    await #expect(processExitsWith: .success) {
      let (mailboxes, log) = (Mailboxes(capacity: .unbounded), Log())
      @Sendable func takeOne() {
        guard case .received(let kept) = mailboxes.tryReceive() else { return }
        _ = mailboxes.trySend(kept)
        _ = kept.mailbox.next()
      }
      CoroutineErrors.unhandled = { _, _ in takeOne() }
      try await serially {
        let actor = MessageActor<Letter> { mailbox in
          try mailboxes.send(UncheckedMailbox(mailbox: mailbox))
          for letter in mailbox where letter.number == 9 {
            log.add("the last one")
            break
          }
        }
        for _ in 0..<10_000 {
          try actor.tell(Letter(1, atEnd: takeOne))
          _ = actor.send { Letter(2, $0) }
        }
        for number in [3, 3, 9] { try actor.tell(Letter(number)) }
        try actor.join()
      }
      #expect(log.all == ["the last one"])
    }
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

  private struct Broken: Error {}

  /// Nothing comes after the body, which would end the ask.
  @Test(arguments: [false, true]) func itMayTakeAnAskWhenTheActorEnds(_ fails: Bool) async throws {
    let log = Log()
    try await serially {
      let mailboxes = Mailboxes(capacity: .unbounded)
      let actor = MessageActor<Letter> { mailbox in
        try mailboxes.send(UncheckedMailbox(mailbox: mailbox))
        _ = mailbox.next()
        Coroutine.yield()
        if fails { throw Broken() }
      }
      try actor.tell(
        Letter(1) {
          guard case .received(let kept) = mailboxes.tryReceive() else { return }
          if let letter = kept.mailbox.next() { log.add("inside: \(letter.number)") }
        })
      let answer = actor.send { Letter(2, $0) }
      log.add(outcome { log.add("\(try answer.get())") })
      try? actor.join()
    }
    #expect(log.all == ["inside: 2", "\(ReplyDropped())"])
  }

  /// What the body has captured goes when it has ended, and takes an ask that was left.
  @Test func aCaptureMayTakeAnAskAtTheEnd() async throws {
    final class Taker {
      var mailbox: Mailbox<Letter>?
      let log: Log
      init(_ log: Log) { self.log = log }
      deinit { if let letter = mailbox?.next() { log.add("the capture: \(letter.number)") } }
    }
    let log = Log()
    try await serially {
      let actor = MessageActor<Letter> { [taker = Taker(log)] mailbox in
        taker.mailbox = mailbox
        _ = mailbox.next()
        Coroutine.yield()
      }
      try actor.tell(Letter(1))
      let answer = actor.send { Letter(2, $0) }
      log.add(outcome { log.add("\(try answer.get())") })
      try? actor.join()
    }
    #expect(log.all == ["the capture: 2", "\(ReplyDropped())"])
  }

  /// The handler gets the message that has failed, and takes the next one, which has not.
  @Test func theHandlerOfDeadLettersMayTakeAnAsk() async throws {
    let (log, mailboxes) = (Log(), Mailboxes(capacity: .unbounded))
    let name = "taken from by the handler"
    try await SharedDeadLetters.observe(name) { letter in
      log.add("dead: \((letter.message as? Letter)?.number ?? 0)")
      guard case .received(let kept) = mailboxes.tryReceive() else { return }
      if let letter = kept.mailbox.next() { log.add("the handler: \(letter.number)") }
    } during: {
      try await serially {
        let supervisor = Supervisor(.stopping)
        let actor: MessageActor<Letter> = supervisor.launch(name: name) { mailbox in
          try mailboxes.send(UncheckedMailbox(mailbox: mailbox))
          try mailbox.handleEach { _ in
            Coroutine.yield()
            throw Broken()
          }
        }
        try actor.tell(Letter(1))
        let answer = actor.send { Letter(2, $0) }
        log.add(outcome { log.add("\(try answer.get())") })
        try? actor.join()
      }
    }
    #expect(log.all == ["dead: 1", "the handler: 2", "\(ReplyDropped())"])
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
        let actor = Self.makeActor(.unbounded, mailboxes, log, answers: false)
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
