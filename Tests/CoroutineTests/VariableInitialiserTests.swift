import CoroutineTestSupport
import Testing

@testable import Coroutine

/// A global variable whose initialiser waits. The Swift runtime's lock for it belongs to the thread.
@Suite(.ownThreads) struct VariableInitialiserTests {
  private enum Variables {
    static let waiting: Int = {
      Coroutine.yield()
      return 1
    }()
    static let running: Int? = try? Coroutine(on: ThreadPool(threads: 1)) {
      Coroutine.yield()
      return 2
    }.getBlocking()
    static let waitingInABody: Int = {
      Coroutine.yield()
      return 4
    }()
    // Written and read by one test, on one thread.
    nonisolated(unsafe) static var yielder: Generator<Int>.Yield?
    static let yieldingInside: Int = {
      try? yielder?(1)
      return 5
    }()
    static let consuming: Int? = {
      Generator<Int> { yield in
        Coroutine.yield()
        try yield(6)
      }.next()
    }()
    static let ready: Int = {
      let channel = Channel<Int>(capacity: .buffered(1))
      try? channel.send(3)
      return channel.received.next() ?? 0
    }()
  }

  #if DEBUG
    @Test func anInitialiserThatWaitsTraps() async {
      let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        _ = try await Coroutine(on: ThreadPool(threads: 1), name: "lazy") { Variables.waiting }.get()
      }
      #expect(
        standardError(of: result).contains("\"lazy\" suspends inside the initialiser of a static or global variable"))
    }

    @Test func oneThatWaitsInAGeneratorsBodyTraps() async {
      let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        _ = try await Coroutine(on: ThreadPool(threads: 1), name: "lazy") {
          let inner = Generator<Int> { yield in try yield(Variables.waitingInABody) }
          let outer = Generator<Int> { yield in for element in inner { try yield(element) } }
          return outer.next()
        }.get()
      }
      #expect(
        standardError(of: result).contains("\"lazy\" suspends inside the initialiser of a static or global variable"))
    }

    /// The initialiser is in the consumer's frames, and what waits is the body.
    @Test func oneWhoseGeneratorsBodyWaitsTraps() async {
      let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        _ = try await Coroutine(on: ThreadPool(threads: 1), name: "lazy") { Variables.consuming }.get()
      }
      #expect(
        standardError(of: result).contains("\"lazy\" suspends inside the initialiser of a static or global variable"))
    }

    @Test func aYieldInAnInitialiserTraps() async {
      let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        let generator = Generator<Int> { yield in
          try yield(0)
          Variables.yielder = yield
          _ = Variables.yieldingInside
        }
        _ = generator.next()
        _ = generator.next()
      }
      #expect(standardError(of: result).contains("yields inside the initialiser of a static or global variable"))
    }
  #endif

  @Test func oneThatDoesNotWaitIsNoHazard() throws {
    #expect(try Coroutine(on: ThreadPool(threads: 1)) { Variables.ready }.getBlocking() == 3)
  }

  @Test func whatAnotherCoroutineDoesMeanwhileIsNoHazard() {
    #expect(PlainThread { Variables.running }.join() == 2)
  }
}
