import CoroutineTestSupport
import Testing

@testable import Coroutine

/// What counts for the limits of restarts, what a restart ends, and who may stop a supervisor.
@Suite(.ownThreads) struct ActorRestartTests {
  private struct Failure: Error {}

  private enum Message: Sendable {
    case fail
    case get(Reply<Int>)
  }

  private static func loop(_ mailbox: Mailbox<Message>) throws {
    for message in mailbox {
      switch message {
      case .fail: throw Failure()
      case .get(let reply): reply.complete(0)
      }
    }
  }

  @Test func failuresOfOneDoNotCountForAnother() async throws {
    let supervisor = Supervisor(Supervision(restarts: 1, within: .seconds(3600)))
    try await SharedDeadLetters.observe("each") { _ in
    } during: { () async throws -> Void in
      let actors = (0..<3).map { _ in supervisor.launch(name: "each", { try Self.loop($0) }) }
      for actor in actors {
        try await actor.tell(.fail)
        #expect(try await actor.ask { .get($0) } == 0)
      }
      try await actors[0].tell(.fail)
      await #expect(throws: Failure.self) { try await actors[0].join() }
      #expect(actors[1].end == nil)
      await supervisor.stop()
    }
  }

  @Test func oneThatNeverStartsIsItsParentsFailureIfThatIsSaid() async throws {
    let policy = Supervision(beyondLimit: .escalate)
    let parent = MessageActor<Int>(name: "parent of never", supervision: policy) { mailbox in
      let _: MessageActor<Int> = mailbox.launch(name: "never, either") { _ in throw Failure() }
      for _ in mailbox {}
    }
    await #expect(throws: Failure.self) { try await parent.join() }
  }

  @Test func aRestartEndsTheMailboxInsideAShield() async throws {
    let supervisor = Supervisor(Supervision(.oneForAll))
    let (runs, drains) = (Counter(), Channel<Void>())
    try await SharedDeadLetters.observe("sibling") { _ in
    } during: { () async throws -> Void in
      let drained = supervisor.launch(name: "drained") { (mailbox: Mailbox<Message>) in
        runs.add()
        let run = runs.value
        for message in mailbox { if case .get(let reply) = message { reply.complete(run) } }
        try withCancellationShield {
          try drains.send(())
          for message in mailbox { if case .get(let reply) = message { reply.complete(-1) } }
        }
      }
      let failing = supervisor.launch(name: "sibling", { try Self.loop($0) })
      #expect(try await drained.ask { .get($0) } == 1)
      try await failing.tell(.fail)
      try await drains.receive()
      #expect(try await drained.ask { .get($0) } == 2)
      let ends = Coroutine { try drains.receive() }
      await supervisor.stop()
      try await ends.value
    }
  }

  private static let visits = CoroutineLocal(0)

  @Test func aRestartEndsTheCoroutineLocalValues() async throws {
    let supervisor = Supervisor()
    try await SharedDeadLetters.observe("local") { _ in
    } during: { () async throws -> Void in
      let actor = supervisor.launch(name: "local") { (mailbox: Mailbox<Message>) in
        for message in mailbox {
          switch message {
          case .get(let reply):
            reply.complete(Self.visits.value)
            Self.visits.value += 1
          default: throw Failure()
          }
        }
      }
      #expect(try await actor.ask { .get($0) } == 0)
      #expect(try await actor.ask { .get($0) } == 1)
      try await actor.tell(.fail)
      #expect(try await actor.ask { .get($0) } == 0)
      await supervisor.stop()
    }
  }

  @Test func stoppingASupervisorBelowOneOfItsActorsTraps() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let supervisor = Supervisor()
      let parent = supervisor.launch(name: "parent") { (mailbox: Mailbox<Int>) in
        let child = mailbox.launch(name: "child") { (mailbox: Mailbox<Int>) in
          for _ in mailbox { supervisor.stop() }
        }
        for number in mailbox { try child.tell(number) }
      }
      try await parent.tell(1)
      try await parent.join()
    }
    #expect(standardError(of: result).contains("calls Supervisor.stop(), which would wait for its end, too"))
  }
}
