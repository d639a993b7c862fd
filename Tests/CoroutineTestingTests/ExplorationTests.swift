import CoroutineIO
import CoroutineTestSupport
import CoroutineTesting
import Testing

@testable import Coroutine

@Suite(.ownThreads) struct ExplorationTests {
  /// The words of a failure have the numbers of the run, and say of each what it does.
  @Test func aLostErrorAndAnEndlessLoopAreToldByTheRunsNumbers() throws {
    let lost = try #require(throws: ScheduleFailure.self) {
      try explore(seeds: 0..<1) {
        Coroutine(name: "saver") { throw CancellationError() }
        for _ in 0..<4 { Coroutine.yield() }
      }
    }
    #expect(lost.description.hasPrefix(#"coroutine 2 "saver": no caller handled the error: "#), "\(lost)")
    let endless = try #require(throws: ScheduleFailure.self) {
      try explore(seeds: 0..<1, options: ExplorationOptions(turnLimit: 1000)) {
        let poller = Coroutine(name: "poller") { while !Coroutine.isCancelled { Coroutine.yield() } }
        try poller.get()
      }
    }
    #expect(endless.waiting.last == #"coroutine 2 "poller": could go on"#, "\(endless)")
  }

  /// Time and the receiver could go on for ever without the senders.
  @Test func sendersHaveTheirTurnsBesideOneThatTriesAgain() throws {
    try explore(seeds: 0..<100, options: ExplorationOptions(time: .anytime)) {
      let numbers = Channel<Int>(capacity: .unbounded)
      let receiver = Coroutine {
        var count = 0
        while count < 6 {
          do {
            _ = try withTimeout(.milliseconds(1)) { try numbers.receive() }
            count += 1
          } catch is TimeoutError {}
        }
      }
      try withScope { scope in
        for _ in 0..<3 {
          scope.launch {
            try numbers.send(1)
            try Coroutine.sleep(for: .milliseconds(1))
            try numbers.send(2)
          }
        }
      }
      try receiver.get()
    }
  }

  @Test func anErrorOfAServersHandlerIsLostToo() throws {
    struct HandlerFailed: Error {}
    let lost = try #require(throws: ScheduleFailure.self) {
      try explore(seeds: 0..<1) {
        let listener = try TCPListener()
        let server = Coroutine {
          try listener.serve(grace: .zero) { client in
            _ = try client.readLine()
            throw HandlerFailed()
          }
        }
        let client = try TCPConnection(to: listener.address)
        try client.write("x\n")
        _ = try? client.read()
        listener.close()
        try server.get()
      }
    }
    #expect(lost.description.contains("connection from"), "\(lost)")
  }

  /// The time can always go on there, also in a schedule where that goes before everything else.
  @Test(arguments: [ExplorationStrategy.random, .pct(depth: 3), .mixed])
  func coroutinesHaveTheirTurnsBesideATicker(strategy: ExplorationStrategy) throws {
    try explore(
      seeds: 0..<50, by: strategy,
      options: ExplorationOptions(time: .anytime, turnLimit: 10_000, shrinks: false)
    ) {
      let ticker = Ticker(every: .seconds(1))
      let other = Coroutine { Coroutine.yield() }
      try other.get()
      ticker.stop()
    }
  }

  /// A write to a stream may wait, though it seldom does.
  @Test func writesOfTwoCoroutinesAreInterleaved() throws {
    let failure = try #require(throws: ScheduleFailure.self) {
      try explore(seeds: 0..<100) {
        let (one, other) = try UnixConnection.pair()
        let writers = ["ab", "cd"].map { word in
          Coroutine { for letter in word { try one.write(String(letter)) } }
        }
        for writer in writers { try writer.get() }
        let text = try String(decoding: other.readExactly(4), as: UTF8.self)
        guard text == "abcd" || text == "cdab" else { throw Interleaved() }
      }
    }
    #expect(failure.kind == .thrown)
  }

  private struct Interleaved: Error {}

  @Test func exploringFindsALostUpdateAndReplaysIt() throws {
    let failure = try #require(throws: ScheduleFailure.self) { try explore(seeds: 0..<100, loseUpdate) }
    #expect(failure.kind == .thrown)
    #expect(failure.error is LostUpdate)
    #expect(failure.isRepeatable)
    // One preemption is enough.
    #expect(failure.schedule.split(separator: " ").count == 1, "\(failure)")
    let again = try #require(throws: ScheduleFailure.self) { try replay(failure.schedule, loseUpdate) }
    #expect(again.schedule == failure.schedule)
    #expect(again.error is LostUpdate)
    #expect("\(failure)".split(separator: "\n").last == "replay(\"\(failure.schedule)\")")
  }

  @Test(arguments: [ExplorationStrategy.random, .pct(depth: 2), .mixed])
  func eachStrategyFindsIt(strategy: ExplorationStrategy) {
    #expect(throws: ScheduleFailure.self) { try explore(seeds: 0..<100, by: strategy, loseUpdate) }
  }

  @Test func theSameSeedIsTheSameRun() throws {
    func orders(_ seeds: Range<Int>, _ strategy: ExplorationStrategy) throws -> [[Int]] {
      let orders = Log<[Int]>()
      try explore(seeds: seeds, by: strategy) {
        let steps = Log<Int>()
        let all = (0..<4).map { number in
          Coroutine {
            for _ in 0..<3 {
              steps.add(number)
              Coroutine.yield()
            }
          }
        }
        for coroutine in all { try coroutine.join() }
        orders.add(steps.all)
      }
      return orders.all
    }
    for strategy in [ExplorationStrategy.random, .pct(depth: 3)] {
      let first = try orders(0..<20, strategy)
      #expect(try orders(0..<20, strategy) == first)
      // Alone, too.
      #expect(try orders(13..<14, strategy).first == first[13])
      #expect(Set(first).count > 10)
    }
  }

  @Test func aDepthBeyondAllBoundsIsTheGreatestOne() throws {
    for depth in [Int.min, 0, 1025, Int.max] {
      let report = try explore(seeds: 0..<3, by: .pct(depth: depth)) { Coroutine.yield() }
      #expect(report.schedules == 3)
    }
    let (endless, greatest) = (PrioritySource(seed: 7, depth: .max), PrioritySource(seed: 7, depth: 1024))
    for _ in 0..<2000 {
      let choice = endless.choose(.turn, of: 3) { [1, 2, 3] }
      let other = greatest.choose(.turn, of: 3) { [1, 2, 3] }
      #expect(choice == other)
    }
  }

  /// Two coroutines of two steps each, beside a body that waits for both. The schedules are the merges of two
  /// sequences.
  @Test func allSchedulesAreAllMerges() throws {
    let orders = Log<[String]>()
    let report = try explore(exhaustively: .everything) {
      let steps = Log<String>()
      let all = ["a", "b"].map { name in
        Coroutine {
          for _ in 0..<2 {
            steps.add(name)
            Coroutine.yield()
          }
        }
      }
      for coroutine in all { try coroutine.join() }
      orders.add(steps.all)
    }
    #expect(report.isComplete)
    #expect(report.schedules == orders.all.count)
    #expect(Set(orders.all).count == 6)
  }

  /// The others of the run see what it has open, but they are not inside of it.
  @Test func oneThatWaitsInsideOfAnAccessKeepsTheOthersPreemptible() {
    final class Variable: @unchecked Sendable {
      // Of the run's thread.
      var value = 1
      func waits(_ body: () throws -> Void) rethrows { try Self.hold(&value, body) }

      @inline(never)
      private static func hold(_ value: inout Int, _ body: () throws -> Void) rethrows {
        try body()
        value += 1
      }
    }
    #expect(throws: ScheduleFailure.self) {
      try explore(exhaustively: .preemptions(atMost: 1)) {
        let (variable, end) = (Variable(), Channel<Int>())
        let waiter = Coroutine { try variable.waits { _ = try end.receive() } }
        while end.waitingReceiverCount == 0 { Coroutine.yield() }
        try loseUpdate()
        try end.send(1)
        try waiter.get()
      }
    }
  }

  @Test func aBoundOfPreemptionsLeavesFewerSchedules() throws {
    func count(_ bound: ExhaustiveBound) throws -> Int {
      let report = try explore(exhaustively: bound) {
        let channel = Channel<Int>(capacity: .unbounded)
        let all = (0..<2).map { number in Coroutine { for _ in 0..<2 { try channel.send(number) } } }
        for coroutine in all { try coroutine.get() }
      }
      #expect(report.isComplete)
      return report.schedules
    }
    let counts = try [count(.preemptions(atMost: 0)), count(.preemptions(atMost: 1)), count(.everything)]
    #expect(counts == counts.sorted() && Set(counts).count == 3, "\(counts)")
    #expect(throws: ScheduleFailure.self) { try explore(exhaustively: .preemptions(atMost: 1), loseUpdate) }
    #expect(throws: Never.self) { try explore(exhaustively: .preemptions(atMost: 0), loseUpdate) }
  }

  @Test func aSelectLooksAtEachCaseFirst() throws {
    let chosen = Log<Int>()
    let report = try explore(exhaustively: .everything) {
      let channels = (0..<3).map { _ in Channel<Int>(capacity: .buffered(1)) }
      for (number, channel) in channels.enumerated() { _ = channel.trySend(number) }
      try select {
        for channel in channels { channel.onReceive { chosen.add($0) } }
      }
    }
    #expect(report.isComplete)
    #expect(Set(chosen.all) == [0, 1, 2])
  }

  @Test func aReadySelectCanBeReplayed() throws {
    let failure = try #require(throws: ScheduleFailure.self) {
      try explore(seeds: 0..<20, selectSecond)
    }
    #expect(throws: ScheduleFailure.self) { try replay(failure.schedule, selectSecond) }
  }
}

@Suite(.ownThreads) struct ScheduleFailureTests {
  @Test func aDeadlockShowsEachWaiterAndWhatItWaitsFor() throws {
    let failure = try #require(throws: ScheduleFailure.self) {
      try explore(seeds: 0..<100) {
        let (left, right) = (CoroutineMutex((), name: "left"), CoroutineMutex((), name: "right"))
        let other = Coroutine(name: "other") { try right.withLock { _ in try left.withLock { _ in } } }
        try left.withLock { _ in try right.withLock { _ in } }
        try other.get()
      }
    }
    #expect(failure.kind == .deadlock)
    #expect(failure.waiting.count == 2)
    #expect(failure.waiting[0].hasPrefix("coroutine 1 \"body\": ") && failure.waiting[0].contains("\"right\""))
    #expect(failure.waiting[0].hasSuffix("held by coroutine 2 \"other\""))
    #expect(failure.waiting[1].hasPrefix("coroutine 2 \"other\": ") && failure.waiting[1].contains("\"left\""))
  }

  @Test func whatIsLeftOverIsShownAndCancelled() throws {
    let ends = Log<String>()
    let failure = try #require(throws: ScheduleFailure.self) {
      try explore(seeds: 0..<1, options: ExplorationOptions(shrinks: false)) {
        let channel = Channel<Int>(name: "jobs")
        Coroutine(name: "worker") {
          defer { ends.add("ended") }
          _ = try channel.receive()
        }
      }
    }
    #expect(failure.kind == .leftOver)
    #expect(failure.waiting.count == 1 && failure.waiting[0].contains("\"worker\""))
    #expect(failure.waiting[0].contains("\"jobs\""))
    // The run, and the second one that checks that the run can be repeated.
    #expect(ends.all == ["ended", "ended"])
  }

  @Test func oneThatBeganAtOnceIsLeftOverToo() throws {
    let failure = try #require(throws: ScheduleFailure.self) {
      try explore(seeds: 0..<1) {
        let channel = Channel<Int>()
        Coroutine.immediate { _ = try channel.receive() }
      }
    }
    #expect(failure.kind == .leftOver)
  }

  @Test func anErrorThatIsNotHandledIsAFailure() throws {
    let failure = try #require(throws: ScheduleFailure.self) {
      try explore(seeds: 0..<1) {
        Coroutine(name: "careless") { throw LostUpdate() }
        Coroutine.yield()
      }
    }
    #expect(failure.kind == .unhandledError)
    #expect(failure.error is LostUpdate)
    #expect("\(failure)".contains("careless"))
  }

  /// It was chosen, and out of the queue of those that are ready, when another one's error ended the run.
  @Test func oneThatIsNextWhenTheRunFailsGoesOn() throws {
    let ends = Log<String>()
    let failure = try #require(throws: ScheduleFailure.self) {
      try replay("0:1") {
        let gate = Channel<Int>()
        Coroutine.immediate(name: "waiter") {
          defer { ends.add("ended") }
          _ = try? gate.receive()
        }
        _ = Coroutine.immediate { throw LostUpdate() }
        try gate.send(1)
      }
    }
    #expect(failure.kind == .unhandledError)
    #expect(ends.all == ["ended"])
  }

  @Test func coroutinesThatBeganAtOnceGoInTheirOrder() throws {
    for _ in 0..<20 {
      let failure = try #require(throws: ScheduleFailure.self) {
        try explore(seeds: 0..<1) {
          for number in 0..<8 { _ = Coroutine.immediate(name: "number \(number)") { throw LostUpdate() } }
        }
      }
      #expect("\(failure)".contains("number 0"))
    }
  }

  @Test func aRunWithoutAnEndIsAFailure() throws {
    let ends = Log<String>()
    let failure = try #require(throws: ScheduleFailure.self) {
      try explore(seeds: 0..<1, options: ExplorationOptions(turnLimit: 1000, shrinks: false)) {
        defer { ends.add("ended") }
        while !Coroutine.isCancelled { Coroutine.yield() }
      }
    }
    #expect(failure.kind == .endless)
    // The run, and the one that makes sure that it repeats itself: the cancel reaches the coroutine in both.
    #expect(ends.all == ["ended", "ended"])
  }

  /// The coroutine waits shielded, for ever. The run ends nevertheless.
  @Test(.disabled(if: StackSupply.sanitizersActive, "LeakSanitizer does not see references that an enum has marked"))
  func oneThatIgnoresItsCancelIsAbandoned() throws {
    let failure = try #require(throws: ScheduleFailure.self) {
      try explore(seeds: 0..<1, options: ExplorationOptions(shrinks: false)) {
        let channel = Channel<Int>()
        try withCancellationShield { _ = try channel.receive() }
      }
    }
    #expect(failure.kind == .deadlock)
  }

  @Test func aDeadlockBesideATickerComesToAnEnd() throws {
    let failure = try #require(throws: ScheduleFailure.self) {
      try explore(seeds: 0..<1, options: ExplorationOptions(turnLimit: 1000, shrinks: false)) {
        let ticker = Ticker(every: .seconds(1))
        _ = try Channel<Int>().receive()
        ticker.stop()
      }
    }
    #expect(failure.kind == .endless)
    let inTest = try #require(throws: ScheduleFailure.self) {
      try runTest(upTo: .milliseconds(10)) {
        let ticker = Ticker(every: .seconds(1))
        _ = try Channel<Int>().receive()
        ticker.stop()
      }
    }
    #expect(inTest.kind == .endless)
  }

  /// Each run has fewer possibilities than the one before, by chance as it were.
  @Test func allSchedulesOfABodyThatChangesAreAnything() throws {
    let left = Unlocked(6)
    try explore(exhaustively: .everything, limit: 100) {
      if left.value > 1 { left.value -= 1 }
      for coroutine in (0..<left.value).map({ _ in Coroutine { Coroutine.yield() } }) { try coroutine.join() }
    }
  }

  @Test func aScheduleOfAnotherBodyIsTold() throws {
    #expect(throws: ForeignSchedule.self) { try replay("3:1 1000:1", loseUpdate) }
  }

  /// But for those that the schedule tells.
  @Test func aReplayHasTheOptionsOfTheExploration() throws {
    let options = ExplorationOptions(preemption: .atSuspensions, turnLimit: 1000) { $0 is LostUpdate }
    try replay("", options: options) {
      Coroutine { throw LostUpdate() }
      Coroutine.yield()
    }
    let endless = try #require(throws: ScheduleFailure.self) {
      try replay("", options: options) { while !Coroutine.isCancelled { Coroutine.yield() } }
    }
    #expect(endless.kind == .endless)
    // A preemption, which the options do without.
    let failure = try #require(throws: ScheduleFailure.self) { try explore(seeds: 0..<100, loseUpdate) }
    #expect(throws: ScheduleFailure.self) { try replay(failure.schedule, options: options, loseUpdate) }
  }

  @Test func lateTimeoutsAndCalmRunsAreToldByTheSchedule() throws {
    let failure = try #require(throws: ScheduleFailure.self) {
      try explore(seeds: 0..<100, options: ExplorationOptions(preemption: .atSuspensions, time: .anytime), timeOut)
    }
    #expect(failure.schedule.hasPrefix("calm late "))
    #expect(throws: ScheduleFailure.self) { try replay(failure.schedule, timeOut) }
    // Nothing else takes time, so the timeout does not pass.
    #expect(throws: Never.self) { try explore(seeds: 0..<100, timeOut) }
  }
}

/// A timeout with plenty of time.
private func timeOut() throws {
  let channel = Channel<Int>()
  let sender = Coroutine { try channel.send(1) }
  try withTimeout(.seconds(1)) { _ = try channel.receive() }
  try sender.get()
}

private func selectSecond() throws {
  let channels = (0..<2).map { _ in Channel<Int>(capacity: .buffered(1)) }
  for (number, channel) in channels.enumerated() { _ = channel.trySend(number) }
  let chosen = Unlocked(0)
  try select {
    for channel in channels { channel.onReceive { chosen.value = $0 } }
  }
  if chosen.value == 1 { throw LostUpdate() }
}

/// A counter that is read, and written after another operation.
private func loseUpdate() throws {
  let turns = Channel<Int>(capacity: .unbounded)
  let counter = Unlocked(0)
  let all = (0..<2).map { _ in
    Coroutine {
      let before = counter.value
      try turns.send(before)
      counter.value = before + 1
    }
  }
  for coroutine in all { try coroutine.get() }
  if counter.value != 2 { throw LostUpdate() }
}
