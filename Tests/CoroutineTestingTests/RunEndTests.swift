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
}
