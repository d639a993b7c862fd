import CoroutineTestSupport
import Testing

@testable import Coroutine

/// A broadcast alone: every sequence of events up to a length.
@Suite(.ownThreads) struct BroadcastStateMachineTests {
  @Test(arguments: [false, true], [0, 1, 2])
  func everySequenceOfEventsKeepsTheInvariants(dropsOldest: Bool, replay: Int) {
    // 0: send, 1, 2: the first, second reader receives without waiting, 3: the first waits, 4: it gives up and
    // withdraws, 5: a reader comes (two at most), 6: the first reader without a waiter goes, 7: a sender waits, 8: close
    everySequence(of: 9, length: amount(6, debug: 5, sanitized: 4)) { events in
      var machine = BroadcastStateMachine<Int>(limit: 2, replay: replay, dropsOldest: dropsOldest)
      typealias Node = UnsafeMutablePointer<BroadcastNode<Int>>
      var released = ReleasedElements<Int>()
      /// What each reader has still to receive. Elements are numbers from 0.
      var expected: [ObjectIdentifier: [Int]] = [:]
      var sent: [Int] = []
      var next = 0
      var (receivers, senders): ([(ModelWaiter, Node, BroadcastReader<Int>)], [(ModelWaiter, Node, Int)]) = ([], [])
      var nodes: [Node] = []
      defer { for node in nodes { node.deinitialize(count: 1).deallocate() } }
      func makeNode(_ model: ModelWaiter, _ element: Int?) -> Node {
        let node = Node.allocate(capacity: 1)
        node.initialize(to: BroadcastNode(model.waiter, element: element))
        nodes.append(node)
        return node
      }
      func note(_ element: Int) {
        sent.append(element)
        for reader in machine.readers { expected[ObjectIdentifier(reader), default: []].append(element) }
      }
      func expect(_ element: Int, for reader: BroadcastReader<Int>) {
        let first = expected[ObjectIdentifier(reader)]?.first
        #expect(first == element)
        if first != nil { expected[ObjectIdentifier(reader)]?.removeFirst() }
      }
      for event in events {
        var woken = ClaimedWaiters()
        let isClosed = machine.isClosed
        switch event {
        case 0:
          let lags = machine.readers.map { (expected[ObjectIdentifier($0)] ?? []).count }
          let isFull = (lags.max() ?? 0) == 2
          let attempt = machine.sendNow(next, &woken, &released)
          if machine.isClosed {
            #expect(attempt == .closed)
          } else if isFull, !dropsOldest {
            #expect(attempt == .full)
          } else {
            #expect(attempt == .sent)
            for (reader, lag) in zip(machine.readers, lags) where isFull && lag == 2 {
              expected[ObjectIdentifier(reader)]?.removeFirst()
            }
            note(next)
            next += 1
          }
        case 1, 2:
          guard machine.readers.count >= event else { continue }
          let reader = machine.readers[event - 1]
          switch machine.receiveNow(for: reader, &woken, &released) {
          case .received(let element): expect(element, for: reader)
          case .closed: #expect(isClosed && expected[ObjectIdentifier(reader), default: []].isEmpty)
          case .empty: #expect(!isClosed && expected[ObjectIdentifier(reader), default: []].isEmpty)
          }
        case 3:
          guard let reader = machine.readers.first else { continue }
          let model = ModelWaiter()
          let node = makeNode(model, nil)
          switch machine.receive(node, for: reader) {
          case .wait:
            #expect(expected[ObjectIdentifier(reader), default: []].isEmpty && !isClosed)
            receivers.append((model, node, reader))
          case .done: #expect(isClosed)
          case .wakeAll(let others):
            woken = others
            expect(node.pointee.element!, for: reader)
          case .wake: Issue.record("a receive wakes several waiters or none")
          }
        case 4:
          guard let (model, node, reader) = receivers.first else { continue }
          #expect(model.giveUp())
          machine.withdrawReceiver(node, of: reader)
          receivers.removeFirst()
        case 5:
          guard machine.readers.count < 2 else { continue }
          let reader = machine.subscribe()
          expected[ObjectIdentifier(reader)] = Array(sent.suffix(replay))
        case 6:
          guard let reader = machine.readers.first, !receivers.contains(where: { $0.2 === reader }) else { continue }
          expected[ObjectIdentifier(reader)] = nil
          woken = machine.unsubscribe(reader, &released)
        case 7:
          let model = ModelWaiter()
          let lag = machine.readers.map { (expected[ObjectIdentifier($0)] ?? []).count }.max() ?? 0
          // Event 0 tests what a send does that need not wait.
          guard lag == 2, !dropsOldest, !machine.isClosed else { continue }
          let node = makeNode(model, next)
          guard case .wait = machine.send(node) else {
            Issue.record("a sender does not wait")
            continue
          }
          senders.append((model, node, next))
          next += 1
        default:
          let wasOpen = !machine.isClosed
          let result = machine.close()
          #expect(result.isFirst == wasOpen)
          // Senders keep their elements, and receivers get none.
          #expect(result.woken.nodes.count == senders.count + receivers.count)
          for (_, node, _) in senders { #expect(node.pointee.element != nil) }
          for (_, node, _) in receivers { #expect(node.pointee.element == nil) }
          senders = []
          receivers = []
        }
        // Senders that were let in, in their order, and then receivers that were served.
        while let (model, node, element) = senders.first, model.cause == .event {
          #expect(node.pointee.element == nil)
          senders.removeFirst()
          note(element)
        }
        for (index, (model, node, reader)) in receivers.enumerated().reversed() where model.cause == .event {
          expect(node.pointee.element!, for: reader)
          receivers.remove(at: index)
        }
        let holds = machine.checkInvariants()
        #expect(holds)
        let (behind, lags) = (machine.behind, machine.readers.map { (expected[ObjectIdentifier($0)] ?? []).count })
        #expect(behind == lags.max() ?? 0)
      }
    }
  }
}
