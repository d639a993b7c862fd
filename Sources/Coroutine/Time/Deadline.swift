// SPDX-License-Identifier: Apache-2.0

/// The deadline of a timeout, in the hands of its body, which asks for it and moves it: `withTimeout(_:name:throwing:_:)`.
///
/// ```swift
/// /// Everything that comes, as long as no two parts are more than five seconds apart.
/// try withTimeout(.seconds(5), name: "download") { deadline in
///   while let part = try download.nextPart() {
///     file.append(part)
///     deadline.move(after: .seconds(5))
///   }
/// }
/// ```
///
/// It can't leave the body, and belongs to the coroutine or task that runs it: `handle` is for all others. Constant time each.
/// (trio's `cancel_scope.deadline`, Python's `Timeout.reschedule`.)
///
/// A deadline that has passed stays so: the body is being cancelled, and to move it has no effect.
public struct Deadline: ~Copyable {
  private let timer: DeadlineTimer

  init(_ timer: DeadlineTimer) {
    self.timer = timer
  }

  /// What is left by the clock that the deadline is given by; zero when the time is up.
  ///
  /// That of this timeout alone: one around it may be up before. See `Coroutine.timeRemaining`.
  public var timeRemaining: Duration { timer.timeRemaining }

  /// Moves the deadline to later; to earlier, if the duration is negative.
  ///
  /// - Returns: whether the time was not up: else nothing has changed.
  @discardableResult
  public borrowing func extend(by duration: Duration) -> Bool { timer.move(by: duration) }

  /// Moves the deadline to so long from now; at once, if that is zero or less.
  ///
  /// - Returns: whether the time was not up: else nothing has changed.
  @discardableResult
  public borrowing func move(after duration: Duration) -> Bool { timer.move(after: duration) }

  /// Moves the deadline to an instant of a clock, which need not be the one that it was given by. One that has passed: at
  /// once.
  ///
  /// - Returns: whether the time was not up: else nothing has changed.
  @discardableResult
  public borrowing func move<C: Clock>(to instant: C.Instant, clock: C) -> Bool where C.Duration == Duration {
    timer.move(to: instant, of: clock)
  }

  /// What other coroutines, tasks and threads move the deadline by.
  public var handle: DeadlineHandle { DeadlineHandle(timer) }
}

/// The deadline of a timeout, in the hands of others than its body: `Deadline.handle`.
///
/// ```swift
/// /// As long as the peer gives a sign of life, the work may take what it takes.
/// try withTimeout(.seconds(10)) { deadline in
///   let deadline = deadline.handle
///   try withScope { scope in
///     scope.launch {
///       while try signs.receive() == .alive { deadline.move(after: .seconds(10)) }
///     }
///     try work()
///     scope.cancel()
///   }
/// }
/// ```
///
/// Callable from any thread, any number of times, also when the body has ended: then nothing changes. Copies are the same
/// deadline. Constant time each.
///
/// A move that races with the time's end is in time, or is not: it returns which. If it is, the body is not cancelled for the
/// time of before. Two moves at once come one after the other: two that extend the deadline extend it by both.
public struct DeadlineHandle: Sendable {
  private let timer: DeadlineTimer

  fileprivate init(_ timer: DeadlineTimer) {
    self.timer = timer
  }

  /// What is left by the clock that the deadline is given by; zero when the time is up; `nil` when the body has ended.
  public var timeRemaining: Duration? { timer.isStopped ? nil : timer.timeRemaining }

  /// Moves the deadline to later; to earlier, if the duration is negative. One that is over by that cancels the body, and runs
  /// the handlers of its cancellation, before this returns.
  ///
  /// - Returns: whether it was moved: neither was the time up, nor had the body ended.
  @discardableResult
  public func extend(by duration: Duration) -> Bool { timer.move(by: duration) }

  /// Moves the deadline to so long from now; at once, if that is zero or less: as `extend(by:)`.
  ///
  /// - Returns: whether it was moved: neither was the time up, nor had the body ended.
  @discardableResult
  public func move(after duration: Duration) -> Bool { timer.move(after: duration) }

  /// Moves the deadline to an instant of a clock, which need not be the one that it was given by. One that has passed: at
  /// once, as `extend(by:)`.
  ///
  /// - Returns: whether it was moved: neither was the time up, nor had the body ended.
  @discardableResult
  public func move<C: Clock>(to instant: C.Instant, clock: C) -> Bool where C.Duration == Duration {
    timer.move(to: instant, of: clock)
  }
}

extension Coroutine where Success == Never, Failure == Never {
  /// What is left until the next deadline around the calling code: the least of all timeouts that it is in, those around the
  /// scope included that its coroutine is a child of. `nil` without one.
  ///
  /// ```swift
  /// request.timeout = Coroutine.timeRemaining ?? .seconds(30)
  /// ```
  ///
  /// Zero when a time is up. Those around a shield do not count inside of it. Each is measured by its own clock. Takes time
  /// linear in the number of timeouts, scopes and shields around; outside of coroutines it is `nil`.
  @available(*, noasync, message: "ask the Deadline that withTimeout gives to its body")
  public static var timeRemaining: Duration? {
    CoroutineCore.current?.enclosingDeadlines.lazy.map(\.timeRemaining).min()
  }
}
