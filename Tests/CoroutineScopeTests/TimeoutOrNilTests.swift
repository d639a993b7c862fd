import Coroutine
import CoroutineTestSupport
import Testing

/// Which timeout is up: each one answers for itself alone.
@Suite(.ownThreads) struct TimeoutOrNilTests {
  private let never = Channel<Int>(name: "never")

  @Test func whatComesInTimeIsTheResult() async throws {
    let result = try await Coroutine { try withTimeoutOrNil(.seconds(1000)) { 7 } }.get()
    #expect(result == 7)
    #expect(try await withTimeoutOrNil(.seconds(1000)) { 7 } == 7)
  }

  @Test func nilStandsForTheOwnTimeout() async throws {
    let never = never
    let results = try await Coroutine {
      [
        try withTimeoutOrNil(.zero) { try never.receive() },
        try withTimeoutOrNil(.milliseconds(1)) { try never.receive() },
        try withTimeoutOrNil(until: .now - .seconds(1), clock: .continuous) { try never.receive() },
      ]
    }.get()
    #expect(results == [nil, nil, nil])
    #expect(try await withTimeoutOrNil(.milliseconds(1)) { try await never.receive() } == nil)
    #expect(try await withTimeoutOrNil(until: .now, clock: .continuous) { try await never.receive() } == nil)
  }

  @Test func anOuterTimeoutOfTheSameDurationGoesThroughAnInnerOne() async throws {
    let log = Log()
    let never = never
    try await Coroutine {
      // Both are over before the body begins. The outer one counts.
      log.add(
        outcome {
          try withTimeout(.zero) {
            let inner = try withTimeoutOrNil(.zero) { try never.receive() }
            log.add("swallowed: \(inner as Any)")
          }
        })
      let outer = try withTimeoutOrNil(.zero) { () throws -> String in
        let inner = try withTimeoutOrNil(.seconds(1000)) { try never.receive() }
        return "swallowed: \(inner as Any)"
      }
      log.add("\(outer ?? "nil")")
    }.get()
    #expect(log.all == ["timed out", "nil"])
  }

  @Test func anInnerTimeoutOfTheSameDurationGoesThroughAnOuterOne() async throws {
    let never = never
    let inner = Coroutine {
      try withTimeoutOrNil(.seconds(1000)) {
        try withTimeout(.zero, name: "inner") { try never.receive() }
      }
    }
    let error = await #expect(throws: TimeoutError.self) { try await inner.get() }
    #expect(error?.name == "inner")
    let operation = Coroutine { try withTimeoutOrNil(.seconds(1000)) { try never.receive(timeout: .milliseconds(1)) } }
    await #expect(throws: TimeoutError.self) { try await operation.get() }
  }

  @Test func aNameTellsTimeoutsOfOneDurationApart() async throws {
    let never = never
    let texts = try await Coroutine { () -> [String] in
      ["connect", "read"].map { name in
        do {
          try withTimeout(.zero, name: name) { try never.receive() }
          return "no error"
        } catch let error as TimeoutError {
          return "\(error.name): \(error)"
        } catch {
          return "\(error)"
        }
      }
    }.get()
    #expect(
      texts == ["connect: \"connect\" timed out after 0.0 seconds", "read: \"read\" timed out after 0.0 seconds"])
    #expect(TimeoutError(after: .seconds(1), name: "a") != TimeoutError(after: .seconds(1), name: "b"))
    let error = await #expect(throws: TimeoutError.self) {
      try await withTimeout(.milliseconds(1), name: "async") { try await never.receive() }
    }
    #expect(error?.name == "async" && error?.duration == .milliseconds(1))
  }

  @Test func aCancelOfTheWholeIsNoTimeout() async throws {
    let never = never
    let waiting = Coroutine { try withTimeoutOrNil(.seconds(1000)) { try never.receive() } }
    waiting.cancel()
    await #expect(throws: CancellationError.self) { try await waiting.get() }
    let task = Task { try await withTimeoutOrNil(.seconds(1000)) { try await never.receive() } }
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
  }

  @Test func aClockOfOnesOwnGivesNil() async throws {
    let clock = ManualClock()
    let never = never
    let waiting = Coroutine {
      try withTimeoutOrNil(until: .init(offset: .seconds(3)), clock: clock) { try never.receive() }
    }
    for await _ in clock.asked.stream { break }
    clock.opened.continuation.yield()
    #expect(try await waiting.get() == nil)
  }

  /// No task that sleeps tells that: the body would have begun by then, and gone on.
  @Test func anInstantOfOnesOwnClockThatHasPassedIsAtOnce() async throws {
    let clock = ManualClock()
    let full = Channel<Int>(capacity: .buffered(1))
    _ = full.trySend(1)
    let passed = ManualClock.Instant(offset: .seconds(-1))
    let late = try await Coroutine {
      try withTimeoutOrNil(until: passed, clock: clock) { try full.receive() }
    }.get()
    #expect(late == nil && full.count == 1)
    let moved = try await Coroutine {
      try withTimeoutOrNil(.seconds(1000)) { deadline in
        let isMoved = deadline.move(to: passed, clock: clock)
        let isOver = Coroutine.isCancelled
        return [isMoved, isOver, deadline.extend(by: .seconds(1000)), Coroutine.isCancelled]
      }
    }.get()
    #expect(moved == [true, true, false, true])
  }

  /// An inner one's time may be up when the outer one's is: that is no `nil` of the outer one's.
  @Test func theErrorOfAnotherTimeoutGoesThroughInAsyncCode() async throws {
    await #expect(throws: TimeoutError(after: .seconds(7))) {
      try await withTimeoutOrNil(.milliseconds(1)) { () async throws -> Int in
        do { try await Task.sleep(for: .seconds(1000)) } catch { throw TimeoutError(after: .seconds(7)) }
        return 1
      }
    }
  }

  @Test func theEndOfTheTimeRacesWithACancel() async throws {
    let never = never
    for _ in 0..<amount(500, sanitized: 100) {
      let waiting = Coroutine { try withTimeoutOrNil(.microseconds(20)) { try never.receive() } }
      async let _: Void = waiting.cancel()
      do {
        #expect(try await waiting.get() == nil)
      } catch {
        #expect(error is CancellationError && waiting.isCancelled)
      }
    }
  }
}
