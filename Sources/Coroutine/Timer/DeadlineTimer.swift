// SPDX-License-Identifier: Apache-2.0

import Context
import Synchronization

/// A deadline that its owner may move, by any clock, as long as the time is not up.
///
/// The kernel's clocks, and the virtual time of a test, are the runtime's timers. By another clock a task sleeps.
// Unchecked: the lock guards the moment, and all else belongs to the owner.
package class DeadlineTimer: TimerTarget, @unchecked Sendable {
  private let lock = Lock()
  /// When the time is up, for others who ask. Written by the owner.
  @exclusivity(unchecked) private var moment = Moment.timer(WaitDeadline.now)
  /// What sleeps in place of a timer. The owner's.
  @exclusivity(unchecked) private var sleeper: Sleeper?
  /// How long the body was allowed to take, for the error; `nil` where the deadline was given, or moved, to an instant. Written
  /// by the owner, read when the time is up.
  @exclusivity(unchecked) private var allowed: Duration?
  private let name: String

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

  /// What is thrown for it.
  package final var error: TimeoutError { TimeoutError(after: allowed, name: name) }

  /// The time is up: once, on whichever thread sees it. As `timerFired()`, to which this belongs.
  package func expire() {
    fatalError("\(type(of: self)) is a deadline, but does not say what happens then: override expire()")
  }

  override package final func timerFired() { expire() }

  /// That of a task which sleeps in place of a timer; `nil`: that of the code that starts it. Asked by the owner.
  package var sleeperPriority: TaskPriority? { nil }
}

// MARK: - By its owner

extension DeadlineTimer {
  /// Begins, before another thread knows of it. A deadline that is `WaitDeadline.now` expires at once, here.
  package final func begin(at deadline: UInt64) {
    moment = .timer(deadline)
    start(at: deadline)
  }

  /// Begins, by a clock.
  package final func begin<C: Clock>(at instant: C.Instant, of clock: C) where C.Duration == Duration {
    start(at: Self.moment(of: instant, clock)) { moment = $0 }
  }

  /// Takes it back: nothing expires from here on. Whether the time was not up by then.
  @discardableResult
  package final func stop() -> Bool {
    guard let sleeper = sleeper.take() else { return TimerService.shared.disarm(self) }
    return sleeper.stop()
  }

  /// Moves it to so long from now. Whether the time was not up: else nothing has changed.
  package final func move(after duration: Duration) -> Bool {
    move(allowed: nil) { _ in .timer(WaitDeadline.after(duration)) }
  }

  /// Moves it by so much; to an earlier time, if that is negative. Whether the time was not up.
  package final func move(by duration: Duration) -> Bool {
    move(allowed: allowed.map { $0.addingSaturated(duration) }) { $0.moved(by: duration) }
  }

  /// Moves it to an instant of a clock. Whether the time was not up.
  package final func move<C: Clock>(to instant: C.Instant, of clock: C) -> Bool where C.Duration == Duration {
    move(allowed: nil) { _ in Self.moment(of: instant, clock) }
  }

  private func move(allowed: Duration?, _ change: (Moment) -> Moment) -> Bool {
    guard stop() else { return false }
    self.allowed = allowed
    start(at: change(moment)) { next in
      // The old one goes after the unlock: it may be of a clock of the user's, whose code runs then.
      var old = next
      lock.withLock { swap(&moment, &old) }
    }
    return true
  }

  private func start(at moment: Moment, _ note: (Moment) -> Void) {
    switch moment {
    case .timer(let deadline):
      note(moment)
      start(at: deadline > TimerService.shared.now ? deadline : WaitDeadline.now)
    case .clock(let instant):
      note(moment)
      let sleeper = Sleeper()
      self.sleeper = sleeper
      sleeper.task = Task(priority: sleeperPriority) {
        // A clock that throws lets the body take its time.
        guard (try? await instant.sleep()) != nil, sleeper.end() else { return }
        self.expire()
      }
    }
  }

  private func start(at deadline: UInt64) {
    if deadline == WaitDeadline.now { expire() } else { TimerService.shared.arm(self, at: deadline) }
  }

  private static func moment<C: Clock>(of instant: C.Instant, _ clock: C) -> Moment where C.Duration == Duration {
    TimerService.shared.deadline(at: instant, of: clock).map { .timer($0) }
      ?? .clock(MomentOfClock(instant: instant, clock: clock))
  }
}

// MARK: - For all

extension DeadlineTimer {
  /// What is left, by its own clock; zero when the time is up. From any thread, not under a lock.
  package final var timeRemaining: Duration {
    switch lock.withLock({ moment }) {
    case .timer(let deadline):
      let now = TimerService.shared.now
      return deadline > now ? .nanoseconds(deadline - now) : .zero
    case .clock(let instant): return max(.zero, instant.timeRemaining)
    }
  }
}

extension DeadlineTimer.Moment {
  fileprivate func moved(by duration: Duration) -> Self {
    switch self {
    case .timer(.max): self
    case .timer(let deadline) where duration >= .zero: .timer(deadline.addingSaturated(duration.nanosecondsRoundedUp))
    case .timer(let deadline):
      .timer(deadline - min(deadline, (.zero - duration).nanosecondsRoundedUp))
    case .clock(let instant): .clock(instant.moved(by: duration))
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

/// A task that sleeps in place of a timer. It ends by itself, or its owner stops it: the first of the two counts.
// Unchecked: the task is its owner's.
private final class Sleeper: @unchecked Sendable {
  private let isSettled = Atomic<Bool>(false)
  @exclusivity(unchecked) var task: Task<Void, Never>?

  /// By the task. Whether it was not stopped.
  func end() -> Bool { settle() }

  /// By its owner. Whether the time was not up.
  func stop() -> Bool {
    task?.cancel()
    return settle()
  }

  private func settle() -> Bool { !isSettled.exchange(true, ordering: .acquiringAndReleasing) }
}
