import CoroutineTestSupport
import Dispatch
import Testing

@testable import Coroutine

@Suite(.ownThreads) struct ChannelEndsTests {
  private struct Broken: Error, Equatable {}

  @Test func theLastSenderThatGoesClosesTheChannel() async throws {
    let log = Log()
    try await serially {
      func makeSenders() -> ChannelReceiver<Int> {
        let (sender, receiver) = Channel<Int>.makeEnds(name: "numbers")
        for number in 1...3 { Coroutine { try sender.send(number) } }
        return receiver
      }
      let receiver = makeSenders()
      for number in receiver.received { log.add("\(number)") }
      log.add(outcome { _ = try receiver.receive() })
      log.add("closed: \(receiver.isClosed)")
    }
    #expect(
      log.all == [
        "1", "2", "3", "the channel is closed, and everything that was sent has been received", "closed: true",
      ])
  }

  @Test func theLastReceiverThatGoesGivesTheSendersTheirElementsBack() async throws {
    let log = Log()
    try await serially {
      var receiver: ChannelReceiver<Int>?
      func makeSender() -> ChannelSender<Int> {
        let ends = Channel<Int>.makeEnds()
        receiver = ends.receiver
        return ends.sender
      }
      let sender = makeSender()
      sender.whenClosed { error in log.add("told, error: \(error != nil)") }
      let sending = Coroutine {
        do { try sender.send(1) } catch let error as ChannelClosed<Int> { log.add("back: \(error.unsent ?? 0)") }
      }
      Coroutine.yield()
      log.add(
        "waits: \(sender.waitingSenderCount) \(receiver?.waitingSenderCount ?? -1) \(sender.waitingReceiverCount)")
      log.add("held: \(receiver != nil)")
      receiver = nil
      try sending.get()
      log.add("\(sender.trySend(2))")
    }
    #expect(log.all == ["waits: 1 1 0", "held: true", "told, error: false", "back: 1", "closed(2)"])
  }

  /// A request has the way back to its sender, who would wait for ever if it stayed in the buffer.
  @Test func theLastReceiverThatGoesDropsWhatIsInTheBuffer() async throws {
    let log = Log()
    try await serially {
      let (sender, receiver) = Channel<Promise<Int>.Resolver>.makeEnds(capacity: .buffered(2))
      let (answer, resolver) = Promise<Int>.makePromise()
      try sender.send(resolver)
      _ = consume resolver
      log.add("waits: \(answer.isPending) \(sender.count)")
      _ = consume receiver
      log.add("rejected: \(answer.isRejected) \(sender.count) \(sender.isClosed)")
    }
    #expect(log.all == ["waits: true 1", "rejected: true 0 true"])
  }

  @Test func aReceiverTakesSeveralElementsInOneStep() async throws {
    let log = Log()
    try await serially {
      let (sender, receiver) = Channel<Int>.makeEnds(capacity: .buffered(4), name: "numbers")
      for number in 1...4 { try sender.send(number) }
      log.add("\(sender.name) \(receiver.name) \(sender.isFull) \(sender.count) \(receiver.count) \(receiver.isEmpty)")
      log.add("\(try receiver.receive(count: 3)) \(try receiver.receiveAll()) \(receiver.isEmpty)")
      log.add("\(sender.capacity == receiver.capacity)")
    }
    #expect(log.all == ["numbers numbers true 4 4 false", "[1, 2, 3] [4] true", "true"])
    let (sender, receiver) = Channel<Int>.makeEnds(capacity: .buffered(4))
    for number in 1...3 { try await sender.send(number) }
    #expect(try await receiver.receive(count: 2) == [1, 2])
    #expect(try await receiver.receiveAll() == [3])
  }

  @Test func aReceiverIsToldOfTheErrorThatEndsItsLoop() async throws {
    struct Broken: Error {}
    let log = Log()
    try await serially {
      let (sender, receiver) = Channel<Int>.makeEnds(capacity: .buffered(1))
      receiver.whenClosed { log.add("told: \($0.map { "\($0)" } ?? "no error")") }
      try sender.send(1)
      sender.close(throwing: Broken())
      log.add("\(Array(receiver.received))")
      log.add(outcome { _ = try receiver.receive() })
    }
    #expect(log.all == ["told: Broken()", "[1]", "Broken()"])
  }

  @Test func aLoopHoldsItsReceiver() async throws {
    let log = Log()
    try await serially {
      let (sender, receiver) = Channel<Int>.makeEnds()
      Coroutine {
        for number in 1...2 { log.add(outcome { try sender.send(number) }) }
        sender.close()
      }
      func consume(_ receiver: consuming ChannelReceiver<Int>) -> ChannelReceiver<Int>.Elements { receiver.received }
      for number in consume(receiver) { log.add("\(number)") }
    }
    #expect(log.all.sorted() == ["1", "2", "done", "done"])
  }

  @Test func aSelectHoldsItsEnds() async throws {
    let log = Log()
    try await serially {
      func makeCase(_ sender: inout ChannelSender<Int>?) -> any SelectCase<String> {
        let ends = Channel<Int>.makeEnds()
        sender = ends.sender
        return ends.receiver.onReceive { "\($0)" }
      }
      var sender: ChannelSender<Int>?
      let cases = [makeCase(&sender)]
      let sending = sender!
      Coroutine { log.add(outcome { try select { sending.onSend(7) } }) }
      log.add(try select(cases))
    }
    #expect(log.all.sorted() == ["7", "done"])
  }

  @Test func asyncCodeReceivesUntilTheLastSenderIsGone() async throws {
    let (sender, receiver) = Channel<Int>.makeEnds(capacity: .buffered(2))
    func send(_ sender: consuming ChannelSender<Int>) async throws {
      try await sender.send(1)
      try await sender.send(2)
    }
    try await send(sender)
    #expect(try await receiver.receive() == 1)
    sender.close()
    var rest: [Int] = []
    for await number in receiver { rest.append(number) }
    #expect(rest == [2])
  }

  @Test func aChannelClosedWithAnErrorThrowsItBehindItsLastElement() async throws {
    let log = Log()
    try await serially {
      let channel = Channel<Int>(capacity: .buffered(2))
      try channel.send(1)
      let waiting = Channel<Int>()
      let receiver = Coroutine { log.add(outcome { _ = try waiting.receive() }) }
      Coroutine.yield()
      log.add("\(waiting.waitingReceiverCount)")
      #expect(channel.close(throwing: Broken()) && !channel.close())
      waiting.close(throwing: Broken())
      log.add("\(try channel.receive())")
      log.add(outcome { _ = try channel.receive() })
      log.add(outcome { try select { channel.onReceive { _ in } } })
      log.add(try select { channel.onNext { $0 == nil ? "end" : "element" } })
      log.add("\(Array(channel.received))")
      try receiver.get()
      // A sender gets its element back all the same.
      do { try channel.send(2) } catch let error as ChannelClosed<Int> { log.add("back: \(error.unsent ?? 0)") }
    }
    #expect(log.all == ["1", "1", "Broken()", "Broken()", "end", "[]", "Broken()", "back: 2"])
  }

  @Test func aWatcherOfTheEndIsToldOnce() {
    let log = Log()
    let channel = Channel<Int>()
    channel.whenClosed { log.add("first \($0 is Broken)") }
    channel.close(throwing: Broken())
    channel.close()
    channel.whenClosed { log.add("late \($0 is Broken)") }
    #expect(log.all == ["first true", "late true"])
  }

  @Test func aCloseRacesWithASubscriptionToIt() async throws {
    for _ in 0..<amount(2_000, sanitized: 200) {
      let told = Log()
      let channel = Channel<Int>()
      let closer = Coroutine { _ = channel.close() }
      channel.whenClosed { _ in told.add("told") }
      try await closer.get()
      #expect(told.all == ["told"])
    }
  }

  @Test func aClosureBehindSendIsTheElement() async throws {
    let channel = Channel<@Sendable () -> Int>(capacity: .buffered(2))
    try await Coroutine { try channel.send { 5 } }.get()
    try await channel.send { 6 }
    #expect(try await channel.receive()() == 5)
    #expect(try await channel.receive()() == 6)
  }
}
