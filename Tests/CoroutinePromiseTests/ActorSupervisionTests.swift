import CoroutineTestSupport
import Dispatch
import Testing

@testable import Coroutine

/// What happens when an actor fails: to its messages, its state, its siblings, its parent and its children.
@Suite(.ownThreads) struct ActorSupervisionTests {
  private struct Failure: Error, Equatable {}
  private struct Worse: Error, Equatable {}

  private enum Message: Sendable {
    case add(Int)
    case fail, worse
    case get(Reply<Int>)
  }

  private static func handle(_ sum: inout Int, _ message: Message) throws {
    switch message {
    case .add(let number): sum += number
    case .fail: throw Failure()
    case .worse: throw Worse()
    case .get(let reply): reply.complete(sum)
    }
  }

  private func loop(_ log: Log) -> @Sendable (Mailbox<Message>) throws -> Void {
    { mailbox in
      log.add("begin")
      var sum = 0
      for message in mailbox { try Self.handle(&sum, message) }
      log.add("end")
    }
  }

  // MARK: One for one

  @Test func restartMakesANewStateAndKeepsTheMessages() async throws {
    let log = Log()
    let name = "restarted"
    let supervisor = Supervisor()
    try await SharedDeadLetters.observe(name) {
      log.add("\($0)")
    } during: { () async throws -> Void in
      let actor = supervisor.launch(name: name, loop(log))
      let answers = Coroutine {
        try actor.tell(.add(1))
        try actor.tell(.fail)
        try actor.tell(.add(10))
        try actor.tell(.add(20))
        return try actor.ask { .get($0) }
      }
      #expect(try await answers.get() == 30)
      await supervisor.stop()
    }
    #expect(log.all == ["begin", "actor \"restarted\": a message failed: Failure() (fail)", "begin", "end"])
  }

  @Test func resumeKeepsTheStateWhereAMessageIsHandledByAClosure() async throws {
    let dead = Log()
    let supervisor = Supervisor(Supervision { $0 is Failure ? .resume : .restart })
    try await SharedDeadLetters.observe("resumed") {
      dead.add("\($0.message ?? 0)")
    } during: { () async throws -> Void in
      let actor: MessageActor<Message> = supervisor.launch(
        name: "resumed", state: { 100 }, handle: { try Self.handle(&$0, $1) })
      try await actor.tell(.add(1))
      try await actor.tell(.fail)
      #expect(try await actor.ask { .get($0) } == 101)
      try await actor.tell(.worse)
      #expect(try await actor.ask { .get($0) } == 100)
      await supervisor.stop()
    }
    #expect(dead.all == ["fail", "worse"])
  }

  @Test func anActorOfAStateAndAFunctionRunsOnTheSchedulerItIsGiven() async throws {
    let queue = DispatchQueue(label: "actors")
    let supervisor = Supervisor()
    let actor: MessageActor<Reply<Bool>> = supervisor.launch(
      on: queue, state: { 0 }, handle: { _, reply in reply.complete(queue.isCurrent) })
    let parent = MessageActor<Reply<Bool>> { mailbox in
      let child: MessageActor<Reply<Bool>> = mailbox.launch(
        on: queue, state: { 0 }, handle: { _, reply in reply.complete(queue.isCurrent) })
      try mailbox.handleEach { reply in reply.complete(try child.ask { $0 }) }
    }
    #expect(try await actor.ask { $0 })
    #expect(try await parent.ask { $0 })
    await supervisor.stop()
  }

  @Test func aBodyThatHasThrownCannotGoOnButIsStartedAgainAndThatCounts() async throws {
    let begun = Channel<Void>(capacity: .unbounded)
    let supervisor = Supervisor(Supervision(.oneForAll, restarts: 2, within: .seconds(3600)) { _ in .resume })
    try await SharedDeadLetters.observe("thrower") { _ in
    } during: { () async throws -> Void in
      let sibling = supervisor.launch(name: "sibling") { (mailbox: Mailbox<Message>) in
        _ = begun.trySend(())
        for _ in mailbox {}
      }
      let actor: MessageActor<Message> = supervisor.launch(name: "thrower", loop(Log()))
      try await begun.receive()
      for _ in 0..<2 {
        await #expect(throws: Failure.self) { try await actor.send(.fail).get() }
        // The sibling begins again, too, with a new state.
        try await begun.receive()
      }
      await #expect(throws: Failure.self) { try await actor.send(.fail).get() }
      await #expect(throws: Failure.self) { try await actor.join() }
      withExtendedLifetime(sibling) {}
      await supervisor.stop()
    }
    if case .received = begun.tryReceive() { Issue.record("started again beyond the limit") }
  }

  @Test func whatWasDecidedAboutAFailureDecidesAboutNoLaterOne() async throws {
    let begun = Channel<Void>(capacity: .unbounded)
    let runs = Log()
    let supervisor = Supervisor(Supervision(.oneForAll) { $0 is Worse ? .stop : .restart })
    try await SharedDeadLetters.observe("sibling") { _ in
    } during: { () async throws -> Void in
      let sibling = supervisor.launch(name: "sibling") { (mailbox: Mailbox<Message>) in
        _ = begun.trySend(())
        for _ in mailbox { throw Failure() }
      }
      try await begun.receive()
      try await SharedDeadLetters.observe("decided") { _ in
      } during: { () async throws -> Void in
        let actor = supervisor.launch(name: "decided") { (mailbox: Mailbox<Message>) in
          runs.add("run")
          if runs.all.count > 1 { for _ in mailbox { throw Worse() } }
          do {
            try mailbox.handleEach { _ in throw Failure() }
          } catch {
            // Its restart is decided. The sibling, which restarts with it, also fails before this body ends.
            withCancellationShield {
              _ = try? begun.receive()
              _ = try? sibling.tell(.fail)
              _ = try? begun.receive()
            }
            throw error
          }
        }
        await #expect(throws: Failure.self) { try await actor.send(.fail).get() }
        await #expect(throws: Worse.self) { try await actor.send(.worse).get() }
        await #expect(throws: Worse.self) { try await actor.join() }
      }
      await supervisor.stop()
    }
    #expect(runs.all.count == 2)
  }

  @Test func stopEndsItAndItsWatcherLearnsWhy() async throws {
    let ends = Channel<String>(capacity: .unbounded)
    let supervisor = Supervisor(.stopping)
    try await SharedDeadLetters.observe("stopped") { _ in
    } during: { () async throws -> Void in
      let actor = supervisor.launch(name: "stopped", loop(Log()))
      actor.watch { _ = ends.trySend("\($0)") }
      let failed = actor.send(.fail)
      let next = actor.send(.add(1))
      await #expect(throws: Failure.self) { try await failed.get() }
      await #expect(throws: ActorStopped(actor: "stopped")) { try await next.get() }
      #expect(try await ends.receive() == "failed: \(Failure())")
      await #expect(throws: Failure.self) { try await actor.join() }
      await #expect(throws: ActorStopped(actor: "stopped")) { try await actor.tell(.add(1)) }
    }
  }

  @Test func withoutASupervisorAFailureEndsIt() async throws {
    let actor = MessageActor(on: .pool, name: "alone", loop(Log()))
    await #expect(throws: Failure.self) { try await actor.send(.fail).get() }
    await #expect(throws: Failure.self) { try await actor.join() }
  }

  @Test func anErrorOutsideOfAMessageIsReportedIfNotWatched() async throws {
    let reported = Channel<String>(capacity: .unbounded)
    try await LostErrors.observe { error, origin in
      guard origin == "actor \"early\"" else { return false }
      _ = reported.trySend("\(error)")
      return true
    } during: { () async throws -> Void in
      let actor = MessageActor<Int>(on: .pool, name: "early") { _ in throw Failure() }
      #expect(try await reported.receive() == "\(Failure())")
      withExtendedLifetime(actor) {}
    }
  }

  @Test(arguments: [("stopped", .stopping), ("limited", Supervision(restarts: 0)), ("restarted", Supervision())])
  func soIsThatOfASupervisedOneWhichEndsBecauseOfIt(_ name: String, _ policy: Supervision) async throws {
    let reported = Channel<String>(capacity: .unbounded)
    try await LostErrors.observe { error, origin in
      guard origin == "actor \"hapless \(name)\"" else { return false }
      _ = reported.trySend("\(error)")
      return true
    } during: { () async throws -> Void in
      let supervisor = Supervisor(policy)
      let actor: MessageActor<Int> = supervisor.launch(on: .pool, name: "hapless \(name)") { _ in throw Failure() }
      #expect(try await reported.receive() == "\(Failure())")
      // Nor by code that waits for the end, which comes after the report.
      await #expect(throws: Failure.self) { try await actor.join() }
      if case .received = reported.tryReceive() { Issue.record("reported twice") }
    }
  }

  @Test func aSupervisorSurvivesAHundredThousandFailures() async throws {
    let supervisor = Supervisor()
    let failed = Guarded(0)
    let (count, others) = (100_000, 25_000)
    try await SharedDeadLetters.observe("stormy") { _ in
      failed.withLock { $0 += 1 }
    } during: { () async throws -> Void in
      let handled = Guarded(0)
      let actor: MessageActor<Int> = supervisor.launch(on: .pool, name: "stormy") { mailbox in
        for message in mailbox {
          guard message.isMultiple(of: 5) else { throw Failure() }
          handled.withLock { $0 += 1 }
        }
      }
      let senders = (0..<4).map { part in
        Coroutine(on: .pool) { for number in 0..<(count + others) / 4 { try actor.tell(part + 4 * number) } }
      }
      for sender in senders { try await sender.get() }
      try await actor.send(0).get()
      #expect(handled.withLock { $0 } == others + 1)
      #expect(failed.withLock { $0 } == count)
      await supervisor.stop()
    }
  }

  // MARK: One for all

  @Test func oneForAllStartsTheOthersAgainToo() async throws {
    let queue = DispatchQueue(label: "serial")
    let log = Log()
    let supervisor = Supervisor(Supervision(.oneForAll))
    try await SharedDeadLetters.observe("left") { _ in
    } during: { () async throws -> Void in
      try await Coroutine(on: queue) {
        let left = supervisor.launch(on: queue, name: "left", loop(log))
        let right = supervisor.launch(on: queue, name: "right") { (mailbox: Mailbox<Message>) in
          log.add("right begins")
          var sum = 0
          for message in mailbox { try Self.handle(&sum, message) }
          log.add("right ends")
        }
        try right.tell(.add(5))
        #expect(try right.ask { .get($0) } == 5)
        try left.tell(.fail)
        #expect(try left.ask { .get($0) } == 0)
        #expect(try right.ask { .get($0) } == 0)
        supervisor.stop()
      }.get()
    }
    #expect(log.all == ["begin", "right begins", "begin", "right ends", "right begins", "right ends", "end"])
  }

  @Test func theMessageThatASiblingWasHandlingIsAnswered() async throws {
    let supervisor = Supervisor(Supervision(.oneForAll))
    let gate = Channel<Void>()
    let began = Channel<Void>(capacity: .unbounded)
    try await SharedDeadLetters.observe("cause") { _ in
    } during: { () async throws -> Void in
      try await SharedDeadLetters.observe("sibling") { _ in
      } during: { () async throws -> Void in
        let cause = supervisor.launch(name: "cause", loop(Log()))
        let sibling: MessageActor<Reply<Int>> = supervisor.launch(name: "sibling") { mailbox in
          for reply in mailbox {
            _ = began.trySend(())
            try gate.receive()
            reply.complete(1)
          }
        }
        let answer = sibling.send { $0 } as Promise<Int>
        try await began.receive()
        try await cause.tell(.fail)
        await #expect(throws: ActorRestarted(actor: "sibling")) { try await answer.get() }
        await supervisor.stop()
      }
    }
  }

  @Test func oneForAllStopsTheOthersToo() async throws {
    let supervisor = Supervisor(Supervision(.oneForAll) { _ in .stop })
    try await SharedDeadLetters.observe("one") { _ in
    } during: { () async throws -> Void in
      let one = supervisor.launch(name: "one", loop(Log()))
      let other = supervisor.launch(name: "other", loop(Log()))
      try await one.tell(.fail)
      await #expect(throws: Failure.self) { try await one.join() }
      try await other.join()
      if case .cancelled? = other.end {} else { Issue.record("it ended otherwise") }
    }
  }

  @Test(arguments: [0, 1, 2]) func restForOneConcernsThoseThatWereLaunchedLater(failing: Int) async throws {
    let log = Log()
    try await SharedDeadLetters.observe("in a row") { _ in
    } during: { () async throws -> Void in
      try await Coroutine(on: DispatchQueue(label: "serial")) { [loop] in
        let supervisor = Supervisor(Supervision(.restForOne))
        let actors = (0..<3).map { number in
          supervisor.launch(name: "in a row") { mailbox in
            log.add("\(number) begins")
            try loop(Log())(mailbox)
          }
        }
        for actor in actors {
          try actor.tell(.add(5))
          _ = try actor.ask { .get($0) }
        }
        try actors[failing].tell(.fail)
        var sums: [Int] = []
        for actor in actors { sums.append(try actor.ask { .get($0) }) }
        log.add("\(sums.map { $0 == 0 })")
        supervisor.stop()
      }.get()
    }
    let begun = (0..<3).map { "\($0) begins" }
    let again = Array(begun[failing...])
    let areNew = (0..<3).map { $0 >= failing }
    #expect(log.all == begun + again + ["\(areNew)"])
  }

  /// Whichever others have ended before.
  @Test func theOrderOfTheLaunchesOutlivesThoseThatHaveEnded() async throws {
    let log = Log()
    try await SharedDeadLetters.observe("one of many") { _ in
    } during: { () async throws -> Void in
      try await Coroutine(on: DispatchQueue(label: "serial")) {
        let supervisor = Supervisor(Supervision(.restForOne))
        var actors = (0..<12).map { Self.launchOneOfMany($0, supervisor, log) }
        for actor in actors { try actor.tell(.add(5)) }
        for ended in [11, 1, 2, 9, 4, 5, 6, 8] {
          actors[ended].cancel()
          try actors[ended].join()
        }
        actors.append(Self.launchOneOfMany(12, supervisor, log))
        let left = [0, 3, 7, 10, 12].map { actors[$0] }
        for actor in left { _ = try actor.ask { .get($0) } }
        log.add("now")
        try actors[7].tell(.fail)
        var sums: [Int] = []
        for actor in left { sums.append(try actor.ask { .get($0) }) }
        log.add("\(sums)")
        supervisor.stop()
      }.get()
    }
    #expect(log.all.suffix(5) == ["now", "7 begins", "10 begins", "12 begins", "[5, 5, 0, 0, 0]"])
  }

  private static func launchOneOfMany(_ number: Int, _ supervisor: Supervisor, _ log: Log) -> MessageActor<Message> {
    supervisor.launch(name: "one of many") { mailbox in
      log.add("\(number) begins")
      var sum = 0
      for message in mailbox { try Self.handle(&sum, message) }
    }
  }

  // MARK: Limits

  @Test func beyondTheLimitItIsStopped() async throws {
    let supervisor = Supervisor(Supervision(restarts: 2, within: .seconds(3600)))
    try await SharedDeadLetters.observe("limited") { _ in
    } during: { () async throws -> Void in
      let actor = supervisor.launch(name: "limited", loop(Log()))
      for _ in 0..<2 {
        try await actor.tell(.fail)
        #expect(try await actor.ask { .get($0) } == 0)
      }
      try await actor.tell(.fail)
      await #expect(throws: Failure.self) { try await actor.join() }
    }
  }

  /// It uses the real time, which no test can move. The test waits until a window has passed, however long that
  /// takes.
  @Test func failuresInDifferentWindowsAreNotTooMany() async throws {
    let window = Duration.milliseconds(1)
    let (patient, strict) = (
      Supervisor(Supervision(restarts: 1, within: window)), Supervisor(Supervision(restarts: 1, within: .seconds(3600)))
    )
    try await SharedDeadLetters.observe("windowed") { _ in
    } during: { () async throws -> Void in
      func fail(_ actor: MessageActor<Message>) async throws {
        try await actor.tell(.fail)
        // The restarted body answers: the supervisor has judged the failure before.
        #expect(try await actor.ask { .get($0) } == 0)
        let seen = TimerService.shared.now
        while TimerService.shared.now < seen + window.nanosecondsRoundedUp { await Task.yield() }
      }
      let surviving = patient.launch(name: "windowed", loop(Log()))
      for _ in 0..<10 { try await fail(surviving) }
      #expect(surviving.end == nil)
      await patient.stop()
      // Just as slowly, in one window.
      let ending = strict.launch(name: "windowed", loop(Log()))
      try await fail(ending)
      try await ending.tell(.fail)
      await #expect(throws: Failure.self) { try await ending.join() }
    }
  }

  @Test func oneThatFailsBeforeItTakesAMessageIsNotStartedForEver() async throws {
    let log = Log()
    let supervisor = Supervisor()
    let actor: MessageActor<Int> = supervisor.launch(name: "never") { _ in
      log.add("begin")
      throw Failure()
    }
    await #expect(throws: Failure.self) { try await actor.join() }
    #expect(log.all.count == 1 + ActorStateMachine.startAttempts)
  }

  // MARK: Parents and children

  @Test func stoppingAParentStopsItsChildrenTheLastOneFirst() async throws {
    let log = Log()
    let ready = Channel<Void>(capacity: .unbounded)
    let parent = MessageActor<Int>(on: .pool, name: "parent") { mailbox in
      let children = (0..<3).map { number -> MessageActor<Int> in
        mailbox.launch(name: "child \(number)") { (inbox: Mailbox<Int>) in
          _ = ready.trySend(())
          for _ in inbox {}
          withCancellationShield { Coroutine.yield() }
          log.add("child \(number) ends")
        }
      }
      for _ in mailbox {}
      log.add("the loop ends")
      withExtendedLifetime(children) {}
    }
    for _ in 0..<3 { try await ready.receive() }
    parent.cancel()
    try await parent.join()
    #expect(log.all == ["the loop ends", "child 2 ends", "child 1 ends", "child 0 ends"])
  }

  @Test(arguments: ["return", "fail"])
  func aChildThatAsksItsParentAtTheEndIsRefused(how: String) async throws {
    enum Event: Sendable {
      case end
      case childEnds(Reply<Int>)
    }
    let log = Log()
    let name = "parent that ends: \(how)"
    let (isTold, told) = Promise<Void>.makePromise()
    try await SharedDeadLetters.observe(name) { _ in
    } during: { () async throws -> Void in
      let parent = MessageActor<Event>(on: .pool, name: name) { mailbox in
        let begun = Channel<Void>(capacity: .unbounded)
        let myself = mailbox.actor
        // One child asks before the parent's body has ended, and one after that.
        for isEarly in [true, false] {
          let child = mailbox.launch { (inbox: Mailbox<Int>) in
            if isEarly {
              // Sent after the message that ends the parent.
              try isTold.get()
            } else {
              _ = begun.trySend(())
              for _ in inbox {}
            }
            let answer = withCancellationShield {
              let promise = myself.send { .childEnds($0) } as Promise<Int>
              if isEarly { _ = begun.trySend(()) }
              return Result { try promise.get() }
            }
            if case .failure(let error) = answer { log.add("\(isEarly): \(error is ActorStopped)") }
          }
          withExtendedLifetime(child) {}
        }
        _ = try begun.receive(count: 2)
        guard case .end? = mailbox.next() else { return log.add("the child was first") }
        if how == "fail" { throw Failure() }
      }
      try await parent.tell(.end)
      told.fulfill(())
      _ = await Task { try await parent.join() }.result
    }
    #expect(log.all.sorted() == ["false: true", "true: true"])
  }

  @Test func aChildThatEscalatesIsItsParentsFailure() async throws {
    let log = Log()
    let supervisor = Supervisor(Supervision(restarts: 1, within: .seconds(3600)))
    let begun = Channel<MessageActor<Message>>(capacity: .unbounded)
    try await SharedDeadLetters.observe("inner") {
      log.add("\($0)")
    } during: { () async throws -> Void in
      let parent: MessageActor<Int> = supervisor.launch(name: "outer", supervision: Supervision { _ in .escalate }) {
        [loop] mailbox in
        log.add("outer begins")
        _ = begun.trySend(mailbox.launch(name: "inner", loop(log)))
        for _ in mailbox {}
        log.add("outer is interrupted: \(Coroutine.isCancelled)")
      }
      try await begun.receive().tell(.fail)
      // The second run, with a child of its own.
      let second = try await begun.receive()
      #expect(try await second.ask { .get($0) } == 0)
      try await second.tell(.fail)
      await #expect(throws: Failure.self) { try await parent.join() }
    }
    let letter = "actor \"inner\": a message failed: Failure() (fail)"
    let once = ["outer begins", "begin", letter, "outer is interrupted: true"]
    #expect(log.all == once + once)
  }

  @Test func whatASupervisorEscalatesIsReportedAndStopsAll() async throws {
    let reported = Channel<String>(capacity: .unbounded)
    try await LostErrors.observe { error, origin in
      guard origin == "supervisor \"top\"" else { return false }
      _ = reported.trySend("\(error)")
      return true
    } during: { () async throws -> Void in
      try await SharedDeadLetters.observe("first") { _ in
      } during: { () async throws -> Void in
        let supervisor = Supervisor(Supervision { _ in .escalate }, name: "top")
        let first = supervisor.launch(name: "first", loop(Log()))
        let second = supervisor.launch(name: "second", loop(Log()))
        try await first.tell(.fail)
        #expect(try await reported.receive() == "\(Failure())")
        try await second.join()
        let late = supervisor.launch(name: "late", loop(Log()))
        try await late.join()
        await #expect(throws: ActorStopped(actor: "late")) { try await late.tell(.add(1)) }
      }
    }
  }

  @Test func anActorWatchesAnother() async throws {
    enum Event: Sendable {
      case ended(String)
      case get(Reply<[String]>)
    }
    let worker = MessageActor(on: .pool, name: "watched", loop(Log()))
    let watcher = MessageActor<Event>(on: .pool, mailbox: .bounded(1)) { mailbox in
      mailbox.watch(worker) { .ended("\($0)") }
      var ends: [String] = []
      var waiting: Reply<[String]>?
      for event in mailbox {
        switch event {
        case .ended(let end): ends.append(end)
        case .get(let reply): waiting = reply
        }
        if !ends.isEmpty { waiting?.complete(ends) }
      }
    }
    let ends = watcher.send { .get($0) } as Promise<[String]>
    await #expect(throws: Failure.self) { try await worker.send(.fail).get() }
    #expect(try await ends.get() == ["failed: \(Failure())"])
  }

  @Test func aBodyThatIsRunAgainIsToldOnceAndNothingOfItsFormerWatches() async throws {
    enum Event: Sendable {
      case ended(run: Int)
      case fail
      case get(Reply<[Int]>)
    }
    let worker = MessageActor(on: .pool, name: "watched again", loop(Log()))
    let runs = Guarded(0)
    try await SharedDeadLetters.observe("watcher") { _ in
    } during: { () async throws -> Void in
      let supervisor = Supervisor()
      let watcher = supervisor.launch(on: .pool, name: "watcher") { (mailbox: Mailbox<Event>) in
        let run = runs.withLock { (runs: inout Int) -> Int in
          runs += 1
          return runs
        }
        mailbox.watch(worker) { _ in .ended(run: run) }
        // A child whose end the end of the body causes is no message for the next run.
        let child = mailbox.launch(name: "child") { (inbox: Mailbox<Int>) in for _ in inbox {} }
        mailbox.watch(child) { _ in .ended(run: -run) }
        var ends: [Int] = []
        for event in mailbox {
          switch event {
          case .ended(let run): ends.append(run)
          case .fail: throw Failure()
          case .get(let reply): reply.complete(ends)
          }
        }
      }
      for _ in 0..<3 { try await watcher.tell(.fail) }
      #expect(try await watcher.ask { .get($0) } == [])
      worker.cancel()
      try await worker.join()
      #expect(try await watcher.ask { .get($0) } == [4])
      await supervisor.stop()
    }
  }

  // MARK: The state machine

  /// Each escalated error is the actor's end, or is reported.
  @Test func ofTwoErrorsThatAreEscalatedTheSecondIsNotLost() {
    struct Second: Error {}
    var machine = ActorStateMachine()
    let begins = machine.begin()
    #expect(begins)
    let (first, second) = (machine.request(.fail(Failure())), machine.request(.fail(Second())))
    #expect(first.interrupts && first.outdone == nil && !second.interrupts)
    if case .fail(let error)? = second.outdone { #expect(error is Second) } else { Issue.record("it is lost") }
    if case .fail(let error)? = machine.request(.stop).outdone {
      #expect(error is Failure)
    } else {
      Issue.record("it is lost")
    }
  }

  /// What the supervisor says of an error with which the body does not end is no word on the one with which it does.
  @Test func aDecisionIsForItsOwnError() async throws {
    let log = Log()
    let supervisor = Supervisor(
      Supervision { error in
        log.add("\(error)")
        return error is Failure ? .stop : .restart
      })
    let last = Channel<Void>(capacity: .buffered(1))
    let actor = supervisor.launch { (mailbox: Mailbox<Int>) in
      log.add("begin")
      do {
        try mailbox.handleEach {
          if $0 == 1 { throw Failure() }
          if $0 == 3 { _ = last.trySend(()) }
        }
      } catch { log.add("swallowed") }
      try mailbox.handleEach { if $0 == 2 { throw Worse() } }
    }
    try await Coroutine {
      for message in [1, 2, 3] { try actor.tell(message) }
      try last.receive(timeout: .seconds(600))
    }.get()
    await supervisor.stop()
    #expect(log.all == ["begin", "Failure()", "swallowed", "Worse()", "begin"])
  }

}
