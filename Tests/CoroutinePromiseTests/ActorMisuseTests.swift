import Coroutine
import CoroutineTestSupport
import Dispatch
import Testing

/// Misuse ends the program with a message that says what to do.
@Suite(.ownThreads) struct ActorMisuseTests {
  @Test func aFullMailboxOutsideOfCoroutines() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let actor = MessageActor<Int>(mailbox: .bounded(1)) { mailbox in
        for _ in mailbox { try Coroutine.sleep(for: .seconds(3600)) }
      }
      func fill() throws { for number in 0..<3 { try actor.tell(number) } }
      try fill()
    }
    #expect(standardError(of: result).contains("found the mailbox full"))
  }

  @Test func anAskOutsideOfCoroutines() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let actor = MessageActor<Reply<Int>> { mailbox in for reply in mailbox { reply.complete(1) } }
      func ask() throws -> Int { try actor.ask { $0 } }
      _ = try ask()
    }
    #expect(standardError(of: result).contains("MessageActor.ask(_:) suspends the running coroutine"))
  }

  @Test func waitingForAnEndOutsideOfCoroutines() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let actor = MessageActor<Int> { _ in }
      func join() throws { try actor.join() }
      try join()
    }
    #expect(standardError(of: result).contains("MessageActor.join() suspends the running coroutine"))
  }

  @Test func aBlockingAskInsideACoroutine() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let actor = MessageActor<Reply<Int>> { mailbox in for reply in mailbox { reply.complete(1) } }
      _ = try await Coroutine { try actor.askBlocking { $0 } }.get()
    }
    #expect(standardError(of: result).contains("use ask() and tell()"))
  }

  @Test func aMailboxThatIsReadByOthers() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let stolen = Channel<UncheckedMailbox<Int>>()
      let actor = MessageActor<Int>(name: "robbed") { mailbox in try stolen.send(UncheckedMailbox(mailbox: mailbox)) }
      _ = try await Coroutine { try stolen.receive().mailbox.next() }.get()
      withExtendedLifetime(actor) {}
    }
    #expect(
      standardError(of: result).contains("the mailbox of actor \"robbed\" is used outside of the actor's own body"))
  }

  @Test func impossiblePolicies() async {
    let exit1 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      _ = MailboxPolicy.bounded(0)
    }
    #expect(standardError(of: exit1).contains("a mailbox can't have a capacity of 0: use 1 or more, or .unbounded"))
    let exit2 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      _ = Supervision(restarts: -1)
    }
    #expect(standardError(of: exit2).contains("Supervision(restarts: -1): a limit can't be negative"))
    let exit3 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      _ = Supervision(within: .seconds(-1))
    }
    #expect(standardError(of: exit3).contains("a time can't be negative"))
    let exit4 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      _ = Supervision(beyondLimit: .restart)
    }
    #expect(standardError(of: exit4).contains("beyond the limit of restarts use .stop or .escalate"))
  }

  @Test func oneThatWaitsForItsOwnEnd() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let actor = MessageActor<Int>(name: "patient") { mailbox in try mailbox.actor.join() }
      try await actor.join()
    }
    #expect(standardError(of: result).contains("waits for its own end"))
  }

  /// No code would wait for it.
  @Test func aChildThatIsLaunchedBehindTheEndEndsBeforeItBegins() async throws {
    let (mailboxes, children) = (
      Channel<UncheckedMailbox<Int>>(capacity: .unbounded), Channel<MessageActor<Int>>(capacity: .unbounded)
    )
    let runs = Counter()
    let parent = MessageActor<Int> { mailbox in
      try mailboxes.send(UncheckedMailbox(mailbox: mailbox))
      for _ in mailbox { return }
    }
    parent.watch { _ in
      guard case .received(let kept) = mailboxes.tryReceive() else { return }
      let late: MessageActor<Int> = kept.mailbox.launch { mailbox in
        runs.add()
        for _ in mailbox {}
      }
      _ = children.trySend(late)
    }
    try await parent.tell(1)
    try await parent.join()
    let late = try await children.receive()
    await #expect(throws: ActorStopped.self) { try await late.tell(1) }
    try await late.join()
    #expect(runs.value == 0)
  }

  /// What an actor leaves behind is released on its coroutine, which is no actor's any more: neither when the last handle went
  /// before, nor when the actor itself goes.
  @Test func whatIsReleasedBehindAnActorFindsACoroutine() async throws {
    let log = Log()
    // Its handle goes before it begins.
    try await Coroutine(on: DispatchQueue(label: "serial")) {
      _ = MessageActor<Int>(name: "brief") { _ in Probe.kept.value = Probe { log.add("local") } }
      while log.all.isEmpty { Coroutine.yield() }
    }.get()
    // It ends when the references of this test are gone, so that its own is the last one.
    let gate = Channel<Int>()
    Self.beginSupervised(until: gate) { log.add("policy") }
    gate.close()
    while log.all.count < 2 { await Task.yield() }
    #expect(log.all.sorted() == ["local", "policy"])
  }

  @inline(never)
  private static func beginSupervised(until gate: Channel<Int>, _ ends: @escaping @Sendable () -> Void) {
    let probe = Probe(ends)
    let policy = Supervision { _ in
      _ = probe
      return .stop
    }
    _ = MessageActor<Int>(name: "supervised", supervision: policy) { _ in _ = gate.received.next() }
  }

  private final class Probe: Sendable {
    static let kept = CoroutineLocal<Probe?>(nil)
    private let ends: @Sendable () -> Void
    init(_ ends: @escaping @Sendable () -> Void) { self.ends = ends }

    deinit {
      let other = MessageActor<Reply<Int>> { mailbox in for reply in mailbox { reply.complete(1) } }
      let answer = try? other.ask { $0 }
      Coroutine.current?.cancel()
      if answer == 1 { ends() }
    }
  }
}
