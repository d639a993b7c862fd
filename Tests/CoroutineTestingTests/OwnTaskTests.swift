import Coroutine
import CoroutineTesting
import Testing

/// The tasks that the runtime begins by itself for what is done in a run. On another thread they would be help from outside, by
/// which no schedule can be repeated.
@Suite(.ownThreads) struct OwnTaskTests {
  @Test(arguments: OwnTask.allCases) func aTaskOfTheRuntimesOwnStaysInTheRun(_ task: OwnTask) throws {
    let failure = try #require(throws: ScheduleFailure.self) {
      try explore(seeds: 0..<1) {
        try task.call()
        throw LostUpdate()
      }
    }
    #expect(failure.kind == .thrown, "\(failure)")
    #expect(failure.isRepeatable, "\(failure)")
  }

  /// What has such a task.
  enum OwnTask: CaseIterable, Sendable {
    case scope, elements, condition, shieldedGet, supervisor, timeout, asyncTimeout, choice, pause

    func call() throws {
      let clock = OwnClock()
      switch self {
      case .scope:
        let sum = try Coroutine.await {
          try await withScope { scope in
            scope.launch { Coroutine.yield() }
            return 7
          }
        }
        #expect(sum == 7)
      case .elements:
        let stream = AsyncThrowingStream<Int, any Error> { continuation in
          for number in 1...2 { continuation.yield(number) }
          continuation.finish()
        }
        let elements = stream.elements
        while let number = try elements.next() { #expect(number > 0) }
      case .condition:
        try waitForTheMutex()
      case .shieldedGet:
        let value = try Coroutine.await {
          let worker = Coroutine {
            Coroutine.yield()
            return 7
          }
          return await worker.getShielded()
        }
        #expect(value == 7)
      case .supervisor:
        try Coroutine.await {
          let supervisor = Supervisor()
          let actor = supervisor.launch(name: "stopped") { (mailbox: Mailbox<Int>) in for _ in mailbox {} }
          await supervisor.stop()
          withExtendedLifetime(actor) {}
        }
      case .timeout:
        let never = Channel<Int>()
        let value = try withTimeoutOrNil(until: clock.now.advanced(by: .seconds(5)), clock: clock) {
          try never.receive()
        }
        #expect(value == nil)
      case .asyncTimeout:
        let value = try Coroutine.await {
          let never = Channel<Int>()
          return try await withTimeoutOrNil(until: clock.now.advanced(by: .seconds(5)), clock: clock) {
            try await never.receive()
          }
        }
        #expect(value == nil)
      case .choice:
        let never = Channel<Int>()
        try select {
          never.onReceive { _ in }
          onTimeout(until: clock.now.advanced(by: .seconds(5)), clock: clock) {}
        }
      case .pause:
        try Coroutine.sleep(until: clock.now.advanced(by: .seconds(5)), clock: clock)
      }
    }

    /// A task that is signalled while another one holds the mutex.
    private func waitForTheMutex() throws {
      let mutex = CoroutineMutex(0)
      let condition = Condition(of: mutex)
      let waiter = Coroutine {
        try Coroutine.await {
          try await mutex.withLock { value in
            value = 1
            try await condition.wait(&value)
          }
        }
      }
      while try mutex.withLock({ $0 }) == 0 { Coroutine.yield() }
      try mutex.withLock { _ in
        condition.signal()
        for _ in 0..<20 { Coroutine.yield() }
      }
      try waiter.get()
    }
  }
}

/// A clock of a program's own, which shows the time of the run.
private struct OwnClock: Clock {
  typealias Duration = Swift.Duration

  var now: TestClock.Instant { TestClock().now }
  var minimumResolution: Swift.Duration { .nanoseconds(1) }

  func sleep(until deadline: TestClock.Instant, tolerance: Swift.Duration?) async throws {
    try await TestClock().sleep(until: deadline, tolerance: tolerance)
  }
}
