import Context
import Coroutine
import CoroutineTestSupport
import Dispatch
import Testing

/// A generator whose body runs on another scheduler, while the consumer is suspended.
@Suite(.ownThreads) struct AsyncGeneratorTests {
  enum Local {
    @TaskLocal static var number = 0
  }

  struct Problem: Error, Equatable {
    var number = 0
  }

  private static func counting(_ count: Int) -> AsyncGenerator<Int> {
    AsyncGenerator { yield in for value in 0..<count { try yield(value) } }
  }

  // MARK: Elements

  @Test func asyncCodeIterates() async throws {
    var all: [Int] = []
    for try await value in Self.counting(5) { all.append(value) }
    #expect(all == [0, 1, 2, 3, 4])
  }

  @Test @MainActor func aLoopStaysWithItsActor() async throws {
    var iterator = Self.counting(3).makeAsyncIterator()
    var all: [Int] = []
    while let value = try await iterator.next(isolation: #isolation) { all.append(value) }
    #expect(all == [0, 1, 2])
  }

  @Test func aCoroutineIterates() async throws {
    let coroutine = Coroutine { () throws -> [Int] in
      var all: [Int] = []
      let generator = Self.counting(5)
      while let value = try generator.next() { all.append(value) }
      #expect(try generator.next() == nil)
      return all
    }
    #expect(try await coroutine.get() == [0, 1, 2, 3, 4])
  }

  @Test func takeLeavesTheRest() async throws {
    let generator = Self.counting(6)
    #expect(try await generator.take(2) == [0, 1])
    let rest = Coroutine { () throws -> [[Int]] in try [0, 3, 3].map { try generator.take($0) } }
    #expect(try await rest.get() == [[], [2, 3, 4], [5]])
    #expect(try await generator.take(1) == [])
  }

  @Test func theAlgorithmsOfAsyncSequencesWork() async throws {
    let numbers = AsyncGenerator<Int> { yield in for value in 0... { try yield(value) } }
    #expect(try await numbers.prefix(4).reduce(0, +) == 6)
    // There is one position, whichever consumer iterates.
    #expect(try await numbers.first { $0 % 7 == 0 } == 7)
  }

  @Test func theBodyRunsOnItsSchedulerAndTheConsumerOnItsOwn() async throws {
    let (mine, its) = (DispatchQueue(label: "consumer"), DispatchQueue(label: "body"))
    let coroutine = Coroutine(on: mine) { () throws -> Int in
      let generator = AsyncGenerator<Int>(on: its) { yield in
        for value in 0..<100 {
          dispatchPrecondition(condition: .onQueue(its))
          try yield(value)
        }
      }
      var sum = 0
      while let value = try generator.next() {
        dispatchPrecondition(condition: .onQueue(mine))
        sum += value
      }
      return sum
    }
    #expect(try await coroutine.get() == 4950)
  }

  struct Torn: Error, Equatable {}

  @Test func aBodyYieldsWhatOthersDo() async throws {
    let log = Log()
    let all = AsyncGenerator<Int>(on: DispatchQueue(label: "outer")) { yield in
      try yield(from: [1, 2])
      try yield(from: Generator { inner in try inner(3) })
      let result = try yield(
        from: TwoWayGenerator<Void, Int, String> { inner in
          try inner(4)
          return "result"
        })
      log.add(result)
      try yield(from: Self.counting(2))
      do {
        try yield(
          from: ThrowingGenerator { inner in
            try inner(5)
            throw Torn()
          })
      } catch { log.add("\(error)") }
      // The error is not reported, but thrown here.
      try yield(
        from: Generator { inner in
          try inner(6)
          throw Torn()
        })
    }
    var elements: [Int] = []
    await #expect(throws: Torn()) { while let element = try await all.next() { elements.append(element) } }
    #expect(elements == [1, 2, 3, 4, 0, 1, 5, 6])
    #expect(log.all == ["result", "Torn()"])
  }

  @Test func whatItYieldsFromEndsWithItAndBefore() async throws {
    let log = Log()
    let inner = Generator<Int> { yield in
      defer { log.add("inner") }
      while true { try yield(1) }
    }
    // Passed on to the body, which alone uses it.
    nonisolated(unsafe) let handedOver = inner
    let outer = AsyncGenerator<Int> { yield in
      defer { log.add("outer") }
      try yield(from: handedOver)
    }
    #expect(try await outer.next() == 1)
    outer.cancel()
    try await outer.join()
    #expect(log.all == ["inner", "outer"])
  }

  @Test func joiningWaitsForTheEndOfABodyThatWasCancelled() async throws {
    let log = Log()
    let gate = Channel<Void>()
    let generator = AsyncGenerator<Int>(on: DispatchQueue(label: "slow")) { yield in
      defer {
        withCancellationShield { try? gate.receive() }
        log.add("closed")
      }
      while true { try yield(1) }
    }
    try await generator.join()  // it has not begun
    #expect(try await generator.next() == 1)
    generator.cancel()
    let joiner = Coroutine {
      try generator.join()
      log.add("joined")
    }
    try await gate.send(())
    try await joiner.get()
    try await generator.join()
    #expect(log.all == ["closed", "joined"])
  }

  /// It goes behind the body's return, and may wait for something there.
  @Test func joiningWaitsUntilWhatTheBodyCapturedIsReleased() async throws {
    final class Captured: Sendable {
      let gate: Channel<Void>
      let log: Log
      init(_ gate: Channel<Void>, _ log: Log) { (self.gate, self.log) = (gate, log) }
      deinit {
        try? gate.receive()
        log.add("released")
      }
    }
    let (gate, log) = (Channel<Void>(), Log())
    try await serially {
      func make() -> AsyncGenerator<Int> {
        let captured = Captured(gate, log)
        return AsyncGenerator<Int> { _ in withExtendedLifetime(captured) {} }
      }
      let generator = make()
      _ = try generator.next()
      let joiner = Coroutine {
        try generator.join()
        log.add("joined")
      }
      for _ in 0..<20 { Coroutine.yield() }
      log.add("opened")
      try gate.send(())
      try joiner.get()
    }
    #expect(log.all == ["opened", "released", "joined"])
  }

  @Test func joiningEndsWithTheJoinersCancel() async throws {
    let generator = AsyncGenerator<Int> { yield in while true { try yield(1) } }
    #expect(try await generator.next() == 1)
    let task = Task { try await generator.join() }
    let coroutine = Coroutine { try generator.join() }
    task.cancel()
    coroutine.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
    await #expect(throws: CancellationError.self) { try await coroutine.get() }
    #expect(try await generator.next() == 1)
  }

  @Test func theBodyIsNeverAhead() async throws {
    let queue = DispatchQueue(label: "serial")
    let log = Log()
    let coroutine = Coroutine(on: queue) {
      let generator = AsyncGenerator<Int> { yield in
        log.add("begins")
        for value in 0..<2 {
          log.add("computes \(value)")
          try yield(value)
        }
        log.add("ends")
      }
      Coroutine.yield()
      log.add("asks")
      while let value = try generator.next() {
        log.add("got \(value)")
        Coroutine.yield()
        log.add("asks")
      }
    }
    try await coroutine.get()
    #expect(
      log.all == [
        "asks", "begins", "computes 0", "got 0", "asks", "computes 1", "got 1", "asks", "ends",
      ])
  }

  @Test func theBodyMaySuspend() async throws {
    let channel = Channel<Int>()
    let doubled = AsyncGenerator<Int> { yield in
      for value in channel.received {
        Coroutine.yield()
        try yield(value * 2)
      }
    }
    let sender = Coroutine {
      for value in 1...3 { try channel.send(value) }
      channel.close()
    }
    var all: [Int] = []
    for try await value in doubled { all.append(value) }
    #expect(all == [2, 4, 6])
    try await sender.get()
  }

  @Test func yieldsFromCallbacksOfTheBody() async throws {
    let generator = AsyncGenerator<Int> { yield in
      _ = try [3, 1, 2].sorted {
        try yield($0 * 10 + $1)
        return $0 < $1
      }
    }
    var count = 0
    for try await _ in generator { count += 1 }
    #expect(count >= 2)
  }

  @Test func manyConsumersShareTheElements() async throws {
    let generator = Self.counting(1000)
    let coroutines = (0..<10).map { _ in
      Coroutine { () throws -> [Int] in
        var mine: [Int] = []
        while let value = try generator.next() { mine.append(value) }
        return mine
      }
    }
    var all: [Int] = []
    for try await value in generator { all.append(value) }
    for coroutine in coroutines {
      let mine = try await coroutine.get()
      #expect(mine == mine.sorted())
      all += mine
    }
    #expect(all.sorted() == Array(0..<1000))
  }

  @Test func theBodyHasTheBindingsOfTheFirstConsumer() async throws {
    let generator = AsyncGenerator<Int> { yield in for _ in 0..<2 { try yield(Local.number) } }
    #expect(try await Local.$number.withValue(7) { try await generator.next() } == 7)
    #expect(try await generator.next() == 7)
    #expect(try await generator.next() == nil)
  }

  // MARK: Ends

  @Test func theBodysErrorIsThrownOnce() async throws {
    let generator = AsyncGenerator<Int> { yield in
      try yield(1)
      throw Problem()
    }
    #expect(try await generator.next() == 1)
    await #expect(throws: Problem()) { try await generator.next() }
    #expect(try await generator.next() == nil)
  }

  @Test func theCancelOfAnotherOneIsAnErrorOfTheBody() async throws {
    let generator = AsyncGenerator<Int> { yield in
      try yield(1)
      let other = TwoWayGenerator<Void, Int, Int> { _ in 0 }
      other.cancel()
      try yield(from: other)
      try yield(2)
    }
    #expect(try await generator.next() == 1)
    await #expect(throws: GeneratorCancelled.self) { try await generator.next() }
    #expect(try await generator.next() == nil)
  }

  @Test func anErrorThatIsNotAskedForIsReported() async throws {
    let reported = Channel<Void>()
    try await LostErrors.observe { error, origin in
      guard error as? Problem == Problem(number: 40), origin == "generator \"half\"" else { return false }
      Coroutine { try reported.send(()) }
      return true
    } during: {
      func half() async throws {
        let generator = AsyncGenerator<Int>(name: "half") { yield in
          do { try yield(1) } catch { throw Problem(number: 40) }
        }
        #expect(try await generator.next() == 1)
      }
      try await half()
      try await reported.receive()
    }
  }

  @Test func aDroppedOneUnwindsItsBody() async throws {
    let unwound = Channel<String>()
    func half() async throws {
      let generator = AsyncGenerator<Int> { yield in
        do {
          for value in 0... { try yield(value) }
        } catch {
          // The coroutine is cancelled: every wait from here on needs a shield.
          withCancellationShield { try? unwound.send("\(type(of: error))") }
          throw error
        }
      }
      #expect(try await generator.next() == 0)
      #expect(try await generator.next() == 1)
    }
    try await half()
    #expect(try await unwound.receive() == "GeneratorCancelled")
  }

  /// A shield keeps the cancel of its coroutine from the waits of the body, but the end of the sequence from no `yield`.
  @Test func aBodyThatYieldsInsideAShieldEndsToo() async throws {
    let log = Log()
    try await serially {
      func make(_ name: String) -> AsyncGenerator<Int> {
        AsyncGenerator<Int> { yield in
          do {
            try withCancellationShield { for value in 0... { try yield(value) } }
          } catch { log.add("\(name): \(type(of: error))") }
        }
      }
      func half() throws { _ = try make("dropped").next() }
      let cancelled = make("cancelled")
      _ = try cancelled.next()
      cancelled.cancel()
      try half()
      // The bodies have their turns on this queue, if they go on at all.
      for _ in 0..<20 { Coroutine.yield() }
    }
    #expect(log.all == ["cancelled: GeneratorCancelled", "dropped: GeneratorCancelled"])
  }

  @Test func aBreakOutOfTheLoopEndsTheBody() async throws {
    let unwound = Channel<Int>()
    for try await value in AsyncGenerator<Int>({ yield in
      defer { withCancellationShield { try? unwound.send(1) } }
      for value in 0... { try yield(value) }
    }) where value == 3 { break }
    #expect(try await unwound.receive() == 1)
  }

  @Test func aCancelEndsABodyThatWaitsForSomethingElse() async throws {
    let (begun, never, unwound) = (Channel<Void>(), Channel<Int>(), Channel<String>())
    let generator = AsyncGenerator<Int> { yield in
      try begun.send(())
      do { try yield(never.receive()) } catch {
        withCancellationShield { try? unwound.send("\(type(of: error))") }
        throw error
      }
    }
    let consumer = Task { try await generator.next() }
    try await begun.receive()
    generator.cancel()
    #expect(try await consumer.value == nil)
    #expect(try await unwound.receive() == "CancellationError")
    #expect(try await generator.next() == nil)
  }

  @Test func oneThatWasCancelledBeforeItBeganNeverRuns() async throws {
    final class Witness: Sendable {}
    weak var gone: Witness?
    func run() async throws {
      let witness = Witness()
      gone = witness
      let generator = AsyncGenerator<Int> { yield in
        Issue.record("it runs")
        withExtendedLifetime(witness) {}
      }
      generator.cancel()
      #expect(try await generator.next() == nil)
    }
    try await run()
    #expect(gone == nil)
  }

  @Test func aCancelledTaskTakesNoElementWithIt() async throws {
    let (begun, release) = (Channel<Void>(), Channel<Void>())
    let generator = AsyncGenerator<Int> { yield in
      try begun.send(())
      try release.receive()
      try yield(1)
      try yield(2)
    }
    let impatient = Task { try await generator.next() }
    try await begun.receive()
    impatient.cancel()
    await #expect(throws: CancellationError.self) { try await impatient.value }
    try await release.send(())
    #expect(try await generator.next() == 1)
    #expect(try await generator.next() == 2)
    #expect(try await generator.next() == nil)
  }

  @Test func aCancelledCoroutineTakesNoElementWithIt() async throws {
    let (begun, release) = (Channel<Void>(), Channel<Void>())
    let generator = AsyncGenerator<Int> { yield in
      try begun.send(())
      try release.receive()
      try yield(1)
    }
    let impatient = Coroutine { try generator.next() }
    try await begun.receive()
    impatient.cancel()
    await #expect(throws: CancellationError.self) { _ = try await impatient.get() }
    try await release.send(())
    #expect(try await generator.next() == 1)
    #expect(try await generator.next() == nil)
  }

  @Test func aConsumerCancelledBeforeItAskedDoesNotLeadTheBodyOn() async throws {
    let log = Log()
    let coroutine = Coroutine(on: DispatchQueue(label: "serial")) {
      let generator = AsyncGenerator<Int> { yield in
        for value in 0..<3 {
          log.add("computes \(value)")
          try yield(value)
        }
      }
      let cancelled = Coroutine.immediate { () throws -> Int? in
        Coroutine.yield()
        return try generator.next()
      }
      cancelled.cancel()
      _ = try? cancelled.get()
      for _ in 0..<3 { Coroutine.yield() }
      log.add("asks")
      log.add("got \(try generator.next() ?? -1)")
      for _ in 0..<3 { Coroutine.yield() }
      log.add("asks")
      log.add("got \(try generator.next() ?? -1)")
    }
    try await coroutine.get()
    #expect(log.all == ["asks", "computes 0", "got 0", "asks", "computes 1", "got 1"])
  }

  /// The body's wait in `yield` ends without a consumer, inside a scope that alone is cancelled. The body goes on.
  @Test func anElementWhoseYieldThrowsIsTakenBack() async throws {
    let queue = DispatchQueue(label: "serial")
    let log = Log()
    let coroutine = Coroutine(on: queue) {
      let generator = AsyncGenerator<Int> { yield in
        for value in 0..<4 {
          do {
            try withScope { scope in
              // The element that was asked for is received, and then the wait for the next demand is cancelled.
              scope.launch { scope.cancel() }
              try yield(value)
            }
          } catch { log.add("\(value): \(type(of: error))") }
        }
        try yield(4)
      }
      log.add("got \(try generator.next() ?? -1)")
      for _ in 0..<20 { Coroutine.yield() }
      log.add("got \(try generator.next() ?? -1)")
    }
    try await coroutine.get()
    let thrown = (0..<4).map { "\($0): CancellationError" }
    #expect(log.all == ["got 0"] + thrown + ["got 4"])
  }

  /// An element's `deinit` is the program's code: it must not run under the generator's lock.
  @Test func anElementThatIsTakenBackMayUseTheGenerator() async throws {
    final class Element: Sendable {
      let number: Int
      let generator: Guarded<AsyncGenerator<Element>?>
      init(_ number: Int, _ generator: Guarded<AsyncGenerator<Element>?>) {
        (self.number, self.generator) = (number, generator)
      }
      deinit { if number == 1 { generator.withLock { $0 }?.cancel() } }
    }
    let handle = Guarded<AsyncGenerator<Element>?>(nil)
    let coroutine = Coroutine(on: DispatchQueue(label: "serial")) { () -> Bool in
      handle.withLock {
        $0 = AsyncGenerator { yield in
          for number in 0..<4 {
            try? withScope { scope in
              scope.launch { scope.cancel() }
              try yield(Element(number, handle))
            }
          }
        }
      }
      _ = try handle.withLock { $0 }?.next()
      for _ in 0..<20 { Coroutine.yield() }
      return try handle.withLock { $0 }?.next() == nil
    }
    #expect(try await coroutine.get())
    handle.withLock { $0 = nil }
  }

  @Test func noMemoryForTheBodysStackIsThrownOnce() async throws {
    let generator = AsyncGenerator<Int>(stackSize: .max) { yield in try yield(1) }
    await #expect(throws: StackError.self) { try await generator.next() }
    #expect(try await generator.next() == nil)
    let other = AsyncGenerator<Int>(stackSize: .max) { yield in try yield(1) }
    let outcomes = try await Coroutine {
      (0..<2).map { _ in Result { try other.next() } }
    }.get()
    #expect(throws: StackError.self) { try outcomes[0].get() }
    #expect(try outcomes[1].get() == nil)
  }

  @Test func thousandsThatAreDroppedHalfWayLeaveNothing() async throws {
    let live = Guarded(0)
    final class Witness: Sendable {
      let live: Guarded<Int>
      init(_ live: Guarded<Int>) {
        self.live = live
        live.withLock { $0 += 1 }
      }
      deinit { live.withLock { $0 -= 1 } }
    }
    let ended = Channel<Void>()
    func half() async throws {
      let generator = AsyncGenerator<Int> { yield in
        let witness = Witness(live)
        defer {
          withExtendedLifetime(witness) {}
          Coroutine { try ended.send(()) }
        }
        for value in 0... { try yield(value) }
      }
      #expect(try await generator.next() == 0)
    }
    for _ in 0..<2000 {
      try await half()
      try await ended.receive()
    }
    while live.withLock({ $0 }) > 0 { await Task.yield() }
  }

  // MARK: Misuse

  @Test func askingInsideItsOwnBodyTrapsByName() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let handle = Guarded<AsyncGenerator<Int>?>(nil)
      let generator = AsyncGenerator<Int> { yield in
        let itself = handle.withLock { $0 }
        _ = try itself?.next()
      }
      handle.withLock { $0 = generator }
      _ = try await generator.next()
    }
    #expect(message(result).contains("inside its own body"))
  }

  @Test func yieldingElsewhereTrapsByName() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let generator = AsyncGenerator<Int> { yield in
        try Coroutine { try yield(1) }.get()
      }
      _ = try await generator.next()
    }
    #expect(message(result).contains("outside of its body"))
  }

  private func message(_ result: ExitTest.Result?) -> String {
    result.map { String(decoding: $0.standardErrorContent, as: UTF8.self) } ?? ""
  }
}
