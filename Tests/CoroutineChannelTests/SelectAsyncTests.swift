import CoroutineTestSupport
import Glibc
import Synchronization
import Testing

@testable import Coroutine

/// `select` in `async` code.
@Suite(.ownThreads) struct SelectAsyncTests {
  private struct Problem: Error {}

  private func double(_ value: Int) async throws -> Int {
    await Task.yield()
    return 2 * value
  }

  @Test func aReadyCaseIsDoneAtOnceAndItsHandlerMayAwait() async throws {
    let (channel, other) = (Channel<Int>(capacity: .buffered(1)), Channel<Int>())
    try await channel.send(4)
    let value = try await select {
      other.onReceive { try await double($0) }
      channel.onReceive { try await double($0) + 1 }
      other.onSend(1) { 0 }
    }
    #expect(value == 9)
    let without = try await select {
      channel.onReceive { "\($0)" }
      otherwise { "nothing" }
    }
    #expect(without == "nothing")
  }

  @Test func aSelectThatWaitsIsWokenByCoroutinesAndTasks() async throws {
    let (numbers, words) = (Channel<Int>(), Channel<String>())
    for round in 0..<200 {
      let helper = Coroutine {
        if round.isMultiple(of: 2) { try numbers.send(round) } else { try words.send("\(round)") }
      }
      let got = try await select {
        numbers.onReceive { "\($0)" }
        words.onReceive { $0 }
      }
      #expect(got == "\(round)")
      try await helper.get()
    }
    let receiver = Task { try await numbers.receive() }
    try await select { numbers.onSend(3) }
    #expect(try await receiver.value == 3)
  }

  @Test func aCoroutinesEndATimeoutAndAClosedChannelAreEvents() async throws {
    let never = Channel<Int>()
    let worker = Coroutine { 5 }
    let value = try await select {
      never.onReceive { $0 }
      worker.onValue { $0 }
    }
    #expect(value == 5)
    let failing = Coroutine { () throws -> Int in throw Problem() }
    await #expect(throws: Problem.self) { try await select { failing.onValue { $0 } } }
    let (promise, resolver) = Promise<Int>.makePromise()
    let settling = Coroutine { resolver.fulfill(6) }
    let settled = try await select {
      never.onReceive { $0 }
      promise.onValue { $0 }
    }
    _ = try await settling.get()
    #expect(settled == 6)
    let isFailure = try await select {
      Promise<Int>(error: Problem()).onEnd { if case .failure = $0 { true } else { false } }
    }
    #expect(isFailure)
    let late = try await select {
      never.onReceive { _ in false }
      onTimeout(.milliseconds(1)) { true }
    }
    #expect(late)
    never.close()
    let isEnd = try await select { never.onNext { $0 == nil } }
    #expect(isEnd)
    await #expect(throws: ChannelClosed<Int>.self) { try await select { never.onSend(1) } }
  }

  @Test func aCancelledTaskLeavesEveryQueue() async throws {
    let (first, second) = (Channel<Int>(), Channel<Int>())
    let task = Task {
      try await select {
        first.onReceive { _ in }
        second.onSend(1)
        onTimeout(.seconds(3600)) {}
      }
    }
    // Before it waits, or while it does.
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
    #expect(first.storage.machine.receivers.isEmpty && second.storage.machine.senders.isEmpty)
  }

  @Test @MainActor func handlersRunWhereTheCallerRuns() async throws {
    @MainActor final class Counter {
      var count = 0
      func run(_ channel: Channel<Int>) async throws {
        try await select {
          channel.onReceive { value in
            self.count += value
            await Task.yield()
            self.count += value
          }
        }
      }
    }
    let channel = Channel<Int>(capacity: .buffered(1))
    try await channel.send(4)
    let counter = Counter()
    try await counter.run(channel)
    #expect(counter.count == 8)
  }

  @Test func casesMayBeLeftOutChosenRepeatedAndMadeBefore() async throws {
    let channels = (0..<20).map { _ in Channel<Int>(capacity: .buffered(1)) }
    try await channels[13].send(1)
    let extra: Channel<Int>? = nil
    let index = try await select {
      for (index, channel) in channels.enumerated() { channel.onReceive { _ in index } }
      if let extra { extra.onReceive { $0 } }
    }
    #expect(index == 13)
    var cases: [any AsyncSelectCase<Int>] = channels.map { channel in channel.onReceive { $0 } }
    cases.append(onTimeout(.zero) { -1 })
    #expect(try await select(cases) == -1)
    try await channels[2].send(7)
    #expect(try await select(cases) == 7)
    #expect(try await select([channels[5].onSend(1) { true }]))
  }

  @Test func casesThatAClosureMakesWhichDoesNotAwaitAreTaken() async throws {
    let channels = (0..<3).map { _ in Channel<Int>(capacity: .buffered(1)) }
    try await channels[1].send(4)
    let first = try await select(channels.enumerated().map { index, channel in channel.onReceive { index + $0 } })
    #expect(first == 5)
    var made: [any SelectCase<Int>] = []
    for channel in channels { made.append(channel.onReceive { $0 }) }
    made.append(onTimeout(.zero) { -1 })
    #expect(try await select(made) == -1)
    try await channels[2].send(7)
    #expect(try await select(made) == 7)
  }

  @Test func whatIsNotSentIsReleased() async throws {
    final class Witness: Sendable {
      static let live = Atomic<Int>(0)
      init() { Witness.live.add(1, ordering: .relaxed) }
      deinit { Witness.live.subtract(1, ordering: .relaxed) }
    }
    let (channel, other) = (Channel<Witness>(), Channel<Witness>())
    for _ in 0..<100 {
      try await select {
        channel.onSend(Witness())
        other.onSend(Witness())
        onTimeout(.microseconds(20)) {}
      }
    }
    #expect(Witness.live.load(ordering: .relaxed) == 0)
  }
  /// Waits for what does not come. When it is asked whether it may wait, another thread cancels the task; then it is to be
  /// prepared again.
  private struct Unprepared: SelectOperation {
    // Unchecked: its fields are those of the thread that runs the select.
    final class Source: @unchecked Sendable {
      let channel = Channel<Int>()
      let cancel: @Sendable () -> Void
      var canceller: PlainThread<Void>?
      init(_ cancel: @escaping @Sendable () -> Void) { self.cancel = cancel }
    }

    let source: Unmanaged<Source>

    init(_ source: Source) { self.source = .passUnretained(source) }

    var layout: Select.Layout { Select.Layout(of: WaitNode.self) }
    var target: Select.Target {
      Select.Target(.waitable(.passUnretained(source.takeUnretainedValue().channel.storage), .receive))
    }
    func isPrepared(_ node: UnsafeMutableRawPointer) -> Bool {
      let source = source.takeUnretainedValue()
      guard source.canceller == nil else { return true }
      let begins = Holder(Atomic<Bool>(false))
      source.canceller = PlainThread {
        begins.value.store(true, ordering: .relaxed)
        source.cancel()
      }
      // The wait is being begun: now the canceller comes, and waits for the select's next step.
      while !begins.value.load(ordering: .relaxed) { sched_yield() }
      for _ in 0..<1_000 { sched_yield() }
      return false
    }
    /// The canceller has come, and found no wait.
    func prepare(_ node: UnsafeMutableRawPointer) { source.takeUnretainedValue().canceller?.join() }
    func attempt(_ node: UnsafeMutableRawPointer, for party: Select.Party) -> Select.Attempt { Select.Attempt(.wait) }
    func enqueue(_ node: UnsafeMutableRawPointer, for party: Select.Party) {}
    func dequeue(_ node: UnsafeMutableRawPointer) -> Select.Attempt { Select.Attempt(.done) }
    func discard(_ node: UnsafeMutableRawPointer) {}
    func take(_ node: UnsafeMutableRawPointer) -> Int { 0 }
  }

  @Test func aCancelThatComesBetweenTwoBeginningsOfAWaitCounts() async {
    let (isKnown, know) = AsyncStream<Unprepared.Source>.makeStream()
    let task = Task {
      for await source in isKnown {
        return try await Select.run(Select.AsyncCase<Unprepared, Int>(source) { $0 })
      }
      return 1
    }
    know.yield(Unprepared.Source { task.cancel() })
    know.finish()
    await #expect(throws: CancellationError.self) { try await task.value }
  }
}
