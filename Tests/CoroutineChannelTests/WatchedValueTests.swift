import CoroutineTestSupport
import Dispatch
import Testing

@testable import Coroutine

@Suite(.ownThreads) struct WatchedValueTests {
  @Test func anUpdateReturnsWhatItsClosureDoes() {
    let next = WatchedValue(0)
    let numbers = (0..<3).map { _ in
      next.update { value -> Int in
        value += 1
        return value
      }
    }
    next.close()
    next.update { $0 += 1 }
    #expect(numbers == [1, 2, 3] && next.value == 3)
  }

  @Test func aWatcherGetsThePresentValueAndThenTheNewest() async throws {
    let log = Log()
    try await serially {
      let value = WatchedValue(0, name: "v")
      let watcher = Coroutine { for value in value.changes().received { log.add("\(value)") } }
      Coroutine.yield()
      log.add("\(watcher.suspension?.waitsFor ?? "")")
      value.value = 1
      Coroutine.yield()
      for number in 2...5 { value.value = number }
      Coroutine.yield()
      value.value = 6
      value.close()
      try watcher.get()
      value.value = 7
      log.add("at the end \(value.value)")
    }
    #expect(
      log.all == ["0", "a change of watched value \"v\" (1 subscription)", "1", "2", "5", "6", "at the end 6"])
  }

  @Test func aWaitEndsWithTheValueThatIsWanted() async throws {
    let value = WatchedValue(0)
    let waiting = Coroutine { try value.wait { $0 >= 3 } }
    let task = Task { try await value.wait { $0 >= 3 } }
    for _ in 0..<3 { value.update { $0 += 1 } }
    #expect(try await waiting.get() == 3)
    #expect(try await task.value == 3)
    #expect(try await value.wait { $0 == 3 } == 3)
    await #expect(throws: TimeoutError.self) { try await value.wait(timeout: .milliseconds(1)) { $0 == 4 } }
    let cancelled = Coroutine { try value.wait { $0 == 4 } }
    cancelled.cancel()
    await #expect(throws: CancellationError.self) { try await cancelled.get() }
    value.close()
    await #expect(throws: ChannelClosed<Int>.self) { try await value.wait { $0 == 4 } }
  }

  @Test func noChangeOfAnotherThreadIsLost() {
    let value = WatchedValue(0)
    let count = amount(10_000, sanitized: 1_000)
    DispatchQueue.concurrentPerform(iterations: 4) { _ in
      for _ in 0..<count { value.update { $0 += 1 } }
    }
    #expect(value.value == 4 * count)
  }

  @Test func aSelectWaitsForAChange() async throws {
    let log = Log()
    try await serially {
      let (value, stop) = (WatchedValue("a"), Channel<Void>())
      let changes = value.changes()
      Coroutine {
        value.value = "b"
        Coroutine.yield()
        value.close()
      }
      var isStopped = false
      while !isStopped {
        try select {
          changes.onNext { value in
            log.add(value ?? "end")
            isStopped = value == nil
          }
          stop.onReceive { _ in }
        }
      }
    }
    #expect(log.all == ["a", "b", "end"])
  }

  @Test func aSlowWatcherHoldsUpNoSender() async throws {
    let value = WatchedValue(0)
    let slow = value.changes()
    var seen: [Int] = []
    for number in 1...100 { value.value = number }
    #expect(slow.tryReceive() == .received(100) && slow.missedCount == 100)
    value.close()
    for await value in slow { seen.append(value) }
    #expect(seen == [])
  }

  @Test func itTellsWhetherItIsClosedAndHowManyWatch() throws {
    let value = WatchedValue(0)
    #expect(!value.isClosed && value.subscriptionCount == 0)
    do {
      let changes = value.changes()
      #expect(value.subscriptionCount == 1)
      withExtendedLifetime(changes) {}
    }
    #expect(value.subscriptionCount == 0)
    value.close()
    value.value = 1
    #expect(value.isClosed && value.value == 0)
  }
}
