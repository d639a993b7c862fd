// SPDX-License-Identifier: Apache-2.0

import Synchronization

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
/// Cancellation is cooperative: a body that ignores it goes on, and its result is not thrown away. A loop that can't throw, such as
/// one over `received`, a `Ticker` or an operator, ends then as it does at the sequence's end: say
/// `try Coroutine.checkCancellation()` behind it. A deadline comes by the timers' thread, and may be seen late.
///
/// An error of one's own says what took too long, in the words of the caller's own types:
///
/// ```swift
/// try withTimeout(.seconds(5), throwing: LoginError.serverIsSlow) { try connection.logIn(as: user) }
/// ```
///
/// - Parameters:
///   - duration: zero or less: as if the time were up before `body` begins. Operations that may suspend throw, even
///     where they could be done at once; others, such as `tryReceive()`, are not affected. (An operation's own
///     `timeout: .zero` is done if it can be at once.)
///   - name: the error's, `TimeoutError.name`.
///   - ownError: thrown in place of the `TimeoutError` of this timeout, and of no other: one around this, or one inside of
///     `body`, throws its own. Made only then, on the calling coroutine, which is not cancelled any more; `nil`: the
///     `TimeoutError`. (That has a `cause`, such as how far a write has come: a caller that needs it catches it instead.)
///   - body: runs at once, on the calling coroutine.
/// - Throws: `TimeoutError`, or `ownError`, when the time was up and `body` ended with `CancellationError`; else what `body`
///   throws.
/// - Precondition: called inside a coroutine: traps elsewhere.
@discardableResult
@_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
public func withTimeout<Result>(
  _ duration: Duration, name: String = "", throwing ownError: @autoclosure () -> (any Error)? = nil,
  _ body: () throws -> Result
) throws -> Result {
  try withTimeout(duration, name: name, throwing: ownError()) { (_: borrowing Deadline) in try body() }
}

/// Runs `body` with its deadline, which it may move, and cancels it when it takes longer than until that.
///
/// ```swift
/// let entries = try withTimeout(.seconds(1)) { deadline in
///   let count = try counts.receive()
///   deadline.extend(by: .milliseconds(10) * count)          // so much for each
///   return try (0..<count).map { _ in try replies.receive() }
/// }
/// ```
///
/// Otherwise as `withTimeout(_:name:throwing:_:)`. `TimeoutError.duration` is what was allowed all in all, if the deadline was
/// only extended, and `nil` if it was moved.
@discardableResult
@_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
public func withTimeout<Result>(
  _ duration: Duration, name: String = "", throwing ownError: @autoclosure () -> (any Error)? = nil,
  _ body: (borrowing Deadline) throws -> Result
) throws -> Result {
  let timeout = RegionTimeout(around: CoroutineCore.running(for: "withTimeout"), allowed: duration, name: name)
  timeout.begin(at: WaitDeadline.after(duration))
  return try timeout.run(body) { throw ownError() ?? $0 }
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
/// Otherwise as `withTimeout(_:name:throwing:_:)`.
///
/// - Returns: what `body` returned; `nil` when the time was up and `body` ended with `CancellationError`.
/// - Throws: what `body` throws otherwise.
/// - Precondition: called inside a coroutine: traps elsewhere.
@discardableResult
@_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
public func withTimeoutOrNil<Result>(_ duration: Duration, _ body: () throws -> Result) throws -> Result? {
  try withTimeoutOrNil(duration) { (_: borrowing Deadline) in try body() }
}

/// Runs `body` with its deadline, which it may move, and cancels it when it takes longer than until that: then the result is
/// `nil`.
///
/// As `withTimeoutOrNil(_:_:)`, with a `Deadline` as that of `withTimeout(_:name:throwing:_:)`.
@discardableResult
@_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
public func withTimeoutOrNil<Result>(
  _ duration: Duration, _ body: (borrowing Deadline) throws -> Result
) throws -> Result? {
  let timeout = RegionTimeout(around: CoroutineCore.running(for: "withTimeoutOrNil"), allowed: duration)
  timeout.begin(at: WaitDeadline.after(duration))
  return try timeout.run(body) { _ in nil }
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
/// It gives any operation a deadline by a clock, where the operation's own `timeout:` is a duration. (`send` and `receive` of a
/// channel, and `onTimeout`, have forms with `until:`.) Around a single operation it does what that does: the operation has not
/// happened, its waiter has left the queue, and the next waiter is served. (Its `onCancel` runs, too; `send(orReturn:)` gives
/// its element back as `.cancelled`; and a child process that is waited for is killed. Around `withLock` it limits the body as
/// well.) On a plain thread the duration is `max(.zero, clock.now.duration(to: instant))`.
///
/// As `withTimeout(_:name:throwing:_:)`. `SuspendingClock` and `ContinuousClock` use the runtime's timers. Another clock, such
/// as one for tests, sleeps in a task; one that throws lets the body take its time.
///
/// - Throws: `TimeoutError`, or `ownError`, when the time was up and `body` ended with `CancellationError`; else what `body`
///   throws.
/// - Precondition: called inside a coroutine: traps elsewhere.
@discardableResult
@_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
public func withTimeout<C: Clock, Result>(
  until instant: C.Instant, clock: C, name: String = "", throwing ownError: @autoclosure () -> (any Error)? = nil,
  _ body: () throws -> Result
) throws -> Result where C.Duration == Duration {
  try withTimeout(until: instant, clock: clock, name: name, throwing: ownError()) { (_: borrowing Deadline) in
    try body()
  }
}

/// Runs `body` with its deadline, an instant of a clock which it may move, and cancels it when it takes longer than until
/// that.
///
/// As `withTimeout(until:clock:name:throwing:_:)`, with a `Deadline` as that of `withTimeout(_:name:throwing:_:)`.
@discardableResult
@_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
public func withTimeout<C: Clock, Result>(
  until instant: C.Instant, clock: C, name: String = "", throwing ownError: @autoclosure () -> (any Error)? = nil,
  _ body: (borrowing Deadline) throws -> Result
) throws -> Result where C.Duration == Duration {
  let core = CoroutineCore.running(for: "withTimeout(until:clock:)")
  let timeout = RegionTimeout(around: core, allowed: nil, name: name)
  timeout.begin(at: instant, of: clock)
  return try timeout.run(body) { throw ownError() ?? $0 }
}

/// Runs `body`, and cancels it when it takes longer than until an instant of a clock: then the result is `nil`.
///
/// As `withTimeoutOrNil(_:_:)`, with a deadline as that of `withTimeout(until:clock:name:throwing:_:)`.
///
/// - Returns: what `body` returned; `nil` when the time was up and `body` ended with `CancellationError`.
/// - Throws: what `body` throws otherwise.
/// - Precondition: called inside a coroutine: traps elsewhere.
@discardableResult
@_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
public func withTimeoutOrNil<C: Clock, Result>(
  until instant: C.Instant, clock: C, _ body: () throws -> Result
) throws -> Result? where C.Duration == Duration {
  try withTimeoutOrNil(until: instant, clock: clock) { (_: borrowing Deadline) in try body() }
}

/// Runs `body` with its deadline, an instant of a clock which it may move, and cancels it when it takes longer than until
/// that: then the result is `nil`.
///
/// As `withTimeoutOrNil(_:_:)`, with a `Deadline` as that of `withTimeout(_:name:throwing:_:)`.
@discardableResult
@_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
public func withTimeoutOrNil<C: Clock, Result>(
  until instant: C.Instant, clock: C, _ body: (borrowing Deadline) throws -> Result
) throws -> Result? where C.Duration == Duration {
  let core = CoroutineCore.running(for: "withTimeoutOrNil(until:clock:)")
  let timeout = RegionTimeout(around: core, allowed: nil)
  timeout.begin(at: instant, of: clock)
  return try timeout.run(body) { _ in nil }
}

/// Cancels a region when the time is up.
// Unchecked: the region is set before the deadline begins, and constant after that.
private final class RegionTimeout: DeadlineTimer, @unchecked Sendable {
  @exclusivity(unchecked) private var region: CancellationRegion?
  /// Once the time is up, both the timers' thread and the coroutine write here. The second of them sees to it that the reference
  /// to the coroutine which that thread holds is released: the address of that reference, `closed`, or 0.
  private let left = Atomic<UInt>(0)

  private static var closed: UInt { 1 }

  /// Opens the region, innermost in the running coroutine `core`. The caller begins, and then runs a body in it.
  init(around core: CoroutineCore, allowed: Duration?, name: String = "") {
    super.init(allowed: allowed, name: name)
    region = CancellationRegion(of: core, deadline: self)
  }

  override func expire() {
    guard TimerThread.isCurrent else {
      region?.cancel(reason: error)
      return
    }
    guard let core = region?.cancelByTimer(reason: error) else { return }
    // The coroutine may have ended since: what goes with it is users' code, which this thread must not wait for.
    if left.exchange(UInt(bitPattern: core.toOpaque()), ordering: .acquiringAndReleasing) == Self.closed {
      CancellationRegion.releaseElsewhere(core)
    }
  }

  override var sleeperPriority: TaskPriority? { CoroutineCore.current?.priority }

  override var sleeperExecutor: (any TaskExecutor)? { preferredExecutor }

  override func cancelSleeper(_ cancel: () -> Void) { cancelOnThisThread(cancel) }

  /// Runs it, and closes the region, which nothing else but this cancels.
  ///
  /// - Parameter timedOut: what becomes of it where the region was cancelled.
  func run<Result>(
    _ body: (borrowing Deadline) throws -> Result, timedOut: (TimeoutError) throws -> Result
  ) throws -> Result {
    do {
      let result = try body(Deadline(self))
      close()
      return result
    } catch {
      let (reason, cause) = close()
      // If the code around it is cancelled as well, that cancel goes on unwinding. (The coroutine may be another one than
      // that which began: a generator's body may have been moved.)
      guard error is CancellationError, CoroutineCore.current?.isInterrupted != true,
        var timeout = reason as? TimeoutError
      else { throw error }
      timeout.cause = cause
      return try timedOut(timeout)
    }
  }

  /// Why the region was cancelled, if it was; and what was thrown in it instead of `CancellationError`.
  @discardableResult
  private func close() -> (reason: (any Error)?, cause: (any Error)?) {
    let isOver = !stop()
    let reason = region?.close()
    if isOver {
      let core = left.exchange(Self.closed, ordering: .acquiringAndReleasing)
      if let core = UnsafeRawPointer(bitPattern: core) { Unmanaged<CoroutineCore>.fromOpaque(core).release() }
    }
    return (reason, region?.takeCause())
  }
}
