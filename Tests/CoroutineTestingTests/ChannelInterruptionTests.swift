import Coroutine
import CoroutineTesting
import Testing

/// Channels, what is made of them, and time: each way to wait is interrupted at each moment. What the victim has not got
/// is there for the next one.
@Suite(.ownThreads) struct ChannelInterruptionTests {
  @Test(arguments: InterruptedCase.all(of: channels)) func noElementOfAChannelIsLost(_ row: InterruptedCase) throws {
    try row.explore()
  }

  @Test(arguments: InterruptedCase.all(of: broadcasts)) func eachReceiverHasItsElements(_ row: InterruptedCase) throws {
    try row.explore()
  }

  @Test(arguments: InterruptedCase.all(of: operators)) func anOperatorKeepsWhatItHolds(_ row: InterruptedCase) throws {
    try row.explore()
  }

  @Test(arguments: InterruptedCase.all(of: times)) func timePassesForTheOthers(_ row: InterruptedCase) throws {
    try row.explore()
  }
}

extension Channel<Int> {
  /// What is in it.
  fileprivate var rest: [Int] {
    var rest: [Int] = []
    while case .received(let value) = tryReceive() { rest.append(value) }
    return rest
  }

  /// No one waits at it.
  fileprivate var isForgotten: Bool { waitingSenderCount == 0 && waitingReceiverCount == 0 }
}

extension Log {
  fileprivate func add(all elements: [Element]) { for element in elements { add(element) } }
}

// MARK: - Channels

private let channels: [InterruptedOperation] = [
  .init("send, with what to do when it is cancelled") {
    let channel = Channel<Int>(capacity: .buffered(1))
    try channel.send(0)
    let unsent = Unlocked(0)
    return Trial {
      try channel.send(1, onCancel: { unsent.value += 1 })
    } meanwhile: {
      try require(try channel.receive() == 0)
    } afterwards: { isDone in
      try require(channel.rest == (isDone ? [1] : []) && channel.isForgotten)
      try require(unsent.value <= (isDone ? 0 : 1))
    }
  },
  .init("send", inTask: true) {
    let channel = Channel<Int>()
    let received = Log<Int>()
    return Trial {
      try channel.send(1)
    } inTask: {
      try await channel.send(1)
    } meanwhile: {
      if let value = try? channel.receive(timeout: .seconds(10)) { received.add(value) }
    } afterwards: { isDone in
      try require(received.all + channel.rest == (isDone ? [1] : []) && channel.isForgotten)
    }
  },
  .init("receive, with what to do when it is cancelled", inTask: true) {
    let channel = Channel<Int>(capacity: .buffered(1))
    let (received, cancels) = (Log<Int>(), Unlocked(0))
    return Trial {
      received.add(try channel.receive(onCancel: { cancels.value += 1 }))
    } inTask: {
      received.add(try await channel.receive(onCancel: { cancels.value += 1 }))
    } meanwhile: {
      try channel.send(1)
    } afterwards: { isDone in
      try require(received.all == (isDone ? [1] : []) && cancels.value <= (isDone ? 0 : 1))
      try require(channel.rest == (isDone ? [] : [1]) && channel.isForgotten)
    }
  },
  .init("send(orReturn:)", inTask: true) {
    let channel = Channel<Int>(capacity: .buffered(1))
    try channel.send(0)
    let returned = Log<Int>()
    return Trial {
      if let unsent = channel.send(orReturn: 1).unsent() { returned.add(unsent) }
      if !returned.all.isEmpty { try Coroutine.checkCancellation() }
    } inTask: {
      if let unsent = await channel.send(orReturn: 1).unsent() { returned.add(unsent) }
      if !returned.all.isEmpty { try Task.checkCancellation() }
    } meanwhile: {
      try require(try channel.receive() == 0)
    } afterwards: { isDone in
      try require(channel.rest == (isDone ? [1] : []) && channel.isForgotten)
      try require(isDone ? returned.all == [] : returned.all.count <= 1)
    }
  },
  .init("receiveAll", inTask: true) {
    let channel = Channel<Int>(capacity: .buffered(1))
    let received = Log<Int>()
    return Trial {
      received.add(all: try channel.receiveAll())
    } inTask: {
      received.add(all: try await channel.receiveAll())
    } meanwhile: {
      try channel.send(1)
      // There is no room if the victim has been cancelled.
      if channel.trySend(2).isSent { received.add(0) }
    } afterwards: { isDone in
      let isSecondSent = received.all.contains(0)
      let all = received.all.filter { $0 != 0 }
      try require(all.isEmpty != isDone)
      try require(all + channel.rest == (isSecondSent ? [1, 2] : [1]) && channel.isForgotten)
    }
  },
  .init("receive(count:)", inTask: true) {
    let channel = Channel<Int>(capacity: .buffered(2))
    let received = Log<Int>()
    return Trial {
      received.add(all: try channel.receive(count: 2))
      // Those that came before a cancel are got; the next operation throws the reason.
      if received.all.count < 2 { try Coroutine.checkCancellation() }
    } inTask: {
      received.add(all: try await channel.receive(count: 2))
      if received.all.count < 2 { try Task.checkCancellation() }
    } meanwhile: {
      try channel.send(1)
      try channel.send(2)
    } afterwards: { isDone in
      try require(!isDone || received.all.count == 2)
      try require(received.all + channel.rest == [1, 2] && channel.isForgotten)
    }
  },
  .init("a loop over the received ones", inTask: true) {
    let channel = Channel<Int>(capacity: .buffered(2))
    let received = Log<Int>()
    return Trial {
      for value in channel.received { received.add(value) }
      try Coroutine.checkCancellation()
    } inTask: {
      for await value in channel { received.add(value) }
      try Task.checkCancellation()
    } meanwhile: {
      try channel.send(1)
      try channel.send(2)
      channel.close()
    } afterwards: { isDone in
      try require(!isDone || received.all.count == 2)
      try require(received.all + channel.rest == [1, 2] && channel.isForgotten)
    }
  },
  .init("send by an end", inTask: true) {
    let (sender, receiver) = Channel<Int>.makeEnds()
    let received = Log<Int>()
    return Trial {
      try sender.send(1)
    } inTask: {
      try await sender.send(1)
    } meanwhile: {
      if let value = try? receiver.receive(timeout: .seconds(10)) { received.add(value) }
    } afterwards: { isDone in
      if case .received(let value) = receiver.tryReceive() { received.add(value) }
      try require(received.all == (isDone ? [1] : []))
      try require(receiver.waitingSenderCount == 0 && receiver.waitingReceiverCount == 0)
    }
  },
  .init("send(orReturn:) by an end", inTask: true) {
    let (sender, receiver) = Channel<Int>.makeEnds(capacity: .buffered(1))
    try sender.send(0)
    let returned = Log<Int>()
    return Trial {
      if let unsent = sender.send(orReturn: 1).unsent() { returned.add(unsent) }
      if !returned.all.isEmpty { try Coroutine.checkCancellation() }
    } inTask: {
      if let unsent = await sender.send(orReturn: 1).unsent() { returned.add(unsent) }
      if !returned.all.isEmpty { try Task.checkCancellation() }
    } meanwhile: {
      try require(try receiver.receive() == 0)
    } afterwards: { isDone in
      try require((receiver.tryReceive() == .received(1)) == isDone && returned.all.count <= (isDone ? 0 : 1))
    }
  },
  .init("receive by an end, which is the last", inTask: true) {
    let (sender, receiver) = Channel<Int>.makeEnds(capacity: .buffered(1))
    // The victim alone has it.
    let own = Unlocked<ChannelReceiver<Int>?>(receiver)
    let received = Log<Int>()
    return Trial {
      guard let receiver = own.value.take() else { throw Broken(line: #line) }
      received.add(try receiver.receive())
    } inTask: {
      guard let receiver = own.value.take() else { throw Broken(line: #line) }
      received.add(try await receiver.receive())
    } meanwhile: {
      do { try sender.send(1) } catch is ChannelClosed<Int> {}
    } afterwards: { isDone in
      try require(received.all == (isDone ? [1] : []))
      try require(own.value != nil || sender.isClosed)
      try require(sender.waitingSenderCount == 0 && sender.waitingReceiverCount == 0)
    }
  },
  .init("a loop over an end's", inTask: true) {
    let (sender, receiver) = Channel<Int>.makeEnds(capacity: .buffered(2))
    let received = Log<Int>()
    return Trial {
      for value in receiver.received { received.add(value) }
      try Coroutine.checkCancellation()
    } inTask: {
      for await value in receiver { received.add(value) }
      try Task.checkCancellation()
    } meanwhile: {
      try sender.send(1)
      try sender.send(2)
      sender.close()
    } afterwards: { isDone in
      try require(!isDone || received.all.count == 2)
      while case .received(let value) = receiver.tryReceive() { received.add(value) }
      try require(received.all == [1, 2])
    }
  },
  // (In a task another one sleeps by the clock, on Swift's pool.)
  .init("send until an instant") {
    let channel = Channel<Int>(capacity: .buffered(1))
    try channel.send(0)
    let instant = TestClock().now.advanced(by: .seconds(100))
    return Trial {
      try channel.send(1, until: instant, clock: .test)
    } meanwhile: {
      try require(try channel.receive() == 0)
    } afterwards: { isDone in
      try require(channel.rest == (isDone ? [1] : []) && channel.isForgotten)
    }
  },
  .init("receive until an instant") {
    let channel = Channel<Int>(capacity: .buffered(1))
    let instant = TestClock().now.advanced(by: .seconds(100))
    let received = Log<Int>()
    return Trial {
      received.add(try channel.receive(until: instant, clock: .test))
    } meanwhile: {
      try channel.send(1)
    } afterwards: { isDone in
      try require(received.all == (isDone ? [1] : []))
      try require(channel.rest == (isDone ? [] : [1]) && channel.isForgotten)
    }
  },
]

// MARK: - Broadcasts

private let broadcasts: [InterruptedOperation] = [
  .init("send to all", inTask: true) {
    let broadcast = BroadcastChannel<Int>(capacity: 1)
    let (slow, quick) = (broadcast.subscribe(), broadcast.subscribe())
    try broadcast.send(0)
    return Trial {
      try broadcast.send(1)
    } inTask: {
      try await broadcast.send(1)
    } meanwhile: {
      try require(try quick.receive() == 0)
      try require(try slow.receive() == 0)
    } afterwards: { isDone in
      for subscription in [slow, quick] {
        try require((subscription.tryReceive() == .received(1)) == isDone)
      }
    }
  },
  .init("receive of a subscription that goes", inTask: true) {
    let broadcast = BroadcastChannel<Int>(capacity: 2)
    let own = Unlocked<BroadcastSubscription<Int>?>(broadcast.subscribe())
    let other = broadcast.subscribe()
    let received = Log<Int>()
    return Trial {
      guard let subscription = own.value.take() else { throw Broken(line: #line) }
      for _ in 0..<2 { received.add(try subscription.receive()) }
    } inTask: {
      guard let subscription = own.value.take() else { throw Broken(line: #line) }
      for _ in 0..<2 { received.add(try await subscription.receive()) }
    } meanwhile: {
      for number in 0..<2 { try broadcast.send(number) }
      for number in 0..<2 { try require(try other.receive() == number) }
    } afterwards: { isDone in
      try require(received.all == Array(0..<received.all.count) && (!isDone || received.all.count == 2))
      try require(broadcast.subscriptionCount == (own.value == nil ? 1 : 2))
    }
  },
  .init("a loop over a subscription", inTask: true) {
    let broadcast = BroadcastChannel<Int>(capacity: 2)
    let subscription = broadcast.subscribe()
    let received = Log<Int>()
    return Trial {
      for value in subscription.received { received.add(value) }
      try Coroutine.checkCancellation()
    } inTask: {
      for await value in subscription { received.add(value) }
      try Task.checkCancellation()
    } meanwhile: {
      for number in 0..<2 { try broadcast.send(number) }
      broadcast.close()
    } afterwards: { isDone in
      try require(!isDone || received.all.count == 2)
      while case .received(let value) = subscription.tryReceive() { received.add(value) }
      try require(received.all == [0, 1])
    }
  },
  .init("a wait for a value", inTask: true) {
    let watched = WatchedValue(0)
    let seen = Log<Int>()
    return Trial {
      seen.add(try watched.wait { $0 == 2 })
    } inTask: {
      seen.add(try await watched.wait { $0 == 2 })
    } meanwhile: {
      watched.value = 1
      Coroutine.yield()
      watched.value = 2
    } afterwards: { isDone in
      try require(seen.all == (isDone ? [2] : []))
      try require(watched.value == 2 && watched.subscriptionCount == 0)
    }
  },
]

// MARK: - Operators

/// The victim takes what an operator makes of two channels, until they are closed. The next one gets what it has not got.
private func taking<Elements: SelectableSequence & SendableMetatype>(
  _ name: String, _ moments: Moments = .all(preemptions: 1), anytime: Bool = false,
  _ make: @escaping @Sendable (ReceivedElements<Int>, ReceivedElements<Int>) -> Elements,
  expecting isRight: @escaping @Sendable ([Elements.Element]) -> Bool
) -> InterruptedOperation {
  .init(name, moments, anytime: anytime) {
    let (first, second) = (Channel<Int>(capacity: .buffered(2)), Channel<Int>(capacity: .buffered(1)))
    let elements = Unlocked(make(first.received, second.received))
    let got = Log<Elements.Element>()
    return Trial {
      while let element = elements.value.next() { got.add(element) }
      try Coroutine.checkCancellation()
    } meanwhile: {
      try first.send(1)
      try second.send(10)
      try first.send(2)
      second.close()
      first.close()
    } afterwards: { isDone in
      if isDone { try require(isRight(got.all)) }
      while let element = elements.value.next() { got.add(element) }
      try require(isRight(got.all))
      try require(first.isForgotten && second.isForgotten)
    }
  }
}

private let operators: [InterruptedOperation] = [
  taking("merge") {
    merge($0, $1)
  } expecting: { all in
    all.sorted() == [1, 2, 10] && all.filter { $0 < 10 } == [1, 2]
  },
  taking("merge of several") {
    merge([$0, $1])
  } expecting: { all in
    all.sorted() == [1, 2, 10] && all.filter { $0 < 10 } == [1, 2]
  },
  taking("zip") {
    zip($0, $1)
  } expecting: { all in
    all.map(\.0) == [1] && all.map(\.1) == [10]
  },
  taking("combineLatest") {
    combineLatest($0, $1)
  } expecting: { all in
    // A pair each time, with nothing that goes back.
    all.last ?? (0, 0) == (2, 10) && all.map(\.0) == all.map(\.0).sorted() && Set(all.map(\.0)).count == all.count
  },
  taking("a chunk") { first, _ in
    first.chunks(ofCount: 2)
  } expecting: {
    $0 == [[1, 2]]
  },
  taking("a chunk within a time", .some(seeds: 300), anytime: true) { first, _ in
    first.chunks(ofCount: 2, within: .seconds(1))
  } expecting: {
    $0.flatMap { $0 } == [1, 2]
  },
  taking("debounce", .some(seeds: 300), anytime: true) { first, _ in
    first.debounce(for: .seconds(1))
  } expecting: {
    $0 == [1, 2] || $0 == [2]
  },
  taking("throttle", .some(seeds: 300), anytime: true) { first, _ in
    first.throttle(for: .seconds(1))
  } expecting: {
    $0 == [1, 2]
  },
  taking("lazy.map") { first, _ in
    first.lazy.map { -$0 }
  } expecting: {
    $0 == [-1, -2]
  },
  taking("debounce of merge", .some(seeds: 300), anytime: true) { first, second in
    merge(first, second).debounce(for: .seconds(1))
  } expecting: { all in
    // Each that is there is there once.
    !all.isEmpty && Set(all).count == all.count && Set(all).isSubset(of: [1, 2, 10])
  },
]

// MARK: - Time

private let times: [InterruptedOperation] = [
  .init("sleep", anytime: true) {
    let start = TestClock().now
    let woken = Log<Duration>()
    return Trial {
      try Coroutine.sleep(for: .milliseconds(500))
      woken.add(start.duration(to: TestClock().now))
    } meanwhile: {
      try Coroutine.sleep(for: .milliseconds(500))
    } afterwards: { isDone in
      try require(woken.all.count == (isDone ? 1 : 0))
      try require(woken.all.allSatisfy { $0 >= .milliseconds(500) })
      try require(start.duration(to: TestClock().now) >= .milliseconds(500))
    }
  },
  .init("sleep until an instant", anytime: true) {
    let instant = TestClock().now.advanced(by: .milliseconds(500))
    let woken = Log<TestClock.Instant>()
    return Trial {
      try Coroutine.sleep(until: instant, clock: .test)
      woken.add(TestClock().now)
    } afterwards: { isDone in
      try require(woken.all.count == (isDone ? 1 : 0) && woken.all.allSatisfy { $0 >= instant })
    }
  },
  // Nothing is waited for: one that yields is interrupted where it looks.
  .init("yield", ends: [.done]) {
    let turns = Unlocked(0)
    return Trial {
      for _ in 0..<2 {
        Coroutine.yield()
        try Coroutine.checkCancellation()
        turns.value += 1
      }
    } meanwhile: {
      Coroutine.yield()
    } afterwards: { isDone in
      try require(isDone ? turns.value == 2 : turns.value < 2)
    }
  },
  // Time may always pass for a ticker.
  .init("a tick", .some(seeds: 300), anytime: true) {
    let ticker = Ticker(every: .milliseconds(400))
    let got = Log<SuspendingClock.Instant>()
    return Trial {
      got.add(try ticker.ticks.receive())
    } afterwards: { isDone in
      try require(got.all.count == (isDone ? 1 : 0))
      // It goes on for the next one, later than before.
      got.add(try ticker.ticks.receive())
      try require(got.all.count == 1 || got.all[0] < got.all[1])
      ticker.stop()
    }
  },
  .init("a deadline inside of another", anytime: true) {
    let ended = Unlocked(0)
    return Trial {
      do {
        try withTimeout(.milliseconds(500)) { try Coroutine.sleep(for: .seconds(100)) }
      } catch is TimeoutError { try Coroutine.checkCancellation() }
      ended.value += 1
    } afterwards: { isDone in
      try require(ended.value == (isDone ? 1 : 0))
    }
  },
]
