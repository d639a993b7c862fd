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

  /// The same in a task.
  private func manyChoicesInTask() async throws -> [Int] {
    let channels = (0..<3).map { number in
      let channel = Channel<Int>(capacity: .unbounded)
      for _ in 0..<100 { _ = channel.trySend(number) }
      return channel
    }
    var choices: [Int] = []
    for _ in 0..<100 {
      let choice = try await select {
        channels[0].onReceive { $0 }
        channels[1].onReceive { $0 }
        channels[2].onReceive { $0 }
      }
      choices.append(choice)
    }
    return choices
  }

  @Test func eachRunDoesTheSameInItsTasks() async throws {
    let first = try await runTest { try await manyChoicesInTask() }
    for number in 0..<3 { #expect(first.count { $0 == number } > 15) }
    let second = try await runTest { try await manyChoicesInTask() }
    #expect(second == first)
  }

  /// What a task chooses is a part of the schedule.
  @Test func eachCaseOfATasksSelectIsExplored() throws {
    let chosen = Log<[Int]>()
    let report = try explore(exhaustively: .everything) {
      let channel = Channel<Int>(capacity: .buffered(2))
      let other = Channel<Int>(capacity: .buffered(2))
      for _ in 0..<2 {
        try channel.send(0)
        try other.send(1)
      }
      let choices = try Coroutine.await {
        var choices: [Int] = []
        for _ in 0..<2 {
          let choice = try await select {
            channel.onReceive { $0 }
            other.onReceive { $0 }
          }
          choices.append(choice)
        }
        return choices
      }
      chosen.add(choices)
    }
    #expect(report.isComplete)
    #expect(Set(chosen.all) == [[0, 0], [0, 1], [1, 0], [1, 1]])
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
