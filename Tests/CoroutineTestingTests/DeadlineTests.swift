import Coroutine
import CoroutineTestSupport
import CoroutineTesting
import Testing

/// Deadlines that are asked for and moved, and times by a clock. All by the virtual time of the run.
@Suite(.ownThreads) struct DeadlineTests {
  private static var now: Duration { TestClock().now.offset }

  private static func ending(_ body: () throws -> Void) -> String {
    do {
      try body()
      return "ended at \(now)"
    } catch let error as TimeoutError {
      return "\(error) at \(now)"
    } catch {
      return "\(error) at \(now)"
    }
  }

  @Test func aBodyAsksForItsDeadlineAndMovesIt() throws {
    let log = Log<String>()
    try runTest {
      let never = Channel<Int>()
      let ending = Self.ending {
        try withTimeout(.seconds(10), name: "mine") { deadline in
          log.add("\(deadline.timeRemaining)")
          try Coroutine.sleep(for: .seconds(4))
          log.add("\(deadline.timeRemaining)")
          log.add("\(deadline.extend(by: .seconds(5))) \(deadline.timeRemaining)")
          log.add("\(deadline.extend(by: .seconds(-9))) \(deadline.timeRemaining)")
          log.add("\(deadline.move(after: .seconds(3))) \(deadline.timeRemaining)")
          let later = TestClock().now.advanced(by: .seconds(96))
          log.add("\(deadline.move(to: later, clock: .test)) \(deadline.timeRemaining)")
          _ = try never.receive()
        }
      }
      log.add(ending)
    }
    #expect(
      log.all == [
        "10.0 seconds", "6.0 seconds", "true 11.0 seconds", "true 2.0 seconds", "true 3.0 seconds", "true 96.0 seconds",
        "\"mine\" timed out at 100.0 seconds",
      ])
  }

  @Test func anExtendedTimeoutSaysWhatWasAllowedInAll() throws {
    let log = Log<String>()
    try runTest {
      let never = Channel<Int>()
      log.add(
        Self.ending {
          try withTimeout(.seconds(1)) { deadline in
            deadline.extend(by: .seconds(2))
            _ = try never.receive()
          }
        })
      let value = try withTimeoutOrNil(.seconds(1)) { deadline in
        deadline.move(after: .seconds(5))
        return try never.receive()
      }
      log.add("\(value as Any) at \(Self.now)")
    }
    #expect(log.all == ["timed out after 3.0 seconds at 3.0 seconds", "nil at 8.0 seconds"])
  }

  @Test func anotherCoroutineMovesADeadline() throws {
    let log = Log<String>()
    try runTest {
      let (never, handles) = (Channel<Int>(), Channel<DeadlineHandle>())
      let mover = Coroutine {
        let handle = try handles.receive()
        func left() -> String { handle.timeRemaining.map { "\($0)" } ?? "none" }
        try Coroutine.sleep(for: .seconds(4))
        log.add("\(handle.extend(by: .seconds(5))) \(left())")
        try Coroutine.sleep(for: .seconds(10))
        log.add("\(handle.move(after: .seconds(3))) \(left())")
        let later = TestClock().now.advanced(by: .seconds(2))
        log.add("\(handle.move(to: later, clock: .test)) \(left())")
        try Coroutine.sleep(for: .seconds(2))
        log.add("\(handle.extend(by: .seconds(100))) \(left())")
      }
      log.add(
        Self.ending {
          try withTimeout(.seconds(10), name: "moved") { deadline in
            try handles.send(deadline.handle)
            _ = try never.receive()
          }
        })
      try mover.get()
    }
    #expect(
      log.all == [
        "true 11.0 seconds", "true 3.0 seconds", "true 2.0 seconds", "\"moved\" timed out at 16.0 seconds",
        "false none",
      ])
  }

  /// One that is so far away that it is never. The time does not go on to it.
  @Test func aDeadlineThatIsNeverDoesNotCome() throws {
    let longest = Duration.seconds(Int64.max)
    let plain = try #require(throws: ScheduleFailure.self) {
      try explore(seeds: 0..<1) { try withTimeout(longest) { _ = try Channel<Int>().receive() } }
    }
    #expect(plain.kind == .deadlock, "\(plain)")
    let moved = try #require(throws: ScheduleFailure.self) {
      try explore(seeds: 0..<1) {
        try withTimeout(.seconds(1)) { deadline in
          deadline.move(after: longest)
          _ = try Channel<Int>().receive()
        }
      }
    }
    #expect(moved.kind == .deadlock, "\(moved)")
  }

  @Test func aDeadlineIsMovedToNeverAndBack() throws {
    let longest = Duration.seconds(Int64.max)
    let log = Log<String>()
    try runTest {
      let never = Channel<Int>()
      // None of these was up at its end.
      try withTimeout(longest) { try Coroutine.sleep(for: .seconds(1)) }
      try withTimeout(.seconds(1)) { deadline in
        log.add("\(deadline.move(after: longest)) \(deadline.extend(by: .seconds(-5)))")
        try Coroutine.sleep(for: .seconds(2))
      }
      try Coroutine.await {
        try await withTimeout(longest) { try await TestClock().sleep(for: .seconds(3)) }
      }
      log.add(
        Self.ending {
          try withTimeout(longest) { deadline in
            log.add("\(deadline.move(after: .seconds(4))) \(deadline.timeRemaining)")
            _ = try never.receive()
          }
        })
    }
    #expect(log.all == ["true true", "true 4.0 seconds", "timed out at 10.0 seconds"])
  }

  /// A time that has come counts, also where the mover runs before the body. One that is moved in time never cancels.
  @Test func aMoveAndTheTimeInAllOrders() throws {
    for lead in [0, 1] {
      try explore(seeds: 0..<100) {
        let (go, handles) = (Channel<Int>(capacity: .buffered(1)), Channel<DeadlineHandle>())
        let mover = Coroutine { () -> Bool in
          let handle = try handles.receive()
          try Coroutine.sleep(for: .seconds(1) - .nanoseconds(lead))
          let isMoved = handle.move(after: .seconds(1))
          if isMoved { try go.send(1) }
          return isMoved
        }
        let ended = try withTimeoutOrNil(.seconds(1)) { deadline in
          try handles.send(deadline.handle)
          return try go.receive()
        }
        let isMoved = try mover.get()
        guard isMoved == (lead == 1), isMoved == (ended != nil) else { throw LostUpdate() }
      }
    }
  }

  @Test func aDeadlineThatHasPassedStaysSo() throws {
    let log = Log<String>()
    try runTest {
      let ending = Self.ending {
        try withTimeout(.seconds(1)) { deadline in
          try? Coroutine.sleep(for: .seconds(9))
          log.add("\(Self.now), \(Coroutine.isCancelled), \(deadline.timeRemaining)")
          log.add("\(deadline.extend(by: .seconds(9))) \(deadline.move(after: .seconds(9)))")
          log.add("\(deadline.move(to: TestClock().now.advanced(by: .seconds(9)), clock: .test))")
          log.add("\(Coroutine.isCancelled), \(deadline.timeRemaining)")
          try Coroutine.checkCancellation()
        }
      }
      log.add(ending)
      // One that is moved into the past is up at once.
      let moved = Self.ending {
        try withTimeout(.seconds(1)) { deadline in
          log.add("\(deadline.move(after: .zero)), then \(Coroutine.isCancelled)")
          log.add("\(deadline.extend(by: .seconds(9)))")
          try Coroutine.sleep(for: .seconds(9))
        }
      }
      log.add(moved)
    }
    #expect(
      log.all == [
        "1.0 seconds, true, 0.0 seconds", "false false", "false", "true, 0.0 seconds",
        "timed out after 1.0 seconds at 1.0 seconds", "true, then true", "false", "timed out at 1.0 seconds",
      ])
  }

  @Test func whatIsAroundIsAskedForFromInside() throws {
    let log = Log<String>()
    let ask: @Sendable (String) -> Void = { name in
      log.add("\(name): \(Coroutine.timeRemaining.map { "\($0)" } ?? "none")")
    }
    try runTest {
      ask("outside")
      try withTimeout(.seconds(10)) { outer in
        try withTimeout(.seconds(20)) {
          ask("the outer one")
          try withCancellationShield {
            ask("shielded")
            try withTimeout(.seconds(30)) { ask("in the shield") }
          }
          outer.extend(by: .seconds(100))
          ask("the inner one")
        }
      }
      ask("outside")
    }
    #expect(
      log.all == [
        "outside: none", "the outer one: 10.0 seconds", "shielded: none", "in the shield: 30.0 seconds",
        "the inner one: 20.0 seconds", "outside: none",
      ])
  }

  @Test func childrenOfAScopeKnowWhatIsAroundIt() throws {
    let log = Log<String>()
    let ask: @Sendable (String) -> Void = { name in
      log.add("\(name): \(Coroutine.timeRemaining.map { "\($0)" } ?? "none")")
    }
    try runTest {
      try withTimeout(.seconds(10)) { deadline in
        try withScope { scope in
          try withTimeout(.seconds(3)) {
            // It is in the scope, and not in the timeout that it was launched in.
            try scope.launch {
              ask("child")
              try withScope { inner in try inner.launch { ask("grandchild") }.get() }
              try withTimeout(.seconds(1)) { ask("child's own") }
            }.get()
          }
          try withCancellationShield {
            try withScope { shielded in try shielded.launch { ask("shielded") }.get() }
          }
          try Coroutine { ask("another") }.get()
          deadline.extend(by: .seconds(10))
          try scope.launch { ask("moved") }.get()
        }
      }
    }
    #expect(
      log.all == [
        "child: 10.0 seconds", "grandchild: 10.0 seconds", "child's own: 1.0 seconds", "shielded: none",
        "another: none",
        "moved: 20.0 seconds",
      ])
  }

  @Test func aMovedDeadlineCancelsTheScopeInItAtItsNewTime() throws {
    let log = Log<String>()
    try runTest {
      let ending = Self.ending {
        try withTimeout(.seconds(1)) { deadline in
          try withScope { scope in
            scope.launch {
              defer { log.add("child at \(Self.now)") }
              try Coroutine.sleep(for: .seconds(1000))
            }
            deadline.extend(by: .seconds(6))
          }
        }
      }
      log.add(ending)
    }
    #expect(log.all == ["child at 7.0 seconds", "timed out after 7.0 seconds at 7.0 seconds"])
  }

  @Test func aGeneratorMovesADeadlineThatSleptWithIt() throws {
    let log = Log<String>()
    try runTest {
      let parts = Generator<Int> { yield in
        try withTimeout(.seconds(10)) { deadline in
          for number in 1...3 {
            log.add("\(number): \(deadline.timeRemaining), \(Coroutine.timeRemaining.map { "\($0)" } ?? "none")")
            try yield(number)
            deadline.move(after: .seconds(10))
          }
        }
      }
      for _ in parts {
        log.add("its consumer: \(Coroutine.timeRemaining.map { "\($0)" } ?? "none")")
        try Coroutine.sleep(for: .seconds(8))
      }
    }
    #expect(
      log.all == [
        "1: 10.0 seconds, 10.0 seconds", "its consumer: none", "2: 10.0 seconds, 10.0 seconds", "its consumer: none",
        "3: 10.0 seconds, 10.0 seconds", "its consumer: none",
      ])
  }

  @Test func inAsyncCodeABodyMovesItsDeadlineToo() async throws {
    let all = try await runTest { () async throws -> [String] in
      let never = Channel<Int>()
      var log: [String] = []
      do {
        try await withTimeout(.seconds(1), name: "mine") { deadline in
          deadline.extend(by: .seconds(4))
          _ = try await never.receive()
        }
      } catch { log.append("\(error) at \(Self.now)") }
      let value = try await withTimeoutOrNil(.seconds(1)) { deadline in
        _ = try? await TestClock().sleep(for: .seconds(9))
        return deadline.extend(by: .seconds(4)) ? "moved" : "too late"
      }
      log.append("\(value ?? "nil") at \(Self.now)")
      let later = TestClock().now.advanced(by: .seconds(1))
      let other = try await withTimeoutOrNil(until: later, clock: .test) { deadline in
        deadline.move(to: later.advanced(by: .seconds(1)), clock: .test)
        return try await never.receive()
      }
      log.append("\(other as Any) at \(Self.now)")
      // Without a deadline in the closure it is the form of before.
      log.append("\(try await withTimeout(.seconds(1)) { 7 })")
      return log
    }
    #expect(
      all == [
        "\"mine\" timed out after 5.0 seconds at 5.0 seconds", "too late at 6.0 seconds", "nil at 8.0 seconds", "7",
      ])
  }

  @Test func aSelectGivesUpAtAnInstant() throws {
    let log = Log<String>()
    try runTest {
      let (never, ready) = (Channel<Int>(), Channel<Int>(capacity: .buffered(1)))
      let start = TestClock().now
      try select {
        never.onReceive { _ in }
        onTimeout(until: start.advanced(by: .seconds(5)), clock: .test) { log.add("five at \(Self.now)") }
        onTimeout(until: start.advanced(by: .seconds(4)), clock: .test) { log.add("four at \(Self.now)") }
        onTimeout(.seconds(6)) { log.add("six") }
      }
      try select {
        never.onReceive { _ in }
        onTimeout(until: start.advanced(by: .seconds(6)), clock: .test) { log.add("six") }
        onTimeout(.seconds(1)) { log.add("one more at \(Self.now)") }
      }
      // One that has passed is as a timeout of zero.
      try ready.send(1)
      for _ in 1...2 {
        try select {
          ready.onReceive { log.add("received \($0)") }
          onTimeout(until: start, clock: .test) { log.add("passed at \(Self.now)") }
        }
      }
    }
    #expect(log.all == ["four at 4.0 seconds", "one more at 5.0 seconds", "received 1", "passed at 5.0 seconds"])
  }

  @Test func aChannelIsWaitedForUntilAnInstant() throws {
    let log = Log<String>()
    try runTest {
      let channel = Channel<Int>()
      let noon = TestClock().now.advanced(by: .seconds(12))
      log.add(Self.ending { _ = try channel.receive(until: noon, clock: .test) })
      log.add(Self.ending { try channel.send(1, until: noon, clock: .test) })
      let sender = Coroutine { try channel.send(2) }
      Coroutine.yield()
      log.add("\(try channel.receive(until: noon, clock: .test))")
      try sender.get()
      let (out, into) = Channel<Int>.makeEnds(capacity: .buffered(1))
      try out.send(3, until: noon, clock: .test)
      log.add("\(try into.receive(until: noon, clock: .test))")
      channel.close()
      do { try channel.send(4, until: noon, clock: .test) } catch let error as ChannelClosed<Int> {
        log.add("closed: \(error.unsent ?? 0)")
      }
    }
    #expect(log.all == ["timed out at 12.0 seconds", "timed out at 12.0 seconds", "2", "3", "closed: 4"])
  }

  @Test func inAsyncCodeAChannelIsWaitedForUntilAnInstant() async throws {
    let all = try await runTest { () async throws -> [String] in
      let channel = Channel<Int>(capacity: .buffered(1))
      let noon = TestClock().now.advanced(by: .seconds(12))
      try await channel.send(1, until: noon, clock: .test)
      var log: [String] = []
      do { try await channel.send(2, until: noon, clock: .test) } catch { log.append("\(error) at \(Self.now)") }
      log.append("\(try await channel.receive(until: noon, clock: .test))")
      do { _ = try await channel.receive(until: noon, clock: .test) } catch { log.append("\(error)") }
      let late = try await select {
        channel.onReceive { "\($0)" }
        onTimeout(until: noon.advanced(by: .seconds(1)), clock: .test) { "late at \(Self.now)" }
      }
      return log + [late]
    }
    #expect(all == ["timed out at 12.0 seconds", "1", "timed out", "late at 13.0 seconds"])
  }
}
