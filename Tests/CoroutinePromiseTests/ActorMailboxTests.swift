import CoroutineTestSupport
import Dispatch
import Glibc
import Testing

@testable import Coroutine

/// Mailboxes with a limit, and what lies in one when its actor ends.
@Suite(.ownThreads) struct ActorMailboxTests {
  @Test func aFullMailboxHoldsItsSendersUpInTheirOrder() async throws {
    let queue = DispatchQueue(label: "serial")
    let log = Log()
    try await Coroutine(on: queue) {
      let actor = MessageActor<Int>(on: queue, mailbox: .bounded(2)) { mailbox in
        for message in mailbox {
          log.add("\(message)")
          Coroutine.yield()
        }
      }
      let senders = (1...5).map { number in
        Coroutine {
          try actor.tell(number)
          log.add("sent \(number)")
        }
      }
      for sender in senders { try sender.get() }
      try actor.send(6).get()
      actor.cancel()
    }.get()
    let handled = log.all.filter { !$0.hasPrefix("sent") }
    #expect(handled == ["1", "2", "3", "4", "5", "6"])
    #expect(log.all.firstIndex(of: "sent 5")! > log.all.firstIndex(of: "2")!)
  }

  @Test func anActorThatFillsItsOwnMailboxIsRefused() async throws {
    let actor = MessageActor<Reply<Int>?>(on: .pool, name: "full", mailbox: .bounded(2)) { mailbox in
      let this = mailbox.actor
      for case let reply? in mailbox {
        var sent = 0
        do {
          while true {
            try this.tell(nil)
            sent += 1
          }
        } catch let error as MailboxFull {
          #expect(error == MailboxFull(actor: "full"))
        }
        // The mailbox would not have room in time either.
        do { try this.tell(nil, timeout: .seconds(3600)) } catch is MailboxFull { sent += 100 }
        reply.complete(sent)
      }
    }
    #expect(try await actor.ask { $0 } == 102)
    actor.cancel()
  }

  @Test func threeKindsOfSendersWaitForRoom() async throws {
    let gate = Channel<Void>()
    let actor = MessageActor<Int>(on: .pool, mailbox: .bounded(1)) { mailbox in
      var sum = 0
      for message in mailbox {
        try gate.receive()
        sum += message
      }
      #expect(sum == 1 + 2 + 4 + 8 + 16)
    }
    try await actor.tell(1)
    let coroutine = Coroutine { try actor.tell(2) }
    let task = Task { try await actor.tell(4) }
    let thread = Promise<Void> { resolver in
      DispatchQueue.global().async {
        resolver.settle(with: Result { try actor.tellBlocking(8) })
      }
    }
    for _ in 0..<4 { try await gate.send(()) }
    try await coroutine.get()
    try await task.value
    try await thread.get()
    try await actor.tell(16)
    try await gate.send(())
    actor.cancel()
    try await actor.join()
  }

  @Test func aSenderThatWaitsForRoomGivesUpOrIsToldOfTheEnd() async throws {
    let queue = DispatchQueue(label: "serial")
    let (log, dead) = (Log(), Log())
    try await SharedDeadLetters.observe("slow") {
      dead.add("\($0)")
    } during: { () async throws -> Void in
      try await Coroutine(on: queue) {
        let gate = Channel<Void>()
        let actor = MessageActor<Int>(on: queue, name: "slow", mailbox: .bounded(1)) { mailbox in
          for message in mailbox {
            log.add("handled \(message)")
            try? gate.receive()
          }
        }
        try actor.tell(1)
        Coroutine.yield()
        try actor.tell(2)
        let cancelled = Coroutine { log.add("told 3: \(outcome { try actor.tell(3) })") }
        let asker = Coroutine { log.add("sent 4: \(outcome { try actor.send(4).get() })") }
        let waiting = Coroutine { log.add("told 5: \(outcome { try actor.tell(5) })") }
        log.add("told 6: \(outcome { try actor.tell(6, timeout: .zero) })")
        Coroutine.yield()
        log.add("\(actor.waitingSenders) wait")
        cancelled.cancel()
        try cancelled.get()
        try asker.get()
        log.add("\(actor.waitingSenders) waits")
        actor.cancel()
        try waiting.get()
        try actor.join()
        log.add("told 7: \(outcome { try actor.tell(7) })")
      }.get()
    }
    let stopped = "\(ActorStopped(actor: "slow"))"
    #expect(
      log.all == [
        "handled 1", "told 6: timed out", "sent 4: \(MailboxFull(actor: "slow"))", "2 wait", "told 3: cancelled",
        "1 waits", "told 5: \(stopped)", "told 7: \(stopped)",
      ])
    // The other senders know. Only this message was accepted.
    #expect(dead.all == ["actor \"slow\": a message was left in the mailbox when the actor ended (2)"])
  }

  @Test func tasksAndThreadsThatWaitForRoomGiveUpOrAreToldOfTheEnd() async throws {
    let dead = Log()
    let handled = Log()
    let (begun, gate) = (Channel<Void>(), Channel<Void>())
    try await SharedDeadLetters.observe("slow for all") {
      dead.add("\($0.message ?? 0)")
    } during: { () async throws -> Void in
      // A pool of its own: other tests may keep the shared one busy.
      let pool = ThreadPool(threads: 1)
      let actor = MessageActor<Int>(on: pool, name: "slow for all", mailbox: .bounded(1)) { mailbox in
        for message in mailbox {
          handled.add("\(message)")
          try begun.send(())
          try? gate.receive()
        }
      }
      try await actor.tell(1)
      try await begun.receive()
      try await actor.tell(2)
      await #expect(throws: TimeoutError.self) { try await actor.tell(3, timeout: .zero) }
      let late = PlainThread { outcome { try actor.tellBlocking(4, timeout: .zero) } }
      #expect(late.join() == "timed out")
      // One after the other: each begins when the one before it waits.
      func wait(for senders: Int) async { while actor.waitingSenders != senders { await Task.yield() } }
      let cancelled = Task { try await actor.tell(5) }
      await wait(for: 1)
      let task = Task { try await actor.tell(6) }
      await wait(for: 2)
      let thread = PlainThread { outcome { try actor.tellBlocking(7) } }
      await wait(for: 3)
      cancelled.cancel()
      await #expect(throws: CancellationError.self) { try await cancelled.value }
      #expect(actor.waitingSenders == 2)
      actor.cancel()
      await #expect(throws: ActorStopped(actor: "slow for all")) { try await task.value }
      #expect(thread.join() == "\(ActorStopped(actor: "slow for all"))")
      try await actor.join()
    }
    #expect(handled.all == ["1"])
    #expect(dead.all == ["2"])
  }

  @Test func theNewestIsDropped() async throws {
    let (handled, dead) = try await overflow(.dropNewest)
    #expect(handled == ["1", "2", "3"])
    #expect(dead == ["4", "5"])
  }

  @Test func theOldestIsDropped() async throws {
    let (handled, dead) = try await overflow(.dropOldest)
    #expect(handled == ["1", "4", "5"])
    #expect(dead == ["2", "3"])
  }

  @Test func theSenderIsRefused() async throws {
    let (handled, dead) = try await overflow(.fail)
    #expect(handled == ["1", "2", "3", "refused 4", "refused 5"])
    #expect(dead == [])
  }

  /// Five messages for a mailbox of two, while the first is being handled.
  private func overflow(_ policy: MailboxPolicy.Overflow) async throws -> (handled: [String], dead: [String]) {
    let queue = DispatchQueue(label: "serial")
    let (log, dead) = (Log(), Log())
    let refused = Log()
    try await SharedDeadLetters.observe("\(policy)") {
      if case .overflow = $0.reason { dead.add("\($0.message ?? 0)") }
    } during: { () async throws -> Void in
      try await Coroutine(on: queue) {
        let gate = Channel<Void>()
        let actor = MessageActor<Int>(on: queue, name: "\(policy)", mailbox: .bounded(2, policy)) { mailbox in
          for message in mailbox {
            log.add("\(message)")
            if message == 1 { try gate.receive() }
          }
        }
        try actor.tell(1)
        Coroutine.yield()
        for number in 2...5 {
          do { try actor.tell(number) } catch is MailboxFull { refused.add("refused \(number)") }
        }
        try gate.send(())
        for _ in 0..<4 { Coroutine.yield() }
        actor.cancel()
        try actor.join()
      }.get()
    }
    return (log.all + refused.all, dead.all)
  }

  @Test func theAskerOfADroppedMessageIsTold() async throws {
    let queue = DispatchQueue(label: "serial")
    let log = Log()
    try await Coroutine(on: queue) {
      let gate = Channel<Void>()
      let actor = MessageActor<Reply<Int>>(on: queue, name: "small", mailbox: .bounded(1, .dropOldest)) { mailbox in
        for reply in mailbox {
          try gate.receive()
          reply.complete(1)
        }
      }
      let promises = (0..<3).map { _ in
        let promise = actor.send { $0 } as Promise<Int>
        Coroutine.yield()
        return promise
      }
      for _ in 0..<2 { try gate.send(()) }
      for promise in promises { log.add(failure { _ = try promise.get() }) }
    }.get()
    #expect(log.all == ["no error", "\(MailboxFull(actor: "small"))", "no error"])
  }

  @Test func whatIsLeftIsAnsweredOrADeadLetter() async throws {
    let queue = DispatchQueue(label: "serial")
    let dead = Log()
    let log = Log()
    enum Message: Sendable {
      case tell(Int)
      case ask(Reply<Int>)
    }
    try await SharedDeadLetters.observe("short") {
      if case .stopped = $0.reason, case .tell(let number)? = $0.message as? Message { dead.add("\(number)") }
    } during: { () async throws -> Void in
      try await Coroutine(on: queue) {
        let actor = MessageActor<Message>(on: queue, name: "short") { mailbox in _ = mailbox.next() }
        for number in 1...3 { try actor.tell(.tell(number)) }
        let asker = Coroutine { log.add(failure { _ = try actor.ask { .ask($0) } }) }
        try actor.join()
        try asker.get()
      }.get()
    }
    #expect(dead.all == ["2", "3"])
    #expect(log.all == ["\(ActorStopped(actor: "short"))"])
  }

  @Test func nothingIsHandedToACancelledActorThatStillWaits() async throws {
    // A pool of its own: other tests may keep the shared one busy.
    let pool = ThreadPool(threads: 2)
    let actor = MessageActor<Int>(on: pool, name: "waiting") { mailbox in for _ in mailbox {} }
    let storage = actor.storage
    while !storage.isIdle { await Task.yield() }
    // The first requester would end the actor's wait, but does not get to it.
    let (first, error) = storage.coroutine.cancellationLock.withLock {
      let first = Coroutine(on: pool) { storage.request(.restart) }
      while storage.lock.withLock({ storage.life.request == nil }) { sched_yield() }
      actor.cancel()
      return (first, failure { try actor.tellBlocking(1) })
    }
    #expect(error == "\(ActorStopped(actor: "waiting"))")
    try await first.get()
  }

}

extension MessageActor {
  /// The number of senders that wait for room.
  fileprivate var waitingSenders: Int { storage.lock.withLock { storage.machine.senders.count } }
}
