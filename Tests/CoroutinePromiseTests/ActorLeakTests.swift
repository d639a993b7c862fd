import CoroutineTestSupport
import Dispatch
import Testing

@testable import Coroutine

/// Actors, messages and replies leave nothing behind, however they end.
@Suite(.ownThreads) struct ActorLeakTests {
  private struct Failure: Error {}

  private enum Message: Sendable {
    case keep(Counted)
    case ask(Counted, Reply<Counted>)
    case fail(Counted)
    case drop(Counted, Reply<Counted>)
  }

  @Test func whatActorsHadIsGoneWithThem() async throws {
    let live = Live()
    let queue = DispatchQueue(label: "serial")
    let name = "leaky"
    try await LostErrors.observe { _, origin in
      origin == "promise \"\(name)\""
    } during: { () async throws -> Void in
      try await SharedDeadLetters.observe(name) { _ in
      } during: { () async throws -> Void in
        let supervisor = Supervisor()
        try await Coroutine(on: queue) {
          for round in 0..<500 {
            let state = Counted(live)
            let actor: MessageActor<Message> = supervisor.launch(on: queue, name: name) { mailbox in
              var kept = [state]
              for message in mailbox {
                switch message {
                case .keep(let counted): kept.append(counted)
                case .ask(let counted, let reply): reply.complete(counted)
                case .fail: throw Failure()
                case .drop: break
                }
              }
            }
            try actor.tell(.keep(Counted(live)))
            _ = try actor.ask { .ask(Counted(live), $0) }
            try actor.tell(.fail(Counted(live)))
            _ = try? actor.ask { .drop(Counted(live), $0) }
            _ = actor.send { .drop(Counted(live), $0) } as Promise<Counted>
            let answer = actor.send { .ask(Counted(live), $0) } as Promise<Counted>
            if round.isMultiple(of: 2) { answer.cancel() }
            _ = try? actor.ask(timeout: .zero) { .ask(Counted(live), $0) }
            if round.isMultiple(of: 3) { Coroutine.yield() }
            // Some messages are left in the mailbox, and some of the actors have not begun.
            actor.cancel()
            _ = try? actor.tell(.keep(Counted(live)))
            if round.isMultiple(of: 5) { try? actor.join() }
          }
          supervisor.stop()
        }.get()
      }
    }
    #expect(live.now == 0)
  }

  @Test func theActorsOfASupervisorThatIsGoneEndToo() async throws {
    let live = Live()
    let ended = Channel<Void>(capacity: .unbounded)
    for _ in 0..<100 {
      let state = Counted(live)
      let supervisor = Supervisor()
      let actor: MessageActor<Int> = supervisor.launch(on: .pool) { mailbox in
        for _ in mailbox {}
        withExtendedLifetime(state) {}
      }
      actor.watch { _ in _ = ended.trySend(()) }
    }
    for _ in 0..<100 { try await ended.receive() }
    #expect(live.now == 0)
  }

  @Test func anIdleActorWithoutHandlesGoes() async throws {
    let live = Live()
    for _ in 0..<100 {
      let state = Counted(live)
      let actor = MessageActor<Int>(on: .pool) { mailbox in
        for _ in mailbox {}
        withExtendedLifetime(state) {}
      }
      try await actor.tell(1)
      let end = Promise<Void> { resolver in actor.watch { _ in resolver.fulfill() } }
      _ = consume actor
      try await end.get()
    }
    // What the body captured is released before the watchers are told.
    #expect(live.now == 0)
  }

  @Test func aWatcherThatEndsLeavesNothingAtTheWatched() async throws {
    let live = Live()
    let lost = Guarded(0)
    let server = MessageActor<Int>(on: .pool) { mailbox in for _ in mailbox {} }
    try await SharedDeadLetters.observe("short-lived watcher") { _ in
      lost.withLock { $0 += 1 }
    } during: { () async throws -> Void in
      for _ in 0..<100 {
        let state = Counted(live)
        let watcher = MessageActor<Int>(on: .pool, name: "short-lived watcher") { mailbox in
          mailbox.watch(server) { _ in
            withExtendedLifetime(state) {}
            return 1
          }
          _ = mailbox.next()
        }
        try await watcher.tell(0)
        try await watcher.join()
      }
      #expect(live.now == 0)
      server.cancel()
      try await server.join()
      #expect(lost.withLock { $0 } == 0)
    }
  }
}
