import Coroutine
import Dispatch
import Testing

/// The examples of RJIterator's README, with what it says they do.
@Suite(.timeLimit(.minutes(10))) struct SeedRJIteratorTests {
  typealias Robot = TwoWayGenerator<String?, String, String>

  static func robot(_ name: String) -> Robot {
    Robot { yield in
      var command: String?
      repeat {
        try yield("Hello \(name), How are you?")
        try yield("Today is Friday")
        try yield("So yesterday is Thursday")
        try yield("And tomorrow is Saturday")
        command = try yield("Over")
      } while command == "again"
      return "==talk done=="
    }
  }

  @Test func theRobotSaysASentenceAtEachNextAndItsLastOneForEver() throws {
    let robot = Self.robot("Wukaka")
    #expect(try robot.next() == .yielded("Hello Wukaka, How are you?"))
    #expect(try robot.next() == .yielded("Today is Friday"))
    #expect(try robot.next() == .yielded("So yesterday is Thursday"))
    #expect(try robot.next() == .yielded("And tomorrow is Saturday"))
    #expect(try robot.next() == .yielded("Over"))
    for _ in 1...3 { #expect(try robot.next() == .returned("==talk done==")) }
  }

  @Test func aCommandMakesItTalkAgain() throws {
    let robot = Self.robot("Wukaka")
    for _ in 1...5 { _ = try robot.next() }
    #expect(try robot.next("again") == .yielded("Hello Wukaka, How are you?"))
    for _ in 1...4 { #expect(try !robot.next().isDone) }
    #expect(try robot.next("enough") == .returned("==talk done=="))
  }

  @Test func threeGeneratorsCountToNineInAFourth() {
    func three(from first: Int) -> TwoWayGenerator<Void, Int, Int> {
      TwoWayGenerator { yield in
        try yield(first)
        try yield(first + 1)
        return first + 2
      }
    }
    let count = Generator<Int> { yield in
      for first in [1, 4, 7] { try yield(yield(from: three(from: first))) }
    }
    #expect(Array(count) == Array(1...9))
  }

  // MARK: The login

  enum Step: String, CaseIterable, Sendable { case login, query, download, makeEffect }
  struct Failed: Error, Equatable { let step: Step }

  /// A callback-style task, as the README writes them: a function that returns what takes the callback.
  static func task(
    _ step: Step, failing: Step?, _ log: Log
  ) -> (@escaping @Sendable (String?, (any Error)?) -> Void) -> Void {
    { callback in
      DispatchQueue.global().async {
        log.add(step.rawValue)
        if step == failing { callback(nil, Failed(step: step)) } else { callback("result of \(step)", nil) }
      }
    }
  }

  /// The flow, and how often its end has come.
  static func login(failing: Step?, _ log: Log) -> (flow: Coroutine<Void, any Error>, hidden: Channel<Bool>) {
    let hidden = Channel<Bool>(capacity: .unbounded)
    let flow = Coroutine(on: .main) {
      log.add("show progress")
      for step in Step.allCases {
        let result = try awaitCallback(task(step, failing: failing, log))
        #expect(result == "result of \(step)")
        #expect(DispatchQueue.main.isCurrent)
      }
      log.add("user info")
    }.finally {
      log.add("hide progress")
      _ = hidden.trySend(DispatchQueue.main.isCurrent)
    }
    return (flow, hidden)
  }

  @Test(arguments: [nil] + Step.allCases)
  func theLoginFlowEndsWithItsFirstErrorAndHidesTheProgressOnce(_ failing: Step?) async throws {
    let log = Log()
    let (login, hidden) = Self.login(failing: failing, log)
    if let failing {
      await #expect(throws: Failed(step: failing)) { try await login.get() }
    } else {
      try await login.get()
    }
    #expect(try await hidden.receive())
    let done = Step.allCases.prefix { $0 != failing } + [failing].compactMap { $0 }
    let end = failing == nil ? ["user info"] : []
    #expect(log.all == ["show progress"] + done.map(\.rawValue) + end + ["hide progress"])
    await Self.nothingMoreComes(to: hidden)
  }

  @MainActor @Test func cancelledBeforeItBeganTheLoginFlowOnlyHidesTheProgress() async throws {
    let log = Log()
    let (login, hidden) = Self.login(failing: nil, log)
    login.cancel()  // this is the main queue, on which it has not had its turn
    await #expect(throws: CancellationError.self) { try await login.get() }
    #expect(try await hidden.receive())
    #expect(log.all == ["hide progress"])
    await Self.nothingMoreComes(to: hidden)
  }

  /// What would run on the main queue a second time, or late, has had its turn when this returns.
  static func nothingMoreComes(to hidden: Channel<Bool>) async {
    await withCheckedContinuation { turn in DispatchQueue.main.async { turn.resume() } }
    #expect(hidden.isEmpty)
  }
}
