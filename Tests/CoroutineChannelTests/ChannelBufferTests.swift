import Coroutine
import CoroutineTestSupport
import Dispatch
import Testing

/// What the capacities mean, in the exact order of effects. All coroutines of a test share one serial queue.
@Suite(.ownThreads) struct ChannelBufferTests {
  private func run(_ body: sending @escaping () throws -> Void) async throws {
    try await Coroutine(on: DispatchQueue(label: "serial"), body).get()
  }

  @Test func aSenderWaitsOnlyWhileTheBufferIsFull() async throws {
    let log = Log()
    try await run {
      let channel = Channel<Int>(capacity: .buffered(2))
      let sender = Coroutine {
        for value in 1...4 {
          try channel.send(value)
          log.add("sent \(value)")
        }
      }
      Coroutine.yield()
      log.add("\(channel.count) of \(channel.capacity), full: \(channel.isFull)")
      log.add("received \(try channel.receive())")
      Coroutine.yield()
      log.add("received \(try channel.receive())")
      Coroutine.yield()
      log.add("received \(try channel.receive()), \(try channel.receive()), empty: \(channel.isEmpty)")
      try sender.get()
    }
    #expect(
      log.all == [
        "sent 1", "sent 2", "2 of buffered(2), full: true", "received 1", "sent 3", "received 2", "sent 4",
        "received 3, 4, empty: true",
      ])
  }

  @Test func aReceiverOfAFullBufferLetsTheOldestSenderInBehindTheOthers() async throws {
    let log = Log()
    try await run {
      let channel = Channel<Int>(capacity: .buffered(2))
      let senders = (0..<6).map { index in Coroutine { try channel.send(index) } }
      Coroutine.yield()
      // 2, 3, 4 and 5 wait. None of these senders has run since, yet 2 is in the buffer.
      log.add("\(try channel.receive()), then \(channel.count) in the buffer")
      // A new sender comes behind the waiters.
      log.add("\(channel.trySend(6))")
      log.add("\(try (0..<5).map { _ in try channel.receive() })")
      for sender in senders { try sender.get() }
    }
    #expect(log.all == ["0, then 2 in the buffer", "full(6)", "[1, 2, 3, 4, 5]"])
  }

  @Test func aReceiverThatWaitsGetsTheElementAndIsTheOnlyOneWoken() async throws {
    let log = Log()
    try await run {
      let channel = Channel<Int>(capacity: .buffered(4))
      let receivers = (0..<3).map { index in Coroutine { log.add("\(index) got \(try channel.receive())") } }
      Coroutine.yield()
      try channel.send(7)
      log.add("sent, \(channel.count) in the buffer")
      Coroutine.yield()
      log.add("\(receivers.map(\.isFinished))")
      channel.close()
      for receiver in receivers.dropFirst() { #expect((try? receiver.get()) == nil) }
    }
    #expect(log.all == ["sent, 0 in the buffer", "0 got 7", "[true, false, false]"])
  }

  @Test func anUnboundedChannelTakesEverythingAndKeepsTheOrder() async throws {
    try await run {
      let channel = Channel<Int>(capacity: .unbounded)
      for value in 0..<5_000 { try channel.send(value) }
      #expect(channel.count == 5_000 && !channel.isFull)
      for value in 0..<2_500 { #expect(try channel.receive() == value) }
      for value in 5_000..<9_000 { try channel.send(value) }
      channel.close()
      #expect(Array(channel.received) == Array(2_500..<9_000))
      #expect(channel.isEmpty)
    }
  }

  @Test func aConflatedChannelKeepsTheNewest() async throws {
    let log = Log()
    try await run {
      let channel = Channel<Int>(capacity: .conflated)
      for value in 1...3 { try channel.send(value) }
      log.add("\(try channel.receive())")
      let receiver = Coroutine { log.add("waited for \(try channel.receive())") }
      Coroutine.yield()
      // The first element goes to the waiter, so it is not replaced.
      for value in 4...6 { try channel.send(value) }
      try receiver.get()
      channel.close()
      log.add("\(Array(channel.received))")
    }
    #expect(log.all == ["3", "waited for 4", "[6]"])
  }

  @Test func aChannelOfTheNewestLosesTheOldestAndKeepsTheOrder() async throws {
    let log = Log()
    try await run {
      let channel = Channel<Int>(capacity: .newest(3), name: "frames")
      #expect(channel.trySend(1) == .sent)
      for value in 2...5 { try channel.send(value) }
      #expect(channel.trySend(6) == .sent && channel.count == 3 && !channel.isFull)
      log.add("\(channel)")
      log.add("\(try channel.receive())")
      try select { channel.onSend(7) { log.add("sent") } }
      try select { channel.onSend(8) { log.add("sent") } }
      channel.close()
      log.add("\(Array(channel.received))")
    }
    #expect(log.all == [#"channel "frames" (newest 3/3)"#, "4", "sent", "sent", "[6, 7, 8]"])
  }

  @Test func whatIsBufferedIsReceivedAfterTheEndAndThenTheIterationEnds() async throws {
    try await run {
      let channel = Channel<Int>(capacity: .buffered(3))
      for value in 1...3 { try channel.send(value) }
      #expect(channel.close())
      #expect(!channel.close())
      #expect(channel.trySend(4) == .closed(4))
      #expect(Array(channel.received) == [1, 2, 3])
      #expect(channel.tryReceive() == .closed)
    }
  }

  @Test func aSenderAtAFullBufferGetsItsElementBackAtTheClose() async throws {
    let log = Log()
    try await run {
      let channel = Channel<Int>(capacity: .buffered(1))
      try channel.send(1)
      let senders = (2...3).map { value in
        Coroutine {
          do { try channel.send(value) } catch let closed as ChannelClosed<Int> {
            log.add("\(closed.unsent!) came back")
          }
        }
      }
      Coroutine.yield()
      channel.close()
      for sender in senders { try sender.get() }
      log.add("\(Array(channel.received))")
    }
    #expect(log.all == ["2 came back", "3 came back", "[1]"])
  }

  @Test func capacities() async throws {
    #expect(Channel<Int>().capacity == .rendezvous)
    #expect(Channel<Int>(capacity: .buffered(0)).capacity == .buffered(0))
    #expect(Channel<Int>(capacity: .buffered(.max)).capacity == .buffered(.max))
    #expect(Channel<Int>(capacity: .newest(1)).capacity == .newest(1))
    #expect(Channel<Int>(capacity: .newest(2)).capacity == .newest(2))
    #expect(Channel<Int>(capacity: .conflated, name: "state").name == "state")
    let rendezvous = Channel<Int>()
    #expect(rendezvous.isEmpty && rendezvous.isFull && rendezvous.count == 0)
    let conflated = Channel<Int>(capacity: .conflated)
    #expect(conflated.trySend(1) == .sent && !conflated.isFull && conflated.count == 1)
  }

  @Test func anImpossibleCapacityTraps() async throws {
    let exit = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      _ = Channel<Int>(capacity: .buffered(-1))
    }
    let message = String(decoding: exit?.standardErrorContent ?? [], as: UTF8.self)
    #expect(message.contains("a channel can't have a capacity of -1: use .rendezvous, or .buffered of 0 or more"))
    let other = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      _ = Channel<Int>(capacity: .newest(0))
    }
    #expect(standardError(of: other).contains("a channel can't keep the newest 0 elements: use .newest of 1 or more"))
  }

  // From coobjc's tests. (Those of its documents are in `SeedCoobjcTests`.)

  @Test func coobjcReceiverWaitsForTwoSendersInTurn() async throws {
    let log = Log()
    try await run {
      let channel = Channel<Int>(capacity: .buffered(1))
      let receiver = Coroutine {
        log.add("1")
        log.add("\(try channel.receive())")
        log.add("2")
        log.add("\(try channel.receive())")
        log.add("3")
      }
      let sender = Coroutine {
        log.add("4")
        try channel.send(111)
        log.add("5")
        try channel.send(222)
        log.add("6")
      }
      try receiver.get()
      try sender.get()
    }
    #expect(log.all == ["1", "4", "5", "6", "111", "2", "222", "3"])
  }
}
