import Coroutine
import CoroutineTestSupport
import Dispatch
import Testing

/// Elements of every kind, and when they are released.
@Suite(.ownThreads) struct ChannelElementTests {
  /// Runs a closure in its `deinit`.
  private final class Witness: Sendable {
    let onEnd: @Sendable () -> Void
    init(onEnd: @escaping @Sendable () -> Void = {}) {
      self.onEnd = onEnd
    }
    deinit { onEnd() }
  }

  /// Can't be copied, so there is one of each.
  private struct Handle: ~Copyable, Sendable {
    let number: Int
    let ends: Log
    init(_ number: Int, _ ends: Log) { (self.number, self.ends) = (number, ends) }
    deinit { ends.add("\(number) ends") }
  }

  private final class NotSendable {
    var value: Int
    init(_ value: Int) { self.value = value }
  }

  @Test func noncopyableElementsAreHandedOverAndComeBack() async throws {
    let log = Log()
    try await Coroutine(on: DispatchQueue(label: "serial")) {
      let channel = Channel<Handle>(capacity: .buffered(1))
      let sender = Coroutine {
        for number in 1...2 {
          guard channel.send(orReturn: Handle(number, log)).isSent else {
            Issue.record("not sent")
            return
          }
        }
        switch channel.send(orReturn: Handle(3, log), timeout: .zero) {
        case .timedOut(let handle): log.add("\(handle.number) came back")
        default: Issue.record("there is no room")
        }
      }
      Coroutine.yield()
      log.add("received \(try channel.receive().number)")
      try sender.get()
      switch channel.trySend(Handle(4, log)) {
      case .full(let handle): log.add("\(handle.number) is too much")
      default: Issue.record("there is no room")
      }
      channel.close()
      if let handle = channel.send(orReturn: Handle(5, log)).unsent() { log.add("\(handle.number) is too late") }
      if let handle = channel.trySend(Handle(6, log)).unsent() { log.add("so is \(handle.number)") }
      let view = channel.received
      while let handle = view.next() { log.add("iterated \(handle.number)") }
      do { _ = try channel.receive() } catch { log.add("\(error is ChannelClosed<Handle>)") }
    }.get()
    #expect(
      log.all == [
        "1 ends", "received 1", "3 came back", "3 ends", "4 is too much", "4 ends", "5 is too late", "5 ends",
        "so is 6", "6 ends",
        "iterated 2", "2 ends", "true",
      ])
  }

  @Test func noncopyableElementsComeBackFromACancelledWait() async throws {
    let log = Log()
    let channel = Channel<Handle>()
    let queue = DispatchQueue(label: "serial")
    let sender = Coroutine(on: queue) {
      switch channel.send(orReturn: Handle(1, log)) {
      case .cancelled(let handle): log.add("\(handle.number) came back")
      default: Issue.record("it was not received")
      }
    }
    try await Coroutine(on: queue) {}.get()
    sender.cancel()
    try await sender.get()
    switch await channel.send(orReturn: Handle(2, log), timeout: .zero) {
    case .timedOut(let handle): log.add("\(handle.number) came back")
    default: Issue.record("it was not received")
    }
    #expect(log.all == ["1 came back", "1 ends", "2 came back", "2 ends"])
  }

  @Test func elementsThatAreNotSendableAreHandedOver() async throws {
    let channel = Channel<NotSendable>(capacity: .unbounded)
    let sum = Coroutine {
      var sum = 0
      for element in channel.received {
        element.value *= 2
        sum += element.value
      }
      return sum
    }
    for value in 1...3 {
      let element = NotSendable(value)
      #expect(channel.trySend(element).isSent)
    }
    channel.close()
    #expect(try await sum.get() == 12)
  }

  @Test func nilIsAnElementAmongOthers() async throws {
    for capacity in [.rendezvous, .buffered(2), .unbounded] as [ChannelCapacity] {
      let channel = Channel<Int?>(capacity: capacity)
      let sender = Coroutine {
        for value in [1, nil, nil, 4] as [Int?] { try channel.send(value) }
        channel.close()
        do { try channel.send(nil) } catch let closed as ChannelClosed<Int?> {
          #expect(closed.unsent == .some(.none), "this error is a send's")
        }
      }
      #expect(try await Coroutine { Array(channel.received) }.get() == [1, nil, nil, 4])
      try await sender.get()
      do { _ = try await channel.receive() } catch let closed as ChannelClosed<Int?> {
        #expect(closed.unsent == .none, "this error is a receive's")
      }
    }
  }

  @Test func anElementEndsAsSoonAsItsReceiverIsDoneWithIt() async throws {
    let log = Log()
    try await Coroutine {
      let channel = Channel<Witness>(capacity: .buffered(4))
      for number in 1...3 { try channel.send(Witness { log.add("\(number) ends") }) }
      _ = try channel.receive()
      log.add("received")
      _ = try channel.receiveAll()
      log.add("received all")
    }.get()
    #expect(log.all == ["1 ends", "received", "2 ends", "3 ends", "received all"])
  }

  @Test func whatIsInTheBufferEndsWithTheLastCopyOfTheChannel() async throws {
    let log = Log()
    do {
      let channel = Channel<Witness>(capacity: .unbounded)
      let copy = channel
      for number in 1...2 { #expect(channel.trySend(Witness { log.add("\(number) ends") }).isSent) }
      _ = copy
      log.add("still there")
    }
    #expect(log.all == ["still there", "1 ends", "2 ends"])
  }

  @Test func theEndOfAReplacedElementMayUseTheChannel() async throws {
    // This would wait for ever if the `deinit` ran under the channel's lock.
    let log = Log()
    let channel = Channel<Witness>(capacity: .conflated)
    #expect(channel.trySend(Witness { log.add("1 ends, \(channel.count) in the channel") }).isSent)
    #expect(channel.trySend(Witness()).isSent)
    try await channel.send(Witness { log.add("3 ends, closed: \(channel.isClosed)") })
    try await Coroutine { try channel.send(Witness()) }.get()
    channel.close()
    #expect(log.all == ["1 ends, 1 in the channel", "3 ends, closed: false"])
  }
}
