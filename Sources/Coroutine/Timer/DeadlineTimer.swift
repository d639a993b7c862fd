// SPDX-License-Identifier: Apache-2.0

import Context
import Synchronization

/// A deadline that may be moved, by any clock and from any thread, until the time is up or its owner needs it no more.
///
/// The kernel's clocks, and the virtual time of a test, are the runtime's timers. By another clock a task sleeps.
///
/// Whether a move comes in time is decided where the timer, or the sleeper, is taken back: if it is not there any more,
/// the time was up. Movers, and the owner's end, follow each other by the lock. No code of the user's runs under it: neither a
/// clock's, nor what is done when the time is up.
// Unchecked: the lock guards what changes.
package class DeadlineTimer: TimerTarget, HiddenFromMirrors, @unchecked Sendable {
  private let lock = Lock()
  // Guarded by the lock, both.
  @exclusivity(unchecked) private var machine = DeadlineStateMachine(Moment.timer(WaitDeadline.now))
  /// What sleeps in place of a timer.
  @exclusivity(unchecked) private var sleeper: Sleeper?
  /// How long the body was allowed to take, for the error; `nil` where the deadline was given, or moved, to an instant. Written
  /// where no timer is armed, and read when the time is up: the timer orders the two.
  @exclusivity(unchecked) private var allowed: Duration?
  private let name: String
  /// Whose time it goes by, if that is not the process's: that of the code which has begun it. A mover may have another one.
  private let virtual = TimerService.virtual

  fileprivate enum Moment {
    /// Nanoseconds on the timers' clock.
    case timer(UInt64)
    case clock(any ClockMoment)
  }

  /// - Parameters:
  ///   - allowed: how long from its beginning, if that is what it is given by.
  ///   - name: of the timeout, for its error.
  package init(allowed: Duration?, name: String) {
    self.allowed = allowed
    self.name = name
    super.init()
  }

  /// What is thrown for it. When the time is up.
  package final var error: TimeoutError { TimeoutError(after: allowed, name: name) }

  /// The time is up: once, on whichever thread sees it, a mover's too. As `timerFired()`, to which this belongs.
  package func expire() {
    fatalError("\(type(of: self)) is a deadline, but does not say what happens then: override expire()")
  }

  override package final func timerFired() { expire() }

  /// That of a task which sleeps in place of a timer; `nil`: that of the code that starts it. Asked by the code that begins or
  /// moves it.
  package var sleeperPriority: TaskPriority? { nil }

  /// Where that task runs; `nil`: on Swift's pool. Asked as above.
  package var sleeperExecutor: (any TaskExecutor)? { nil }

  /// Calls the cancel of that task, which may run a cancellation handler of a clock of the user's.
  package func cancelSleeper(_ cancel: () -> Void) { cancel() }
}

// MARK: - By its owner

extension DeadlineTimer {
  /// Begins, before another thread knows of it. A deadline that is `WaitDeadline.now` expires at once, here.
  package final func begin(at deadline: UInt64) {
    machine.begin(at: .timer(deadline))
    switch deadline {
    case WaitDeadline.now: expire()
    // Not armed: a virtual time would go on to it.
    case WaitDeadline.never: break
    default: TimerService.shared.arm(self, at: deadline)
    }
  }

  /// Begins, by a clock.
  package final func begin<C: Clock>(at instant: C.Instant, of clock: C) where C.Duration == Duration {
    let moment = Self.moment(of: instant, clock)
    machine.begin(at: moment)
    lock.lock()
    let start = arm(at: moment)
    lock.unlock()
    finish(start)
  }

  /// Takes it back: nothing expires from here on, and nothing moves it. Whether the time was not up by then.
  @discardableResult
  package final func stop() -> Bool {
    lock.lock()
    let (wasAhead, stopped) = machine.end() == .takeTimerBack ? disarm() : (false, nil)
    lock.unlock()
    cancel(stopped)
    return wasAhead
  }
}

// MARK: - By all

extension DeadlineTimer {
  /// Moves it to so long from now. Whether the time was not up: else nothing has changed.
  package final func move(after duration: Duration) -> Bool {
    inItsTime { move(allowed: { _ in nil }, { _ in .timer(WaitDeadline.after(duration)) }) }
  }

  /// Moves it by so much; to an earlier time, if that is negative. Whether the time was not up.
  package final func move(by duration: Duration) -> Bool {
    inItsTime { move(allowed: { $0?.addingSaturated(duration) }, { $0.moved(by: duration) }) }
  }

  /// Moves it to an instant of a clock. Whether the time was not up.
  package final func move<C: Clock>(to instant: C.Instant, of clock: C) -> Bool where C.Duration == Duration {
    inItsTime { move(allowed: { _ in nil }, { _ in Self.moment(of: instant, clock) }) }
  }

  /// What is left, by its own clock; zero when the time is up. Not under a lock.
  package final var timeRemaining: Duration {
    inItsTime {
      switch lock.withLock({ machine.moment }) {
      case .timer(let deadline):
        let now = TimerService.shared.now
        return deadline > now ? .nanoseconds(deadline - now) : .zero
      case .clock(let instant): return max(.zero, instant.timeRemaining)
      }
    }
  }

  /// Whether its owner needs it no more.
  package final var isStopped: Bool { lock.withLock { machine.phase == .over } }

  private func inItsTime<Result>(_ body: () -> Result) -> Result {
    TimerService.withTime(of: virtual, body)
  }

  /// - Parameters:
  ///   - allowed: how long the body may take then, from how long it might so far. Called under the lock.
  ///   - change: the new moment, from that of before. May be code of the user's.
  private func move(allowed: (Duration?) -> Duration?, _ change: (Moment) -> Moment) -> Bool {
    while let look = lock.withLock({ machine.look }) {
      let next = change(look.moment)
      lock.lock()
      switch machine.move(since: look) {
      case .lookAgain: lock.unlock()
      case .tooLate:
        lock.unlock()
        return false
      case .takeTimerBack:
        let (wasAhead, stopped) = disarm()
        guard wasAhead else {
          machine.foundPassed()
          lock.unlock()
          return false
        }
        self.allowed = allowed(self.allowed)
        // The old one goes after the unlock: it may be of a clock of the user's, whose code runs then.
        let old = machine.moved(to: next)
        let start = arm(at: next)
        lock.unlock()
        cancel(stopped)
        finish(start)
        withExtendedLifetime(old) {}
        return true
      }
    }
    return false
  }

  private enum Start {
    /// A timer is armed, or none is needed.
    case ahead
    /// The time is up.
    case passed
    case sleeper(Sleeper, any ClockMoment)
  }

  /// The caller holds `lock`, and calls `finish` for the rest after its unlock.
  private func arm(at moment: Moment) -> Start {
    switch moment {
    case .timer(let deadline):
      guard deadline > TimerService.shared.now else { return .passed }
      // As in `begin`.
      if deadline != WaitDeadline.never { TimerService.shared.arm(self, at: deadline) }
      return .ahead
    case .clock(let instant):
      let sleeper = Sleeper()
      self.sleeper = sleeper
      return .sleeper(sleeper, instant)
    }
  }

  private func finish(_ start: Start) {
    switch start {
    case .ahead: break
    case .passed: expire()
    case .sleeper(let sleeper, let instant):
      sleeper.start(on: sleeperExecutor, priority: sleeperPriority, until: instant) { self.expire() }
      // It may have been taken back before it had a task to cancel.
      if sleeper.isSettled { cancel(sleeper) }
    }
  }

  /// It was taken back. Not under a lock.
  private func cancel(_ sleeper: Sleeper?) {
    if let sleeper { cancelSleeper { sleeper.cancel() } }
  }

  /// Whether the time was not up, so that nothing expires; what slept, which is to be cancelled after the unlock. The caller
  /// holds `lock`.
  private func disarm() -> (wasAhead: Bool, stopped: Sleeper?) {
    if let sleeper = sleeper.take() { return (sleeper.settle(), sleeper) }
    // Nothing was armed, and the time is never up.
    if case .timer(WaitDeadline.never) = machine.moment { return (true, nil) }
    return (TimerService.shared.disarm(self), nil)
  }

  private static func moment<C: Clock>(of instant: C.Instant, _ clock: C) -> Moment where C.Duration == Duration {
    TimerService.shared.deadline(at: instant, of: clock).map { .timer($0) }
      ?? ahead(MomentOfClock(instant: instant, clock: clock))
  }

  /// That instant, unless it has passed: then the time is up at once, which no task that sleeps would say at once. Not under a
  /// lock: it asks a clock of the user's.
  fileprivate static func ahead(_ instant: any ClockMoment) -> Moment {
    instant.timeRemaining > .zero ? .clock(instant) : .timer(WaitDeadline.now)
  }
}

extension DeadlineTimer.Moment {
  fileprivate func moved(by duration: Duration) -> Self {
    switch self {
    case .timer(.max): self
    case .timer(let deadline) where duration >= .zero: .timer(deadline.addingSaturated(duration.nanosecondsRoundedUp))
    case .timer(let deadline):
      .timer(deadline - min(deadline, duration.withoutSign.nanosecondsRoundedUp))
    case .clock(let instant): DeadlineTimer.ahead(instant.moved(by: duration))
    }
  }
}

/// An instant, with the clock that it is one of.
private protocol ClockMoment: Sendable {
  var timeRemaining: Duration { get }
  func moved(by duration: Duration) -> any ClockMoment
  func sleep() async throws
}

private struct MomentOfClock<C: Clock>: ClockMoment where C.Duration == Duration {
  let instant: C.Instant
  let clock: C

  var timeRemaining: Duration { clock.now.duration(to: instant) }

  func moved(by duration: Duration) -> any ClockMoment {
    MomentOfClock(instant: instant.advanced(by: duration), clock: clock)
  }

  func sleep() async throws { try await clock.sleep(until: instant, tolerance: nil) }
}

/// A task that sleeps in place of a timer. It ends by itself, or is taken back: the first of the two counts.
// Unchecked: the lock guards the task.
private final class Sleeper: @unchecked Sendable {
  private let settled = Atomic<Bool>(false)
  private let lock = Lock()
  /// Guarded by the lock.
  @exclusivity(unchecked) private var task: Task<Void, Never>?

  /// By the code that has made it, not under a lock. It may have been taken back by then, or be while this goes on: that code looks
  /// at `isSettled` then.
  func start(
    on executor: (any TaskExecutor)?, priority: TaskPriority?, until instant: any ClockMoment,
    _ expire: @escaping @Sendable () -> Void
  ) {
    let task = Task<Void, Never>(executorPreference: executor, priority: priority) {
      // A clock that throws lets the body take its time.
      guard (try? await instant.sleep()) != nil, self.settle() else { return }
      expire()
    }
    lock.withLock { self.task = task }
  }

  /// Whether it has ended, or was taken back. Behind `start`, whose lock comes before: a thread that had settled it by then has found
  /// no task to cancel.
  var isSettled: Bool { settled.load(ordering: .acquiring) }  // litmus: look-locked

  /// By the task, whose time is up, or to take it back. Whether this is the first.
  func settle() -> Bool { !settled.exchange(true, ordering: .acquiringAndReleasing) }  // litmus: look-locked

  /// It was taken back, and need not go on to sleep. Not under a lock: a clock of the user's learns of it.
  func cancel() { lock.withLock { task }?.cancel() }
}
