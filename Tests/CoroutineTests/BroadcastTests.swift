import CoroutineTestSupport
import Dispatch
import Synchronization
import Testing

@testable import Coroutine

@Suite(.ownThreads) struct BroadcastTests {
  private struct Broken: Error {}

  @Test func everySubscriptionGetsEveryElementInOrder() async throws {
    let log = Log()
    try await serially {
      let broadcast = BroadcastChannel<Int>(capacity: 2, name: "b")
      try broadcast.send(0)  // there is no subscriber
      let readers = ["a", "b"].map { name in
        let subscription = broadcast.subscribe()
        return Coroutine { for element in subscription.received { log.add("\(name)\(element)") } }
      }
      for element in 1...3 { try broadcast.send(element) }
      broadcast.close()
      for reader in readers { try reader.get() }
      log.add("\(broadcast.subscriptionCount)")
    }
    #expect(log.all.filter { $0.hasPrefix("a") } == ["a1", "a2", "a3"])
    #expect(log.all.filter { $0.hasPrefix("b") } == ["b1", "b2", "b3"])
    #expect(log.all.last == "0" && log.all.count == 7)
  }

  @Test func aSenderWaitsForTheSlowestAndNoLongerThanItIsThere() async throws {
    let log = Log()
    try await serially {
      let broadcast = BroadcastChannel<Int>(capacity: 2, name: "b")
      let fast = broadcast.subscribe()
      var slow: BroadcastSubscription<Int>? = broadcast.subscribe()
      let sender = Coroutine {
        for element in 1...4 {
          try broadcast.send(element)
          log.add("sent \(element)")
        }
      }
      Coroutine.yield()
      log.add("\(sender.suspension?.waitsFor ?? "")")
      while case .received(let element) = fast.tryReceive() { log.add("fast \(element)") }
      Coroutine.yield()
      log.add("slow \(try slow!.receive())")
      Coroutine.yield()
      slow = nil
      Coroutine.yield()
      while case .received(let element) = fast.tryReceive() { log.add("fast \(element)") }
      try sender.get()
      log.add("\(broadcast.trySend(5)) \(broadcast.trySend(6)) \(broadcast.trySend(7))")
    }
    #expect(
      log.all == [
        "sent 1", "sent 2", "send on broadcast \"b\" (2/2 behind, 2 subscriptions)", "fast 1", "fast 2", "slow 1",
        "sent 3",
        "sent 4", "fast 3", "fast 4", "sent sent full(7)",
      ])
  }

  @Test func aSlowReceiverMissesTheOldestAndIsToldHowMany() async throws {
    let broadcast = BroadcastChannel<Int>(capacity: 2, onOverflow: .dropOldest)
    let (slow, fast) = (broadcast.subscribe(), broadcast.subscribe())
    for element in 1...5 {
      #expect(broadcast.trySend(element) == .sent)
      #expect(fast.tryReceive() == .received(element))
    }
    #expect(slow.missedCount == 3 && fast.missedCount == 0)
    #expect(slow.tryReceive() == .received(4) && slow.tryReceive() == .received(5) && slow.tryReceive() == .empty)
    #expect(broadcast.close() && slow.tryReceive() == .closed)
    #expect(broadcast.trySend(6) == .closed(6))
  }

  @Test func aLateSubscriberGetsTheLastOnes() async throws {
    let broadcast = BroadcastChannel<Int>(capacity: 4, replay: 2)
    for element in 1...9 { #expect(broadcast.trySend(element) == .sent) }
    let late = broadcast.subscribe()
    try await broadcast.send(10)
    broadcast.close()
    var all: [Int] = []
    for await element in late { all.append(element) }
    #expect(all == [8, 9, 10])
    #expect(broadcast.subscribe().tryReceive() == .received(9))
  }

  @Test func anErrorThatItWasClosedWithIsThrownBehindTheLastElement() async throws {
    let log = Log()
    try await serially {
      let broadcast = BroadcastChannel<Int>()
      let (filled, empty) = (broadcast.subscribe(), broadcast.subscribe())
      try broadcast.send(1)
      _ = try empty.receive()
      let waiting = Coroutine { log.add(outcome { _ = try empty.receive() }) }
      Coroutine.yield()
      broadcast.close(throwing: Broken())
      log.add("\(try filled.receive())")
      log.add(outcome { _ = try filled.receive() })
      log.add(outcome { try select { filled.onReceive { _ in } } })
      log.add(try select { filled.onNext { "\($0 as Any)" } })
      try waiting.get()
      do { try broadcast.send(7) } catch let error as ChannelClosed<Int> { log.add("back: \(error.unsent ?? 0)") }
    }
    #expect(log.all.sorted() == ["1", "Broken()", "Broken()", "Broken()", "back: 7", "nil"])
  }

  @Test func aSelectReceivesFromSeveralAndLeavesTheOthersAsTheyWere() async throws {
    let log = Log()
    try await serially {
      let (first, second) = (BroadcastChannel<Int>(), BroadcastChannel<String>())
      let (numbers, names) = (first.subscribe(), second.subscribe())
      Coroutine {
        try first.send(1)
        try second.send("x")
      }
      for _ in 0..<2 {
        log.add(
          try select {
            numbers.onReceive { "\($0)" }
            names.onReceive { $0 }
          })
      }
      log.add(
        try select {
          numbers.onReceive { "\($0)" }
          names.onReceive { $0 }
          onTimeout(.milliseconds(1)) { "late" }
        })
      try first.send(2)
      log.add("\(numbers.tryReceive())")
    }
    #expect(log.all == ["1", "x", "late", "received(2)"])
  }

  @Test func anElementThatIsTakenBackGoesOutsideOfTheLock() async throws {
    // Its `deinit` uses the channel that it was in.
    final class Probe: Sendable {
      let broadcast: BroadcastChannel<Probe>
      init(_ broadcast: BroadcastChannel<Probe>) { self.broadcast = broadcast }
      deinit { _ = broadcast.subscriptionCount }
    }
    let broadcast = BroadcastChannel<Probe>(capacity: 1, onOverflow: .dropOldest)
    var subscription: BroadcastSubscription<Probe>? = broadcast.subscribe()
    for _ in 0..<3 { #expect(broadcast.trySend(Probe(broadcast)).isSent) }
    _ = subscription?.tryReceive()
    #expect(broadcast.trySend(Probe(broadcast)).isSent)
    subscription = nil
    let other = broadcast.subscribe()
    #expect(broadcast.trySend(Probe(broadcast)).isSent)
    try await Coroutine { try select { other.onReceive { _ in } } }.get()
    broadcast.close()
  }

  @Test func aCancelADeadlineAndACloseRaceWithAnElementAndNothingIsLost() async throws {
    for round in 0..<amount(1_500, sanitized: 200) {
      let broadcast = BroadcastChannel<Int>(capacity: 1)
      let subscription = broadcast.subscribe()
      let receiver = Coroutine { try subscription.receive(timeout: round % 3 == 0 ? .microseconds(10) : nil) }
      let sender = Coroutine { try broadcast.send(1) }
      let other = Coroutine { if round % 3 == 1 { receiver.cancel() } else if round % 3 == 2 { broadcast.close() } }
      let wasSent = (try? await sender.get()) != nil
      let wasReceived = (try? await receiver.get()) != nil
      try await other.get()
      if wasSent, !wasReceived { #expect(subscription.tryReceive() == .received(1)) }
      if !wasSent { #expect(!wasReceived) }
    }
  }

  @Test func manySendersAndReceiversSeeTheSameOrder() async throws {
    let broadcast = BroadcastChannel<Int>(capacity: 3)
    let readers = (0..<4).map { _ in
      let subscription = broadcast.subscribe()
      return Coroutine { Array(subscription.received) }
    }
    let count = amount(500, sanitized: 50)
    let senders = (0..<3).map { sender in
      Coroutine { for element in 0..<count { try broadcast.send(sender * count + element) } }
    }
    for sender in senders { try await sender.get() }
    broadcast.close()
    let all = try await readers.first!.get()
    #expect(all.sorted() == Array(0..<3 * count))
    for reader in readers { #expect(try await reader.get() == all) }
  }

  // MARK: The state machine alone

  @Test(arguments: [false, true], [0, 1, 2])
  func everySequenceOfEventsKeepsTheInvariants(dropsOldest: Bool, replay: Int) {
    // 0: send, 1, 2: the first, second reader receives without waiting, 3: the first waits, 4: it gives up and
    // leaves, 5: a reader comes (two at most), 6: the first reader without a waiter goes, 7: a sender waits, 8: close
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
