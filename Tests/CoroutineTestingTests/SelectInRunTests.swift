import Coroutine
import CoroutineTesting
import Testing

/// Which case a select does in a run, where it can do several.
@Suite(.ownThreads) struct SelectInRunTests {
  /// What a select of three cases that are always ready does, a hundred times.
  private func manyChoices() throws -> [Int] {
    let channels = (0..<3).map { number in
      let channel = Channel<Int>(capacity: .unbounded)
      for _ in 0..<100 { _ = channel.trySend(number) }
      return channel
    }
    return try (0..<100).map { _ in try select(channels.map { $0.onReceive { $0 } }) }
  }

  @Test func eachCaseIsDoneAboutAsOften() throws {
    let choices = try runTest { try manyChoices() }
    for number in 0..<3 { #expect(choices.count { $0 == number } > 15) }
  }

  @Test func eachRunDoesTheSame() throws {
    let first = try runTest { try manyChoices() }
    #expect(try runTest { try manyChoices() } == first)
  }

  /// The first case is always ready.
  @Test func noCaseIsKeptFromEverBeingDone() throws {
    try runTest {
      let (numbers, quit) = (Channel<Int>(), Channel<Void>(capacity: .buffered(1)))
      let sender = Coroutine { for number in 0... { try numbers.send(number) } }
      try quit.send(())
      var isOver = false
      while !isOver {
        try select {
          numbers.onReceive { _ in }
          quit.onReceive { isOver = true }
        }
      }
      sender.cancel()
    }
  }

  @Test func aFailureThatDependsOnAChoiceIsReplayed() throws {
    struct Second: Error {}
    let body: @Sendable () throws -> Void = {
      let channels = (0..<2).map { number in
        let channel = Channel<Int>(capacity: .unbounded)
        for _ in 0..<20 { _ = channel.trySend(number) }
        return channel
      }
      var chosen: [Int] = []
      for _ in 0..<6 { chosen.append(try select(channels.map { $0.onReceive { $0 } })) }
      if chosen == [1, 1, 0, 1, 0, 0] { throw Second() }
    }
    let failure = try #require(throws: ScheduleFailure.self) { try explore(seeds: 0..<5000, body) }
    let again = try #require(throws: ScheduleFailure.self) { try replay(failure.schedule, body) }
    #expect(again.error is Second)
  }
}
