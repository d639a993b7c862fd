import CCoroutine
import Context
import CoroutineTestSupport
import Dispatch
import Glibc
import Testing

@testable import Coroutine

/// One generator yields what another one does. The innermost body runs directly under the consumer.
@Suite(.ownThreads) struct GeneratorDelegationTests {
  enum Local {
    @TaskLocal static var number = 0
  }

  struct Problem: Error, Equatable {}

  private static func counting(_ range: Range<Int>, _ log: Log? = nil) -> Generator<Int> {
    Generator { yield in
      defer { log?.add("end of \(range)") }
      for value in range { try yield(value) }
    }
  }

  @Test func elementsComeInOrderFromBoth() {
    let generator = Generator<Int> { yield in
      try yield(0)
      try yield(from: Self.counting(1..<3))
      try yield(3)
      try yield(from: Self.counting(4..<4))
      try yield(from: Self.counting(4..<6))
      try yield(from: [6, 7])
      try yield(8)
    }
    #expect(Array(generator) == Array(0...8))
    #expect(generator.next() == nil)
  }

  @Test func theExampleOfNestedCounters() {
    let nested = Generator<Int> { yield in
      try yield(from: Self.counting(1..<4))
      try yield(from: Self.counting(4..<6))
      try yield(from: Self.counting(7..<10))
    }
    #expect(Array(nested) == [1, 2, 3, 4, 5, 7, 8, 9])
  }

  @Test func aTreeOfGenerators() {
    func walk(_ depth: Int) -> Generator<Int> {
      Generator { yield in
        guard depth > 0 else { return }
        try yield(from: walk(depth - 1))
        try yield(depth)
        try yield(from: walk(depth - 1))
      }
    }
    func plain(_ depth: Int) -> [Int] { depth == 0 ? [] : plain(depth - 1) + [depth] + plain(depth - 1) }
    #expect(Array(walk(8)) == plain(8))
  }

  @Test func elementsOfAnyShapeComeThrough() {
    let words = Generator<String> { yield in
      try yield("outer, and longer than fifteen bytes")
      try yield(
        from: Generator<String> { yield in for number in 0..<3 { try yield("inner, number \(number) of three") } })
    }
    #expect(Array(words).count == 4)
    final class Box {
      let number: Int
      init(_ number: Int) { self.number = number }
    }
    let boxes = Generator<Box> { yield in
      try yield(from: Generator<Box> { yield in for number in 0..<3 { try yield(Box(number)) } })
    }
    #expect(boxes.map(\.number) == [0, 1, 2])
  }

  @Test func elementsComeThroughTenThousandLevels() {
    func nested(_ depth: Int) -> Generator<Int> {
      Generator(stackSize: 32 << 10) { yield in
        if depth == 0 { for value in 0..<10_000 { try yield(value) } } else { try yield(from: nested(depth - 1)) }
      }
    }
    let sum = nested(10_000).reduce(0, +)
    #expect(sum == 49_995_000)
  }

  @Test func aDeepChainUnwindsWithoutARecursion() {
    let ended = Guarded(0)
    func nested(_ depth: Int) -> Generator<Int> {
      Generator(stackSize: 32 << 10) { yield in
        defer { ended.withLock { $0 += 1 } }
        if depth == 0 { for value in 0... { try yield(value) } } else { try yield(from: nested(depth - 1)) }
      }
    }
    func drop() {
      let generator = nested(9_999)
      #expect(generator.next() == 0)
      #expect(generator.next() == 1)
    }
    drop()
    #expect(ended.withLock { $0 } == 10_000)
  }

  @Test func afterACancelNothingOfTheOtherOneRuns() {
    let log = Log()
    let generator = Generator<Int> { yield in
      do { try yield(1) } catch {
        do { try yield(from: Self.logging(log)) } catch { log.add("\(type(of: error))") }
        Local.$number.withValue(1) {
          do { try yield(from: Self.logging(log)) } catch { log.add("\(type(of: error))") }
        }
        throw error
      }
    }
    #expect(generator.next() == 1)
    generator.cancel()
    #expect(log.all == ["GeneratorCancelled", "GeneratorCancelled"])
  }

  private static func logging(_ log: Log) -> Generator<Int> {
    Generator { yield in
      log.add("runs")
      try yield(2)
    }
  }

  @Test func theOuterBodyGoesOnBehindTheInnerOnesEnd() {
    let log = Log()
    let generator = Generator<Int> { yield in
      log.add("outer begins")
      try yield(from: Self.counting(0..<3, log))
      log.add("outer goes on")
    }
    for value in generator { log.add("consumed \(value)") }
    #expect(
      log.all == ["outer begins", "consumed 0", "consumed 1", "consumed 2", "end of 0..<3", "outer goes on"])
  }

  /// In processes of their own: a step on an outer body's stack ends the process.
  @Test(.disabled(if: coroutine_sanitizers_active(), "sanitizers are told of each body, and write themselves"))
  func anElementOfTheInnermostTouchesNoOuterStack() async {
    await #expect(processExitsWith: .success) {
      let chain = Chain(of: 10) { body in
        Generator<Int> { yield in
          if let inner = body.inner { try yield(from: inner) } else { for value in 0... { try yield(value) } }
        }
      }
      #expect(chain.outermost.next() == 0)
      let elements = chain.withOuterStacksLocked(\.storage.block) { outermost in
        (0..<1000).map { _ in outermost.next() }
      }
      #expect(elements == Array(1...1000))
    }
    await #expect(processExitsWith: .success) {
      let chain = Chain(of: 10) { body in
        ThrowingGenerator<String> { yield in
          guard let inner = body.inner else {
            for value in 0... { try yield("an element that does not travel in the word, \(value)") }
            return
          }
          try yield(from: inner)
        }
      }
      #expect(try chain.outermost.next()?.last == "0")
      let elements = try chain.withOuterStacksLocked(\.storage.block) { outermost in
        try (0..<1000).map { _ in try outermost.next() }
      }
      #expect(elements == (1...1000).map { "an element that does not travel in the word, \($0)" })
    }
    await #expect(processExitsWith: .success) {
      let chain = Chain(of: 10) { body in
        TwoWayGenerator<Int?, Int, Int> { yield in
          guard let inner = body.inner else {
            var input: Int?
            while true { input = try yield((input ?? 0) * 2) }
          }
          return try yield(from: inner)
        }
      }
      #expect(try chain.outermost.next(nil) == .yielded(0))
      let steps = try chain.withOuterStacksLocked(\.storage.block) { outermost in
        try (0..<1000).map { try outermost.next($0) }
      }
      #expect(steps == (0..<1000).map { .yielded($0 * 2) })
    }
  }

  @Test func oneThatHasBegunGoesOnWhereItIs() {
    let inner = Self.counting(0..<5)
    #expect(inner.next() == 0)
    let generator = Generator<Int> { yield in
      try yield(10)
      try yield(from: inner)
      try yield(11)
    }
    #expect(Array(generator) == [10, 1, 2, 3, 4, 11])
    #expect(inner.next() == nil)
  }

  @Test func oneWithDelegatesOfItsOwnGoesOnInTheInnermost() {
    let middle = Generator<Int> { yield in
      try yield(from: Self.counting(0..<4))
      try yield(4)
    }
    #expect(middle.next() == 0)
    let outer = Generator<Int> { yield in
      try yield(from: middle)
      try yield(5)
    }
    #expect(Array(outer) == [1, 2, 3, 4, 5])
    #expect(middle.next() == nil)
  }

  @Test func oneThatHasEndedYieldsNothing() {
    let inner = Self.counting(0..<2)
    #expect(Array(inner) == [0, 1])
    let generator = Generator<Int> { yield in
      try yield(from: inner)
      try yield(2)
    }
    #expect(Array(generator) == [2])
  }

  // MARK: Ends

  @Test func aDropUnwindsTheInnermostFirst() {
    let log = Log()
    func run() {
      let generator = Generator<Int> { yield in
        defer { log.add("outer") }
        try yield(
          from: Generator<Int> { yield in
            defer { log.add("middle") }
            try yield(from: Self.counting(0..<9, log))
          })
      }
      let values = (generator.next(), generator.next())
      #expect(values == (0, 1))
    }
    run()
    #expect(log.all == ["end of 0..<9", "middle", "outer"])
  }

  @Test func aCancelEndsOnesThatOthersKeep() {
    let log = Log()
    let inner = Self.counting(0..<9, log)
    let middle = Generator<Int> { yield in
      defer { log.add("middle") }
      try yield(from: inner)
    }
    let outer = Generator<Int> { yield in
      defer { log.add("outer") }
      try yield(from: middle)
    }
    #expect(outer.next() == 0)
    outer.cancel()
    #expect(log.all == ["end of 0..<9", "middle", "outer"])
    #expect(outer.next() == nil && middle.next() == nil && inner.next() == nil)
  }

  @Test func aCancelFromTheInnermostBodyEndsAll() {
    let log = Log()
    var handle: Generator<Int>?
    let generator = Generator<Int> { yield in
      defer { log.add("outer") }
      try yield(
        from: Generator<Int> { yield in
          defer { log.add("inner") }
          try yield(1)
          handle?.cancel()
          try yield(2)
        })
      try yield(3)
    }
    handle = generator
    #expect(generator.next() == 1)
    #expect(generator.next() == nil)
    #expect(log.all == ["inner", "outer"])
    handle = nil
  }

  @Test func aCancelOfTheInnerOneLetsTheOuterGoOn() {
    let log = Log()
    let inner = Self.counting(0..<9, log)
    let generator = Generator<Int> { yield in
      try yield(
        from: Generator<Int> { yield in
          try yield(from: inner)
          try yield(10)
        })
      try yield(11)
    }
    #expect(generator.next() == 0)
    #expect(generator.next() == 1)
    inner.cancel()
    #expect(log.all == ["end of 0..<9"])
    #expect(Array(generator) == [10, 11])
  }

  @Test func anErrorOfTheInnerOneComesOutOfYieldFrom() {
    let generator = Generator<Int> { yield in
      do {
        try yield(
          from: Generator<Int> { yield in
            try yield(1)
            throw Problem()
          })
        Issue.record("the error is lost")
      } catch is Problem {
        try yield(2)
      }
      do {
        try yield(
          from: ThrowingGenerator<Int> { yield in
            try yield(3)
            throw Problem()
          })
        Issue.record("the error is lost")
      } catch is Problem {
        try yield(4)
      }
    }
    // Reported, the error would set `failure`, and print a line.
    #expect(Array(generator) == [1, 2, 3, 4])
    #expect(generator.failure == nil)
  }

  @Test func whatABodyWithoutAStackCapturedMayLetGoOfItsGenerator() {
    /// Cancels the generator that yields from it, and drops the last reference to that.
    final class Canceller {
      var outer: Generator<Int>?
      let log: Log

      init(_ log: Log) { self.log = log }

      deinit {
        outer?.cancel()
        log.add("cancelled")
      }
    }
    let log = Log()
    var canceller: Canceller? = Canceller(log)
    func makeDelegate() -> Generator<Int> {
      let captured = canceller
      canceller = nil
      return Generator(stackSize: .max) { _ in withExtendedLifetime(captured) {} }
    }
    let outer = Generator<Int> { yield in
      defer { log.add("end") }
      try yield(from: makeDelegate())
    }
    canceller?.outer = outer
    #expect(outer.next() == nil && outer.next() == nil)
    #expect(log.all == ["end", "cancelled"])
  }

  @Test func noMemoryForTheInnerOneIsAnErrorInTheOuter() {
    let generator = Generator<Int> { yield in
      do {
        try yield(from: Generator<Int>(stackSize: .max) { _ in })
        Issue.record("a body without a stack")
      } catch {
        try yield(7)
      }
    }
    #expect(Array(generator) == [7])
  }

  @Test func nothingIsLeftOfManyThatAreDroppedInTheMiddle() {
    final class Witness {
      nonisolated(unsafe) static var live = 0  // used by this test's one thread
      init() { Witness.live += 1 }
      deinit { Witness.live -= 1 }
    }
    func nested(_ depth: Int) -> Generator<Int> {
      let witness = Witness()
      return Generator { yield in
        defer { withExtendedLifetime(witness) {} }
        if depth == 0 { for value in 0... { try yield(value) } } else { try yield(from: nested(depth - 1)) }
      }
    }
    for _ in 0..<2000 {
      let generator = nested(4)
      #expect(generator.next() == 0)
      #expect(generator.next() == 1)
    }
    #expect(Witness.live == 0)
  }

  // MARK: Returning

  @Test func theReturnValueComesOutOfYieldFrom() {
    let summing = { (numbers: [Int]) in
      TwoWayGenerator<Void, Int, String> { yield in
        for number in numbers { try yield(number) }
        return "sum \(numbers.reduce(0, +))"
      }
    }
    var results: [String] = []
    let generator = Generator<Int> { yield in
      results.append(try yield(from: summing([1, 2])))
      results.append(try yield(from: summing([])))
      results.append(try yield(from: summing([3])))
    }
    #expect(Array(generator) == [1, 2, 3])
    #expect(results == ["sum 3", "sum 0", "sum 3"])
  }

  @Test func inputsGoToTheInnermost() throws {
    let log = Log()
    func echo(_ name: String, _ count: Int) -> TwoWayGenerator<String, String, Int> {
      TwoWayGenerator { yield in
        for number in 0..<count { log.add("\(name) got \(try yield("\(name)\(number)"))") }
        return count
      }
    }
    let outer = TwoWayGenerator<String, String, Int> { yield in
      log.add("outer got \(try yield("outer"))")
      let first = try yield(from: echo("a", 2))
      let second = try yield(from: TwoWayGenerator<String, String, Int> { yield in try yield(from: echo("b", 1)) })
      return first * 10 + second
    }
    var steps: [TwoWayGenerator<String, String, Int>.Step] = []
    for number in 0..<6 { steps.append(try outer.next("\(number)")) }
    #expect(
      steps == [
        .yielded("outer"), .yielded("a0"), .yielded("a1"), .yielded("b0"), .returned(21), .returned(21),
      ])
    #expect(log.all == ["outer got 1", "a got 2", "a got 3", "b got 4"])
  }

  // MARK: Open scopes

  @Test func theInnerBodySeesTheBindingAroundYieldFrom() {
    let generator = Generator<Int> { yield in
      try Local.$number.withValue(7) {
        try yield(
          from: Generator<Int> { yield in
            for _ in 0..<3 { try yield(Local.number) }
          })
      }
      try yield(Local.number)
    }
    var seen: [Int] = []
    while let value = generator.next() {
      seen.append(value)
      #expect(Local.number == 0)
    }
    #expect(seen == [7, 7, 7, 0])
  }

  @Test func anAccessAroundYieldFromStaysOpen() {
    final class Variable { var values = [1, 2, 3] }
    let variable = Variable()
    @inline(never)
    func modify(_ values: inout [Int], _ yield: Generator<Int>.Yield) throws {
      let copy = values
      try yield(from: Generator<Int> { yield in for value in copy { try yield(value) } })
      values.append(4)
    }
    let log = Log()
    func half() {
      let generator = Generator<Int> { yield in
        defer { log.add("end") }
        try modify(&variable.values, yield)
      }
      #expect(generator.next() == 1)
    }
    half()
    #expect(log.all == ["end"])
    #expect(Array(Generator<Int> { yield in try modify(&variable.values, yield) }) == [1, 2, 3])
    #expect(variable.values == [1, 2, 3, 4])
  }

  @Test func theInputsAndTheResultComeThroughAnOpenScope() throws {
    let outer = TwoWayGenerator<Int, Int, Int> { yield in
      try Local.$number.withValue(100) {
        try yield(
          from: TwoWayGenerator<Int, Int, Int> { yield in
            var sum = 0
            for _ in 0..<3 { sum += try yield(sum + Local.number) }
            return sum
          })
      }
    }
    #expect(try outer.next(9) == .yielded(100))
    #expect(try outer.next(1) == .yielded(101))
    #expect(try outer.next(2) == .yielded(103))
    #expect(try outer.next(3) == .returned(6))
  }

  // MARK: Where it runs

  @Test func waitingInTheInnermostSuspendsTheConsumer() async throws {
    let channel = Channel<Int>()
    let consumer = Coroutine {
      let generator = Generator<Int> { yield in
        try yield(
          from: Generator<Int> { yield in
            for value in channel.received { try yield(value) }
          })
        try yield(-1)
      }
      return Array(generator)
    }
    try await channel.send(1)
    try await channel.send(2)
    channel.close()
    #expect(try await consumer.get() == [1, 2, -1])
  }

  @Test func theChainMovesToAnotherThreadBetweenTwoElements() {
    let generator = Generator<Int> { yield in
      try yield(from: Generator<Int> { yield in try yield(from: Self.counting(0..<4)) })
      try yield(4)
    }
    #expect(generator.next() == 0)
    // Passed on by the queue: one thread at a time.
    nonisolated(unsafe) let moved = generator
    let done = DispatchSemaphore(value: 0)
    DispatchQueue(label: "another thread").async {
      #expect(moved.next() == 1)
      done.signal()
    }
    blockingWait(done)
    #expect(Array(generator) == [2, 3, 4])
  }

  // MARK: Misuse

  @Test func twoConsumersOfOneTrap() async {
    let asked = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let inner = Generator<Int> { yield in for value in 0..<9 { try yield(value) } }
      let outer = Generator<Int> { yield in try yield(from: inner) }
      _ = outer.next()
      _ = inner.next()
    }
    #expect(message(asked).contains("ask that one instead"))
    let shared = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let inner = Generator<Int> { yield in for value in 0..<9 { try yield(value) } }
      let outers = (0..<2).map { _ in Generator<Int> { yield in try yield(from: inner) } }
      for outer in outers { _ = outer.next() }
    }
    #expect(message(shared).contains("two Generators yield from the same one"))
  }

  /// The one that its last element came from before, when no other one yielded from it, is gone by then.
  @Test func anErrorForOneThatAnotherYieldsFromTraps() async {
    let throwing = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let middle = ThrowingGenerator<Int> { yield in
        try yield(from: Generator<Int> { yield in try yield(1) })
        try yield(2)
      }
      _ = try middle.next()
      let outer = Generator<Int> { yield in try yield(from: middle) }
      _ = outer.next()
      _ = try middle.next(throwing: Problem())
    }
    #expect(message(throwing).contains("ask that one instead"))
    let twoWay = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let inner = TwoWayGenerator<Int, Int, Void> { yield in while true { try yield(1) } }
      let outer = TwoWayGenerator<Int, Int, Void> { yield in try yield(from: inner) }
      _ = try outer.next(0)
      _ = try inner.next(0)
    }
    #expect(message(twoWay).contains("ask that one instead"))
  }

  @Test func aCycleTraps() async {
    let itself = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      nonisolated(unsafe) var handle: Generator<Int>?
      handle = Generator<Int> { yield in try yield(from: handle!) }
      _ = handle?.next()
    }
    #expect(message(itself).contains("yields from itself"))
    let ring = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      nonisolated(unsafe) var handle: Generator<Int>?
      handle = Generator<Int> { yield in
        try yield(from: Generator<Int> { yield in try yield(from: handle!) })
      }
      _ = handle?.next()
    }
    #expect(message(ring).contains("yields from itself"))
  }

  @Test func askingTheOuterOneInsideTheInnerBodyTraps() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      nonisolated(unsafe) var handle: Generator<Int>?
      handle = Generator<Int> { yield in
        try yield(
          from: Generator<Int> { yield in
            try yield(1)
            _ = handle?.next()
          })
      }
      _ = handle?.next()
      _ = handle?.next()
    }
    #expect(message(result).contains("inside its own body"))
  }

  /// The stack that the outer generator's elements came from is gone by then.
  @Test func askingTheOuterOneWhileAnInnerOneIsCancelledTraps() async {
    let middle = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      nonisolated(unsafe) var outer: Generator<Int>?
      let innermost = Generator<Int> { yield in for value in 0..<9 { try yield(value) } }
      let inner = Generator<Int> { yield in
        defer { _ = outer?.next() }
        try yield(from: innermost)
      }
      outer = Generator<Int> { yield in try yield(from: inner) }
      _ = outer?.next()
      inner.cancel()
    }
    #expect(message(middle).contains("inside its own body"))
    let last = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      nonisolated(unsafe) var outer: Generator<Int>?
      let innermost = Generator<Int> { yield in
        defer { _ = outer?.next() }
        for value in 0..<9 { try yield(value) }
      }
      let inner = Generator<Int> { yield in try yield(from: innermost) }
      outer = Generator<Int> { yield in try yield(from: inner) }
      _ = outer?.next()
      inner.cancel()
    }
    #expect(message(last).contains("inside its own body"))
  }

  private func message(_ result: ExitTest.Result?) -> String {
    result.map { String(decoding: $0.standardErrorContent, as: UTF8.self) } ?? ""
  }
}

/// Generators, each of which yields from the next one.
private struct Chain<Link> {
  /// What a link's body reads when it begins: the next link, or `nil` in the innermost one.
  final class Body {
    fileprivate(set) var inner: Link?
  }

  /// The outermost link first.
  private let links: [Link]

  init(of length: Int, _ make: (Body) -> Link) {
    let bodies = (0..<length).map { _ in Body() }
    links = bodies.map(make)
    for (body, inner) in zip(bodies, links.dropFirst()) { body.inner = inner }
  }

  var outermost: Link { links[0] }

  /// Runs `body` while the stacks of the outer links, which have begun, are not writable. A link that is resumed
  /// writes to its stack, by its first call at the latest, and so ends the process.
  ///
  /// - Parameter block: returns a link's control block, which is on its stack.
  func withOuterStacksLocked<Result>(
    _ block: (Link) -> UnsafeMutablePointer<ControlBlock>?, during body: (Link) throws -> Result
  ) rethrows -> Result {
    let stacks = links.dropLast().compactMap { link in
      block(link).flatMap { StackPool.default.stack(containing: UInt(bitPattern: $0)) }
    }
    #expect(stacks.count == links.count - 1)
    for stack in stacks { #expect(mprotect(stack.limit, stack.size, PROT_READ) == 0) }
    defer { for stack in stacks { #expect(mprotect(stack.limit, stack.size, PROT_READ | PROT_WRITE) == 0) } }
    return try body(outermost)
  }
}
