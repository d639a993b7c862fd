/// Runs `body`, and cancels it when it takes longer than `duration`.
///
/// ```swift
/// let reply = try withTimeout(.seconds(1)) {
///   try request.send(query)
///   return try replies.receive()
/// }
/// ```
///
/// When the time is up, whatever `body` waits for, or is about to wait for, throws `CancellationError`, and
/// `Coroutine.isCancelled` is true inside of it, but not outside. They nest: the nearest deadline wins. Cancellation is
/// cooperative: a body that ignores it goes on, and what it returns is not thrown away.
///
/// - Parameters:
///   - duration: zero or less: as if the time were up before `body` begins. What may suspend throws, even where
///     it could be done at once; `tryReceive()` and the like don't mind. (An operation's own `timeout: .zero` is done if it
///     can be at once.)
///   - body: runs at once, on the calling coroutine.
/// - Throws: `TimeoutError` when the time was up and `body` ended with `CancellationError`; else what `body` throws.
/// - Precondition: called inside a coroutine: traps elsewhere.
@discardableResult
@_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
public func withTimeout<Result>(_ duration: Duration, _ body: () throws -> Result) throws -> Result {
  let core = CoroutineCore.running(for: "withTimeout")
  let deadline = WaitDeadline.after(duration)
  return try core.run(body, until: deadline, orThrow: TimeoutError(after: duration))
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
/// It is how any operation gets a deadline by a clock: their own `timeout:` is a duration. Around a single one it does what
/// that does: the operation has not happened, nobody waits for it any more, and whoever comes next in the line is served.
/// (Its `onCancel` runs, too; and `send(orReturn:)` gives its element back as `.cancelled`.) On a plain thread, and for
/// `onTimeout`, the duration is `max(.zero, clock.now.duration(to: instant))`.
///
/// As `withTimeout(_:_:)`. `SuspendingClock` and `ContinuousClock` go by the runtime's timers. Another clock, such as one
/// for tests, is asked to sleep in a task; one that throws lets the body take its time.
///
/// - Throws: `TimeoutError` when the time was up and `body` ended with `CancellationError`; else what `body` throws.
/// - Precondition: called inside a coroutine: traps elsewhere.
@discardableResult
@_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
public func withTimeout<C: Clock, Result>(
  until instant: C.Instant, clock: C, _ body: () throws -> Result
) throws -> Result where C.Duration == Duration {
  let core = CoroutineCore.running(for: "withTimeout(until:clock:)")
  if let deadline = TimerService.shared.deadline(at: instant, of: clock) {
    return try core.run(body, until: deadline > TimerService.shared.now ? deadline : WaitDeadline.now)
  }
  let region = CancellationRegion(of: core, isTimed: true)
  let sleeper = Task(priority: core.priority) {
    guard (try? await clock.sleep(until: instant, tolerance: nil)) != nil else { return }
    region.cancel(reason: TimeoutError())
  }
  return try core.run(body, in: region) { sleeper.cancel() }
}

extension CoroutineCore {
  fileprivate final func run<Result>(
    _ body: () throws -> Result, until deadline: UInt64, orThrow error: TimeoutError = TimeoutError()
  ) throws -> Result {
    let region = CancellationRegion(of: self, isTimed: true)
    let timeout = Timeout(error, region)
    if deadline == WaitDeadline.now { timeout.timerFired() } else { TimerService.shared.arm(timeout, at: deadline) }
    return try run(body, in: region) { TimerService.shared.disarm(timeout) }
  }

  /// Runs it, and closes the region. `stop`: nothing has to cancel that any more.
  fileprivate final func run<Result>(
    _ body: () throws -> Result, in region: CancellationRegion, stop: () -> Void
  ) throws -> Result {
    do {
      let result = try body()
      stop()
      region.close()
      return result
    } catch {
      stop()
      let reason = region.close()
      // What is cancelled around it as well goes on unwinding as that. Not `self`: a generator's body may have been moved.
      guard error is CancellationError, CoroutineCore.current?.isInterrupted != true, let reason else { throw error }
      if var timeout = reason as? TimeoutError {
        timeout.cause = region.cause
        throw timeout
      }
      throw reason
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
    region.cancel(reason: error)
  }
}
