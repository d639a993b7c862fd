import CoroutineTestSupport
import Dispatch
import Synchronization
import Testing

@testable import Coroutine

@Suite(.ownThreads) struct TickerTests {
  private static func instant(_ milliseconds: Int64) -> SuspendingClock.Instant {
    SuspendingClock().systemEpoch.advanced(by: .milliseconds(milliseconds))
  }

  /// A ticker of 10 ms that began at 100 ms, and timers that the test advances.
  private func makeTicker() -> (Ticker, TimerService) {
    let timers = TimerService(startingAt: 100_000_000)
    return (Ticker(every: .milliseconds(10), name: "ticks", by: timers), timers)
  }

  @Test func aTickComesInEachPeriodAndOneIsKept() async throws {
    let (ticker, timers) = makeTicker()
    #expect(ticker.ticks.tryReceive() == .empty)
    timers.advance(to: 109_999_999)
    #expect(ticker.ticks.tryReceive() == .empty)
    timers.advance(to: 110_000_000)
    #expect(ticker.ticks.tryReceive() == .received(Self.instant(110)))
    // There is no receiver: the first tick is kept, and the others are dropped.
    for time in [120, 130, 140] { timers.advance(to: UInt64(time) * 1_000_000) }
    #expect(ticker.ticks.tryReceive() == .received(Self.instant(120)))
    #expect(ticker.ticks.tryReceive() == .empty)
    // A driver that is late catches up on nothing, and keeps to the multiples.
    timers.advance(to: 175_000_000)
    #expect(ticker.ticks.tryReceive() == .received(Self.instant(150)))
    #expect(ticker.ticks.tryReceive() == .empty && timers.nextDeadline == 180_000_000)
  }

  @Test func aTickerThatIsStoppedEndsTheLoopAndHasNoTimer() async throws {
    let (ticker, timers) = makeTicker()
    let loop = Coroutine { () -> Int in
      var count = 0
      for _ in ticker { count += 1 }
      return count
    }
    while ticker.ticks.waitingReceiverCount == 0 { await Task.yield() }
    #expect(loop.suspension?.waitsFor == "receive on channel \"ticks\" (buffered 0/1, 1 receiver)")
    timers.advance(to: 110_000_000)
    while ticker.ticks.waitingReceiverCount == 0 { await Task.yield() }
    ticker.stop()
    ticker.stop()
    #expect(try await loop.get() == 1)
    #expect(timers.count == 0)
  }

  /// It is closed, and all others have let go of it, while the timers' thread is sending a tick.
  @Test func anErrorOfATickerDoesNotGoOnTheTimersThread() throws {
    let went = DispatchSemaphore(value: 0)
    let wasOnTimersThread = Guarded<Bool?>(nil)
    let scheduler = HoldingScheduler()
    func launch() -> Coroutine<Void, any Error> {
      let ticker = Ticker(every: .milliseconds(1))
      return Coroutine(on: scheduler) {
        repeat { _ = try ticker.ticks.receive() } while !scheduler.holdsTimers
        ticker.ticks.close(
          throwing: OwningProblem {
            wasOnTimersThread.withLock { $0 = TimerThread.isCurrent }
            went.signal()
          })
      }
    }
    try launch().getBlocking()
    went.wait()
    let wasThere = wasOnTimersThread.withLock { $0 }
    #expect(wasThere == false)
  }

  @Test func aTickerThatWasReleasedHasNoTimer() {
    let timers = TimerService(startingAt: 0)
    func makeAndDrop() {
      let ticker = Ticker(every: .seconds(1), name: "", by: timers)
      #expect(timers.count == 1)
      _ = ticker.ticks
    }
    makeAndDrop()
    #expect(timers.count == 0)
  }

  @Test func aSelectChoosesATickAndALoopByTheClockTicks() async throws {
    let stop = Channel<Void>()
    let ticking = Coroutine {
      let ticker = Ticker(every: .milliseconds(1))
      var count = 0
      while count < 3 {
        try select {
          ticker.ticks.onReceive { _ in count += 1 }
          stop.onReceive { _ in }
        }
      }
      return count
    }
    #expect(try await ticking.get() == 3)
    var count = 0
    for await _ in Ticker(every: .milliseconds(1)).ticks {
      count += 1
      if count == 3 { break }
    }
    #expect(count == 3)
  }

  /// In a program with a virtual time, timers have to know which service they were armed in. ThreadSanitizer sees it.
  @Test(arguments: [false, true])
  func aStopRacesWithATick(besideAVirtualTime: Bool) async throws {
    if besideAVirtualTime { TimerService(startingAt: 0).withVirtualTime {} }
    for _ in 0..<amount(300, sanitized: 1_000) {
      let ticker = Ticker(every: .microseconds(50))
      _ = try await ticker.ticks.receive()
      async let _: Void = ticker.stop()
      for await _ in ticker.ticks {}
      #expect(ticker.ticks.isClosed)
    }
  }

  @Test func aStopRacesWithATickOfAVirtualTime() async throws {
    for _ in 0..<amount(100, sanitized: 1_000) {
      let timers = TimerService(startingAt: 0)
      let ticker = Ticker(every: .nanoseconds(1), name: "", by: timers)
      async let advanced: Void = {
        for instant in 1...50 { timers.advance(to: UInt64(instant)) }
      }()
      _ = try await ticker.ticks.receive()
      ticker.stop()
      await advanced
      #expect(timers.count == 0)
    }
  }

  @Test func aPeriodOfNothingTraps() async {
    let exit = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      _ = Ticker(every: .zero)
    }
    #expect(standardError(of: exit).contains("a ticker can't tick every"))
  }
}

/// Runs its coroutines on a queue. The timers' thread, if it wakes one, waits for the end of that one's turn.
private final class HoldingScheduler: Scheduler {
  private let queue = DispatchQueue(label: "holds the timers' thread")
  private let mayGoOn = DispatchSemaphore(value: 0)
  private let isHolding = Atomic<Bool>(false)

  /// For the coroutine whose turn it is.
  var holdsTimers: Bool { isHolding.load(ordering: .acquiring) }

  func enqueue(_ job: consuming CoroutineJob) {
    let core = job.take()
    guard TimerThread.isCurrent else { return queue.async { CoroutineJob(core).run() } }
    isHolding.store(true, ordering: .releasing)
    queue.async {
      CoroutineJob(core).run()
      self.mayGoOn.signal()
    }
    mayGoOn.wait()
    isHolding.store(false, ordering: .releasing)
  }

  var isCurrent: Bool { false }
  var isSerial: Bool { true }
}

private final class OwningProblem: Error {
  private let body: @Sendable () -> Void
  init(_ body: @escaping @Sendable () -> Void) { self.body = body }
  deinit { body() }
}
