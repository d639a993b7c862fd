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
}
