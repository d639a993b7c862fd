// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// Where sleeping and deadlines come from: timers, and the time that they go by.
///
/// `shared` goes by the kernel's clock. A service that `init(startingAt:)` makes has a time of its own, which stands
/// still until its owner advances it: what tests use.
///
/// Deadlines are nanoseconds on the service's clock; that of `shared` is CLOCK_MONOTONIC, Swift's `SuspendingClock`.
///
/// Code that asks `shared` inside of `withVirtualTime` asks that service instead: what tests with a clock of their own use. A
/// program without such a test pays for it with one flag, which is read where the service has to know its clock anyway.
@usableFromInline
package final class TimerService: Sendable {
  /// The timers of the process. Its thread starts with the first timer.
  @usableFromInline package static let shared = TimerService()

  private let queue: TimerQueue
  private let driver: Driver
  /// Whether it is not simply the kernel's time: it is moved by hand, or, of `shared`, some code has a service of its own.
  /// Never taken back: timers that were armed in the other service may still be there.
  private let mayBeVirtual: Atomic<Bool>

  /// The service that `shared` stands for in the code that runs here, if that is another one.
  @TaskLocal private static var substitute: TimerService?

  private enum Driver: Sendable {
    case thread(TimerThread)
    case manual(ManualTime)
  }

  private final class ManualTime: Sendable {
    let now: Atomic<UInt64>
    /// Called for each timer that is armed.
    let whenArmed: @Sendable () -> Void
    init(_ now: UInt64, _ whenArmed: @escaping @Sendable () -> Void) {
      self.now = Atomic(now)
      self.whenArmed = whenArmed
    }
  }

  private init() {
    queue = TimerQueue()
    queue.keepWholeInChildren()
    driver = .thread(TimerThread(driving: queue))
    mayBeVirtual = Atomic(false)
  }

  /// A service whose time only `advance(to:)` moves.
  ///
  /// - Parameter whenArmed: called after each `arm`, on the thread of that.
  package init(startingAt now: UInt64, whenArmed: @escaping @Sendable () -> Void = {}) {
    queue = TimerQueue()
    driver = .manual(ManualTime(now, whenArmed))
    mayBeVirtual = Atomic(true)
  }
}

// MARK: - In place of the process's

extension TimerService {
  /// Runs `body`, in which this service stands for `shared`, as in the coroutines and tasks that are created in it. It has to
  /// live as long as any of them.
  @inline(never)
  package func withVirtualTime<Result>(_ body: () throws -> Result) rethrows -> Result {
    Self.shared.mayBeVirtual.store(true, ordering: .relaxed)
    return try Self.$substitute.withValue(self, operation: body)
  }

  /// Runs `body` as code for which a service stands for `shared`; `nil`: `shared` itself. For what began there, and is now
  /// asked from elsewhere.
  package static func withTime<Result>(of virtual: TimerService?, _ body: () throws -> Result) rethrows -> Result {
    guard shared.mayBeVirtual.load(ordering: .relaxed), substitute !== virtual else { return try body() }
    return try $substitute.withValue(virtual, operation: body)
  }

  /// The service that stands for `shared` in the code that runs here; `nil`: itself.
  package static var virtual: TimerService? {
    shared.mayBeVirtual.load(ordering: .relaxed) ? substitute : nil
  }
}

// MARK: - Arming

extension TimerService {
  /// Arms a timer that is not armed. Constant time, no allocation; from any thread, not under a lock that waking or
  /// `timerFired()` takes. A deadline that has passed fires at once, on the timer thread like all others.
  ///
  /// The node must stay where it is until it has been disarmed or has fired: see `TimerQueue` for when that is.
  @usableFromInline
  package func arm(_ node: UnsafeMutablePointer<TimerNode>) {
    guard !mayBeVirtual.load(ordering: .relaxed) else { return armWhereVirtual(node) }
    armByThread(node)
  }

  @inline(__always)
  private func armByThread(_ node: UnsafeMutablePointer<TimerNode>) {
    guard case .thread(let thread) = driver else { fatalError("a service that is moved by hand has no thread") }
    thread.requireIsHere()
    if queue.arm(node) { thread.ring() }
  }

  @inline(never)
  private func armWhereVirtual(_ node: UnsafeMutablePointer<TimerNode>) {
    switch driver {
    case .manual(let time):
      _ = queue.arm(node)
      time.whenArmed()
    case .thread:
      let substitute = Self.substitute
      // Written only where it changes: a ticker's handler arms its timer again while another thread disarms it, and reads this.
      // A ticker knows its service, so for its timer this stays `nil`.
      if node.pointee.elsewhere?.toOpaque() != substitute.map({ Unmanaged.passUnretained($0).toOpaque() }) {
        node.pointee.elsewhere = substitute.map { .passUnretained($0) }
      }
      if let substitute { substitute.armWhereVirtual(node) } else { armByThread(node) }
    }
  }

  /// Disarms a timer. Constant time. Afterwards the node's memory is the caller's.
  ///
  /// - Returns: whether it was still armed. `false`: it fired, is firing on another thread, or was never armed.
  @usableFromInline @discardableResult
  package func disarm(_ node: UnsafeMutablePointer<TimerNode>) -> Bool {
    guard !mayBeVirtual.load(ordering: .relaxed) else { return disarmWhereVirtual(node) }
    return queue.disarm(node)
  }

  @inline(never)
  private func disarmWhereVirtual(_ node: UnsafeMutablePointer<TimerNode>) -> Bool {
    // A service that is moved by hand has what was armed in it, and reads nothing of a node that another thread may be arming.
    guard case .thread = driver, let elsewhere = node.pointee.elsewhere else { return queue.disarm(node) }
    return elsewhere._withUnsafeGuaranteedRef { $0.queue.disarm(node) }
  }

  /// Has the object called at `deadline`, and keeps it alive until then. It must not be armed already.
  package func arm(_ target: TimerTarget, at deadline: UInt64) {
    target.node.pointee.deadline = deadline
    // The pointer alone would not keep it alive until the queue does.
    withExtendedLifetime(target) { arm(target.node) }
  }

  /// Disarms the object's timer, and lets go of it. `false`: it was called, is being called on another thread, or was
  /// never armed.
  @discardableResult
  package func disarm(_ target: TimerTarget) -> Bool {
    withExtendedLifetime(target) { disarm(target.node) }
  }

  /// How many timers are armed.
  package var count: Int { queue.count }
}

// MARK: - Time

extension TimerService {
  /// The time on the service's clock, in nanoseconds.
  @usableFromInline
  package var now: UInt64 {
    mayBeVirtual.load(ordering: .relaxed) ? virtualNow : MonotonicClock.now
  }

  @inline(never)
  private var virtualNow: UInt64 {
    switch driver {
    case .thread: Self.substitute?.now ?? MonotonicClock.now
    case .manual(let time): time.now.load(ordering: .acquiring)
    }
  }

  /// The kernel's time, whatever stands for `shared`.
  package var kernelTime: UInt64 { MonotonicClock.now }

  /// When the kernel's time will be as far away as a deadline of `shared` is.
  package func kernelTime(of deadline: UInt64) -> UInt64 {
    guard let virtual = Self.virtual else { return deadline }
    let now = virtual.now
    return deadline <= now ? 0 : kernelTime.addingSaturated(deadline - now)
  }

  /// The deadline of a wait that begins now: `WaitDeadline.never` if it does not fit, now if the duration is negative.
  @usableFromInline
  package func deadline(after duration: Duration) -> UInt64 { Self.deadline(duration, after: now) }

  /// The same for several waits that begin at one time.
  @usableFromInline
  static func deadline(_ duration: Duration, after now: UInt64) -> UInt64 {
    now.addingSaturated(duration.nanosecondsRoundedUp)
  }

  /// The deadline that stands for an instant of one of the kernel's clocks, `SuspendingClock` and `ContinuousClock`; `nil`
  /// for any other clock. Of the shared service.
  ///
  /// An instant of the former is a time of `shared`. The latter goes on while the machine is suspended, and a futex can't sleep
  /// by it: a wait during which the machine is suspended is too long by that time. Equal instants are equal deadlines, and
  /// later ones are later.
  @usableFromInline
  package func deadline<C: Clock>(at instant: C.Instant, of clock: C) -> UInt64? where C.Duration == Duration {
    if mayBeVirtual.load(ordering: .relaxed), let deadline = virtualDeadline(at: instant, of: clock) { return deadline }
    if let clock = clock as? ContinuousClock, let instant = instant as? ContinuousClock.Instant {
      let time = clock.systemEpoch.duration(to: instant).nanosecondsRoundedUp
      // So far away that it is never.
      return time == .max ? time : BootTimeClock.monotonicTime(of: time)
    }
    if let clock = clock as? SuspendingClock, let instant = instant as? SuspendingClock.Instant {
      return clock.systemEpoch.duration(to: instant).nanosecondsRoundedUp
    }
    return nil
  }

  /// The same for code that has a service of its own; `nil` elsewhere. The kernel's clocks do not stand still with that:
  /// what counts is how far away an instant is.
  @inline(never)
  private func virtualDeadline<C: Clock>(at instant: C.Instant, of clock: C) -> UInt64? where C.Duration == Duration {
    guard let substitute = Self.substitute else { return nil }
    if let clock = clock as? any VirtualClock { return clock.deadline(at: instant) }
    guard clock is ContinuousClock || clock is SuspendingClock else { return nil }
    return substitute.deadline(after: clock.now.duration(to: instant))
  }

  /// Moves the time of a service that `init(startingAt:)` made, never back, and fires all timers whose time has come,
  /// on the calling thread, in the order of their deadlines. Only one thread at a time.
  ///
  /// To let each of them see the time of its own deadline, advance to `nextDeadline` again and again.
  ///
  /// - Returns: when something may be due next: see `nextDeadline`.
  @discardableResult
  package func advance(to instant: UInt64) -> UInt64? {
    guard case .manual(let time) = driver else {
      fatalError("TimerService.shared goes by the kernel's clock: advance a service made by init(startingAt:)")
    }
    // By hand, since only one thread advances: Atomic's own `max` compares unsigned integers as if they were signed.
    let now = max(instant, time.now.load(ordering: .relaxed))
    time.now.store(now, ordering: .releasing)
    return queue.fireExpired(at: now)
  }

  /// Nothing is due before; `nil`: nothing is armed. Exact, unless the earliest timer was disarmed: then it may be too
  /// early, and advancing to it brings a better answer.
  package var nextDeadline: UInt64? { queue.nextDeadline }
}

/// A clock that shows the time of the service that stands for `shared`.
package protocol VirtualClock {
  /// The deadline that stands for an instant of it.
  func deadline(at instant: Any) -> UInt64
}
