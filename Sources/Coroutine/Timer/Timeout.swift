/// A time was up before what was waited for had happened.
public struct TimeoutError: Error, Equatable, CustomStringConvertible {
  /// What was allowed, if it was given as a duration.
  public let duration: Duration?

  public init(after duration: Duration? = nil) {
    self.duration = duration
  }

  public var description: String {
    duration.map { "timed out after \($0)" } ?? "timed out"
  }
}

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
///   - duration: not negative: traps. Zero: the body may do what needs no waiting.
///   - body: runs at once, on the calling coroutine.
/// - Throws: `TimeoutError` when the time was up and `body` ended with `CancellationError`; else what `body` throws.
/// - Precondition: called inside a coroutine: traps elsewhere.
@discardableResult
@_disfavoredOverload @available(*, noasync, message: "use 'await' here")
public func withTimeout<Result>(_ duration: Duration, _ body: () throws -> Result) throws -> Result {
  let core = CoroutineCore.running(for: "withTimeout")
  let deadline = WaitDeadline.after(duration)
  let region = CancellationRegion(of: core, isTimed: true)
  let timeout = Timeout(duration, region)
  if deadline == WaitDeadline.now { timeout.timerFired() } else { TimerService.shared.arm(timeout, at: deadline) }
  func end() {
    TimerService.shared.disarm(timeout)
    region.close()
  }
  do {
    let result = try body()
    end()
    return result
  } catch {
    end()
    // What is cancelled around it as well goes on unwinding as that.
    guard error is CancellationError, !core.isInterrupted, let reason = region.ownReason else { throw error }
    throw reason
  }
}

/// Cancels a region when the time is up.
private final class Timeout: TimerTarget {
  private let duration: Duration
  private let region: CancellationRegion

  init(_ duration: Duration, _ region: CancellationRegion) {
    self.duration = duration
    self.region = region
  }

  override func timerFired() {
    region.cancel(reason: TimeoutError(after: duration))
  }
}

/// Deadlines of waits: nanoseconds on the timers' clock.
@usableFromInline
package enum WaitDeadline {
  /// No deadline.
  @inlinable package static var never: UInt64 { .max }
  /// Don't wait at all.
  @inlinable package static var now: UInt64 { 0 }

  /// When `timeout` will be over; at once if it is zero. Traps if it is negative.
  @usableFromInline
  package static func after(_ timeout: Duration) -> UInt64 {
    require(timeout >= .zero, "a negative timeout, \(timeout): use zero for not waiting at all")
    return timeout == .zero ? now : TimerService.shared.deadline(after: timeout)
  }
  /// The same for an operation that need not have a timeout: never without one.
  @inlinable @inline(__always)
  package static func after(_ timeout: Duration?) -> UInt64 {
    guard let timeout else { return never }
    return after(timeout)
  }
}
