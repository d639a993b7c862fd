// SPDX-License-Identifier: Apache-2.0

import Coroutine

/// The virtual time of the run that the calling code belongs to: of `runTest` and `explore`.
///
/// ```swift
/// try runTest {
///   let start = TestClock().now
///   try Coroutine.sleep(for: .seconds(3600))              // takes no time
///   print(start.duration(to: TestClock().now))            // 3600.0 seconds
/// }
/// ```
///
/// It goes on by itself, when no coroutine in the run can do anything else: to the next moment for which one waits.
/// Each sleep, each timeout, each ticker of the runtime goes by it, without being given a clock, in coroutines and in
/// tasks that were created in the run. The kernel's clocks (`ContinuousClock.now`) do not: code that reads them takes a
/// clock.
public struct TestClock: Clock {
  public typealias Duration = Swift.Duration

  /// A moment of a run.
  public struct Instant: InstantProtocol {
    /// The time since the run began.
    public let offset: Swift.Duration

    public func advanced(by duration: Swift.Duration) -> Instant { Instant(offset: offset + duration) }
    public func duration(to other: Instant) -> Swift.Duration { other.offset - offset }
    public static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
  }

  /// The clock of whichever run the code that uses it belongs to.
  public init() {}

  /// The present moment.
  ///
  /// - Precondition: called in a run, in one of its coroutines or tasks: traps elsewhere.
  public var now: Instant {
    let (seconds, rest) = (Self.service.now - Self.beginning).quotientAndRemainder(dividingBy: 1_000_000_000)
    return Instant(offset: .seconds(seconds) + .nanoseconds(Int64(rest)))
  }

  public var minimumResolution: Swift.Duration { .nanoseconds(1) }

  /// Suspends the calling task until that moment. In a coroutine: `Coroutine.sleep(until:clock:)`.
  public func sleep(until deadline: Instant, tolerance: Swift.Duration?) async throws {
    guard deadline > now else {
      await Task.yield()
      return try Task.checkCancellation()
    }
    // The timeout is one of the run's timers.
    let (never, resolver) = Promise<Void>.makePromise()
    defer { withExtendedLifetime(resolver) {} }
    do { try await never.get(timeout: deadline.offset - now.offset) } catch is TimeoutError {}
  }

  /// What the services of runs begin with: not 0, which says "at once" to waits.
  static let beginning: UInt64 = 1_000_000_000

  private static var service: TimerService {
    let service = TimerService.virtual
    require(service != nil, "a TestClock shows the time of a run: use it in runTest { } or explore { }")
    return service!
  }

  private func deadline(of instant: Instant) -> UInt64 { Self.service.deadline(after: instant.offset - now.offset) }
}

extension Clock where Self == TestClock {
  /// The virtual time of the run that the calling code belongs to.
  public static var test: TestClock { TestClock() }
}

extension TestClock: VirtualClock {
  package func deadline(at instant: Any) -> UInt64 {
    guard let instant = instant as? Instant else { fatalError("an instant of another clock") }
    return deadline(of: instant)
  }
}
