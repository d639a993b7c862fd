import CoroutineTestSupport
import Testing

@testable import Coroutine

/// No failure of an actor is lost, and each is decided about by itself: those that its children escalate, those of a body that
/// is to end anyway, and those that come one behind the other.
@Suite(.ownThreads) struct ActorFailureTests {
  private struct Failure: Error {}
  private struct Worse: Error {}

  /// The errors of one origin that are reported while `body` runs, in their order.
  private func reports(of origin: String, during body: () async throws -> Void) async throws -> [String] {
    let log = Log()
    try await LostErrors.observe { error, itsOrigin in
      guard itsOrigin == origin else { return false }
      log.add("\(error)")
      return true
    } during: { () async throws -> Void in
      try await body()
    }
    return log.all
  }

  /// How an actor ends, when it has.
  private func end(of actor: MessageActor<Int>) async -> String {
    _ = try? await actor.join()
    return actor.end.map { "\($0)" } ?? "not at all"
  }

  /// Launches two children. When the last one is stopped, behind the end of the parent's body, the first one fails.
  private static func launchChildren(of mailbox: Mailbox<Int>, theFirstOneFailingWith error: any Error) throws {
    let (hasBegun, isStopped) = (Channel<Void>(capacity: .unbounded), Channel<Void>(capacity: .unbounded))
    let first = mailbox.launch { (inbox: Mailbox<Int>) in
      try isStopped.receive()
      throw error
    }
    let last = mailbox.launch { (inbox: Mailbox<Int>) in
      _ = hasBegun.trySend(())
      for _ in inbox {}
      withCancellationShield {
        _ = isStopped.trySend(())
        _ = try? first.join()
      }
    }
    try hasBegun.receive()
    withExtendedLifetime((first, last)) {}
  }

  // MARK: Escalated

  @Test func whatIsEscalatedBehindTheEndOfTheBodyIsReported() async throws {
    let reported = try await reports(of: "actor \"parent at its end\"") {
      let parent = MessageActor<Int>(
        on: .pool, name: "parent at its end", supervision: Supervision { _ in .escalate }
      ) { mailbox in
        try Self.launchChildren(of: mailbox, theFirstOneFailingWith: Worse())
      }
      let ending = await end(of: parent)
      #expect(ending == "finished")
    }
    #expect(reported == ["Worse()"])
  }

  /// The child's error is the answer that the parent fails with, and comes once more when the parent's body has ended.
  @Test func anErrorThatIsPassedOnIsNotReportedBesides() async throws {
    let name = "passes on"
    let error: any Error = Worse()
    let reported = try await reports(of: "actor \"\(name)\"") {
      try await SharedDeadLetters.observe(name) { _ in
      } during: { () async throws -> Void in
        let parent = MessageActor<Int>(
          on: .pool, name: name, supervision: Supervision { _ in .escalate }
        ) { mailbox in
          try Self.launchChildren(of: mailbox, theFirstOneFailingWith: error)
          for _ in mailbox { throw error }
        }
        try await parent.tell(1)
        let ending = await end(of: parent)
        #expect(ending == "failed: Worse()")
      }
    }
    #expect(reported == [])
  }

  @Test func whatIsKnownOfOneFailureIsNotKnownOfTheNext() async throws {
    let name = "fails twice"
    let supervisor = Supervisor(Supervision { $0 is Worse ? .stop : .restart })
    let reported = try await reports(of: "actor \"\(name)\"") {
      try await SharedDeadLetters.observe(name) { _ in
      } during: { () async throws -> Void in
        let parent: MessageActor<Int> = supervisor.launch(
          on: .pool, name: name, supervision: Supervision { _ in .escalate }
        ) { mailbox in
          try Self.launchChildren(of: mailbox, theFirstOneFailingWith: Worse())
          for _ in mailbox { throw Failure() }
        }
        try await parent.tell(1)
        let ending = await end(of: parent)
        #expect(ending == "failed: Worse()")
      }
    }
    #expect(reported == ["Worse()"])
  }

  /// The body's own failure is decided about when a child escalates its own, before the body has ended.
  @Test(arguments: [false, true]) func whatIsDecidedIsNoWordOnAnEscalatedError(endsByItsOwn: Bool) async throws {
    let name = "fails with its child: \(endsByItsOwn)"
    let (judged, runs) = (Log(), Log())
    let supervisor = Supervisor(
      Supervision { error in
        judged.add("\(error)")
        return error is Worse || endsByItsOwn ? .stop : .restart
      })
    let reported = try await reports(of: "actor \"\(name)\"") {
      try await SharedDeadLetters.observe(name) { _ in
      } during: { () async throws -> Void in
        let parent: MessageActor<Int> = supervisor.launch(
          on: .pool, name: name, supervision: Supervision { _ in .escalate }
        ) { mailbox in
          runs.add("run")
          guard runs.all.count == 1 else { return }
          let child = mailbox.launch(name: name) { (inbox: Mailbox<Int>) in for _ in inbox { throw Worse() } }
          do {
            try mailbox.handleEach { _ in throw Failure() }
          } catch {
            withCancellationShield {
              _ = try? child.tell(1)
              _ = try? child.join()
            }
            throw error
          }
        }
        try await parent.tell(1)
        let ending = await end(of: parent)
        #expect(ending == (endsByItsOwn ? "failed: Failure()" : "failed: Worse()"))
      }
    }
    #expect(judged.all == (endsByItsOwn ? ["Failure()"] : ["Failure()", "Worse()"]))
    #expect(runs.all == ["run"])
    #expect(reported == ["Worse()"])
  }

  @Test func oneWhoseChildFailsAtItsStartIsNotStartedForEver() async throws {
    let log = Log()
    let supervisor = Supervisor()
    let parent: MessageActor<Int> = supervisor.launch(
      on: .pool, name: "with a child", supervision: Supervision { _ in .escalate }
    ) { mailbox in
      log.add("run")
      let child = mailbox.launch(name: "child") { (inbox: Mailbox<Int>) in throw Failure() }
      for _ in mailbox {}
      withExtendedLifetime(child) {}
    }
    let ending = await end(of: parent)
    #expect(ending == "failed: Failure()")
    #expect(log.all.count == 1 + ActorStateMachine.startAttempts)
  }

  // MARK: Stopped meanwhile

  @Test func oneWhoseFailureItsSupervisorEscalatesHasFailed() async throws {
    let name = "escalated"
    let log = Log()
    try await LostErrors.observe { _, origin in
      guard origin == "supervisor \"of the \(name)\"" || origin == "actor \"\(name)\"" else { return false }
      log.add(origin)
      return true
    } during: { () async throws -> Void in
      try await SharedDeadLetters.observe(name) { _ in
      } during: { () async throws -> Void in
        let supervisor = Supervisor(Supervision { _ in .escalate }, name: "of the \(name)")
        let actor: MessageActor<Int> = supervisor.launch(on: .pool, name: name) { mailbox in
          try mailbox.handleEach { _ in throw Failure() }
        }
        try await actor.tell(1)
        let ending = await end(of: actor)
        #expect(ending == "failed: Failure()")
      }
    }
    #expect(log.all == ["supervisor \"of the \(name)\""])
  }

  @Test func aCancelBehindTheFailureThatEndsItIsNotItsEnd() async throws {
    let name = "failed, then cancelled"
    try await SharedDeadLetters.observe(name) { _ in
    } during: { () async throws -> Void in
      let supervisor = Supervisor(.stopping)
      let actor: MessageActor<Int> = supervisor.launch(on: .pool, name: name) { mailbox in
        do {
          try mailbox.handleEach { _ in throw Failure() }
        } catch {
          mailbox.actor.cancel()
          throw error
        }
      }
      try await actor.tell(1)
      let ending = await end(of: actor)
      #expect(ending == "failed: Failure()")
    }
  }

  @Test func oneThatGoesOnBehindAnEscalatedFailureIsStopped() async throws {
    let name = "undeterred"
    try await LostErrors.observe { _, origin in
      origin == "supervisor \"of the \(name)\""
    } during: { () async throws -> Void in
      try await SharedDeadLetters.observe(name) { _ in
      } during: { () async throws -> Void in
        let supervisor = Supervisor(Supervision { _ in .escalate }, name: "of the \(name)")
        let actor: MessageActor<Int> = supervisor.launch(on: .pool, name: name) { mailbox in
          do { try mailbox.handleEach { _ in throw Failure() } } catch {}
          for _ in mailbox {}
        }
        try await actor.tell(1)
        let ending = await end(of: actor)
        #expect(ending == "cancelled")
      }
    }
  }

  @Test func anErrorOfABodyThatIsCancelledIsReported() async throws {
    let reported = try await reports(of: "actor \"closing\"") {
      let begun = Channel<Void>(capacity: .unbounded)
      let actor = MessageActor<Int>(on: .pool, name: "closing") { mailbox in
        _ = begun.trySend(())
        for _ in mailbox {}
        throw Failure()
      }
      try await begun.receive()
      actor.cancel()
      let ending = await end(of: actor)
      #expect(ending == "cancelled")
    }
    #expect(reported == ["Failure()"])
  }

  /// The message has told of it, or it only says that the actor was cancelled.
  @Test(arguments: [false, true]) func othersOfABodyThatIsCancelledAreNot(isCancel: Bool) async throws {
    let name = "cancelled in a message: \(isCancel)"
    let reported = try await reports(of: "actor \"\(name)\"") {
      try await SharedDeadLetters.observe(name) { _ in
      } during: { () async throws -> Void in
        let begun = Channel<Void>(capacity: .unbounded)
        let actor = MessageActor<Int>(on: .pool, name: name) { mailbox in
          for _ in mailbox {
            _ = begun.trySend(())
            do {
              try Channel<Void>().receive()
            } catch {
              if isCancel { throw error }
              throw Failure()
            }
          }
        }
        try await actor.tell(1)
        try await begun.receive()
        actor.cancel()
        let ending = await end(of: actor)
        #expect(ending == "cancelled")
      }
    }
    #expect(reported == [])
  }

  /// By a sibling's failure, and by a child's: the error decides about nothing.
  @Test(arguments: [false, true]) func anErrorOfABodyThatIsInterruptedIsReported(byItsChild: Bool) async throws {
    let name = "interrupted: \(byItsChild)"
    let runs = Log()
    let supervisor = Supervisor(Supervision(.oneForAll))
    let reported = try await reports(of: "actor \"\(name)\"") {
      try await SharedDeadLetters.observe("cause of \(name)") { _ in
      } during: { () async throws -> Void in
        let causes = Channel<MessageActor<Int>>(capacity: .unbounded)
        let cause: @Sendable (Mailbox<Int>) throws -> Void = { mailbox in for _ in mailbox { throw Failure() } }
        let actor: MessageActor<Int> = supervisor.launch(
          on: .pool, name: name, supervision: Supervision { _ in .escalate }
        ) { mailbox in
          runs.add("run")
          if runs.all.count == 1 {
            let child = mailbox.launch(name: "cause of \(name)", cause)
            if byItsChild { _ = causes.trySend(child) }
            for _ in mailbox {}
            throw Worse()
          }
          for _ in mailbox {}
        }
        let sibling = supervisor.launch(on: .pool, name: "cause of \(name)", cause)
        if !byItsChild {
          // Not before the other one has begun: that would be its first run.
          while runs.all.isEmpty { await Task.yield() }
          _ = causes.trySend(sibling)
        }
        try await causes.receive().tell(1)
        while runs.all.count < 2 { await Task.yield() }
        actor.cancel()
        await supervisor.stop()
      }
    }
    #expect(runs.all == ["run", "run"])
    #expect(reported == ["Worse()"])
  }

  /// By the actor, and not by its coroutine too, of which no caller has asked for the result.
  @Test func oneWithoutAStackFailsByThatWhichIsReportedOnce() async throws {
    let log = Log()
    try await LostErrors.observe { error, origin in
      guard error is StackError, origin.contains("\"stackless\"") else { return false }
      log.add(origin)
      return true
    } during: { () async throws -> Void in
      weak var coroutine: ActorCoroutine?
      do {
        let actor = MessageActor<Int>(on: .pool, name: "stackless", stackSize: 1 << 50) { mailbox in
          for _ in mailbox {}
        }
        coroutine = actor.storage.coroutine
        while actor.end == nil { await Task.yield() }
        if case .failed(let error)? = actor.end {
          #expect(error is StackError)
        } else {
          Issue.record("it has not failed")
        }
      }
      while coroutine != nil { await Task.yield() }
    }
    #expect(log.all == ["actor \"stackless\""])
  }

  // MARK: One behind the other

  /// The body has done without the failure: it takes the next message by itself.
  @Test func whatWasDecidedEndsWithTheNextMessage() async throws {
    let name = "goes on by itself"
    let (judged, runs) = (Log(), Log())
    let supervisor = Supervisor(
      Supervision { error in
        judged.add("\(error)")
        return error is Failure ? .stop : .restart
      })
    try await SharedDeadLetters.observe(name) { _ in
    } during: { () async throws -> Void in
      let actor: MessageActor<Int> = supervisor.launch(on: .pool, name: name) { mailbox in
        runs.add("run")
        if runs.all.count == 1 {
          do { try mailbox.handleEach { _ in throw Failure() } } catch {}
          for _ in mailbox { throw Worse() }
        }
        for _ in mailbox {}
      }
      for message in 1...2 { try await actor.tell(message) }
      // The second run handles it.
      try await actor.send(3).get()
      await supervisor.stop()
    }
    #expect(judged.all == ["Failure()", "Worse()"])
    #expect(runs.all == ["run", "run"])
  }
}
