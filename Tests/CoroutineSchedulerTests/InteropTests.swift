import Coroutine
import CoroutineTestSupport
import Dispatch
import Testing

@Suite(.ownThreads) struct InteropTests {
  private struct Mine: Error {}
  @TaskLocal static var tag = "none"

  private func error<Result>(of body: () throws -> Result) -> (any Error)? {
    do {
      _ = try body()
      return nil
    } catch {
      return error
    }
  }

  @Test func asyncCodeIsWaitedForWithItsValueOrItsError() async throws {
    let (value, thrown) = try await Coroutine { [self] () -> (Int, Bool) in
      let value = try Coroutine.await {
        await Task.yield()
        return 3
      }
      return (value, error { try Coroutine.await { throw Mine() } } is Mine)
    }.get()
    #expect(value == 3 && thrown)
  }

  @Test func theThreadIsFreeMeanwhile() async throws {
    let log = Log()
    let queue = DispatchQueue(label: "serial")
    let (gate, open) = AsyncStream<Void>.makeStream()
    let waiting = Coroutine(on: queue) {
      try Coroutine.await { for await _ in gate { break } }
      log.add("went on")
    }
    try await Coroutine(on: queue) {
      log.add("other")
      open.yield()
    }.get()
    try await waiting.get()
    #expect(log.all == ["other", "went on"])
  }

  @Test func aCancelIsCarriedIntoTheTaskWhichIsWaitedFor() async throws {
    let log = Log()
    let began = Channel<Void>()
    let coroutine = Coroutine {
      try Coroutine.await {
        try await began.send(())
        do { try await Task.sleep(for: .seconds(1_000_000)) } catch { log.add("task cancelled") }
        await Task.yield()
        log.add("task ended")
        throw CancellationError()
      }
      log.add("not reached")
    }
    try await began.receive()
    coroutine.cancel()
    await #expect(throws: CancellationError.self) { try await coroutine.get() }
    #expect(log.all == ["task cancelled", "task ended"])
  }

  @Test func aCancelledTaskStopsWaitingForACoroutineButDoesNotCancelIt() async throws {
    let go = Channel<Int>()
    let coroutine = Coroutine { try go.receive() }
    let task = Task { try await coroutine.get() }
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
    try await go.send(4)
    #expect(try await coroutine.get() == 4)
  }

  @Test func taskLocalsAndPriorityGoAlong() async throws {
    let (tag, priority) = try await Task(priority: .low) {
      try await InteropTests.$tag.withValue("mine") {
        try await Coroutine {
          try Coroutine.await { (InteropTests.tag, Task.currentPriority) }
        }.get()
      }
    }.value
    #expect(tag == "mine")
    #expect(priority >= .low)
  }

  /// The priority of the creating task, in each task that the coroutine waits for.
  @Test func thePriorityGoesAlongIntoEveryTask() async throws {
    final class PriorityClock: Clock {
      let seen = Guarded([TaskPriority]())
      var now: ContinuousClock.Instant { .now }
      var minimumResolution: Duration { .nanoseconds(1) }
      func sleep(until deadline: ContinuousClock.Instant, tolerance: Duration?) async throws {
        seen.withLock { $0.append(Task.currentPriority) }
      }
    }
    let clock = PriorityClock()
    // Higher than the priority of any waiter here, so it was not raised to that.
    let priorities = try await Task(priority: .high) {
      try await Coroutine { () -> [TaskPriority?] in
        let elements = AsyncStream(unfolding: { Task.currentPriority }).elements
        try Coroutine.sleep(until: .now, clock: clock)
        try? withTimeout(until: .now + .seconds(1_000), clock: clock) { try Coroutine.sleep(for: .seconds(10_000)) }
        return [try elements.next(), try Coroutine.await { Task.currentPriority }]
      }.get()
    }.value
    #expect(priorities == [.high, .high])
    #expect(clock.seen.withLock { $0 } == [.high, .high])
  }

  @Test func aCoroutineWaitsForATask() async throws {
    let (values, thrown) = try await Coroutine { [self] () -> ([Int], Bool) in
      let good = Task { 1 }
      let bad = Task { () async throws -> Int in throw Mine() }
      return ([try good.get(), try good.get()], error { try bad.get() } is Mine)
    }.get()
    #expect(values == [1, 1] && thrown)
  }

  @Test func anAsyncSequenceIsIteratedAndProducedOnDemand() async throws {
    let produced = Guarded(0)
    let numbers = AsyncStream<Int>(unfolding: {
      produced.withLock { (count: inout Int) -> Int? in
        count += 1
        return count <= 5 ? count : nil
      }
    })
    let first = try await Coroutine { () -> [Int] in
      let elements = numbers.elements
      return [try elements.next() ?? 0, try elements.next() ?? 0]
    }.get()
    #expect(first == [1, 2])
    #expect(produced.withLock { $0 } == 2)
    let rest = try await Coroutine { Array(numbers.elements) }.get()
    #expect(rest == [3, 4, 5])
  }

  /// The types say so: the general form would run a task for each of them.
  @Test func elementsOfTheRuntimesOwnSequencesTakeNoTask() async throws {
    let (channel, news) = (Channel<Int>(capacity: .buffered(3)), BroadcastChannel<Int>(capacity: 3))
    let (sender, receiver) = Channel<Int>.makeEnds(capacity: .buffered(3))
    let (subscription, promise) = (news.subscribe(), ProgressPromise<Int, Void> { $0.report(4) })
    _ = channel.trySend(1)
    channel.close()
    _ = news.trySend(2)
    news.close()
    _ = sender.trySend(3)
    sender.close()
    promise.cancel()
    let received = try await Coroutine { () -> [[Int]] in
      let all: (ReceivedElements<Int>, BroadcastSubscription<Int>.Elements, ChannelReceiver<Int>.Elements) = (
        channel.elements, subscription.elements, receiver.elements
      )
      let reports: ProgressPromise<Int, Void>.Reports = promise.elements
      return [Array(all.0), Array(all.1), Array(all.2), Array(reports)]
    }.get()
    #expect(received == [[1], [2], [3], [4]])
  }

  @Test func anErrorOfASequenceEndsItsIteration() async throws {
    let failing = AsyncThrowingStream<Int, any Error> { continuation in
      continuation.yield(1)
      continuation.finish(throwing: Mine())
    }
    let ended = try await Coroutine { [self] () -> Bool in
      let elements = failing.elements
      guard try elements.next() == 1 else { return false }
      return try error { try elements.next() } is Mine && elements.next() == nil
    }.get()
    #expect(ended)
  }

  @Test func aTimeoutOfAsyncCode() async throws {
    await #expect(throws: TimeoutError.self) {
      try await withTimeout(.milliseconds(1)) { try await Task.sleep(for: .seconds(1_000_000)) }
    }
    #expect(try await withTimeout(.seconds(1_000)) { 5 } == 5)
    await #expect(throws: Mine.self) {
      try await withTimeout(.seconds(1_000)) {
        await Task.yield()
        throw Mine()
      }
    }
    let task = Task { try await withTimeout(.seconds(1_000)) { try await Task.sleep(for: .seconds(1_000_000)) } }
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
  }

  /// The body of a timeout stays on its actor, and may use the actor's state, as a `Task`'s body may.
  @Test func aTimeoutOfAsyncCodeStaysOnItsActor() async throws {
    @MainActor final class Model {
      var texts: [String] = []
      func load(_ text: Promise<String>) async throws {
        try await withTimeout(.seconds(1_000)) {
          MainActor.assertIsolated()
          texts.append(try await text.get())
        }
        try await withTimeout(until: .now + .seconds(1_000), clock: .continuous) {
          MainActor.assertIsolated()
          texts.append("second")
        }
      }
    }
    actor Account {
      var balance = 1
      func add(_ amount: Promise<Int>) async throws {
        try await withTimeout(.seconds(1_000)) {
          self.assertIsolated()
          balance += try await amount.get()
        }
      }
    }
    let model = Model()
    try await model.load(Promise(value: "first"))
    #expect(await model.texts == ["first", "second"])
    let account = Account()
    try await account.add(Promise(value: 2))
    #expect(await account.balance == 3)
  }

  @Test func eachCoroutineHasItsOwnLocalValue() async throws {
    final class Witness: Sendable {}
    let counter = CoroutineLocal(10)
    let kept = CoroutineLocal<Witness?>(nil)
    let queue = DispatchQueue(label: "serial")
    let sums = [1, 2].map { step in
      Coroutine(on: queue) { () -> Int in
        for _ in 0..<3 {
          counter.value += step
          Coroutine.yield()
        }
        return counter.value
      }
    }
    #expect(try await [sums[0].get(), sums[1].get()] == [13, 16])
    #expect(counter.value == 10)
    let isReleased = try await Coroutine { () -> @Sendable () -> Bool in
      let mine = Witness()
      kept.value = mine
      return { [weak mine] in mine == nil }
    }.get()
    #expect(isReleased())
  }

  /// Variables that come and go lie at the same address.
  @Test func aLocalValueIsNotFoundByAnotherVariable() async throws {
    let found = try await Coroutine {
      (1...100).map { number in
        let variable = CoroutineLocal(0)
        defer { variable.value = number }
        return variable.value
      }
    }.get()
    #expect(found.allSatisfy { $0 == 0 })
  }

  /// A value's `deinit` is the program's code, which may use the variables that are being written.
  @Test func theEndOfALocalValueMaySetOthers() async throws {
    final class SettingAtDeinit: Sendable {
      let variables: [CoroutineLocal<Int>]
      init(_ variables: [CoroutineLocal<Int>]) { self.variables = variables }
      deinit { for (number, variable) in variables.enumerated() { variable.value = number } }
    }
    let variables = (0..<200).map { _ in CoroutineLocal(-1) }
    let last = CoroutineLocal<SettingAtDeinit?>(nil)
    let found = try await Coroutine { () -> [Int] in
      last.value = SettingAtDeinit(variables)
      last.value = nil
      return variables.map { $0.value }
    }.get()
    #expect(found == Array(0..<200))
  }

  /// A value that another value's `deinit` sets after the body. It also ends with its coroutine, and inside it.
  @Test func whatTheEndOfALocalValueSetsEndsInTheCoroutine() async throws {
    final class Second: Sendable {
      let end: Guarded<UInt64?>
      init(_ end: Guarded<UInt64?>) { self.end = end }
      deinit { end.withLock { $0 = Coroutine.currentID } }
    }
    final class First: Sendable {
      let variable: CoroutineLocal<Second?>
      let second: Second
      init(_ variable: CoroutineLocal<Second?>, _ second: Second) { (self.variable, self.second) = (variable, second) }
      deinit { variable.value = second }
    }
    let (end, variables) = (Guarded<UInt64?>(nil), (CoroutineLocal<First?>(nil), CoroutineLocal<Second?>(nil)))
    let coroutine = Coroutine { variables.0.value = First(variables.1, Second(end)) }
    try await coroutine.get()
    #expect(end.withLock { $0 } == coroutine.id)
  }

  @Test func settingALocalValueOutsideTrapsByName() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      CoroutineLocal(1).value = 2
    }
    #expect(standardError(of: result).contains("a CoroutineLocal was set outside of coroutines"))
  }
}
