// SPDX-License-Identifier: Apache-2.0

import Coroutine
import CoroutineTestSupport
import Synchronization
import Testing

/// `withTimeout(_:throwing:_:)`: whose time is up, and whose error that is.
@Suite(.ownThreads) struct OwnTimeoutErrorTests {
  private let never = Channel<Int>(name: "never")

  private enum Late: Error, Equatable { case inner, outer }

  @Test func theOwnErrorStandsForTheOwnTimeout() async throws {
    let never = never
    let log = Log()
    try await Coroutine {
      log.add(thrown { try withTimeout(.zero, throwing: Late.inner) { try never.receive() } })
      log.add(thrown { try withTimeout(.milliseconds(1), throwing: Late.inner) { try never.receive() } })
      log.add(thrown { try withTimeout(.milliseconds(1), throwing: Late.inner) { _ in try never.receive() } })
      log.add(
        thrown { try withTimeout(until: .now, clock: .continuous, throwing: Late.inner) { try never.receive() } })
      log.add(
        thrown { try withTimeout(until: .now, clock: .continuous, throwing: Late.inner) { _ in try never.receive() } })
    }.get()
    #expect(log.all == Array(repeating: "inner", count: 5))
    await #expect(throws: Late.inner) {
      try await withTimeout(.milliseconds(1), throwing: Late.inner) { try await never.receive() }
    }
    await #expect(throws: Late.inner) {
      try await withTimeout(.milliseconds(1), throwing: Late.inner) { _ in try await never.receive() }
    }
    await #expect(throws: Late.inner) {
      try await withTimeout(until: .now, clock: .continuous, throwing: Late.inner) { try await never.receive() }
    }
    await #expect(throws: Late.inner) {
      try await withTimeout(until: .now, clock: .continuous, throwing: Late.inner) { _ in try await never.receive() }
    }
  }

  @Test func eachOfTwoTimeoutsHasAnErrorOfItsOwn() async throws {
    let never = never
    let log = Log()
    try await Coroutine {
      // The inner time is up.
      log.add(
        thrown {
          try withTimeout(.seconds(1000), throwing: Late.outer) {
            try withTimeout(.zero, throwing: Late.inner) { try never.receive() }
          }
        })
      // The outer one is; also where both are.
      for inner in [Duration.seconds(1000), .zero] {
        log.add(
          thrown {
            try withTimeout(.zero, throwing: Late.outer) {
              try withTimeout(inner, throwing: Late.inner) { try never.receive() }
            }
          })
      }
      // Inside of it an operation's own, and a timeout without such an error.
      log.add(
        thrown {
          try withTimeout(.seconds(1000), throwing: Late.outer) { try never.receive(timeout: .milliseconds(1)) }
        })
      log.add(
        thrown {
          try withTimeout(.seconds(1000), throwing: Late.outer) {
            try withTimeout(.zero, name: "plain") { try never.receive() }
          }
        })
      // Around it one without.
      log.add(
        thrown {
          try withTimeout(.zero, name: "around") {
            try withTimeout(.seconds(1000), throwing: Late.inner) { try never.receive() }
          }
        })
    }.get()
    #expect(log.all == ["inner", "outer", "outer", "timeout ", "timeout plain", "timeout around"])
  }

  @Test func theErrorIsMadeWhenItIsThrown() async throws {
    let never = never
    let made = Holder(Atomic<Int>(0))
    @Sendable func make() -> any Error {
      // It may wait: the time is up for `body` alone.
      #expect(!Coroutine.isInside || !Coroutine.isCancelled)
      made.value.wrappingAdd(1, ordering: .relaxed)
      return Late.inner
    }
    try await Coroutine {
      try withTimeout(.seconds(1000), throwing: make()) {}
      #expect(thrown { try withTimeout(.seconds(1000), throwing: make()) { throw Late.outer } } == "outer")
      // A cancel that a body says itself is none of the timeout.
      #expect(thrown { try withTimeout(.seconds(1000), throwing: make()) { throw CancellationError() } } == "cancelled")
      #expect(made.value.load(ordering: .relaxed) == 0)
      #expect(thrown { try withTimeout(.zero, throwing: make()) { try never.receive() } } == "inner")
    }.get()
    try await withTimeout(.seconds(1000), throwing: make()) {}
    #expect(made.value.load(ordering: .relaxed) == 1)
  }

  @Test func aCancelOfTheWholeIsNotTheOwnError() async throws {
    let never = never
    let waiting = Coroutine { try withTimeout(.seconds(1000), throwing: Late.inner) { try never.receive() } }
    waiting.cancel()
    await #expect(throws: CancellationError.self) { try await waiting.get() }
    let task = Task {
      try await withTimeout(.seconds(1000), throwing: Late.inner) { try await never.receive() }
    }
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
  }

  @Test func theEndOfTheTimeRacesWithACancel() async throws {
    let never = never
    for _ in 0..<amount(500, sanitized: 100) {
      let waiting = Coroutine {
        try withTimeout(.microseconds(20), throwing: Late.inner) { try never.receive() }
      }
      async let _: Void = waiting.cancel()
      do {
        Issue.record("received \(try await waiting.get())")
      } catch {
        #expect(error as? Late == .inner || error is CancellationError && waiting.isCancelled)
      }
    }
  }

  /// What the compiler makes of it: that it compiles is the test.
  @Test func theFormsAreInferredAsWritten() async throws {
    let never = never
    let noError: Late? = nil
    let texts = try await Coroutine { () throws -> [String] in
      // Neither thrown nor returned by the body; `nil`; an optional; all labels; a body of several statements.
      try withTimeout(.seconds(1), throwing: Late.inner) {}
      let one = try withTimeout(.seconds(1), throwing: Late.inner) { 1 }
      let absent: Int? = try withTimeout(.seconds(1), throwing: Late.inner) { nil }
      let text = try withTimeout(.seconds(1), name: "all", throwing: noError) {
        let number = one + 1
        if number > 2 { return "many" }
        return "\(number) \(absent as Any)"
      }
      let left = try withTimeout(.seconds(1), throwing: nil) { deadline in deadline.timeRemaining <= .seconds(1) }
      let function: () throws -> Int = { 7 }
      let seven = try withTimeout(.seconds(1), throwing: Late.inner, function)
      return [
        text, "\(left)", "\(seven)",
        thrown { try withTimeout(.zero, name: "nil", throwing: nil) { try never.receive() } },
        thrown { try withTimeout(.zero, name: "none", throwing: noError) { try never.receive() } },
      ]
    }.get()
    #expect(texts == ["2 nil", "true", "7", "timeout nil", "timeout none"])
    let two = try await withTimeout(.seconds(1), throwing: Late.inner) {
      let one = await Task { 1 }.value
      return one + 1
    }
    let none: Int? = try await withTimeout(.seconds(1), throwing: Late.inner) { nil }
    try await withTimeout(.seconds(1), throwing: nil) {}
    #expect(two == 2 && none == nil)
  }

  /// What `body` throws, in a word.
  private func thrown<Result>(_ body: () throws -> Result) -> String {
    do {
      _ = try body()
      return "no error"
    } catch let error as Late {
      return "\(error)"
    } catch let error as TimeoutError {
      return "timeout \(error.name)"
    } catch is CancellationError {
      return "cancelled"
    } catch {
      return "\(error)"
    }
  }
}
