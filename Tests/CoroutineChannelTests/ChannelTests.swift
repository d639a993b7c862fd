import Coroutine
import CoroutineTestSupport
import Dispatch
import Synchronization
import Testing

@Suite(.ownThreads) struct ChannelTests {
  @Test func aSenderWaitsForItsReceiver() async throws {
    let queue = DispatchQueue(label: "serial")
    let log = Log()
    let main = Coroutine(on: queue) {
      let channel = Channel<Int>()
      let sender = Coroutine {
        for value in 1...2 {
          log.add("send \(value)")
          try channel.send(value)
          log.add("sent \(value)")
        }
      }
      Coroutine.yield()
      log.add("received \(try channel.receive())")
      log.add("received \(try channel.receive())")
      try sender.get()
    }
    try await main.get()
    // The second element meets a receiver that waits already: the waker goes on first.
    #expect(log.all == ["send 1", "received 1", "sent 1", "send 2", "sent 2", "received 2"])
  }

  @Test func waitersAreServedInTheOrderInWhichTheyCame() async throws {
    let queue = DispatchQueue(label: "serial")
    let log = Log()
    let main = Coroutine(on: queue) {
      let channel = Channel<Int>()
      let senders = (0..<5).map { index in Coroutine { try channel.send(index) } }
      Coroutine.yield()
      for _ in 0..<5 { log.add("\(try channel.receive())") }
      let receivers = (0..<5).map { index in Coroutine { log.add("\(index):\(try channel.receive())") } }
      Coroutine.yield()
      for value in 0..<5 { try channel.send(value) }
      for sender in senders { try sender.get() }
      for receiver in receivers { try receiver.get() }
    }
    try await main.get()
    #expect(log.all == ["0", "1", "2", "3", "4", "0:0", "1:1", "2:2", "3:3", "4:4"])
  }

  @Test func closingEndsTheIterationOfEveryReceiver() async throws {
    let channel = Channel<Int>()
    let sums = (0..<4).map { _ in
      Coroutine { () -> Int in
        var sum = 0
        for value in channel.received { sum += value }
        return sum
      }
    }
    let sender = Coroutine {
      for value in 1...1000 { try channel.send(value) }
      channel.close()
    }
    try await sender.get()
    var total = 0
    for sum in sums { total += try await sum.get() }
    #expect(total == 500_500)
    #expect(channel.isClosed)
  }

  @Test func aSenderGetsItsElementBackWhenTheChannelCloses() async throws {
    let channel = Channel<String>()
    let waiting = Coroutine { () -> String? in
      do {
        try channel.send("kept")
        return nil
      } catch let closed as ChannelClosed<String> {
        return closed.unsent
      }
    }
    // A close before it waits, or while it does, must have the same result.
    channel.close()
    #expect(try await waiting.get() == "kept")
    channel.close()
    await #expect(throws: ChannelClosed<String>.self) { try await channel.send("late") }
    await #expect(throws: ChannelClosed<String>.self) { _ = try await channel.receive() }
  }

  @Test func nilIsAnOrdinaryElement() async throws {
    let channel = Channel<Int?>()
    let receiver = Coroutine { () -> [Int?] in Array(channel.received) }
    for value in [1, nil, 3] as [Int?] { try await channel.send(value) }
    channel.close()
    #expect(try await receiver.get() == [1, nil, 3])
  }

  /// Invariant 8.
  @Test func everyElementIsReceivedOnceAcrossThreads() async throws {
    let channel = Channel<Int>()
    let seen = Log()
    let receivers = (0..<6).map { _ in
      Coroutine {
        for value in channel.received { seen.add("\(value)") }
      }
    }
    let senders = (0..<6).map { sender in
      Coroutine {
        for index in 0..<500 { try channel.send(sender * 500 + index) }
      }
    }
    for sender in senders { try await sender.get() }
    channel.close()
    for receiver in receivers { try await receiver.get() }
    #expect(seen.all.compactMap { Int($0) }.sorted() == Array(0..<3000))
  }

  @Test func tasksAndCoroutinesShareAChannel() async throws {
    let channel = Channel<Int>()
    let back = Channel<Int>()
    Coroutine {
      for value in channel.received { try back.send(value * 2) }
      back.close()
    }
    for value in 0..<200 {
      try await channel.send(value)
      #expect(try await back.receive() == value * 2)
    }
    channel.close()
    await #expect(throws: ChannelClosed<Int>.self) { _ = try await back.receive() }
  }

  @Test func elementsAreReleased() async throws {
    final class Witness: Sendable {
      static let live = Atomic<Int>(0)
      init() { Witness.live.add(1, ordering: .relaxed) }
      deinit { Witness.live.subtract(1, ordering: .relaxed) }
    }
    let channel = Channel<Witness>()
    let receiver = Coroutine { () -> Int in
      var count = 0
      for _ in channel.received { count += 1 }
      return count
    }
    let sender = Coroutine {
      for _ in 0..<100 { try channel.send(Witness()) }
      channel.close()
    }
    #expect(try await receiver.get() == 100)
    try await sender.get()
    #expect(Witness.live.load(ordering: .relaxed) == 0)
  }

  @Test func usingItOutsideACoroutineTraps() async {
    let exit1 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      func send() throws { try Channel<Int>().send(1) }
      try send()
    }
    #expect(
      standardError(of: exit1).contains("Channel.send(_:) suspends the running coroutine, but no coroutine runs here"))
  }
}
