import Coroutine
import CoroutineTestSupport
import Dispatch
import Testing

/// Which code may call a generator's `yield`: code on the body's stack, or on a stack on top of it.
@Suite(.ownThreads) struct GeneratorYieldTests {
  /// A generator, and its `yield` for other code.
  // Unchecked: used on one serial queue, but for the calls that must trap.
  final class Handle: @unchecked Sendable {
    var yield: Generator<Int>.Yield?
    var big: Generator<[Int]>.Yield?
  }

  private func expectTrap(_ result: ExitTest.Result?, _ location: SourceLocation = #_sourceLocation) {
    #expect(standardError(of: result).contains("outside of its body"), sourceLocation: location)
  }

  @Test func byAnotherCoroutineWhileTheBodyWaits() async {
    expectTrap(
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        let (handle, gate, queue) = (Handle(), Channel<Int>(), DispatchQueue(label: "serial"))
        let consumer = Coroutine(on: queue) {
          let generator = Generator<Int> { yield in
            handle.yield = yield
            try yield(try gate.receive())
          }
          return generator.next()
        }
        // After the body has begun to wait, as the queue runs one after the other.
        try await Coroutine(on: queue) { try handle.yield?(1) }.get()
        try await gate.send(2)
        _ = try await consumer.get()
      })
  }

  @Test func onAnotherThreadWhileTheBodyWaits() async {
    expectTrap(
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        let (handle, gate, queue) = (Handle(), Channel<Int>(), DispatchQueue(label: "serial"))
        let consumer = Coroutine(on: queue) {
          let generator = Generator<Int> { yield in
            handle.yield = yield
            try yield(try gate.receive())
          }
          return generator.next()
        }
        try await Coroutine(on: queue) {}.get()
        PlainThread { try? handle.yield?(1) }.join()
        try await gate.send(2)
        _ = try await consumer.get()
      })
  }

  @Test func byACoroutineOnTopOfTheBody() async {
    expectTrap(
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        let handle = Handle()
        let generator = Generator<[Int]> { yield in
          handle.big = yield
          Coroutine.immediate { try handle.big?([1]) }
        }
        _ = generator.next()
      })
  }

  @Test func ofAnotherGeneratorThatIsWaitedFor() async {
    expectTrap(
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        let (handle, gate, queue) = (Handle(), Channel<Int>(), DispatchQueue(label: "serial"))
        let consumer = Coroutine(on: queue) {
          let generator = Generator<Int> { yield in
            handle.yield = yield
            try yield(try gate.receive())
          }
          return generator.next()
        }
        try await Coroutine(on: queue) {
          _ = Generator<Int> { yield in
            try handle.yield?(from: Generator<Int> { try $0(1) })
          }.next()
        }.get()
        try await gate.send(2)
        _ = try await consumer.get()
      })
  }

  @Test func afterTheBodysEnd() async {
    expectTrap(
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        let handle = Handle()
        let generator = Generator<Int> { yield in handle.yield = yield }
        _ = generator.next()
        try handle.yield?(1)
      })
  }

  /// Of another type, on the same stack, after so many others that a number of 16 bits would come again.
  @Test func afterSixtyFiveThousandGeneratorsMore() async {
    expectTrap(
      await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        let handle = Handle()
        for _ in Generator<Int>({ yield in handle.yield = yield }) {}
        for _ in 1...65_535 {
          for _ in Generator<[String]>({ _ in }) {}
        }
        let other = Generator<[String]> { _ in try handle.yield?(0x4141_4141_4141_4141) }
        print(other.next() ?? [])
      })
  }

  @Test func fromTheBodyOfAnInnerGenerator() {
    let outer = Generator<Int> { yield in
      let inner = Generator<Int> { _ in for value in 0..<5 { try yield(value) } }
      #expect(inner.next() == nil)
      try yield(5)
    }
    #expect(Array(outer) == [0, 1, 2, 3, 4, 5])
  }

  @Test func fromFarDownTheBodysStack() {
    func descend(_ depth: Int, _ yield: Generator<Int>.Yield) throws {
      try withUnsafeTemporaryAllocation(byteCount: 512, alignment: 16) { _ in
        try yield(depth)
        if depth < 100 { try descend(depth + 1, yield) }
        try yield(depth)
      }
    }
    let numbers = Array(Generator<Int> { try descend(0, $0) })
    #expect(numbers == Array(0...100) + (0...100).reversed())
    let arrays = Array(
      Generator<[Int]> { yield in
        for number in Generator<Int>({ try descend(0, $0) }) { try yield([number]) }
      })
    #expect(arrays == numbers.map { [$0] })
  }

  // MARK: - In a closure behind which the caller waits

  /// What goes on with the body of a generator whose first element another coroutine has taken.
  private static func goOnElsewhere(_ body: @escaping (Generator<Int>.Yield) throws -> Void) throws {
    nonisolated(unsafe) let generator = Generator<Int>(body)
    let first = Coroutine { generator.next() }
    #expect(try first.get() == 1)
    try Coroutine { _ = generator.next() }.join()
    // Until here: another coroutine could have its address.
    withExtendedLifetime(first) {}
  }

  @Test func inTheClosureOfASuspension() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      try await Coroutine {
        try Self.goOnElsewhere { yield in
          let value: Int = try withSuspension { resume in
            try? yield(1)
            resume(2)
          }
          try yield(value)
        }
      }.get()
    }
    #expect(
      standardError(of: result).contains("a closure that was given to withSuspension returns on another coroutine"))
  }

  @Test func inTheClosureThatMakesAQuestion() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      try await Coroutine {
        let actor = MessageActor<Reply<Int>> { mailbox in for reply in mailbox { reply.complete(2) } }
        try Self.goOnElsewhere { yield in
          let value: Int = try actor.ask { reply in
            try? yield(1)
            return reply
          }
          try yield(value)
        }
      }.get()
    }
    #expect(
      standardError(of: result).contains("a closure that was given to MessageActor.ask returns on another coroutine"))
  }

  /// The mutex is held by the one that has taken the first element.
  @Test func inTheCasesBesideACondition() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      try await Coroutine {
        let mutex = CoroutineMutex(0)
        let (condition, other) = (Condition(of: mutex), Channel<Int>(capacity: .buffered(1)))
        try Self.goOnElsewhere { yield in
          try mutex.withLock { value in
            _ = try condition.wait(
              &value,
              orSelect: {
                let _ = try? yield(1)
                other.onReceive { _ in }
              })
          }
        }
      }.get()
    }
    #expect(standardError(of: result).contains("without holding"))
  }

  // MARK: - In a task that the body has begun

  @MainActor private final class Count { var value = 0 }

  @MainActor private static func numbers(_ count: Count) -> Generator<Int> {
    Generator { yield in
      Task.immediate {
        try? yield(1)
        await Task.yield()
        count.value += 1
      }
      try yield(2)
    }
  }

  @Test func inATaskThatBeginsOnTheBodysStack() async {
    let message = "yields inside of a task that it has begun on its own stack"
    let inTask = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      await MainActor.run { _ = Self.numbers(Count()).next() }
    }
    #expect(standardError(of: inTask).contains(message))
    let inCoroutine = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      await MainActor.run { _ = Coroutine.immediate { @MainActor in Self.numbers(Count()).next() } }
    }
    #expect(standardError(of: inCoroutine).contains(message))
  }

  /// It yields in the plain way before.
  @Test func inATaskThatBeginsLater() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      await MainActor.run {
        let generator = Generator<Int> { yield in
          for number in 0..<3 { try yield(number) }
          Task.immediate { try? yield(3) }
        }
        while generator.next() != nil {}
      }
    }
    #expect(standardError(of: result).contains("yields inside of a task that it has begun on its own stack"))
  }

  /// The inner one's body is under way on top of the outer one's, which the other task resumes.
  @Test func tasksMayTakeTurnsAsConsumersOfBodiesOnTopOfEachOther() async {
    await MainActor.run {
      nonisolated(unsafe) let outer = Generator<Int> { up in
        let inner = Generator<Int> { yield in
          for number in 0..<10 {
            try up(number)
            try yield(number)
          }
        }
        for number in inner { try up(number) }
      }
      var numbers = [outer.next()]
      for _ in 0..<9 { Task.immediate { numbers.append(outer.next()) } }
      while let number = outer.next() { numbers.append(number) }
      #expect(numbers == (0..<20).map { $0 / 2 })
    }
  }

  @Test func tasksMayTakeTurnsAsConsumers() async {
    await MainActor.run {
      nonisolated(unsafe) let generator = Generator<Int> { yield in for number in 0..<100 { try yield(number) } }
      var sum = 0
      for _ in 0..<10 {
        for _ in 0..<5 { sum += generator.next() ?? 0 }
        Task.immediate { for _ in 0..<5 { sum += generator.next() ?? 0 } }
      }
      #expect(sum == 4950)
    }
  }
}
