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
  #endif

  @Test func oneThatDoesNotWaitIsNoHazard() throws {
    #expect(try Coroutine(on: ThreadPool(threads: 1)) { Variables.ready }.getBlocking() == 3)
  }

  @Test func whatAnotherCoroutineDoesMeanwhileIsNoHazard() {
    #expect(PlainThread { Variables.running }.join() == 2)
  }
}
