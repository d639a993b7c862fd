import Coroutine
import CoroutineTestSupport
import CoroutineTesting
import Synchronization
import Testing

@Suite(.ownThreads) struct TraitTests {
  private static let runs = Atomic<Int>(0)

  @Test(.exploringSchedules(seeds: 0..<50)) func aTestIsRunByEachSeed() throws {
    let before = Self.runs.load(ordering: .relaxed)
    try runTest { Self.runs.wrappingAdd(1, ordering: .relaxed) }
    #expect(Self.runs.load(ordering: .relaxed) - before == 50)
  }

  @Test(.exploringSchedules(exhaustively: .everything)) func aTestIsRunByAllSchedules() async throws {
    try await runTest {
      let channel = Channel<Int>(capacity: .buffered(1))
      let sender = Coroutine { for number in 0..<2 { try channel.send(number) } }
      #expect(try channel.receive() == 0)
      #expect(try channel.receive() == 1)
      try sender.get()
    }
  }

  @Test(.exploringSchedules(seeds: 0..<100))
  func anExpectationThatFailsIsAFailureOfItsScheduleAndOnce() throws {
    let failure = try #require(throws: ScheduleFailure.self) {
      try runTest {
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
        #expect(counter.value == 2)
      }
    }
    #expect(failure.kind == .expectation)
    #expect("\(failure)".contains("counter.value"))
    #expect(failure.schedule.split(separator: " ").count == 1)
  }

  @Test(.exploringSchedules(seeds: 0..<3)) func anExpectationThatFailsElsewhereIsOne() throws {
    let failure = try #require(throws: ScheduleFailure.self) {
      try runTest {
        let sum = 2
        try Coroutine(on: .pool) { #expect(sum == 3) }.get()
      }
    }
    #expect(failure.kind == .expectation)
    #expect("\(failure)".contains("== 3"))
  }

  @Test(.replaying("0:1")) func aTestIsRunByOneSchedule() throws {
    let order = Log<Int>()
    try runTest {
      let first = Coroutine { order.add(1) }
      order.add(2)
      try first.get()
    }
    #expect(order.all == [1, 2])
  }

  @Test(.replaying("0:1", options: ExplorationOptions(isExpected: { $0 is LostUpdate })))
  func aTestByOneScheduleExpectsWhatTheExplorationDid() throws {
    let order = Log<Int>()
    try runTest {
      Coroutine {
        order.add(1)
        throw LostUpdate()
      }
      order.add(2)
    }
    #expect(order.all == [1, 2])
  }

  @Test(arguments: [false, true])
  func aTestThatExploresNothingHasAWarning(explores: Bool) async throws {
    let test = try #require(Test.current)
    try await withKnownIssue(isIntermittent: explores) {
      try await ExplorationTrait.exploringSchedules(seeds: 0..<2).provideScope(for: test, testCase: .current) {
        if explores { try await runTest {} }
      }
    } matching: { issue in
      issue.severity == .warning && !explores
    }
  }

  @Test func theTraitOfATestTakesThePlaceOfItsSuites() async throws {
    let test = try #require(Test.current)
    let suites = ExplorationTrait.exploringSchedules(seeds: 0..<2)
    try await suites.provideScope(for: test, testCase: .current) {
      let own = ExplorationTrait.exploringSchedules(seeds: 0..<1)
      try await own.provideScope(for: test, testCase: .current) { try await runTest {} }
    }
  }

  @Test func inAsyncCodeARunHasItsOwnThread() async throws {
    let report = try await explore(seeds: 0..<10) { try Coroutine.sleep(for: .seconds(1)) }
    #expect(report.schedules == 10)
    try await runTest { #expect(TestClock().now.offset == .zero) }
  }
}
