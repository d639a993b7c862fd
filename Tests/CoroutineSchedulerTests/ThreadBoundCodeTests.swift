import CoroutineTestSupport
import Dispatch
import Testing

@testable import Coroutine

/// What waits, or yields, inside of a block that Dispatch runs before the call returns. Dispatch's note of the queue lies on the
/// stack that is left, and the thread goes on using it.
@Suite(.ownThreads) struct ThreadBoundCodeTests {
  #if DEBUG
    @Test func whatWaitsInsideQueueSyncTraps() async {
      let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        let queue = DispatchQueue(label: "q")
        try await Coroutine(on: ThreadPool(threads: 1), name: "inside") { queue.sync { Coroutine.yield() } }.get()
      }
      #expect(standardError(of: result).contains("\"inside\" suspends inside a block of queue.sync or concurrent"))
    }

    @Test func whatWaitsInsideConcurrentPerformTraps() async {
      let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        try await Coroutine(on: ThreadPool(threads: 1), name: "inside") {
          // The other threads that take part are kept at one iteration each, so that some are left for the caller.
          let never = DispatchSemaphore(value: 0)
          DispatchQueue.concurrentPerform(iterations: 1000) { _ in
            if Coroutine.isInside { Coroutine.yield() } else { _ = never.wait(timeout: .now() + .seconds(10)) }
          }
        }.get()
      }
      #expect(standardError(of: result).contains("\"inside\" suspends inside a block of queue.sync or concurrent"))
    }

    @Test func aGeneratorsBodyThatWaitsInsideTraps() async {
      let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        try await Coroutine(on: ThreadPool(threads: 1), name: "inside") {
          let queue = DispatchQueue(label: "q")
          _ = Generator<Int> { yield in
            queue.sync { Coroutine.yield() }
            try yield(1)
          }.next()
        }.get()
      }
      #expect(standardError(of: result).contains("\"inside\" suspends inside a block of queue.sync or concurrent"))
    }

    @Test func whatWaitsInsideAnIsolatedDeinitTraps() async {
      let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        actor Closing {
          isolated deinit { Coroutine.yield() }
        }
        try await Coroutine(on: ThreadPool(threads: 1), name: "inside") { _ = Closing() }.get()
      }
      #expect(standardError(of: result).contains("\"inside\" suspends inside an isolated deinit. The thread takes"))
    }

    @Test func aYieldInsideTraps() async {
      let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        let queue = DispatchQueue(label: "q")
        _ = Generator<Int> { yield in try queue.sync { try yield(1) } }.next()
      }
      #expect(standardError(of: result).contains("yields inside a block of queue.sync or concurrentPerform"))
    }
  #endif

  @Test func aConsumerInsideMayAskAGenerator() throws {
    let sum = Coroutine(on: ThreadPool(threads: 1)) {
      let queue = DispatchQueue(label: "q")
      let generator = Generator<Int> { yield in for number in 1...3 { try yield(number) } }
      let sum = queue.sync { generator.reduce(0, +) }
      Coroutine.yield()
      return sum
    }
    #expect(try sum.getBlocking() == 6)
  }

  /// A pinned thread stays.
  @Test func whatIsPinnedMayWaitInside() throws {
    let value = Coroutine(on: ThreadPool(threads: 1)) {
      let queue = DispatchQueue(label: "q")
      return withThreadPinned {
        queue.sync {
          Coroutine.yield()
          return 1
        }
      }
    }
    #expect(try value.getBlocking() == 1)
  }

  /// On a thread that an asker has handed to the actor.
  @Test func whatIsPinnedMayWaitInsideOfAHandedTurn() throws {
    let pool = ThreadPool(threads: 1)
    let value = Coroutine(on: pool) {
      let actor = MessageActor<Reply<Int>>(on: pool) { mailbox in
        for reply in mailbox {
          DispatchQueue(label: "q").sync { withThreadPinned { Coroutine.yield() } }
          reply.complete(7)
        }
      }
      defer { actor.cancel() }
      // It waits for the second one, at the latest.
      return try actor.ask { $0 } + actor.ask { $0 }
    }
    #expect(try value.getBlocking() == 14)
  }

  /// As on a queue's own thread, and in code around the coroutine.
  @Test func blocksAroundACoroutineAreNoHazard() throws {
    let queue = DispatchQueue(label: "q")
    let value = try queue.sync {
      try runUntilComplete {
        Coroutine.yield()
        return try Coroutine.immediate {
          Coroutine.yield()
          return 1
        }.get()
      }
    }
    #expect(value == 1)
  }
}
