import CoroutineTestSupport
import Testing

@testable import Coroutine

/// An actor's mailbox, its answers and its life, alone: every sequence of events up to a length.
@Suite(.ownThreads) struct ActorStateMachineTests {
  private struct Failure: Error {}
  private struct Worse: Error {}

  @Test func aMailboxKeepsItsInvariantsAndLosesNoMessage() {
    // 0: send, 1: send or wait for room, 2: take, 3: the first waiting sender gives up, 4: close, 5: take what is kept
    for policy: MailboxPolicy in [.unbounded, .bounded(1), .bounded(2), .bounded(2, .dropOldest), .bounded(1, .fail)] {
      everySequence(of: 6, length: amount(6, debug: 5, sanitized: 5)) { events in
        var machine = MailboxStateMachine<Int>(policy)
        var nodes: [UnsafeMutablePointer<MailboxNode<Int>>] = []
        var senders: [ModelWaiter] = []
        defer {
          // The nodes do not keep the senders alive.
          withExtendedLifetime(senders) {}
          for node in nodes { node.deinitialize(count: 1).deallocate() }
        }
        var sent = 0
        var received: [Int] = []
        var lost: [Int] = []
        for event in events {
          switch event {
          case 0:
            var envelope: Envelope<Int>? = Envelope(sent, nil)
            sent += 1
            switch machine.post(&envelope) {
            case .kept:
              let isGone = envelope == nil
              #expect(isGone)
            case .full, .closed, .displaced: lost.append(Self.number(&envelope))
            }
          case 1:
            let model = ModelWaiter()
            let node = UnsafeMutablePointer<MailboxNode<Int>>.allocate(capacity: 1)
            node.initialize(to: MailboxNode(model.waiter, Envelope(sent, nil)))
            nodes.append(node)
            senders.append(model)
            sent += 1
            switch machine.post(&node.pointee.envelope) {
            case .full where policy.overflow == .suspend: machine.waitForRoom(node)
            case .kept, .full, .closed, .displaced: _ = model.giveUp()
            }
          case 2:
            var envelope: Envelope<Int>?
            switch machine.take(&envelope) {
            case .taken, .admitted: received.append(Self.number(&envelope))
            case .closed, .empty: break
            }
          case 5:
            let (count, hasWaiting) = (machine.envelopes.count, !machine.senders.isEmpty)
            if let envelope = machine.takeKept() {
              received.append(envelope.message)
              #expect(!hasWaiting)
            } else {
              #expect(count == 0 || hasWaiting)
            }
          case 3:
            guard let index = senders.firstIndex(where: { $0.cause == nil }) else { continue }
            #expect(senders[index].giveUp())
            _ = machine.withdrawSender(nodes[index])
          default:
            let claimed = machine.close().nodes
            #expect(claimed.allSatisfy { node in nodes.contains { $0.waitNode == node } })
          }
          let holds = machine.checkInvariants()
          #expect(holds)
        }
        for node in nodes {
          let isLeft = node.pointee.envelope != nil
          if isLeft { lost.append(Self.number(&node.pointee.envelope)) }
        }
        var rest: [Int] = []
        for index in 0..<machine.envelopes.count { rest.append(machine.envelopes.slot(index).pointee.message) }
        #expect((received + rest + lost).sorted() == Array(0..<sent))
        #expect(received == received.sorted())
      }
    }
  }

  /// Takes the message out, and returns its number.
  private static func number(_ envelope: inout Envelope<Int>?) -> Int {
    guard let taken = envelope.take() else { fatalError("no envelope") }
    return taken.message
  }

  @Test func anAnswerHasOneOutcome() {
    // 0: wait (once), 1: settle, 2: the wait ends for another reason and the answer is abandoned, 3: that without a wait
    everySequence(of: 4, length: amount(6, sanitized: 5)) { events in
      let reply = ReplyStorage<Int>()
      let model = ModelWaiter()
      var node = WaitNode(model.waiter)
      var (hasWaited, isAbandoned) = (false, false)
      var settled: Int?
      for (number, event) in events.enumerated() {
        switch event {
        case 0 where !hasWaited && !isAbandoned:
          hasWaited = true
          withUnsafeMutablePointer(to: &node) { node in
            switch reply.lock.withLock({ reply.wait(node) }) {
            case .done: #expect(settled != nil)
            case .wait: #expect(settled == nil)
            default: Issue.record("waiting wakes no waiter")
            }
          }
        case 1:
          let isFirst = reply.succeed(number)
          #expect(isFirst == (settled == nil && !isAbandoned))
          if isFirst {
            settled = number
            if hasWaited { #expect(model.cause == .event) }
          }
        case 2 where hasWaited && !isAbandoned && model.giveUp(), 3 where !hasWaited && !isAbandoned:
          #expect(reply.abandon() == (settled != nil))
          isAbandoned = true
        default: break
        }
        #expect(reply.isOpen == (settled == nil && !isAbandoned))
        #expect(reply.isSettled == (settled != nil))
      }
      if let settled { #expect((try? reply.takeOutcome()) == settled) }
      withExtendedLifetime(model) {}
    }
  }

  @Test func theStrongestRequestCounts() {
    // 0: restart, 1: fail, 2: stop, 3: begin, 4: the body returns, 5: it throws
    everySequence(of: 6, length: amount(6, sanitized: 5)) { events in
      var machine = ActorStateMachine()
      var wanted = 0
      var isRunning = false
      for event in events {
        switch event {
        case 0, 1, 2:
          let request: ActorStateMachine.Request = event == 0 ? .restart : event == 1 ? .fail(Failure()) : .stop
          let isFirst = wanted == 0
          #expect(machine.request(request).interrupts == (isRunning && isFirst))
          wanted = max(wanted, event + 1)
        case 3 where !isRunning:
          isRunning = machine.begin()
          #expect(isRunning == (wanted < 2))
          if isRunning { wanted = 0 }
        case 4 where isRunning, 5 where isRunning:
          isRunning = false
          switch machine.bodyEnded(event == 5 ? Worse() : nil) {
          case .restart: #expect(wanted == 1)
          case .end(.cancelled): #expect(wanted == 3)
          case .end(.finished): #expect(wanted == 0 && event == 4)
          case .judge(let error, let isEscalated, _):
            #expect(wanted == 2 && error is Failure || wanted == 0 && error is Worse)
            #expect(isEscalated == (wanted == 2))
          case .end(.failed): Issue.record("the supervisor was not asked")
          }
          if wanted == 2 { wanted = 0 }
          if wanted == 3 {
            let late = machine.finish(.cancelled)
            #expect(late == nil)
            let interrupts = machine.request(.stop).interrupts
            #expect(!interrupts)
            return
          }
        default: break
        }
      }
    }
  }

  @Test func failedStartsAreCountedWhoseverErrorItIs() {
    var machine = ActorStateMachine()
    var restarts = 0
    // By turns a child's error, and its own, behind which a child's one keeps it from beginning again.
    for run in 0..<2 * ActorStateMachine.startAttempts {
      let begins = machine.begin()
      #expect(begins)
      if run.isMultiple(of: 2) { _ = machine.request(.fail(Failure())) }
      guard case .judge(_, _, let mayRestart) = machine.bodyEnded(Worse()) else { break }
      guard mayRestart else { break }
      restarts += 1
      if run.isMultiple(of: 2) { continue }
      _ = machine.request(.fail(Failure()))
      let beginsAgain = machine.begin()
      #expect(!beginsAgain)
      guard case .judge(_, let isEscalated, let mayRestartAgain) = machine.bodyEnded(nil) else { break }
      #expect(isEscalated && mayRestartAgain)
    }
    #expect(restarts == ActorStateMachine.startAttempts)
    // A message is progress.
    _ = machine.begin()
    machine.noteMessage()
    _ = machine.request(.fail(Failure()))
    if case .judge(_, _, let mayRestart) = machine.bodyEnded(nil) { #expect(mayRestart) }
    // So is one of a child's.
    for _ in 0..<3 * ActorStateMachine.startAttempts {
      _ = machine.begin()
      machine.noteProgress()
      _ = machine.request(.fail(Failure()))
      guard case .judge(_, _, true) = machine.bodyEnded(nil) else {
        Issue.record("a child's message was no progress")
        break
      }
    }
  }

  /// A child may escalate an error while the children are stopped.
  @Test func anErrorThatComesBehindTheBodysEndIsLeftForTheEnd() {
    var machine = ActorStateMachine()
    let begins = machine.begin()
    #expect(begins)
    guard case .end(.finished) = machine.bodyEnded(nil) else {
      Issue.record("it ended otherwise")
      return
    }
    let request = machine.request(.fail(Failure()))
    #expect(!request.interrupts && request.outdone == nil)
    let late = machine.finish(.finished)
    #expect(late is Failure)
    if case .fail(let error)? = machine.request(.fail(Worse())).outdone {
      #expect(error is Worse)
    } else {
      Issue.record("it is lost")
    }
  }
}
