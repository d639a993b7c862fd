// SPDX-License-Identifier: Apache-2.0

extension Coroutine where Success == Never, Failure == Never {
  /// Suspends the calling coroutine for a time.
  ///
  /// Never too short; a little too long, as the kernel's timers are and as long as it takes to get a thread. Constant time,
  /// no allocation.
  ///
  /// - Parameter duration: zero or less, as of a caller that is late (`deadline - .now`), lets others run, as `yield()`
  ///   does.
  /// - Throws: `CancellationError` as soon as the coroutine is cancelled.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @_disfavoredOverload @available(*, noasync, message: "use 'Task.sleep' in async code")
  public static func sleep(for duration: Duration) throws {
    let core = CoroutineCore.running(for: "Coroutine.sleep(for:)")
    guard duration > .zero else { return try core.sleep(until: nil) }
    let deadline = TimerService.shared.deadline(after: duration)
    // So short that it is over by now: not worth the way over the timers' thread.
    let isOver = duration < .nanoseconds(100) && deadline <= TimerService.shared.now
    try core.sleep(until: isOver ? nil : deadline)
  }

  /// Suspends the calling coroutine for a time by a clock, such as one for tests: `sleep(until:clock:)`.
  ///
  /// - Parameters:
  ///   - duration: zero or less: an instant that has passed.
  ///   - clock: whose time it is.
  /// - Throws: `CancellationError` as soon as the coroutine is cancelled; what the clock throws.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @_disfavoredOverload @available(*, noasync, message: "use 'Task.sleep' in async code")
  public static func sleep<C: Clock>(for duration: Duration, clock: C) throws where C.Duration == Duration {
    _ = CoroutineCore.running(for: "Coroutine.sleep(for:clock:)")
    // The kernel's clocks have no instant for what is too long.
    if clock is ContinuousClock || clock is SuspendingClock { return try sleep(for: duration) }
    try sleep(until: clock.now.advanced(by: duration), clock: clock)
  }

  /// Suspends the calling coroutine until an instant of a clock; one that has passed lets others run, as `yield()` does.
  ///
  /// `SuspendingClock` and `ContinuousClock` use the runtime's timers. Another clock, such as one for tests, sleeps in
  /// a task.
  ///
  /// - Throws: `CancellationError` as soon as the coroutine is cancelled; what the clock throws.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @_disfavoredOverload @available(*, noasync, message: "use 'Task.sleep' in async code")
  public static func sleep<C: Clock>(until instant: C.Instant, clock: C) throws where C.Duration == Duration {
    let core = CoroutineCore.running(for: "Coroutine.sleep(until:clock:)")
    if let deadline = TimerService.shared.deadline(at: instant, of: clock) {
      return try core.sleep(until: deadline > TimerService.shared.now ? deadline : nil)
    }
    var sleeper: Task<Void, Never>?
    try withSuspension { (resume: Resumption<Void>) in
      sleeper = Task<Void, Never>(executorPreference: core.taskExecutor, priority: core.priority) {
        do {
          try await clock.sleep(until: instant, tolerance: nil)
          resume.returning(())
        } catch {
          resume.throwing(error)
        }
      }
    } onCancel: {
      cancelOnThisThread { sleeper?.cancel() }
    }
  }
}

extension CoroutineCore {
  /// Suspends this coroutine, which runs, until a time or a cancel; `nil`: lets others run. It waits at itself: it has
  /// no other waker.
  @inline(__always)
  fileprivate final func sleep(until deadline: UInt64?) throws {
    guard let deadline else {
      if isInterrupted { try throwCancelled() }
      return yieldTurn()
    }
    countOperation()
    guard lockUnlessCancelled(self) else { try throwCancelled() }
    if suspend(self, .sleep, until: deadline, withdraw: { .done }) == .cancelled { try throwCancelled() }
  }
}

// Not inlined: the error's type would be looked up before each sleep.
@inline(never)
private func throwCancelled() throws -> Never { throw CancellationError() }
