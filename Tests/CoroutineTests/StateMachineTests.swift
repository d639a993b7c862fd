import Testing

@testable import Coroutine

/// The state machines alone: every sequence of events up to a length, the invariants checked after each.
@Suite struct StateMachineTests {
  /// Somebody to wait: never blocked, never woken.
  private static let thread = BlockedThread()

  /// Calls `check` with each sequence of `length` events out of `count`.
  private func everySequence(of count: Int, length: Int, _ check: ([Int]) -> Void) {
    var sequence = [Int](repeating: 0, count: length)
    while true {
      check(sequence)
      var place = 0
      while place < length {
        sequence[place] += 1
        if sequence[place] < count { break }
        sequence[place] = 0
        place += 1
      }
      if place == length { return }
    }
  }

  @Test func aChannelDeliversEachElementOnceInOrderOrGivesItBack() {
    typealias Node = UnsafeMutablePointer<ChannelNode<Int>>
    let nobody = Waiter.thread(.passUnretained(StateMachineTests.thread))
    var checked = 0
    // 0: send, 1: receive, 2: close
    everySequence(of: 3, length: 9) { events in
      var machine = ChannelStateMachine<Int>()
      var senders: [Node] = []
      var receivers: [Node] = []
      var waitingSenders = 0
      var waitingReceivers = 0
      var isClosed = false
      defer { for node in senders + receivers { node.deinitialize(count: 1).deallocate() } }
      for (number, event) in events.enumerated() {
        switch event {
        case 0:
          let node = Node.allocate(capacity: 1)
          node.initialize(to: ChannelNode(nobody, element: number))
          senders.append(node)
          switch machine.send(node) {
          case .done: #expect(isClosed && node.pointee.element == number)
          case .wake:
            #expect(waitingReceivers > 0 && node.pointee.element == nil)
            waitingReceivers -= 1
          case .wait:
            #expect(!isClosed && waitingReceivers == 0)
            waitingSenders += 1
          }
        case 1:
          let node = Node.allocate(capacity: 1)
          node.initialize(to: ChannelNode(nobody, element: nil))
          receivers.append(node)
          switch machine.receive(node) {
          case .done: #expect(isClosed && node.pointee.element == nil)
          case .wake:
            #expect(waitingSenders > 0 && node.pointee.element != nil)
            waitingSenders -= 1
          case .wait:
            #expect(!isClosed && waitingSenders == 0)
            waitingReceivers += 1
          }
        default:
          var (closedSenders, closedReceivers) = machine.close()
          var count = 0
          while closedSenders.popFirst() != nil { count += 1 }
          #expect(count == waitingSenders)
          count = 0
          while closedReceivers.popFirst() != nil { count += 1 }
          #expect(count == waitingReceivers)
          (waitingSenders, waitingReceivers, isClosed) = (0, 0, true)
        }
        #expect(machine.checkInvariants())
        #expect(machine.senders.isEmpty == (waitingSenders == 0))
        #expect(machine.receivers.isEmpty == (waitingReceivers == 0))
      }
      // Sent = received or still with its sender; received in the order of sending.
      let delivered = receivers.compactMap { $0.pointee.element }
      let kept = senders.compactMap { $0.pointee.element }
      #expect(delivered == delivered.sorted())
      #expect((delivered + kept).sorted() == events.indices.filter { events[$0] == 0 })
      checked += 1
    }
    #expect(checked == 19_683)
  }

  @Test func aCompletionWakesEveryJoinerOnce() {
    // 0: join, 1: complete (the first counts)
    everySequence(of: 2, length: 8) { events in
      var machine = CompletionStateMachine()
      var nodes: [UnsafeMutablePointer<WaitNode>] = []
      var waiting = 0
      var isComplete = false
      defer { for node in nodes { node.deinitialize(count: 1).deallocate() } }
      for event in events {
        if event == 0 {
          let node = UnsafeMutablePointer<WaitNode>.allocate(capacity: 1)
          node.initialize(to: WaitNode(.thread(.passUnretained(StateMachineTests.thread))))
          nodes.append(node)
          switch machine.join(node) {
          case .wait:
            #expect(!isComplete)
            waiting += 1
          case .finished: #expect(isComplete)
          }
          #expect(machine.wasObserved)
        } else if !isComplete {
          var queue = machine.complete()
          var woken: [UnsafeMutablePointer<WaitNode>] = []
          while let node = queue.popFirst() { woken.append(node) }
          #expect(woken == Array(nodes.prefix(waiting)))
          isComplete = true
        }
      }
    }
  }

  @Test func aSuspensionHasOneOutcome() {
    // 0: wait (once), 1: settle
    everySequence(of: 2, length: 5) { events in
      var machine = SuspensionStateMachine<Int>()
      var node = WaitNode(.thread(.passUnretained(StateMachineTests.thread)))
      var hasWaited = false
      var settled: Int?
      var woken = 0
      for (number, event) in events.enumerated() {
        if event == 0 {
          guard !hasWaited else { continue }
          hasWaited = true
          withUnsafeMutablePointer(to: &node) {
            switch machine.wait($0) {
            case .goOn: #expect(settled != nil)
            case .suspend: #expect(settled == nil)
            }
          }
        } else {
          switch machine.settle(.success(number)) {
          case .none: #expect(settled == nil && !hasWaited)
          case .wake:
            #expect(settled == nil && hasWaited)
            woken += 1
          case .tooLate: #expect(settled != nil)
          }
          settled = settled ?? number
        }
      }
      if hasWaited, let settled {
        let outcome = try? machine.take().get()
        #expect(outcome == settled)
        if case .tooLate = machine.settle(.success(-1)) {} else { Issue.record("settled again after the end") }
      }
      #expect(woken <= 1)
    }
  }
}
