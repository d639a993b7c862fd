import Coroutine
import CoroutineTestSupport
import Dispatch
import Glibc
import Synchronization
import Testing

@Suite(.ownThreads) struct TimeoutTests {
  private struct Mine: Error {}

  private func error<Result>(of body: () throws -> Result) -> (any Error)? {
    do {
      _ = try body()
      return nil
    } catch {
      return error
    }
  }

  @Test func aSleepIsNeverTooShort() async throws {
    let slept = try await Coroutine { () -> Duration in
      let begin = ContinuousClock.now
      try Coroutine.sleep(for: .milliseconds(5))
      return ContinuousClock.now - begin
    }.get()
    #expect(slept >= .milliseconds(5))
  }

  @Test func aCancelEndsASleepThatWouldTakeForEver() async throws {
    let sleeper = Coroutine { try Coroutine.sleep(for: .seconds(1_000_000_000_000)) }
    sleeper.cancel()
    await #expect(throws: CancellationError.self) { try await sleeper.get() }
  }

  @Test func anInstantThatHasPassedOnlyYields() async throws {
    let log = Log()
    let queue = DispatchQueue(label: "serial")
    try await Coroutine(on: queue) {
      Coroutine { log.add("other") }
      try Coroutine.sleep(until: ContinuousClock.now - .seconds(1), clock: ContinuousClock())
      log.add("slept")
    }.get()
    #expect(log.all == ["other", "slept"])
  }

  @Test func anyClockCanBeSleptBy() async throws {
    let clock = ManualClock()
    let sleeper = Coroutine { try Coroutine.sleep(until: .init(offset: .seconds(3)), clock: clock) }
    for await instant in clock.asked.stream {
      #expect(instant.offset == .seconds(3))
      break
    }
    #expect(!sleeper.isFinished)
    clock.opened.continuation.yield()
    try await sleeper.get()

    let cancelled = ManualClock()
    let other = Coroutine { try Coroutine.sleep(until: .init(offset: .seconds(3)), clock: cancelled) }
    for await _ in cancelled.asked.stream { break }
    other.cancel()
    await #expect(throws: CancellationError.self) { try await other.get() }
  }

  @Test func aDurationCanBeSleptByAnyClock() async throws {
    let clock = ManualClock()
    let sleeper = Coroutine { try Coroutine.sleep(for: .seconds(3), clock: clock) }
    for await instant in clock.asked.stream {
      #expect(instant.offset == .seconds(3))
      break
    }
    clock.opened.continuation.yield()
    try await sleeper.get()
    let begin = SuspendingClock.now
    try await Coroutine { try Coroutine.sleep(for: .milliseconds(2), clock: .suspending) }.get()
    #expect(SuspendingClock.now - begin >= .milliseconds(2))
  }

  @Test func aClockThatThrowsEndsASleepButNoTimeout() async throws {
    struct Broken: Clock {
      typealias Duration = Swift.Duration
      let steady = ContinuousClock()
      var now: ContinuousClock.Instant { steady.now }
      var minimumResolution: Swift.Duration { .nanoseconds(1) }
      func sleep(until deadline: ContinuousClock.Instant, tolerance: Swift.Duration?) async throws { throw Mine() }
    }
    let sleeper = Coroutine { try Coroutine.sleep(for: .seconds(1000), clock: Broken()) }
    await #expect(throws: Mine.self) { try await sleeper.get() }
    let numbers = Channel<Int>()
    let waiting = Coroutine { try withTimeout(until: .now + .seconds(1000), clock: Broken()) { try numbers.receive() } }
    try await numbers.send(1)
    #expect(try await waiting.get() == 1)
  }

  @Test func theLongestDurationsAreNoDeadlinesThatHavePassed() async throws {
    let (promise, resolver) = Promise.makePromise(of: Int.self)
    let longest = Duration(secondsComponent: .max, attosecondsComponent: 999_999_999_999_999_999)
    let distant = ContinuousClock.now + .seconds(Int64.max / 4)
    let queue = DispatchQueue(label: "serial")
    let waiters = [
      Coroutine(on: queue) { try promise.get(timeout: longest) },
      Coroutine(on: queue) { try withTimeout(longest) { try promise.get() } },
      Coroutine(on: queue) { try withTimeout(until: distant, clock: .continuous) { try promise.get() } },
    ]
    let tasks = [
      Task { try await promise.get(timeout: longest) },
      Task { try await withTimeout(longest) { try await promise.get() } },
    ]
    let sleeper = Coroutine(on: queue) { try Coroutine.sleep(until: distant, clock: .continuous) }
    let byClocks = [
      Coroutine(on: queue) { try Coroutine.sleep(for: longest, clock: .continuous) },
      Coroutine(on: queue) { try Coroutine.sleep(for: longest, clock: .suspending) },
    ]
    try await Coroutine(on: queue) {}.get()
    #expect(byClocks.allSatisfy { !$0.isFinished })
    for sleeper in byClocks { sleeper.cancel() }
    #expect(!sleeper.isFinished && waiters.allSatisfy { !$0.isFinished })
    resolver.fulfill(3)
    for waiter in waiters { #expect(try await waiter.get() == 3) }
    for task in tasks { #expect(try await task.value == 3) }
    sleeper.cancel()
    await #expect(throws: CancellationError.self) { try await sleeper.get() }
  }

  @Test func anyClockCanEndAWait() async throws {
    let never = Channel<Int>()
    let clock = ManualClock()
    let waiting = Coroutine {
      try withTimeout(until: .init(offset: .seconds(3)), clock: clock) { try never.receive() }
    }
    for await instant in clock.asked.stream {
      #expect(instant.offset == .seconds(3))
      break
    }
    clock.opened.continuation.yield()
    await #expect(throws: TimeoutError()) { try await waiting.get() }

    let begin = ContinuousClock.now
    let other = Coroutine {
      try withTimeout(until: begin + .milliseconds(2), clock: .continuous) { try never.receive() }
    }
    await #expect(throws: TimeoutError()) { try await other.get() }
    #expect(ContinuousClock.now - begin >= .milliseconds(2))
    let past = Coroutine {
      try withTimeout(until: SuspendingClock.now - .seconds(1), clock: .suspending) { try never.receive() }
    }
    await #expect(throws: TimeoutError()) { try await past.get() }
    let quick = Coroutine { try withTimeout(until: .init(offset: .seconds(3)), clock: ManualClock()) { 5 } }
    #expect(try await quick.get() == 5)

    let task = Task {
      try await withTimeout(until: .init(offset: .seconds(4)), clock: clock) { try await never.receive() }
    }
    for await _ in clock.asked.stream { break }
    clock.opened.continuation.yield()
    await #expect(throws: TimeoutError()) { try await task.value }
    await #expect(throws: TimeoutError()) {
      try await withTimeout(until: begin, clock: .continuous) { try await never.receive() }
    }
    #expect(try await withTimeout(until: .now + .seconds(1000), clock: .suspending) { 6 } == 6)
  }

  @Test func aTimeoutEndsAWaitThatWouldTakeForEverAndNothingElse() async throws {
    let never = Channel<Int>()
    let log = Log()
    let after = try await Coroutine { [self] () -> Bool in
      let thrown = error {
        try withTimeout(.milliseconds(2)) {
          defer { log.add("unwound, cancelled: \(Coroutine.isCancelled), \(type(of: Coroutine.cancellationReason!))") }
          _ = try never.receive()
        }
      }
      log.add("\(thrown as? TimeoutError == TimeoutError(after: .milliseconds(2)))")
      return Coroutine.isCancelled
    }.get()
    #expect(!after)
    #expect(log.all == ["unwound, cancelled: true, TimeoutError", "true"])
    let taken = Coroutine { try never.receive() }
    try await never.send(1)
    #expect(try await taken.get() == 1)
  }

  @Test func aBodyThatIsInTimeOrIgnoresItGivesItsValue() async throws {
    let value = try await Coroutine { () -> Int in
      let inTime = try withTimeout(.seconds(1_000)) { 1 }
      let late = try withTimeout(.zero) { () -> Int in
        Coroutine.isCancelled ? 10 : 0
      }
      return inTime + late
    }.get()
    #expect(value == 11)
  }

  @Test func anErrorOfTheBodysOwnIsNotATimeout() async throws {
    let thrown = try await Coroutine { [self] in
      error { try withTimeout(.zero) { throw Mine() } } is Mine
    }.get()
    #expect(thrown)
  }

  /// Like URLSession, which throws an error of its own when it is cancelled.
  @Test func aTimeoutOfAsyncCodeIsATimeoutWhateverThatThrows() async throws {
    let after = try await Coroutine { [self] () -> (any Error, any Error) in
      @Sendable func wait() throws {
        try Coroutine.await {
          do { try await Task.sleep(for: .seconds(1_000)) } catch { throw Mine() }
        }
      }
      let timed = error { try withTimeout(.milliseconds(2), wait) }
      let child = Coroutine { try wait() }
      Coroutine.yield()
      child.cancel()
      return (timed!, error { try child.get() }!)
    }.get()
    let timeout = try #require(after.0 as? TimeoutError)
    #expect(timeout == TimeoutError(after: .milliseconds(2)))
    #expect(timeout.cause is Mine, "what the library said is not lost")
    #expect(after.1 is CancellationError)
  }

  @Test func soItIsInAsyncCode() async throws {
    @Sendable func wait() async throws -> Int {
      do { try await Task.sleep(for: .seconds(1_000)) } catch { throw Mine() }
      return 1
    }
    do {
      _ = try await withTimeout(.milliseconds(1)) { try await wait() }
      Issue.record("it did not end")
    } catch let error as TimeoutError {
      #expect(error == TimeoutError(after: .milliseconds(1)) && error.cause is Mine)
    }
    let none = try await withTimeoutOrNil(.milliseconds(1)) { try await wait() }
    #expect(none == nil)
    let task = Task { try await withTimeout(.seconds(1_000)) { try await wait() } }
    task.cancel()
    await #expect(throws: Mine.self) { try await task.value }
  }

  @Test func anErrorOfAsyncCodeThatIsNotCancelledIsItsOwn() async throws {
    let thrown = try await Coroutine { [self] in
      error { try withTimeout(.seconds(1_000)) { try Coroutine.await { throw Mine() } } } is Mine
    }.get()
    #expect(thrown)
  }

  @Test func theNearestOfNestedDeadlinesWins() async throws {
    let never = Channel<Int>()
    let log = Log()
    try await Coroutine { [self] in
      let outer = error {
        try withTimeout(.milliseconds(2)) {
          let inner = error {
            try withTimeout(.seconds(1_000)) { _ = try never.receive() }
          }
          log.add("inner: \(type(of: inner!))")
          throw inner!
        }
      }
      log.add("outer: \(type(of: outer!))")
      let other = error {
        try withTimeout(.seconds(1_000)) {
          let inner = error {
            try withTimeout(.milliseconds(2)) { _ = try never.receive() }
          }
          log.add("inner: \(type(of: inner!)), goes on: \(!Coroutine.isCancelled)")
        }
      }
      log.add("outer: \(other.map { "\(type(of: $0))" } ?? "none")")
    }.get()
    #expect(
      log.all == [
        "inner: CancellationError", "outer: TimeoutError", "inner: TimeoutError, goes on: true", "outer: none",
      ])
  }

  @Test func aTimeoutReachesTheChildrenOfAScopeInside() async throws {
    let never = Channel<Int>()
    let (isTimeout, isFinished) = try await Coroutine { [self] () -> (Bool, Bool) in
      var child: Coroutine<Int, any Error>?
      let thrown = error {
        try withTimeout(.milliseconds(2)) {
          try withScope { scope in child = scope.launch { try never.receive() } }
        }
      }
      return (thrown is TimeoutError, child?.isFinished == true)
    }.get()
    #expect(isTimeout && isFinished)
  }

  @Test func aTimeoutInsideAShieldWorks() async throws {
    let never = Channel<Int>()
    let go = Channel<Void>()
    let thrown = Coroutine { [self] () -> Bool in
      try go.receive()
      return withCancellationShield {
        error { try withTimeout(.milliseconds(1)) { _ = try never.receive() } } is TimeoutError
      }
    }
    try await go.send(())
    thrown.cancel()
    let result = try? await thrown.get()
    #expect(result != false)
  }

  /// A caller that is late sleeps for `deadline - .now`.
  @Test func aNegativeDurationIsOver() async {
    await #expect(processExitsWith: .success) {
      let log = Log()
      try await Coroutine(on: DispatchQueue(label: "serial")) {
        Coroutine { log.add("others run") }
        try Coroutine.sleep(for: .seconds(-1))
        try Coroutine.sleep(for: .seconds(-1), clock: .continuous)
        let never = Channel<Int>()
        for timeout in [Duration.seconds(-1), Duration(secondsComponent: .min, attosecondsComponent: 0)] {
          log.add(outcome { try withTimeout(timeout) { _ = try never.receive() } })
          log.add(outcome { _ = try never.receive(timeout: timeout) })
          log.add(outcome { try select { onTimeout(timeout) { throw TimeoutError() } } })
          try CoroutineMutex(0).withLock(timeout: timeout) { _ in log.add("locked") }
        }
      }.get()
      let inTime = try await withTimeout(.seconds(-1)) { 1 }
      let late = ["timed out", "timed out", "timed out", "locked"]
      precondition(inTime == 1 && log.all == ["others run"] + late + late, "\(log.all)")
    }
  }

  /// All must be asleep before the instant, since a sleeper that comes later may overtake. If a machine was too slow
  /// for that, it gets twice the time.
  @Test(arguments: [true, false])
  func sleepersUntilTheSameInstantWakeInOrder(isContinuous: Bool) async throws {
    var time = Duration.milliseconds(300)
    var order: [String]?
    while order == nil {
      order = try await wakeOrderOfSleepers(after: time, isContinuous: isContinuous)
      time *= 2
    }
    #expect(order == (Array(500..<1_000) + Array(0..<500)).map { "\($0)" })
  }

  /// The order in which a thousand sleepers wake at an instant after `time`; nil if one was not asleep before it.
  private func wakeOrderOfSleepers(after time: Duration, isContinuous: Bool) async throws -> [String]? {
    let log = Log()
    let inTime = try await Coroutine(on: DispatchQueue(label: "serial")) { () -> Bool in
      let (continuous, suspending) = (ContinuousClock.now + time, SuspendingClock.now + time)
      // The second half sleeps until a nanosecond earlier than the first, though it falls asleep after it.
      let late = { @Sendable (number: Int) in Duration.nanoseconds(number < 500 ? 1 : 0) }
      let sleepers = (0..<1_000).map { number in
        Coroutine {
          if isContinuous {
            try Coroutine.sleep(until: continuous + late(number), clock: .continuous)
          } else {
            try Coroutine.sleep(until: suspending + late(number), clock: .suspending)
          }
          log.add("\(number)")
        }
      }
      // Runs when all sleepers on this queue have had their turn.
      let allAsleep = Coroutine { isContinuous ? ContinuousClock.now < continuous : SuspendingClock.now < suspending }
      let inTime = try allAsleep.get()
      for sleeper in sleepers { try sleeper.get() }
      return inTime
    }.get()
    return inTime ? log.all : nil
  }

  /// In a process of their own, as other tests look at all coroutines.
  @Test func hundredThousandSleepersAtOnce() async {
    await #expect(processExitsWith: .success) {
      // ThreadSanitizer needs half a megabyte for each stack.
      let count = amount(100_000, sanitized: 1_000)
      let all = try await Coroutine { () -> Int in
        let sleepers = (0..<count).map { _ in
          Coroutine(stackSize: 16 << 10) { try Coroutine.sleep(for: .milliseconds(10)) }
        }
        for sleeper in sleepers { try sleeper.get() }
        return sleepers.count
      }.get()
      #expect(all == count)
    }
  }

  /// Also where all threads of the global queues are blocked, perhaps until it has ended something.
  @Test func aTimeoutNeedsNoThreadOfAGlobalQueue() async {
    await #expect(processExitsWith: .success) {
      let (ends, begun) = (DispatchSemaphore(value: 0), Holder(Atomic<Int>(0)))
      for _ in 0..<1000 {
        DispatchQueue.global(qos: .userInitiated).async {
          begun.value.add(1, ordering: .relaxed)
          ends.wait()
        }
      }
      // None comes any more.
      var seen = -1
      while seen != begun.value.load(ordering: .relaxed) {
        seen = begun.value.load(ordering: .relaxed)
        usleep(200_000)
      }
      #expect(seen < 1000)
      let timedOut = Coroutine(on: ThreadPool(threads: 1)) {
        do {
          try withTimeout(.milliseconds(1)) { try withScope { _ in try Coroutine.sleep(for: .seconds(600)) } }
          return false
        } catch { return error is TimeoutError }
      }
      #expect(PlainThread { try? timedOut.getBlocking() }.join() == true)
    }
  }

  /// The handlers of a timeout are the program's code: no other timer waits for them.
  @Test(arguments: [true, false]) func aHandlerThatBlocksDelaysNoOtherTimer(_ isTask: Bool) async throws {
    let (begun, ends) = (Gate(), DispatchSemaphore(value: 0))
    let wait: @Sendable () -> Void = {
      begun.open()
      // It would end by itself, so that a failing test ends.
      #expect(ends.wait(timeout: .now() + 600) == .success)
    }
    let timedOut =
      isTask
      ? Task {
        do {
          try await withTimeout(.milliseconds(1)) {
            try await withTaskCancellationHandler {
              try await Task.sleep(for: .seconds(600))
            } onCancel: {
              wait()
            }
          }
          return false
        } catch { return error is TimeoutError }
      }
      : Task {
        try await Coroutine {
          do {
            try withTimeout(.milliseconds(1)) {
              try withCancellationHandler {
                try Coroutine.sleep(for: .seconds(600))
              } onCancel: {
                wait()
              }
            }
            return false
          } catch { return error is TimeoutError }
        }.get()
      }
    let other = Coroutine(on: ThreadPool(threads: 1)) {
      begun.pass()
      try Coroutine.sleep(for: .milliseconds(1))
      ends.signal()
    }
    try await other.get()
    let isRight = try await timedOut.value
    #expect(isRight)
  }

  /// Nor for what goes with a coroutine that has timed out and ends at once: its result, which nobody has taken.
  @Test func theTimersThreadReleasesNoResult() async throws {
    let count = amount(3_000, sanitized: 500)
    let (group, late) = (WaitGroup(count: count), WaitGroup())
    for number in 0..<count {
      Coroutine(on: .pool) { () -> Remains in
        try? withTimeout(.microseconds(200 + number % 100)) { try Coroutine.sleep(for: .seconds(600)) }
        return Remains(group, late)
      }
    }
    try await group.wait()
    #expect(late.count == 0)
  }

  private final class Remains: Sendable {
    private let (group, late): (WaitGroup, WaitGroup)

    init(_ group: WaitGroup, _ late: WaitGroup) { (self.group, self.late) = (group, late) }

    deinit {
      let file = open("/proc/thread-self/comm", O_RDONLY)
      var name = [UInt8](repeating: 0, count: 32)
      let length = read(file, &name, name.count)
      close(file)
      if String(decoding: name.prefix(max(length, 0)), as: UTF8.self).hasPrefix("coroutine-timer") { late.add() }
      group.done()
    }
  }

  @Test func manyTimedOutOperationsLeaveNothingBehind() async throws {
    try await Coroutine {
      let never = Channel<Int>()
      for _ in 0..<amount(100_000, sanitized: 10_000) {
        do { try withTimeout(.nanoseconds(1)) { _ = try never.receive() } } catch is TimeoutError {}
      }
    }.get()
  }
}

@Suite(.ownThreads) struct HopTests {
  @Test func aHopRunsThereAndComesBackAfterAnErrorToo() async throws {
    struct Mine: Error {}
    let here = DispatchQueue(label: "here")
    let there = DispatchQueue(label: "there")
    let log = Log()
    let place: @Sendable () -> String = { here.isCurrent ? "here" : there.isCurrent ? "there" : "?" }
    try await Coroutine(on: here) {
      log.add(place())
      let value = on(there) { () -> Int in
        log.add(place())
        on(here) { log.add("nested " + place()) }
        log.add(place())
        try? Coroutine { log.add("launched " + place()) }.get()
        return 1
      }
      log.add(place() + " \(value)")
      do { try on(there) { throw Mine() } } catch { log.add(place() + " caught") }
    }.get()
    #expect(
      log.all == ["here", "there", "nested here", "there", "launched there", "here 1", "here caught"])
  }
}
