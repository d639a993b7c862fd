import Coroutine
import CoroutineTestSupport
import CoroutineTesting
import Dispatch
import Glibc
import Testing

/// What becomes of that which a run leaves over.
@Suite(.ownThreads) struct RunEndTests {
  private struct Problem: Error {}

  /// A ticker could let the time go on for ever meanwhile.
  @Test func oneThatComesBackAtTheEndGoesOnAtTheTimeOfTheEnd() throws {
    let (begun, mayEnd) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    let ticker = Unlocked<Ticker?>(nil)
    let log = Log<String>()
    #expect(throws: Problem.self) {
      try runTest(upTo: .milliseconds(50)) {
        ticker.value = Ticker(every: .seconds(1))
        Coroutine.immediate {
          defer { log.add("ended at \(TestClock().now.offset)") }
          on(.pool) {
            begun.signal()
            mayEnd.wait()
          }
        }
        begun.wait()
        // Far later than ten thousand ticks of a virtual time.
        DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(300)) { mayEnd.signal() }
        throw Problem()
      }
    }
    ticker.value?.stop()
    #expect(log.all == ["ended at 0.0 seconds"])
  }

  /// The caller, which shares the variable, goes on.
  @Test func aBodyThatIsAbandonedInsideAnAccessTraps() async {
    let exit = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      func run() throws {
        var items = [3, 1, 2]
        try runTest(upTo: .milliseconds(1)) {
          try items.sort {
            _ = try withCancellationShield { try Channel<Int>().receive() }
            return $0 < $1
          }
        }
      }
      try run()
    }
    #expect(standardError(of: exit).contains("inside an access to a variable"), "\(standardError(of: exit))")
  }

  /// As in a `runUntilComplete`: it stands in for the main queue.
  @Test func aRunOnTheMainActorSeesTheAccessesOfItsOtherCoroutines() async {
    let exit = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      try await useInRunWhatIsBeingSorted()
    }
    #expect(standardError(of: exit).contains("Simultaneous accesses"), "\(standardError(of: exit))")
  }

  private final class AtItsEnd: Sendable {
    private let body: @Sendable () -> Void
    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    deinit { body() }
  }

  /// What the last one returns goes with it, when there is no other turn.
  @Test func oneThatEndsWhereTheLastOneGoesIsNotLeftOver() throws {
    let count = Counter()
    try runTest { _ = Coroutine { AtItsEnd { Coroutine.immediate { count.add() } } } }
    #expect(count.value == 1)
  }

  /// The run fails before the task has had a turn. Others may wait for it.
  @Test func aTaskThatIsReadyAtTheEndRunsAllTheSame() async throws {
    let late = Unlocked<Task<Int, Never>?>(nil)
    let failure = try await #require(throws: ScheduleFailure.self) {
      try await runTest {
        let run = try Coroutine.await { withUnsafeCurrentTask { $0?.unownedTaskExecutor?.asTaskExecutor() } }
        late.value = Task<Int, Never>(executorPreference: run) { 7 }
        _ = Coroutine.immediate { throw LostUpdate() }
      }
    }
    #expect(failure.kind == .unhandledError)
    let task = try #require(late.value)
    #expect(await task.value == 7)
  }

  /// It comes back when the run has failed, and is cancelled.
  @Test func whatArrivesAtTheEndIsNoHelp() throws {
    let failure = try #require(throws: ScheduleFailure.self) {
      try explore(seeds: 0..<1) {
        let mayEnd = DispatchSemaphore(value: 0)
        Coroutine.immediate { on(.pool) { mayEnd.wait() } }
        Coroutine.immediate {
          defer { mayEnd.signal() }
          _ = try Channel<Int>().receive()
        }
        _ = Coroutine.immediate { throw LostUpdate() }
      }
    }
    #expect(failure.kind == .unhandledError)
    #expect(failure.isRepeatable, "\(failure)")
    let helped = try #require(throws: ScheduleFailure.self) {
      try explore(seeds: 0..<1) {
        let own = Coroutine.current
        // A shorter one may end before its caller waits.
        try blocking { while own?.state != .suspended { sched_yield() } }
        throw Problem()
      }
    }
    #expect(!helped.isRepeatable)
    #expect("\(helped)".contains("The same schedule need not fail again"))
  }

  /// The main actor's code goes on beside it from then on.
  @MainActor @Test func lateCodeOfTheMainActorIsOnTheMainQueue() async throws {
    let (number, resolver) = Promise.makePromise(of: Int.self)
    let (handled, lazy) = try Self.closuresOfARun(number)
    resolver.fulfill(1)
    lazy.start()
    #expect(try await handled.get())
    #expect(try await lazy.get())
  }

  /// Whether each was on the main queue.
  @MainActor private static func closuresOfARun(
    _ number: Promise<Int>
  ) throws -> (Promise<Bool>, Coroutine<Bool, Never>) {
    try runTest {
      (
        number.then { @MainActor _ in DispatchQueue.main.isCurrent },
        Coroutine(start: .lazy) { DispatchQueue.main.isCurrent }
      )
    }
  }

  /// They may share what the run's one thread has kept apart.
  @Test func lateCoroutinesOfARunHaveTurnsOneAtATime() throws {
    let (one, firstResolver) = Promise.makePromise(of: Int.self)
    let (other, secondResolver) = Promise.makePromise(of: Int.self)
    let (hasBegun, mayEnd) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    let (first, second) = try runTest {
      (
        one.then { _ -> Bool in
          hasBegun.signal()
          return mayEnd.wait(timeout: .now() + .milliseconds(100)) == .success
        },
        other.then { _ -> Int in mayEnd.signal() }
      )
    }
    firstResolver.fulfill(1)
    hasBegun.wait()
    secondResolver.fulfill(2)
    let metTheOther = try first.getBlocking()
    #expect(!metTheOther)
    _ = try second.getBlocking()
  }
}

@MainActor private final class Model {
  var items = [3, 1, 2]
}

@MainActor private func useInRunWhatIsBeingSorted() async throws {
  func callWithoutAwait(_ body: () throws -> Void) rethrows { try body() }
  let model = Model()
  let never = Channel<Int>()
  let job = Coroutine { @MainActor in
    try model.items.sort {
      _ = try never.receive()
      return $0 < $1
    }
  }
  while job.state != .suspended { await Task.yield() }
  try callWithoutAwait { try runTest { model.items = [1] } }
  job.cancel()
}
