// SPDX-License-Identifier: Apache-2.0

/// Runs `body`, and cancels it when it takes longer than `duration`.
///
/// ```swift
/// let reply = try withTimeout(.seconds(1)) {
///   try request.send(query)
///   return try replies.receive()
/// }
/// ```
///
/// When the time is up, the operation that `body` waits in, or the next one that may wait, throws `CancellationError`,
/// and `Coroutine.isCancelled` is true inside of it, but not outside. They nest: the nearest deadline wins.
/// Cancellation is cooperative: a body that ignores it goes on, and its result is not thrown away. A deadline comes by
/// the timers' thread, and may be seen late.
///
/// - Parameters:
///   - duration: zero or less: as if the time were up before `body` begins. Operations that may suspend throw, even
///     where they could be done at once; others, such as `tryReceive()`, are not affected. (An operation's own
///     `timeout: .zero` is done if it can be at once.)
///   - body: runs at once, on the calling coroutine.
/// - Throws: `TimeoutError` when the time was up and `body` ended with `CancellationError`; else what `body` throws.
/// - Precondition: called inside a coroutine: traps elsewhere.
@discardableResult
@_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
public func withTimeout<Result>(
  _ duration: Duration, name: String = "", _ body: () throws -> Result
) throws -> Result {
  let core = CoroutineCore.running(for: "withTimeout")
  let deadline = WaitDeadline.after(duration)
  return try core.run(body, until: deadline, TimeoutError(after: duration, name: name)) { throw $0 }
}

/// Runs `body`, and cancels it when it takes longer than `duration`: then the result is `nil`.
///
/// ```swift
/// let quote = try withTimeoutOrNil(.milliseconds(200)) { try quotes.receive() } ?? lastQuote
/// ```
///
/// `nil` stands for this timeout alone. The errors of other timeouts go through: of one around this, of one inside of
/// `body`, of an operation (`receive(timeout:)`), also if their duration is the same.
///
/// Otherwise as `withTimeout(_:name:_:)`.
///
/// - Returns: what `body` returned; `nil` when the time was up and `body` ended with `CancellationError`.
/// - Throws: what `body` throws otherwise.
/// - Precondition: called inside a coroutine: traps elsewhere.
@discardableResult
@_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
public func withTimeoutOrNil<Result>(_ duration: Duration, _ body: () throws -> Result) throws -> Result? {
  let core = CoroutineCore.running(for: "withTimeoutOrNil")
  return try core.run(body, until: WaitDeadline.after(duration), TimeoutError(after: duration)) { _ in nil }
}

/// Runs `body`, and cancels it when it takes longer than until an instant of a clock. One that has passed is as if the time
/// were up before `body` begins.
///
/// ```swift
/// let deadline = ContinuousClock.now + .seconds(1)
/// let query = try withTimeout(until: deadline, clock: .continuous) { try queries.receive() }
/// let reply = try withTimeout(until: deadline, clock: .continuous) { try replies.receive() }
/// ```
///
/// It gives any operation a deadline by a clock: their own `timeout:` is a duration. Around a single operation it does
/// what that does: the operation has not happened, its waiter has left the queue, and the next waiter is served. (Its
/// `onCancel` runs, too; and `send(orReturn:)` gives its element back as `.cancelled`.) On a plain thread, and for
/// `onTimeout`, the duration is `max(.zero, clock.now.duration(to: instant))`.
///
/// As `withTimeout(_:_:)`. `SuspendingClock` and `ContinuousClock` use the runtime's timers. Another clock, such as one
/// for tests, sleeps in a task; one that throws lets the body take its time.
///
/// - Throws: `TimeoutError` when the time was up and `body` ended with `CancellationError`; else what `body` throws.
/// - Precondition: called inside a coroutine: traps elsewhere.
@discardableResult
@_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
public func withTimeout<C: Clock, Result>(
  until instant: C.Instant, clock: C, name: String = "", _ body: () throws -> Result
) throws -> Result where C.Duration == Duration {
  let core = CoroutineCore.running(for: "withTimeout(until:clock:)")
  return try core.run(body, until: instant, of: clock, TimeoutError(name: name)) { throw $0 }
}

/// Runs `body`, and cancels it when it takes longer than until an instant of a clock: then the result is `nil`.
///
/// As `withTimeoutOrNil(_:_:)`, with a deadline as that of `withTimeout(until:clock:name:_:)`.
///
/// - Returns: what `body` returned; `nil` when the time was up and `body` ended with `CancellationError`.
/// - Throws: what `body` throws otherwise.
/// - Precondition: called inside a coroutine: traps elsewhere.
@discardableResult
@_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
public func withTimeoutOrNil<C: Clock, Result>(
  until instant: C.Instant, clock: C, _ body: () throws -> Result
) throws -> Result? where C.Duration == Duration {
  let core = CoroutineCore.running(for: "withTimeoutOrNil(until:clock:)")
  return try core.run(body, until: instant, of: clock, TimeoutError()) { _ in nil }
}

extension CoroutineCore {
  fileprivate final func run<Result>(
    _ body: () throws -> Result, until deadline: UInt64, _ error: TimeoutError,
    timedOut: (TimeoutError) throws -> Result
  ) throws -> Result {
    let region = CancellationRegion(of: self, isTimed: true)
    let timeout = Timeout(error, region)
    if deadline == WaitDeadline.now { timeout.timerFired() } else { TimerService.shared.arm(timeout, at: deadline) }
    return try run(body, in: region, timedOut: timedOut) { TimerService.shared.disarm(timeout) }
  }

  fileprivate final func run<C: Clock, Result>(
    _ body: () throws -> Result, until instant: C.Instant, of clock: C, _ error: TimeoutError,
    timedOut: (TimeoutError) throws -> Result
  ) throws -> Result where C.Duration == Duration {
    if let deadline = TimerService.shared.deadline(at: instant, of: clock) {
      let deadline = deadline > TimerService.shared.now ? deadline : WaitDeadline.now
      return try run(body, until: deadline, error, timedOut: timedOut)
    }
    let region = CancellationRegion(of: self, isTimed: true)
    let sleeper = Task(priority: priority) {
      guard (try? await clock.sleep(until: instant, tolerance: nil)) != nil else { return }
      region.cancel(reason: error)
    }
    return try run(body, in: region, timedOut: timedOut) { sleeper.cancel() }
  }

  /// Runs it, and closes the region, which nothing else but the timeout cancels.
  ///
  /// - Parameters:
  ///   - timedOut: what becomes of it where the region was cancelled.
  ///   - stop: nothing has to cancel that any more.
  fileprivate final func run<Result>(
    _ body: () throws -> Result, in region: CancellationRegion, timedOut: (TimeoutError) throws -> Result,
    stop: () -> Void
  ) throws -> Result {
    do {
      let result = try body()
      stop()
      region.close()
      return result
    } catch {
      stop()
      let reason = region.close()
      // If the code around it is cancelled as well, that cancel goes on unwinding. Not `self`: a generator's body may
      // have been moved.
      guard error is CancellationError, CoroutineCore.current?.isInterrupted != true,
        var timeout = reason as? TimeoutError
      else { throw error }
      timeout.cause = region.cause
      return try timedOut(timeout)
    }
  }
}

/// Cancels a region when the time is up.
private final class Timeout: TimerTarget {
  private let error: TimeoutError
  private let region: CancellationRegion

  init(_ error: TimeoutError, _ region: CancellationRegion) {
    self.error = error
    self.region = region
  }

  override func timerFired() {
    region.cancel(reason: error, isTimer: TimerThread.isCurrent)
  }
}
