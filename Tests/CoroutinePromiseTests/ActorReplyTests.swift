import CoroutineTestSupport
import Dispatch
import Testing

@testable import Coroutine

/// How an answer gets back to an asker: which code may answer, when, and what an asker gets without an answer.
@Suite(.ownThreads) struct ActorReplyTests {
  private struct Failure: Error, Equatable {}

  private typealias Question = Reply<Int>

  @Test func theFirstAnswerCounts() async throws {
    let log = Log()
    let actor = MessageActor<Question>(on: .pool) { mailbox in
      for reply in mailbox {
        log.add("\(reply.isWanted)")
        log.add("\(reply.complete(1)) \(reply.complete(2)) \(reply.fail(Failure())) \(reply.isWanted)")
      }
    }
    #expect(try await actor.ask { $0 } == 1)
    let other = Coroutine { try actor.ask { $0 } }
    #expect(try await other.get() == 1)
    actor.cancel()
    try await actor.join()
    #expect(log.all == ["true", "true false false false", "true", "true false false false"])
  }

  /// The actor was handed the asker's thread, and waits pinned to it. The asker, which ends that wait, needs another
  /// thread.
  @Test(arguments: [1, 2]) func anAskerGoesOnWhileTheActorWaitsPinned(threads: Int) async throws {
    let pool = ThreadPool(threads: threads)
    let gate = Channel<Void>()
    let actor = MessageActor<Question>(on: pool) { mailbox in
      for reply in mailbox {
        reply.complete(1)
        try withThreadPinned { try gate.receive() }
      }
    }
    let asker = Coroutine(on: pool) {
      // The second time the actor is sure to wait for a message.
      for _ in 1...2 {
        #expect(try actor.ask { $0 } == 1)
        try gate.send(())
        Coroutine.yield()
      }
    }
    try await asker.get()
  }

  /// The same for an asker that is cancelled before there is an answer.
  @Test(arguments: [1, 2]) func aCancelledAskerGoesOnWhileTheActorWaitsPinned(threads: Int) async throws {
    let pool = ThreadPool(threads: threads)
    let (gate, began) = (Channel<Void>(), Promise<Void>.makePromise())
    let actor = MessageActor<Question>(on: pool) { mailbox in
      mailbox.next()?.complete(0)
      for reply in mailbox {
        began.resolver.fulfill()
        try withThreadPinned { try gate.receive() }
        reply.complete(1)
      }
    }
    let asker = Coroutine(on: pool) {
      _ = try actor.ask { $0 }
      Coroutine.yield()
      do {
        _ = try actor.ask { $0 }
        Issue.record("it was cancelled")
      } catch is CancellationError {}
      try withCancellationShield { try gate.send(()) }
    }
    try await began.promise.get()
    asker.cancel()
    try await asker.get()
  }

  @Test func anAnswerMayBeAnErrorOrEither() async throws {
    let actor = MessageActor<Question>(on: .pool) { mailbox in
      mailbox.next()?.fail(Failure())
      mailbox.next()?.complete(with: .failure(Failure()))
      mailbox.next()?.complete(with: .success(3))
    }
    await #expect(throws: Failure.self) { try await actor.ask { $0 } }
    await #expect(throws: Failure.self) { try await actor.ask { $0 } }
    #expect(try await actor.ask { $0 } == 3)
  }

  @Test func anAnswerMayComeLaterAndFromElsewhere() async throws {
    let queue = DispatchQueue(label: "serial")
    let log = Log()
    try await Coroutine(on: queue) {
      let actor = MessageActor<Question>(on: queue) { mailbox in
        var waiting: [Question] = []
        for reply in mailbox {
          waiting.append(reply)
          log.add("asked")
          guard waiting.count == 3 else { continue }
          waiting[2].complete(30)
          let others = waiting[..<2]
          waiting = []
          Coroutine { for (index, reply) in others.enumerated() { reply.complete(index) } }
        }
      }
      let askers = (0..<3).map { number in Coroutine { log.add("\(number): \(try actor.ask { $0 })") } }
      for asker in askers { try asker.get() }
    }.get()
    #expect(log.all == ["asked", "asked", "asked", "2: 30", "0: 0", "1: 1"])
  }

  @Test func aReplyThatIsDroppedIsAnErrorForTheAsker() async throws {
    let actor = MessageActor<Question>(on: .pool, name: "silent") { mailbox in
      for _ in mailbox {}
    }
    await #expect(throws: ReplyDropped()) { try await actor.ask { $0 } }
    let asker = Coroutine { failure { _ = try actor.ask { $0 } } }
    #expect(try await asker.get() == "\(ReplyDropped())")
    let promise = actor.send { $0 } as Promise<Int>
    await #expect(throws: ReplyDropped()) { try await promise.get() }
    // Likewise if the closure that makes the message drops the reply.
    let other = MessageActor<Int>(on: .pool) { mailbox in for _ in mailbox {} }
    await #expect(throws: ReplyDropped()) { () async throws -> Int in try await other.ask { _ in 1 } }
  }

  @Test func aReplyThatIsKeptAndThenDroppedIsAnErrorToo() async throws {
    let kept = Guarded<Question?>(nil)
    let actor = MessageActor<Question>(on: .pool) { mailbox in
      for reply in mailbox { kept.withLock { $0 = reply } }
    }
    let promise = actor.send { $0 } as Promise<Int>
    let second = actor.send { $0 } as Promise<Int>
    await #expect(throws: ReplyDropped()) { try await promise.get() }
    #expect(second.isPending)
    kept.withLock { $0 = nil }
    await #expect(throws: ReplyDropped()) { try await second.get() }
  }

  // MARK: Askers that do not wait for ever

  @Test func anAskerWhoseTimeIsUpThrowsAndTheActorLearnsOfIt() async throws {
    let log = Log()
    let gate = Channel<Void>()
    let actor = MessageActor<Question>(on: .pool) { mailbox in
      for reply in mailbox {
        try gate.receive()
        log.add("\(reply.isWanted) \(reply.complete(1))")
      }
    }
    await #expect(throws: TimeoutError(after: .milliseconds(1))) {
      try await actor.ask(timeout: .milliseconds(1)) { $0 }
    }
    let asker = Coroutine { failure { _ = try actor.ask(timeout: .zero) { $0 } } }
    #expect(try await asker.get() == "\(TimeoutError(after: .zero))")
    for _ in 0..<2 { try await gate.send(()) }
    let handled = actor.send { $0 } as Promise<Int>
    try await gate.send(())
    #expect(try await handled.get() == 1)
    actor.cancel()
    try await actor.join()
    #expect(log.all == ["false false", "false false", "true true"])
  }

  /// Where its deadline is.
  enum Deadline: CaseIterable { case ask, aroundTheScope }

  @Test(arguments: Deadline.allCases)
  func anAskerWithADeadlineGoesOnThoughTheActorBlocksItsThread(_ deadline: Deadline) async throws {
    let pool = ThreadPool(threads: 2)
    let hasGoneOn = DispatchSemaphore(value: 0)
    let actor = MessageActor<Question>(on: pool) { mailbox in
      for reply in mailbox {
        _ = hasGoneOn.wait(timeout: .now() + 600)
        reply.complete(7)
      }
    }
    let outcome = try await Coroutine(on: pool) {
      // Once the actor waits for a message, a thread can be handed off to it.
      while !actor.storage.isIdle { Coroutine.yield() }
      let outcome = failure {
        switch deadline {
        case .ask: _ = try actor.ask(timeout: .milliseconds(1)) { $0 }
        case .aroundTheScope:
          try withTimeout(.milliseconds(1)) {
            try withScope { scope in scope.launch { _ = try actor.ask { $0 } } }
          }
        }
      }
      hasGoneOn.signal()
      return outcome
    }.get()
    #expect(outcome == "\(TimeoutError(after: .milliseconds(1)))")
  }

  @Test func aCancelledAskerThrowsAndTheMessageIsHandledAllTheSame() async throws {
    let queue = DispatchQueue(label: "serial")
    let log = Log()
    try await Coroutine(on: queue) {
      let gate = Channel<Void>()
      let actor = MessageActor<Question>(on: queue) { mailbox in
        for reply in mailbox {
          try gate.receive()
          log.add("\(reply.complete(1))")
        }
      }
      let asker = Coroutine { log.add(failure { _ = try actor.ask { $0 } }) }
      Coroutine.yield()
      Coroutine.yield()
      asker.cancel()
      try? asker.get()
      try gate.send(())
      Coroutine.yield()
      // Cancelled before the ask: the message is not even sent.
      let late = Coroutine {
        try? withCancellationShield { try gate.receive() }
        log.add(failure { _ = try actor.ask { $0 } })
      }
      Coroutine.yield()
      late.cancel()
      try gate.send(())
      try? late.get()
    }.get()
    #expect(log.all == ["\(CancellationError())", "false", "\(CancellationError())"])
  }

  @Test func aTaskThatIsCancelledStopsWaiting() async throws {
    let asked = Channel<Void>(capacity: .unbounded)
    let actor = MessageActor<Question>(on: .pool) { mailbox in
      var kept: [Question] = []
      for reply in mailbox {
        kept.append(reply)
        _ = asked.trySend(())
      }
    }
    let task = Task { try await actor.ask { $0 } }
    try await asked.receive()
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
  }

  @Test func cancellingThePromiseTellsTheActorThatNoAskerWaits() async throws {
    let gate = Channel<Void>()
    let wanted = Channel<Bool>(capacity: .unbounded)
    let actor = MessageActor<Question>(on: .pool) { mailbox in
      for reply in mailbox {
        try gate.receive()
        _ = wanted.trySend(reply.isWanted)
      }
    }
    let promise = actor.send { $0 } as Promise<Int>
    promise.cancel()
    try await gate.send(())
    #expect(try await wanted.receive() == false)
    await #expect(throws: CancellationError.self) { try await promise.get() }
  }

  // MARK: Handing a thread off

  @Test func anAskerGetsItsThreadBackBeforeTheNextMessage() async throws {
    // The asker's answer is there after the first message. Other senders keep the mailbox filled for ever.
    let pool = ThreadPool(threads: 2)
    enum Message: Sendable {
      case again
      case ask(Reply<Int>)
    }
    let actor = MessageActor<Message>(on: pool) { mailbox in
      var count = 0
      let myself = mailbox.actor
      for message in mailbox {
        switch message {
        case .again: try myself.tell(.again)
        case .ask(let reply):
          count += 1
          if count == 1 { try myself.tell(.again) }
          reply.complete(count)
        }
      }
    }
    let asker = Coroutine(on: pool) { () -> Int in
      // At once, from here: until a task gets to run, the actor would keep a processor busy.
      defer { actor.cancel() }
      var last = 0
      for _ in 0..<500 { last = try actor.ask { .ask($0) } }
      return last
    }
    #expect(try await asker.get() == 500)
  }

  @Test func inASerialPoolAHandOffKeepsTheOrder() async throws {
    let pool = ThreadPool(threads: 1)
    let log = Log()
    try await Coroutine(on: pool) {
      let actor = MessageActor<Question>(on: pool) { mailbox in
        for reply in mailbox {
          log.add("asked")
          Coroutine { log.add("launched by the actor") }
          reply.complete(1)
        }
      }
      Coroutine.yield()
      // The actor waits for a message now, but this coroutine became ready before the ask.
      Coroutine { log.add("launched before") }
      _ = try actor.ask { $0 }
      log.add("answered")
      _ = try actor.ask { $0 }
      log.add("answered")
      actor.cancel()
    }.get()
    let order = ["asked", "launched by the actor", "answered"]
    #expect(log.all == ["launched before"] + order + order)
  }

  @Test func aCoroutineThatMustNotSuspendHandsNothingOff() async throws {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      // One thread: with a second one the answer might be there before the asker has to wait.
      let pool = ThreadPool(threads: 1)
      let actor = MessageActor<Reply<Int>>(on: pool) { mailbox in for reply in mailbox { reply.complete(1) } }
      try await Coroutine(on: pool) {
        _ = try actor.ask { $0 }
        _ = try withoutSuspension { try actor.ask { $0 } }
      }.get()
    }
    #expect(standardError(of: result).contains("inside withoutSuspension"))
  }

  @Test func twoThatAskEachOtherForEverLetOthersRun() async throws {
    let pool = ThreadPool(threads: 2)
    let actors = (0..<2).map { _ in
      MessageActor<Question>(on: pool) { mailbox in for reply in mailbox { reply.complete(1) } }
    }
    let stop = Guarded(false)
    // As many as there are threads, so that none is left for later coroutines.
    let askers = actors.map { actor in
      Coroutine(on: pool) { while !stop.withLock({ $0 }) { _ = try actor.ask { $0 } } }
    }
    // From a thread of their own: until a task gets to run, both askers would keep a processor busy.
    let others = Coroutine(on: ThreadPool(threads: 1)) {
      defer { stop.withLock { $0 = true } }
      return try (0..<10).map { number in try Coroutine(on: pool) { number }.get() }
    }
    #expect(try await others.get() == Array(0..<10))
    for asker in askers { try await asker.get() }
  }

  @Test func aReplyOfALaterAskIsNoOthers() async throws {
    // The object of the first ask would be used again, but its reply is still held.
    let pool = ThreadPool(threads: 2)
    let kept = Guarded<[Question]>([])
    let actor = MessageActor<Question>(on: pool) { mailbox in
      var number = 0
      for reply in mailbox {
        number += 1
        kept.withLock { $0.append(reply) }
        reply.complete(number)
      }
    }
    let answers = try await Coroutine(on: pool) { () -> [Int] in
      var answers: [Int] = []
      for _ in 0..<3 {
        answers.append(try actor.ask { $0 })
        let late = kept.withLock { $0.map { $0.complete(100) } }
        #expect(late.allSatisfy { !$0 })
      }
      return answers
    }.get()
    #expect(answers == [1, 2, 3])
  }

  @Test(arguments: [false, true])
  func aReplyThatWasWaitedForIsUsedAgainUnlessItIsHeld(isKept: Bool) async throws {
    let pool = ThreadPool(threads: 1)
    let kept = Guarded<[Question]>([])
    let asker = Guarded<CoroutineCore?>(nil)
    let actor = MessageActor<Question>(on: pool) { mailbox in
      var number = 0
      for reply in mailbox {
        number += 1
        if isKept { kept.withLock { $0.append(reply) } }
        while asker.withLock({ $0?.state.load(ordering: .relaxed) }) != .suspended { Coroutine.yield() }
        reply.complete(number)
      }
    }
    let answers = try await Coroutine(on: pool) { () -> [Int] in
      let core = CoroutineCore.running(for: "a test")
      asker.withLock { $0 = core }
      var answers: [Int] = []
      var used: [UnsafeMutableRawPointer?] = []
      for _ in 0..<3 {
        answers.append(try actor.ask { $0 })
        let spare = core.extras?._withUnsafeGuaranteedRef {
          $0.spare.map { Unmanaged<ReplyOwner>.fromOpaque($0.toOpaque()) }
        }
        used.append(spare?._withUnsafeGuaranteedRef { $0.storage.toOpaque() })
        let late = kept.withLock { $0.map { $0.complete(100) } }
        #expect(late.allSatisfy { !$0 })
      }
      #expect(used == (isKept ? [nil, nil, nil] : [used[0], used[0], used[0]]))
      #expect((used[0] == nil) == isKept)
      return answers
    }.get()
    #expect(answers == [1, 2, 3])
  }

  @Test func anAskInsideOfAnotherOnesMessageHasAReplyOfItsOwn() async throws {
    let pool = ThreadPool(threads: 1)
    let actor = MessageActor<(Int, Question)>(on: pool) { mailbox in
      for (number, reply) in mailbox { reply.complete(number) }
    }
    let (answers, kept) = try await Coroutine(on: pool) { () -> ([Int], [Bool]) in
      var used: [WeakOwner] = []
      var answers: [Int] = []
      for number in 0..<3 {
        let answer = try actor.ask { (reply: Question) -> (Int, Question) in
          let inner = try? actor.ask { (other: Question) -> (Int, Question) in
            used += [WeakOwner(reply.owner), WeakOwner(other.owner)]
            return (10 * number, other)
          }
          return ((inner ?? .min) + number, reply)
        }
        answers.append(answer)
      }
      return (answers, used.map { $0.owner != nil })
    }.get()
    #expect(answers == [0, 11, 22])
    // The outer ask's object is used again. The inner ask's is released each time.
    #expect(kept == [true, false, true, false, true, false])
  }

  @Test func aSpareReplyGoesWithItsCoroutinesExtras() {
    var extras: CoroutineExtras? = CoroutineExtras()
    weak var spare: ReplyOwner?
    do {
      let owner = ReplyOwner(ReplyStorage<Int>())
      _ = owner.withStorage { $0.abandon() }
      spare = owner
      extras?.keepSpareReply(.passRetained(owner))
    }
    #expect(spare != nil)
    extras = nil
    #expect(spare == nil)
  }

  private struct WeakOwner {
    weak var owner: ReplyOwner?

    init(_ owner: ReplyOwner) { self.owner = owner }
  }

  // MARK: Every order

  @Test func answersAndTheEndOfTheWaitRace() async throws {
    let actor = MessageActor<Question>(on: .pool) { mailbox in
      for reply in mailbox { Coroutine(on: .pool) { reply.complete(1) } }
    }
    let askers = (0..<4).map { _ in
      Coroutine(on: .pool) {
        for _ in 0..<2000 {
          let asker = Coroutine(on: .pool) { try actor.ask { $0 } }
          Coroutine.yield()
          asker.cancel()
          if let answer = try? asker.get() { #expect(answer == 1) }
        }
      }
    }
    for asker in askers { try await asker.get() }
  }
}
