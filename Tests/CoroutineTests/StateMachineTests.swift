import Testing

@testable import Coroutine

/// The state machines alone: every sequence of events up to a length, the invariants checked after each.
@Suite struct StateMachineTests {
  @Test func aChannelDeliversEachElementOnceInOrderOrGivesItBack() {
    typealias Node = UnsafeMutablePointer<ChannelNode<Int>>
    struct Party {
      let model: ModelWaiter
      let node: Node
      /// The operation is over, at once or after a wait.
      var isOver = false
    }
    var checked = 0
    // 0: send, 1: receive, 2: close, 3: the first sender that waits gives up, 4: the first receiver
    everySequence(of: 5, length: 7) { events in
      var machine = ChannelStateMachine<Int>()
      var senders: [Party] = []
      var receivers: [Party] = []
      var given: [Int] = []
      var isClosed = false
      defer { for party in senders + receivers { party.node.deinitialize(count: 1).deallocate() } }
      func begin(_ element: Int?) -> Party {
        let model = ModelWaiter()
        let node = Node.allocate(capacity: 1)
        node.initialize(to: ChannelNode(model.waiter, element: element))
        return Party(model: model, node: node)
      }
      func firstWaiting(_ parties: [Party]) -> Int? {
        parties.firstIndex { !$0.isOver && $0.model.cause == nil }
      }
      for (number, event) in events.enumerated() {
        switch event {
        case 0:
          var sender = begin(number)
          switch machine.send(sender.node) {
          case .done:
            #expect(isClosed && sender.node.pointee.element == number)
            sender.isOver = true
          case .wake, .wakeAll:
            #expect(sender.node.pointee.element == nil)
            sender.isOver = true
          case .wait: #expect(!isClosed && firstWaiting(receivers) == nil)
          }
          senders.append(sender)
        case 1:
          var receiver = begin(nil)
          switch machine.receive(receiver.node) {
          case .done:
            #expect(isClosed && receiver.node.pointee.element == nil)
            receiver.isOver = true
          case .wake, .wakeAll:
            #expect(receiver.node.pointee.element != nil)
            receiver.isOver = true
          case .wait: #expect(!isClosed && firstWaiting(senders) == nil)
          }
          receivers.append(receiver)
        case 2:
          let waitingSenders = senders.indices.filter { !senders[$0].isOver && senders[$0].model.cause == nil }
          let waitingReceivers = receivers.indices.filter { !receivers[$0].isOver && receivers[$0].model.cause == nil }
          let woken = machine.close()
          #expect(
            woken.senders.nodes.map { ChannelStateMachine<Int>.node($0) } == waitingSenders.map { senders[$0].node })
          #expect(
            woken.receivers.nodes.map { ChannelStateMachine<Int>.node($0) }
              == waitingReceivers.map { receivers[$0].node })
          isClosed = true
        case 3:
          guard let index = firstWaiting(senders) else { continue }
          // Between the cancel and the sender's own leaving its node is still there: every other such sender never leaves.
          #expect(senders[index].model.giveUp())
          if number.isMultiple(of: 2) { _ = machine.withdrawSender(senders[index].node) }
          #expect(senders[index].node.pointee.element != nil)
        default:
          guard let index = firstWaiting(receivers) else { continue }
          #expect(receivers[index].model.giveUp())
          if number.isMultiple(of: 2) { _ = machine.withdrawReceiver(receivers[index].node) }
        }
        #expect(machine.checkInvariants())
      }
      // Sent = received or still with its sender; received in the order of sending.
      given = receivers.compactMap { $0.node.pointee.element }
      let kept = senders.compactMap { $0.node.pointee.element }
      #expect(given == given.sorted())
      #expect((given + kept).sorted() == events.indices.filter { events[$0] == 0 })
      checked += 1
    }
    #expect(checked == 78_125)
  }

  @Test func aCompletionWakesEveryJoinerOnceButThoseWhoGaveUp() {
    // 0: join, 1: complete (the first counts), 2: the first joiner gives up and leaves
    everySequence(of: 3, length: 7) { events in
      var machine = CompletionStateMachine()
      var joiners: [(model: ModelWaiter, node: UnsafeMutablePointer<WaitNode>)] = []
      var waiting: [UnsafeMutablePointer<WaitNode>] = []
      defer { for joiner in joiners { joiner.node.deinitialize(count: 1).deallocate() } }
      for event in events {
        switch event {
        case 0:
          let model = ModelWaiter()
          let node = UnsafeMutablePointer<WaitNode>.allocate(capacity: 1)
          node.initialize(to: WaitNode(model.waiter))
          joiners.append((model, node))
          switch machine.join(node) {
          case .wait:
            #expect(!machine.isFinished)
            waiting.append(node)
          case .done: #expect(machine.isFinished)
          case .wake, .wakeAll: Issue.record("a join wakes nobody")
          }
          #expect(machine.wasObserved)
        case 1 where !machine.isFinished:
          #expect(machine.complete().nodes == waiting)
          waiting = []
        case 2:
          guard let first = joiners.first(where: { $0.model.cause == nil && waiting.contains($0.node) }) else {
            continue
          }
          #expect(first.model.giveUp())
          _ = machine.leave(first.node)
          waiting.removeFirst()
        default: break
        }
      }
    }
  }

  @Test func aSuspensionHasOneOutcome() {
    // 0: wait (once), 1: settle, 2: give up and leave
    everySequence(of: 3, length: 6) { events in
      var machine = SuspensionStateMachine<Int>()
      let model = ModelWaiter()
      var node = WaitNode(model.waiter)
      var (hasWaited, hasLeft) = (false, false)
      var settled: Int?
      for (number, event) in events.enumerated() {
        switch event {
        case 0 where !hasWaited:
          hasWaited = true
          withUnsafeMutablePointer(to: &node) {
            switch machine.wait($0) {
            case .done: #expect(settled != nil)
            case .wait: #expect(settled == nil)
            case .wake, .wakeAll: Issue.record("a wait wakes nobody")
            }
          }
        case 1:
          switch machine.settle(.success(number)) {
          case .none: #expect(settled == nil && !hasWaited)
          case .wake: #expect(settled == nil && hasWaited && !hasLeft)
          case .tooLate:
            #expect(settled != nil || hasLeft)
            continue
          }
          settled = number
        case 2 where hasWaited && !hasLeft && settled == nil:
          #expect(model.giveUp())
          #expect(machine.take() == nil)
          hasLeft = true
        default: break
        }
      }
      if hasWaited, !hasLeft, let settled {
        let outcome = try? machine.take()?.get()
        #expect(outcome == settled)
        if case .tooLate = machine.settle(.success(-1)) {} else { Issue.record("settled again after the end") }
      }
    }
  }
}
