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
    #expect(slow.count == 2 && fast.isEmpty)
    #expect(slow.tryReceive() == .received(4) && slow.count == 1)
    #expect(!slow.isClosed && broadcast.close() && slow.isClosed && slow.count == 1)
    #expect(slow.tryReceive() == .received(5) && slow.isEmpty && slow.tryReceive() == .closed)
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

}
