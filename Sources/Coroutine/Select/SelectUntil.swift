// SPDX-License-Identifier: Apache-2.0

/// A case of a `select`: chosen at an instant of a clock, if no other could be chosen before. Of several times the earliest
/// counts.
///
/// ```swift
/// let deadline = ContinuousClock.now + .seconds(1)
/// while let line = try select({
///   lines.onReceive { Optional($0) }
///   onTimeout(until: deadline, clock: .continuous) { nil }
/// }) {
///   show(line)
/// }
/// ```
///
/// `SuspendingClock` and `ContinuousClock` use the runtime's timers. By another clock, such as one for tests, a task sleeps,
/// from when the case is made until it is gone; one that throws lets the select wait.
///
/// - Parameters:
///   - instant: one that has passed: other cases are chosen if they are ready at once.
///   - clock: whose time it is.
///   - handler: runs then, on the calling coroutine; may suspend and throw.
public func onTimeout<C: Clock, Output>(
  until instant: C.Instant, clock: C, _ handler: @escaping () throws -> Output
) -> Select.Case<Select.Until, Output> where C.Duration == Duration {
  Select.Case(Select.Until.Source(instant, clock)) { _ in try handler() }
}

/// A case of a `select` in `async` code: chosen at an instant of a clock, if no other could be chosen before. Of several
/// times the earliest counts.
///
/// As the form for coroutines.
///
/// - Parameters:
///   - instant: one that has passed: other cases are chosen if they are ready at once.
///   - clock: whose time it is.
///   - handler: runs then, where the caller runs.
public func onTimeout<C: Clock, Output>(
  until instant: C.Instant, clock: C, _ handler: nonisolated(nonsending) @escaping () async throws -> Output
) -> Select.AsyncCase<Select.Until, Output> where C.Duration == Duration {
  Select.AsyncCase(Select.Until.Source(instant, clock)) { _ in try await handler() }
}

extension Select {
  /// An instant that comes: a time of the runtime's timers, or the end of a task that sleeps.
  public struct Until: SelectOperation {
    private let deadline: UInt64
    private let timer: GroupZero?

    /// A deadline, or what sleeps until it.
    public struct Source: Sendable {
      fileprivate let deadline: UInt64
      fileprivate let timer: ClockTimer?

      init<C: Clock>(_ instant: C.Instant, _ clock: C) where C.Duration == Duration {
        if let deadline = TimerService.shared.deadline(at: instant, of: clock) {
          (self.deadline, timer) = (deadline, nil)
        } else {
          let isOver = instant <= clock.now
          (deadline, timer) = (WaitDeadline.now, isOver ? nil : ClockTimer(at: instant, of: clock))
        }
      }
    }

    public init(_ source: Source) {
      deadline = source.deadline
      timer = source.timer.map { GroupZero($0.group) }
    }

    public var layout: Layout { timer?.layout ?? Layout(size: 0, alignment: 1) }

    public var target: Target { timer?.target ?? Target(.deadline(deadline)) }

    public func attempt(_ node: UnsafeMutableRawPointer, for party: Party) -> Attempt {
      timer?.attempt(node, for: party) ?? Attempt(.wait)
    }

    public func enqueue(_ node: UnsafeMutableRawPointer, for party: Party) { timer?.enqueue(node, for: party) }

    public func dequeue(_ node: UnsafeMutableRawPointer) -> Attempt { timer?.dequeue(node) ?? Attempt(.done) }

    public func discard(_ node: UnsafeMutableRawPointer) {}

    public func take(_ node: UnsafeMutableRawPointer) {}
  }
}

/// A group that is done at an instant of a clock. Its task ends with it.
private final class ClockTimer: Sendable {
  let group = WaitGroup(count: 1, name: "a clock")
  private let sleeper: Task<Void, Never>

  init<C: Clock>(at instant: C.Instant, of clock: C) where C.Duration == Duration {
    let priority = CoroutineCore.current?.priority
    sleeper = Task<Void, Never>(executorPreference: preferredExecutor, priority: priority) { [group] in
      if (try? await clock.sleep(until: instant, tolerance: nil)) != nil { group.done() }
    }
  }

  deinit { cancelOnThisThread { sleeper.cancel() } }
}
