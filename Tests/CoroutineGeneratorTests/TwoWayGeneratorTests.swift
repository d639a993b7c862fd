import Coroutine
import CoroutineTestSupport
import Testing

@Suite(.ownThreads) struct TwoWayGeneratorTests {
  struct Problem: Error, Equatable {}

  /// RJIterator's example: the body says four sentences, and then takes the next command.
  @Test func theChatRobot() throws {
    let robot = TwoWayGenerator<String?, String, Int> { yield in
      var rounds = 0
      var command: String? = "start"
      while command != nil, command != "stop" {
        rounds += 1
        try yield("Hello, round \(rounds)")
        try yield("Today is Friday")
        command = try yield("Over")
      }
      return rounds
    }
    #expect(try robot.next("ignored") == .yielded("Hello, round 1"))
    #expect(try robot.next() == .yielded("Today is Friday"))
    #expect(try robot.next() == .yielded("Over"))
    #expect(try robot.next("again") == .yielded("Hello, round 2"))
    #expect(try robot.next() == .yielded("Today is Friday"))
    #expect(try robot.next() == .yielded("Over"))
    #expect(try robot.next("stop") == .returned(2))
    #expect(try robot.next("again") == .returned(2))
  }

  /// The README's example.
  @Test func theGameOfGuessing() throws {
    func guess(_ range: ClosedRange<Int>) -> TwoWayGenerator<Bool, String, Int> {
      TwoWayGenerator { yield in
        var (range, questions) = (range, 0)
        while range.lowerBound < range.upperBound {
          let middle = (range.lowerBound + range.upperBound) / 2
          questions += 1
          range = try yield("more than \(middle)?") ? middle + 1...range.upperBound : range.lowerBound...middle
        }
        return questions
      }
    }
    let game = guess(1...100)
    var step = try game.next(false)
    while case .yielded(let question) = step { step = try game.next(question == "more than 50?") }
    #expect(step == .returned(7))
  }

  @Test func yieldReturnsTheInputOfTheNextThatResumesIt() throws {
    var received: [Int] = []
    let generator = TwoWayGenerator<Int, Int, [Int]> { yield in
      for number in 0..<4 { received.append(try yield(number)) }
      return received
    }
    var elements: [Int] = []
    var input = 100
    while let element = try generator.next(input).element {
      elements.append(element)
      input += 1
    }
    #expect(elements == [0, 1, 2, 3])
    // 100 went with the first `next`, for which no `yield` was waiting.
    #expect(received == [101, 102, 103, 104])
    let end = try generator.next(0)
    #expect(end.isDone && end.element == nil && end == .returned(received))
  }

  @Test func inputsOfEveryShapeArriveAndAreReleased() throws {
    final class Witness {
      nonisolated(unsafe) static var live = 0  // used by this test's one thread
      init() { Witness.live += 1 }
      deinit { Witness.live -= 1 }
    }
    func run() throws {
      let generator = TwoWayGenerator<Witness, Int, Void> { yield in
        while true { _ = try yield(Witness.live) }
      }
      #expect(try generator.next(Witness()).element == 0)
      #expect(try generator.next(Witness()).element == 0)
      #expect(try generator.next(Witness()).element == 0)
    }
    try run()
    #expect(Witness.live == 0)
    let optional = TwoWayGenerator<Int?, Int?, Int?> { yield in
      var last: Int?
      for _ in 0..<3 { last = try yield(last) }
      return last
    }
    #expect(try optional.next(0) == .yielded(nil))
    #expect(try optional.next(5) == .yielded(5))
    #expect(try optional.next(nil) == .yielded(nil))
    #expect(try optional.next() == .returned(nil))
    #expect(try optional.next() == .returned(nil))
  }

  @Test func theResultIsDeliveredAgainAndAgain() throws {
    let generator = TwoWayGenerator<Void, Int, String> { yield in
      try yield(1)
      return "done"
    }
    #expect(try generator.next() == .yielded(1))
    for _ in 0..<3 { #expect(try generator.next() == .returned("done")) }
    generator.cancel()
    #expect(try generator.next() == .returned("done"))
  }

  @Test func anErrorIsDeliveredAgainAndAgain() throws {
    let generator = TwoWayGenerator<Void, Int, String> { yield in
      try yield(1)
      throw Problem()
    }
    #expect(try generator.next() == .yielded(1))
    for _ in 0..<3 { #expect(throws: Problem()) { try generator.next() } }
  }

  @Test func afterACancelThereIsNothingToReturn() throws {
    let log = Log()
    let generator = TwoWayGenerator<Int, Int, String> { yield in
      defer { log.add("unwound") }
      while true { try yield(1) }
    }
    #expect(try generator.next(1) == .yielded(1))
    generator.cancel()
    #expect(log.all == ["unwound"])
    #expect(throws: GeneratorCancelled.self) { try generator.next(2) }
    let unborn = TwoWayGenerator<Int, Int, String> { _ in "never" }
    unborn.cancel()
    #expect(throws: GeneratorCancelled.self) { try unborn.next(2) }
  }

  @Test func theBodyMayCatchTheCancelAndReturn() throws {
    let generator = TwoWayGenerator<Void, Int, Int> { yield in
      var count = 0
      while true {
        do { try yield(count) } catch { return count }
        count += 1
      }
    }
    for count in 0..<5 { #expect(try generator.next() == .yielded(count)) }
    generator.cancel()
    #expect(try generator.next() == .returned(4))
  }

  @Test func aDroppedOneUnwinds() throws {
    let log = Log()
    func run() throws {
      let generator = TwoWayGenerator<Int, Int, Void> { yield in
        defer { log.add("unwound") }
        try yield(1)
      }
      #expect(try generator.next(0).element == 1)
    }
    try run()
    #expect(log.all == ["unwound"])
  }

  @Test func delegatingToOneThatHasBegunTrapsByName() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let inner = TwoWayGenerator<Int, Int, Void> { yield in while true { try yield(1) } }
      _ = try inner.next(1)
      let outer = TwoWayGenerator<Int, Int, Void> { yield in try yield(from: inner) }
      _ = try outer.next(1)
    }
    #expect(result.map { String(decoding: $0.standardErrorContent, as: UTF8.self) }?.contains("no input") == true)
  }

  // MARK: - The first input

  @Test func aBodyWithASecondParameterGetsTheFirstInput() throws {
    let generator = TwoWayGenerator<Int, Int, String> { yield, first in
      let second = try yield(2 * first)
      return "\(first) \(second)"
    }
    #expect(try generator.next(21) == .yielded(42))
    #expect(try generator.next(5) == .returned("21 5"))
    #expect(try generator.next(6) == .returned("21 5"))
    let needsNone = TwoWayGenerator<Void, Int, Void> { yield, _ in try yield(1) }
    #expect(try needsNone.next().element == 1)
  }

  @Test func aFirstInputIsReleasedWithItsBody() throws {
    final class Witness {}
    weak var first: Witness?
    weak var unwanted: Witness?
    let generator = TwoWayGenerator<Witness, Bool, Void> { yield, first in
      var current = first
      while true { current = try yield(current === first) }
    }
    let cancelled = TwoWayGenerator<Witness, Bool, Void> { _, _ in }
    do {
      let (one, other) = (Witness(), Witness())
      (first, unwanted) = (one, other)
      #expect(try generator.next(one).element == true)
      #expect(try generator.next(Witness()).element == false)
      cancelled.cancel()
      #expect(throws: GeneratorCancelled.self) { try cancelled.next(other) }
    }
    #expect(unwanted == nil)
    #expect(first != nil)
    generator.cancel()
    #expect(first == nil)
  }

  @Test func delegatingToOneThatTakesTheFirstInputTraps() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let inner = TwoWayGenerator<Int, Int, Void> { yield, first in try yield(first) }
      let outer = TwoWayGenerator<Int, Int, Void> { yield in try yield(from: inner) }
      _ = try outer.next(1)
    }
    let words = result.map { String(decoding: $0.standardErrorContent, as: UTF8.self) }
    #expect(words?.contains("takes the first input") == true)
  }

  // MARK: - Errors that are thrown in

  @Test func anErrorThatIsThrownInComesOutOfThePendingYield() throws {
    let log = Log()
    let generator = TwoWayGenerator<Int, Int, String> { yield in
      while true {
        do { log.add("got \(try yield(log.all.count))") } catch is Problem { log.add("caught") }
        if log.all.count == 4 { return "end" }
      }
    }
    #expect(try generator.next(0) == .yielded(0))
    #expect(try generator.next(throwing: Problem()) == .yielded(1))
    #expect(try generator.next(7) == .yielded(2))
    #expect(try generator.next(throwing: Problem()) == .yielded(3))
    #expect(try generator.next(throwing: Problem()) == .returned("end"))
    #expect(log.all == ["caught", "got 7", "caught", "caught"])
    // It has ended: the error comes back, and changes nothing.
    #expect(throws: Problem()) { try generator.next(throwing: Problem()) }
    #expect(try generator.next(0) == .returned("end"))
  }

  @Test func anErrorThatTheBodyDoesNotCatchEndsIt() throws {
    let log = Log()
    let generator = TwoWayGenerator<Int, Int, Void> { yield in
      defer { log.add("unwound") }
      try yield(1)
    }
    _ = try generator.next(0)
    #expect(throws: Problem()) { try generator.next(throwing: Problem()) }
    #expect(log.all == ["unwound"])
    #expect(throws: Problem()) { try generator.next(0) }
    let throwing = ThrowingGenerator<Int> { yield in
      do { try yield(1) } catch is Problem { try yield(2) }
      try yield(3)
    }
    #expect(try throwing.next() == 1)
    #expect(try throwing.next(throwing: Problem()) == 2)
    #expect(throws: Problem()) { try throwing.next(throwing: Problem()) }
    #expect(try throwing.next() == nil)
    #expect(throws: Problem()) { try throwing.next(throwing: Problem()) }
  }

  @Test func anErrorBeforeTheBeginningEndsItWithoutTheBody() throws {
    final class Witness {}
    weak var captured: Witness?
    let generator: TwoWayGenerator<Int, Int, Void>
    do {
      let witness = Witness()
      captured = witness
      generator = TwoWayGenerator { yield in
        Issue.record("the body runs")
        withExtendedLifetime(witness) {}
      }
    }
    #expect(throws: Problem()) { try generator.next(throwing: Problem()) }
    #expect(captured == nil)
    #expect(throws: Problem()) { try generator.next(0) }
    let throwing = ThrowingGenerator<Int> { yield in try yield(1) }
    #expect(throws: Problem()) { try throwing.next(throwing: Problem()) }
    #expect(try throwing.next() == nil)
  }

  @Test func anErrorGoesToTheInnermostBody() throws {
    let log = Log()
    func inner() -> TwoWayGenerator<Int, Int, Int> {
      TwoWayGenerator { yield in
        do { return try yield(1) } catch is Problem { log.add("inner") }
        return try yield(2)
      }
    }
    let outer = TwoWayGenerator<Int, Int, Int> { yield in
      let first = try yield(from: inner())
      do { return first + (try yield(from: inner())) } catch is CancellationError { log.add("outer") }
      return try yield(3)
    }
    #expect(try outer.next(0) == .yielded(1))
    #expect(try outer.next(throwing: Problem()) == .yielded(2))
    #expect(try outer.next(10) == .yielded(1))
    #expect(try outer.next(throwing: CancellationError()) == .yielded(3))
    #expect(try outer.next(5) == .returned(5))
    #expect(log.all == ["inner", "outer"])
  }

  @Test func anErrorGoesToABodyInsideAnOpenAccess() throws {
    let log = Log()
    let inner = TwoWayGenerator<Int, Int, Int> { yield in
      do { return try yield(1) } catch is Problem { log.add("inner") }
      return try yield(2)
    }
    var numbers = [2, 1]
    let outer = TwoWayGenerator<Int, Int, Int> { yield in
      var result = 0
      try numbers.sort {
        result = try yield(from: inner)
        return $0 < $1
      }
      return result
    }
    #expect(try outer.next(0) == .yielded(1))
    #expect(try outer.next(throwing: Problem()) == .yielded(2))
    #expect(try outer.next(9) == .returned(9))
    #expect(log.all == ["inner"])
  }

  // MARK: Those without inputs

  @Test func itYieldsFromOneThatTakesNoInput() throws {
    final class Input {
      let number: Int
      let counted: Counted
      init(_ number: Int, _ live: Live) { (self.number, counted) = (number, Counted(live)) }
    }
    let (log, live) = (Log(), Live())
    let outer = TwoWayGenerator<Input, String, String> { yield in
      let first = try yield("outer")
      log.add("first \(first.number)")
      try yield(from: Generator<String> { yield in for text in ["a", "b"] { try yield(text) } })
      log.add("behind \(try yield("c").number)")
      try yield(from: ["d", "e"])
      try yield(from: ThrowingGenerator<String> { yield in try yield(from: Generator { yield in try yield("f") }) })
      return "end"
    }
    var elements: [String] = []
    for number in 0..<7 { elements.append(try outer.next(Input(number, live)).element ?? "none") }
    #expect(elements == ["outer", "a", "b", "c", "d", "e", "f"])
    guard case .returned("end") = try outer.next(Input(7, live)) else {
      Issue.record("it has not returned")
      return
    }
    #expect(log.all == ["first 1", "behind 4"])
    // None of those that came meanwhile is kept.
    #expect(live.now == 0)
  }

  @Test func withAnAccessOpenItYieldsFromOneThatTakesNoInput() throws {
    var numbers = [0]
    func change(_ number: inout Int, _ body: () throws -> Void) rethrows {
      number += 1
      try body()
    }
    let outer = TwoWayGenerator<Int, Int, Int> { yield in
      try change(&numbers[0]) { try yield(from: Generator<Int> { yield in for value in 1...2 { try yield(value) } }) }
      return try yield(3)
    }
    #expect(try outer.next(10) == .yielded(1))
    #expect(try outer.next(20) == .yielded(2))
    #expect(try outer.next(30) == .yielded(3))
    #expect(try outer.next(40) == .returned(40))
  }

  /// Inside of an open access the input is handed to this generator, and no `yield` takes it.
  @Test func anInputThatIsDroppedIsNotKept() throws {
    let live = Live()
    var numbers = [0]
    func change(_ number: inout Int, _ body: () throws -> Void) rethrows { try body() }
    let outer = TwoWayGenerator<Counted, Int, Void> { yield in
      try change(&numbers[0]) { try yield(from: Generator<Int> { yield in try yield(1) }) }
      try yield(2)
    }
    #expect(try outer.next(Counted(live)).element == 1)
    #expect(try outer.next(Counted(live)).element == 2)
    #expect(live.now == 0)
  }

  @Test func anErrorThrownInReachesOneThatTakesNoInput() throws {
    let outer = TwoWayGenerator<Int, Int, String> { yield in
      try yield(
        from: ThrowingGenerator<Int> { yield in
          do { try yield(1) } catch is Problem { try yield(2) }
        })
      return "end"
    }
    #expect(try outer.next(0) == .yielded(1))
    #expect(try outer.next(throwing: Problem()) == .yielded(2))
    #expect(try outer.next(0) == .returned("end"))
  }

  /// The one that it yields from is cancelled elsewhere: its `yield(from:)` throws.
  @Test func anErrorForADelegateThatIsGoneComesOutOfYieldFrom() throws {
    let inner = ThrowingGenerator<Int> { yield in try yield(1) }
    let outer = ThrowingGenerator<Int> { yield in
      do { try yield(from: inner) } catch is Problem { try yield(2) }
      try yield(3)
    }
    #expect(try outer.next() == 1)
    inner.cancel()
    #expect(try outer.next(throwing: Problem()) == 2)
    #expect(try outer.next() == 3)
  }

  // MARK: - The state

  @Test func theStateTellsWhatTheBodyDoes() throws {
    let seen = Log()
    var inside: (() -> CoroutineState)?
    let generator = TwoWayGenerator<Void, Int, Void> { yield in
      seen.add("\(inside!())")
      try yield(1)
    }
    inside = { generator.state }
    #expect(generator.state == .ready)
    _ = try generator.next()
    #expect(generator.state == .suspended)
    _ = try generator.next()
    #expect(generator.state == .finished)
    #expect(seen.all == ["running"])
    let cancelled = Generator<Int> { yield in try yield(1) }
    let unbegun = ThrowingGenerator<Int> { yield in try yield(1) }
    _ = cancelled.next()
    cancelled.cancel()
    unbegun.cancel()
    #expect(cancelled.state == .finished && unbegun.state == .finished)
  }

  /// Each of three that yield from one another does what the innermost one does.
  @Test func theStateIsThatOfTheInnermostBody() throws {
    let seen = Log()
    var all: [Generator<Int>] = []
    for depth in 0..<3 {
      let inner = all.last
      all.append(
        Generator { yield in
          if let inner { try yield(from: inner) } else { seen.add("\(all.map(\.state))") }
          try yield(depth)
        })
    }
    _ = all[2].next()
    #expect(seen.all == ["\([CoroutineState](repeating: .running, count: 3))"])
    #expect(all.allSatisfy { $0.state == .suspended })
    #expect(Array(all[2]) == [1, 2])
    #expect(all.allSatisfy { $0.state == .finished })
    all = []
  }

  // MARK: Inputs that are left over

  private final class Input {
    private let atEnd: () -> Void
    init(_ atEnd: @escaping () -> Void = {}) { self.atEnd = atEnd }
    deinit { atEnd() }
  }

  private enum Binding {
    @TaskLocal static var value = 0
  }

  /// Inside a binding, the outer body keeps the inputs of one that takes none. What their ends do may come back to it.
  @Test func theEndOfAnInputMayGiveTheNextOne() throws {
    let log = Log()
    let numbers = TwoWayGenerator<Input?, Int, Void> { yield in
      try Binding.$value.withValue(1) {
        try yield(from: Generator<Int> { yield in for number in 0..<10 { try yield(number) } })
      }
    }
    #expect(try numbers.next(Input()).element == 0)
    func endingInput() -> Input {
      Input {
        log.add("ends")
        let inner = Input { log.add("the inner one ends") }
        log.add("\((try? numbers.next(inner).element) ?? -1)")
      }
    }
    #expect(try numbers.next(endingInput()).element == 1)
    #expect(try numbers.next(nil).element == 3)
    #expect(try numbers.next(Input()).element == 4)
    #expect(log.all == ["ends", "2", "the inner one ends"])
  }

  @Test func theEndOfAnInputMayYield() throws {
    let log = Log()
    var kept: TwoWayGenerator<Input, Int, Void>.Yield?
    defer { kept = nil }
    let numbers = TwoWayGenerator<Input, Int, Void> { yield in
      kept = yield
      try Binding.$value.withValue(1) { try yield(from: Generator<Int> { yield in try yield(0) }) }
      try yield(5)
    }
    #expect(try numbers.next(Input()).element == 0)
    func endingInput() -> Input {
      Input {
        log.add("ends")
        _ = try? kept?(99)
      }
    }
    #expect(try numbers.next(endingInput()).element == 99)
    #expect(log.all == ["ends"])
    #expect(try numbers.next(Input()).element == 5)
    #expect(try numbers.next(Input()).isDone)
    #expect(log.all == ["ends"])
  }

  /// By the input's end another body waits for the next one.
  @Test func theEndOfAnInputMayEndTheBodyThatHasIt() throws {
    let log = Log()
    let numbers = TwoWayGenerator<Input, Int, Void> { yield in
      try yield(
        from: TwoWayGenerator<Input, Int, Void> { yield in
          try Binding.$value.withValue(1) {
            try yield(from: Generator<Int> { yield in for number in 0..<2 { try yield(number) } })
          }
        })
      for number in 10..<20 {
        _ = try yield(number)
        log.add("\(number) is answered")
      }
    }
    #expect(try numbers.next(Input()).element == 0)
    func endingInput() -> Input {
      Input { for _ in 0..<2 { log.add("\((try? numbers.next(Input()).element) ?? -1)") } }
    }
    #expect(try numbers.next(endingInput()).element == 1)
    #expect(try numbers.next(Input()).element == 12)
    #expect(log.all == ["10", "10 is answered", "11", "11 is answered"])
  }
}
