import Context
import CoroutineTestSupport
import CoroutineTesting
import Dispatch
import Glibc
import Synchronization
import Testing

@testable import Coroutine

/// The queue and the service with a time that the test moves, and then with the kernel's.
@Suite(.ownThreads) struct TimerServiceTests {
  @Test func firesInTheOrderOfDeadlinesAndTiesInTheOrderOfArming() {
    let service = TimerService(startingAt: 1000)
    let log = FiringLog()
    let deadlines: [UInt64] = [5000, 3000, 5000, 2_000_000_000, 3000, 1]
    for deadline in deadlines { service.arm(LoggingTimer(log), at: deadline) }
    #expect(service.count == 6)
    #expect(log.entries.isEmpty, "nothing fires while it is armed, not even what is overdue")
    service.advance(to: 4999)
    #expect(log.entries == [1, 3000, 3000])
    #expect(service.nextDeadline == 5000)
    #expect(service.advance(to: 5000) == 2_000_000_000)
    #expect(log.entries == [1, 3000, 3000, 5000, 5000])
    #expect(service.advance(to: .max) == nil)
    #expect(log.entries.count == 6 && service.count == 0)
  }

  @Test func aDisarmedTimerIsNotToldAndSaysWhetherItWasStillArmed() {
    let service = TimerService(startingAt: 0)
    let log = FiringLog()
    let (early, late) = (LoggingTimer(log), LoggingTimer(log))
    service.arm(early, at: 10)
    service.arm(late, at: 20)
    service.advance(to: 10)
    #expect(!service.disarm(early))
    #expect(service.disarm(late))
    #expect(!service.disarm(late))
    service.advance(to: 30)
    #expect(log.entries == [10])
  }

  /// More timers than one critical section takes. Some of them are disarmed by those that fire.
  @Test func timersThatFireDisarmAndArmOthers() {
    let service = TimerService(startingAt: 0)
    let log = FiringLog()
    let victims = (0..<300).map { _ in LoggingTimer(log) }
    for number in 0..<300 {
      let timer = LoggingTimer(log) { _ in
        if number % 2 == 0 { #expect(service.disarm(victims[number])) }
      }
      service.arm(timer, at: 1_000_000)
    }
    for victim in victims { service.arm(victim, at: 1_000_001) }
    service.advance(to: 1_000_000)
    #expect(log.entries.count == 300 && service.count == 150)
    service.advance(to: 1_000_001)
    #expect(log.entries.count == 450 && service.count == 0)
  }

  @Test func aTimerArmsItselfAgainWhenItFires() {
    let service = TimerService(startingAt: 0)
    let log = FiringLog()
    let timer = LoggingTimer(log) { service.arm($0, at: $0.deadline + 10) }
    service.arm(timer, at: 10)
    while let next = service.nextDeadline, next <= 45 { service.advance(to: next) }
    #expect(log.entries == [10, 20, 30, 40])
    #expect(service.disarm(timer))
  }

  /// Otherwise its memory would still be linked when its last owner releases it.
  @Test func anArmedObjectIsKeptAliveAndThenLetGo() {
    let service = TimerService(startingAt: 0)
    weak var disarmed: LoggingTimer?
    weak var fired: LoggingTimer?
    let log = FiringLog()
    do {
      let timers = [LoggingTimer(log), LoggingTimer(log)]
      (fired, disarmed) = (timers[0], timers[1])
      service.arm(timers[0], at: 10)
      service.arm(timers[1], at: 20)
    }
    #expect(fired != nil && disarmed != nil)
    service.advance(to: 10)
    #expect(fired == nil && log.entries == [10])
    disarmed.map { _ = service.disarm($0) }
    #expect(disarmed == nil)
  }

  /// Waking the driver takes a system call and two switches of threads, so it is done only for what the driver would
  /// miss.
  @Test func theDriverIsToldOnlyOfWhatItWouldLookAtTooLate() {
    let queue = TimerQueue()
    let log = FiringLog()
    let timers = (0..<7).map { _ in LoggingTimer(log) }
    func arm(_ number: Int, at deadline: UInt64) -> Bool {
      timers[number].node.pointee.deadline = deadline
      return queue.arm(timers[number].node)
    }
    #expect(arm(0, at: 100), "it sleeps for ever")
    #expect(!arm(1, at: 50), "it was told and has not looked yet")
    #expect(queue.fireExpired(at: 0) == 50)
    #expect(!arm(2, at: 200), "later than it will look")
    #expect(!arm(3, at: 50), "when it will look")
    #expect(arm(4, at: 40), "earlier than it will look")
    #expect(!arm(5, at: 10), "it was told")
    #expect(queue.fireExpired(at: 0) == 10)
    #expect(queue.fireExpired(at: 200) == nil)
    #expect(log.entries == [10, 40, 50, 50, 100, 200])
    #expect(!arm(6, at: .max), "for ever is how long it sleeps")
    #expect(queue.disarm(timers[6].node))
  }

  @Test func manualTimeDoesNotGoBack() {
    let service = TimerService(startingAt: 100)
    service.advance(to: 50)
    #expect(service.now == 100)
    service.advance(to: 150)
    #expect(service.now == 150)
  }

  @Test func advancingTheKernelsTimeTraps() async {
    await #expect(processExitsWith: .failure) {
      TimerService.shared.advance(to: 5)
    }
  }
}

/// A thread that sleeps until its timer fires.
final class TimedThread: TimedWaiter, Sendable {
  let parking = Parking()
  let woken = ThreadSemaphore()

  static func isSuspending(_ waiter: UnsafeRawPointer) -> Bool { false }

  static func claimTimedOut(_ waiter: UnsafeRawPointer) -> Bool {
    Unmanaged<TimedThread>.fromOpaque(waiter).takeUnretainedValue().parking.claim(.timedOut)
  }

  static func wakeTimedOut(_ waiter: UnsafeRawPointer) {
    Unmanaged<TimedThread>.fromOpaque(waiter).takeUnretainedValue().woken.signal()
  }
}

/// The timers of waiters. The claim decides, and the node is in the waiter's frame.
@Suite(.ownThreads) struct TimerWaiterTests {
  @Test func aDeadlineThatWinsWakesTheWaiterOnce() {
    let service = TimerService(startingAt: 0)
    let thread = TimedThread()
    var node = TimerNode(.wait(TimedWait(.passUnretained(thread))), deadline: 10)
    withUnsafeMutablePointer(to: &node) { node in
      thread.parking.markParked()
      service.arm(node)
      service.advance(to: 10)
      thread.woken.wait()
      #expect(thread.parking.cause == .timedOut)
      #expect(!service.disarm(node))
    }
  }

  @Test func aDeadlineThatLosesWakesNoWaiter() {
    let service = TimerService(startingAt: 0)
    let thread = TimedThread()
    var node = TimerNode(.wait(TimedWait(.passUnretained(thread))), deadline: 10)
    withUnsafeMutablePointer(to: &node) { node in
      thread.parking.markParked()
      service.arm(node)
      let isClaimed = thread.parking.claim(.event)
      #expect(isClaimed)
      service.advance(to: 10)
      #expect(thread.parking.cause == .event)
      #expect(!service.disarm(node), "it was taken out all the same")
      #expect(!thread.woken.wait(until: 0), "it was woken")
    }
  }

  /// The claim of such a waiter waits until it has left its stack. The timers' lock must not wait for that.
  @Test func aCoroutineThatSuspendsHoldsUpNeitherTheLockNorOtherTimers() {
    let service = TimerService(startingAt: 0)
    let pool = ThreadPool(threads: 1)
    let (departed, behind, advanced) = (Countdown(1), Countdown(1), Countdown(1))
    let sleeper = Coroutine(on: pool) { () -> WakeCause in
      let core = CoroutineCore.running(for: "sleep")
      return Sleep().wait(core, until: 10, on: service) {
        // The coroutine is still on its stack, with the lock of its wait held.
        service.arm(LoggingTimer { _ in behind.signal() }, at: 11)
        departed.signal()
        behind.wait()
        let another = LoggingTimer()
        service.arm(another, at: 50)
        #expect(service.disarm(another))
      }
    }
    DispatchQueue.global().async {
      departed.wait()
      service.advance(to: 20)
      advanced.signal()
    }
    #expect((try? sleeper.getBlocking()) == .timedOut)
    advanced.wait()
    #expect(service.count == 0)
  }

  /// The same for a task's select, whose wait begins under several locks.
  @Test func aSelectOfATaskThatSuspendsHoldsUpNoTimer() {
    let service = TimerService(startingAt: 0)
    let (task, log) = (WaitingTask(), Log())
    var node = TimerNode(.wait(TimedWait(.passUnretained(task))), deadline: 10)
    withUnsafeMutablePointer(to: &node) { node in
      let begins = task.parking.prepareUnlessClaimed()
      #expect(begins)
      service.arm(node)
      service.arm(LoggingTimer { _ in log.add("fired") }, at: 11)
      let driver = PlainThread { service.advance(to: 20) }
      // It looks again and again whether the task has parked, with no lock in between, and fires the others.
      while log.all.isEmpty { sched_yield() }
      #expect(service.disarm(node))
      _ = driver.join()
    }
  }

  @Test func coroutinesSleepOnTheirOwnStacksAndWakeNotTooEarly() {
    let service = TimerService.shared
    let isLate = (0..<500 as Range<UInt64>).map { number in
      Coroutine {
        let core = CoroutineCore.running(for: "sleep")
        return (0..<4 as Range<UInt64>).allSatisfy { round in
          // Some deadlines pass before the coroutine has left its stack.
          let deadline = service.now + (number * 7919 + round) % 1000 * 1000
          return Sleep().wait(core, until: deadline, on: service) == .timedOut && service.now >= deadline
        }
      }
    }
    for coroutine in isLate { #expect((try? coroutine.getBlocking()) == true) }
  }

  /// A pool gets several sleepers at once. That must not change their order, nor delay the sleepers behind them:
  /// those of another pool, those of a queue, and one that is pinned to its thread.
  @Test func sleepersOfSeveralSchedulersWakeInTheOrderOfTheirDeadlines() throws {
    let service = TimerService(startingAt: 0)
    let (pool, other) = (ThreadPool(threads: 1), ThreadPool(threads: 1))
    let schedulers: [any Scheduler] = [pool, other, DispatchQueue(label: "sleepers")]
    let logs = schedulers.map { _ in FiringLog() }
    let armed = Countdown(300)
    let sleepers = (0..<300 as Range<UInt64>).map { number in
      let deadline = number * 7919 % 300 + 1
      // Runs of different lengths on the same scheduler.
      let index = Int(deadline * deadline / 10 % 3)
      let log = logs[index]
      let sleep = {
        Sleep().wait(CoroutineCore.running(for: "sleep"), until: deadline, on: service) { armed.signal() } == .timedOut
      }
      return Coroutine(on: schedulers[index]) {
        // On the queue it would keep the others from sleeping.
        if deadline % 20 == 7, index < 2 { return withThreadPinned { sleep() } }
        let isInTime = sleep()
        log.append(deadline)
        return isInTime && schedulers[index].isCurrent
      }
    }
    armed.wait()
    // The last sleeper of each scheduler has left its stack.
    for scheduler in schedulers { try Coroutine(on: scheduler) {}.getBlocking() }
    service.advance(to: 299)
    service.advance(to: 300)
    for sleeper in sleepers { #expect(try sleeper.getBlocking()) }
    #expect(logs.allSatisfy { $0.entries.count >= 60 })
    for log in logs { #expect(log.entries == log.entries.sorted()) }
  }

  /// A cancel and the deadline end the same wait at the same time. Whichever wins, the node is out before the frame
  /// is gone.
  @Test func cancellingAtTheDeadlineEndsTheWaitOnce() throws {
    let service = TimerService.shared
    for number in 0..<300 as Range<UInt64> {
      let started = Countdown(1)
      let deadline = service.now + number % 100 * 1000
      let coroutine = Coroutine {
        let core = CoroutineCore.running(for: "sleep")
        let cause = Sleep().wait(core, until: deadline, on: service) { started.signal() }
        return cause == .timedOut || cause == .cancelled
      }
      started.wait()
      while service.now < deadline {}
      coroutine.cancel()
      // It ends, cancelled or not. Its result counts only if it ended in time.
      #expect((try? coroutine.getBlocking()) != false)
    }
  }
}

/// A wait that only its deadline ends.
private final class Sleep: Waitable {
  /// `armed` runs when the coroutine has begun to wait, and is still on its stack.
  func wait(
    _ core: CoroutineCore, until deadline: UInt64, on service: TimerService, armed: () -> Void = {}
  ) -> WakeCause {
    var node = TimerNode(.wait(TimedWait(.passUnretained(core))), deadline: deadline)
    return wait(core, .sleep, by: &node) {
      service.arm($0)
      armed()
      return .wait
    } withdraw: {
      service.disarm($0)
      return .done
    }
  }
}

/// Conversions from Swift's durations and instants to nanoseconds.
@Suite(.ownThreads) struct DeadlineTests {
  @Test func durationsAreRoundedUpAndSaturate() {
    #expect(Duration.zero.nanosecondsRoundedUp == 0)
    #expect(Duration.nanoseconds(1).nanosecondsRoundedUp == 1)
    #expect(Duration(secondsComponent: 0, attosecondsComponent: 1).nanosecondsRoundedUp == 1, "never too short")
    #expect(
      Duration(secondsComponent: 3, attosecondsComponent: 999_999_999_999_999_999).nanosecondsRoundedUp == 4_000_000_000
    )
    #expect(Duration.seconds(Int64.max).nanosecondsRoundedUp == UInt64.max)
    #expect(
      Duration(secondsComponent: 18_446_744_073, attosecondsComponent: 709_551_615_000_000_000).nanosecondsRoundedUp
        == UInt64.max)
    #expect(
      Duration(secondsComponent: 18_446_744_073, attosecondsComponent: 709_551_614_000_000_000).nanosecondsRoundedUp
        == UInt64.max - 1)
    #expect(Duration.seconds(18_446_744_074).nanosecondsRoundedUp == UInt64.max)
  }

  /// `components` traps for them.
  @Test func durationsOfMoreSecondsThanFitSaturate() {
    #expect(Duration.seconds(1e20).nanosecondsRoundedUp == UInt64.max)
    #expect(Duration(attoseconds: .max).nanosecondsRoundedUp == UInt64.max)
    #expect(Duration(attoseconds: .min).nanosecondsRoundedUp == 0)
    #expect(Duration.seconds(1e20).addingSaturated(.seconds(1e20)) == Duration(attoseconds: .max))
    #expect(Duration.seconds(-1e20).addingSaturated(.seconds(-1e20)) == Duration(attoseconds: .min))
    #expect(Duration.seconds(3).addingSaturated(.seconds(-1)) == .seconds(2))
  }

  @Test func aWaitOfMoreSecondsThanFitIsOneForEver() async throws {
    let channel = Channel<Int>()
    let waiter = Coroutine {
      try withTimeout(.seconds(1e20)) { deadline in
        deadline.extend(by: .seconds(1e20))
        return try channel.receive(timeout: .seconds(1e20))
      }
    }
    try await channel.send(7)
    #expect(try await waiter.get() == 7)
  }

  @Test func deadlinesSaturate() {
    let service = TimerService(startingAt: UInt64.max - 5)
    #expect(service.deadline(after: .nanoseconds(3)) == UInt64.max - 2)
    #expect(service.deadline(after: .nanoseconds(6)) == UInt64.max)
    #expect(service.deadline(after: .seconds(1)) == UInt64.max)
  }

  @Test func equalInstantsAreEqualDeadlines() {
    let service = TimerService.shared
    let continuous = ContinuousClock.now.advanced(by: .seconds(60))
    let suspending = SuspendingClock.now.advanced(by: .seconds(60))
    let ofContinuous = (0..<1_000).compactMap { number in
      service.deadline(at: continuous.advanced(by: .nanoseconds(number)), of: ContinuousClock())
    }
    let ofSuspending = (0..<1_000).compactMap { number in
      service.deadline(at: suspending.advanced(by: .nanoseconds(number)), of: SuspendingClock())
    }
    #expect(ofContinuous == (0..<1_000).map { ofContinuous[0] + $0 })
    #expect(ofSuspending == (0..<1_000).map { ofSuspending[0] + $0 })
  }

  /// A deadline is not before its instant, by the clock of that instant.
  @Test func instantsOfBothClocksBecomeDeadlines() {
    let service = TimerService.shared
    let suspending = SuspendingClock.now.advanced(by: .seconds(60))
    let deadline = service.deadline(at: suspending, of: SuspendingClock())!
    // SuspendingClock begins where the service's clock does.
    #expect(deadline >= SuspendingClock().systemEpoch.duration(to: suspending).nanosecondsRoundedUp)

    let continuous = ContinuousClock.now.advanced(by: .seconds(60))
    let before = service.now
    let equivalent = service.deadline(at: continuous, of: ContinuousClock())!
    #expect(equivalent >= before)
    #expect(equivalent <= service.now + 60_000_000_000)

    let past = ContinuousClock.now.advanced(by: .seconds(-60))
    #expect(service.deadline(at: past, of: ContinuousClock())! <= service.now)
  }
}

/// The timer thread and the kernel's clock.
@Suite(.ownThreads) struct TimerThreadTests {
  @Test func firesNotBeforeTheDeadlineWhateverIsArmedMeanwhile() {
    let service = TimerService.shared
    let fired = Countdown(60)
    for number in 0..<60 as Range<UInt64> {
      // Each deadline is earlier than those before it, so that the timer thread must be woken.
      let deadline = service.now + (60 - number) * 300_000
      let timer = LoggingTimer { timer in
        #expect(service.now >= timer.deadline)
        fired.signal()
      }
      service.arm(timer, at: deadline)
    }
    fired.wait()
  }

  @Test func whatIsOverdueFiresAtOnceEvenIfAnHourIsSleptFor() {
    let service = TimerService.shared
    let distant = LoggingTimer()
    service.arm(distant, at: service.deadline(after: .seconds(3600)))
    let fired = Countdown(1)
    service.arm(LoggingTimer { _ in fired.signal() }, at: 1)
    fired.wait()
    #expect(service.disarm(distant))
  }

  /// Threads arm a timer, and disarm it at about the time at which it fires. One of the two wins, never both, and
  /// never neither.
  @Test func eachTimerFiresOrIsDisarmedNeverBoth() {
    let service = TimerService.shared
    let (fired, disarmed) = (Tally(), Tally())
    DispatchQueue.concurrentPerform(iterations: 4) { thread in
      var random = SplitMix(seed: UInt64(thread))
      for _ in 0..<500 {
        let delay = random.next() % 40_000
        let timer = LoggingTimer { _ in fired.add() }
        service.arm(timer, at: service.now + delay)
        let patience = service.now + random.next() % 40_000
        while service.now < patience {}
        if service.disarm(timer) { disarmed.add() }
      }
    }
    // The last timers may be about to fire. A timer that is armed after them fires after them.
    let last = Countdown(1)
    service.arm(LoggingTimer { _ in last.signal() }, at: service.now)
    last.wait()
    #expect(fired.count + disarmed.count == 2000)
  }
}

// MARK: - Helpers

private final class FiringLog: Sendable {
  private let lock = Lock()
  nonisolated(unsafe) private var numbers: [UInt64] = []  // guarded by `lock`
  func append(_ number: UInt64) { lock.withLock { numbers.append(number) } }
  var entries: [UInt64] { lock.withLock { numbers } }
}

/// Records its deadline when it fires.
private final class LoggingTimer: TimerTarget {
  private let log: FiringLog
  private let body: (LoggingTimer) -> Void

  init(_ log: FiringLog = FiringLog(), body: @escaping (LoggingTimer) -> Void = { _ in }) {
    self.log = log
    self.body = body
  }

  override func timerFired() {
    log.append(deadline)
    body(self)
  }
}

private final class Tally: Sendable {
  private let value = Atomic<Int>(0)
  func add() { value.add(1, ordering: .releasing) }
  var count: Int { value.load(ordering: .acquiring) }
}

private final class Countdown: Sendable {
  private let left: Atomic<UInt32>
  init(_ count: UInt32) { left = Atomic(count) }

  func signal() {
    if left.subtract(1, ordering: .acquiringAndReleasing).newValue == 0 { Futex.wake(.max, on: left) }
  }

  func wait() {
    while true {
      let value = left.load(ordering: .acquiring)
      if value == 0 { return }
      Futex.wait(on: left, while: value)
    }
  }
}
