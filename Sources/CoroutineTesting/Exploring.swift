// SPDX-License-Identifier: Apache-2.0

import Coroutine

/// Runs a body again and again, each time by another schedule of its coroutines, and throws the first failure.
///
/// ```swift
/// try explore(seeds: 0..<1000) {
///   let queue = JobQueue()
///   let worker = Coroutine { try queue.runNext() }
///   try queue.add(job)
///   try worker.get()
/// }
/// ```
///
/// All coroutines that are created in it run on the calling thread, one at a time. The seed decides which has the next
/// turn, at each point that `ExplorationOptions.Preemption` names. It also decides the order in which a select looks at
/// its cases, and the time, which is virtual (`TestClock`). The same seed is the same run, as long as the body depends
/// on nothing else.
///
/// A run fails if the body throws; if no coroutine can go on; if coroutines are left that wait when the body has ended;
/// if an error is lost; if there is no end. What a failed run has left over is cancelled.
///
/// A coroutine that names its scheduler (`on: .pool`, `Coroutine.detached`) is not a part of it: give what is tested its
/// scheduler as a parameter. Nor is what comes from other threads explored. A run waits for such a coroutine all the same before
/// it counts as a deadlock, for up to ten real seconds, where it computes, or waits for something else than the run. Its time
/// stands still for as long where the end of one that computes is waited for, and otherwise for 20 milliseconds. For callbacks
/// it does not wait at all.
///
/// - Parameters:
///   - seeds: one run each.
///   - strategy: what a seed means.
///   - options: what a schedule may decide, and how long a run may take.
///   - body: makes all that it needs anew: it is called for each run.
/// - Throws: `ScheduleFailure`, with the shortest schedule that was found to fail in this way.
/// - Precondition: not called inside a coroutine: traps otherwise.
/// - Complexity: the runs share nothing; each takes about as long as its operations, and some microseconds a decision.
@discardableResult
@_disfavoredOverload @available(*, noasync, message: "use 'await'")
public func explore(
  seeds: Range<Int>, by strategy: ExplorationStrategy = .mixed, options: ExplorationOptions = ExplorationOptions(),
  _ body: @escaping () throws -> Void
) throws -> ExplorationReport {
  try explore(.seeds(seeds, strategy), options, body)
}

/// Runs a body by all schedules of its coroutines, and throws the first failure. For small bodies: their number grows
/// exponentially with the decisions.
///
/// As `explore(seeds:by:options:_:)`.
///
/// - Parameters:
///   - bound: which schedules count as all.
///   - limit: after this number it stops: `ExplorationReport.isComplete` is false then.
///   - options: what a schedule may decide, and how long a run may take.
///   - body: makes all that it needs anew: it is called for each run.
@discardableResult
@_disfavoredOverload @available(*, noasync, message: "use 'await'")
public func explore(
  exhaustively bound: ExhaustiveBound, limit: Int = 100_000, options: ExplorationOptions = ExplorationOptions(),
  _ body: @escaping () throws -> Void
) throws -> ExplorationReport {
  try explore(.exhaustively(bound, limit: limit), options, body)
}

/// Runs a body by the schedule that a `ScheduleFailure` has shown: it fails in the same way.
///
/// - Parameters:
///   - schedule: the failure's. Its text says where a coroutine may lose its turn, and when the time goes on.
///   - options: those of the exploration, for all else: which errors are expected, and how many turns the run may take.
///   - body: the exploration's.
/// - Throws: `ScheduleFailure`; `ForeignSchedule` if the schedule is not one of this body.
/// - Precondition: `schedule` is the text of one; not called inside a coroutine: traps otherwise.
@_disfavoredOverload @available(*, noasync, message: "use 'await'")
public func replay(
  _ schedule: String, options: ExplorationOptions = ExplorationOptions(), _ body: @escaping () throws -> Void
) throws {
  try explore(.replay(schedule), options, body)
}

/// The form that takes no other option.
@available(*, deprecated, message: "use the form with 'options', which has the limit among others")
@_disfavoredOverload @available(*, noasync, message: "use 'await'")
public func replay(_ schedule: String, turnLimit: Int, _ body: @escaping () throws -> Void) throws {
  try explore(.replay(schedule), ExplorationOptions(turnLimit: turnLimit), body)
}

// MARK: - In async code

/// As the synchronous form; the runs have a thread of their own meanwhile.
@discardableResult
public func explore(
  seeds: Range<Int>, by strategy: ExplorationStrategy = .mixed, options: ExplorationOptions = ExplorationOptions(),
  _ body: @escaping @Sendable () throws -> Void
) async throws -> ExplorationReport {
  try await RunThread.call { try explore(.seeds(seeds, strategy), options, body) }
}

/// As the synchronous form; the runs have a thread of their own meanwhile.
@discardableResult
public func explore(
  exhaustively bound: ExhaustiveBound, limit: Int = 100_000, options: ExplorationOptions = ExplorationOptions(),
  _ body: @escaping @Sendable () throws -> Void
) async throws -> ExplorationReport {
  try await RunThread.call { try explore(.exhaustively(bound, limit: limit), options, body) }
}

/// As the synchronous form; the run has a thread of its own meanwhile.
public func replay(
  _ schedule: String, options: ExplorationOptions = ExplorationOptions(), _ body: @escaping @Sendable () throws -> Void
) async throws {
  _ = try await RunThread.call { try explore(.replay(schedule), options, body) }
}

/// The form that takes no other option.
@available(*, deprecated, message: "use the form with 'options', which has the limit among others")
public func replay(
  _ schedule: String, turnLimit: Int, _ body: @escaping @Sendable () throws -> Void
) async throws {
  _ = try await RunThread.call { try explore(.replay(schedule), ExplorationOptions(turnLimit: turnLimit), body) }
}

/// A point at which a run may go on with another coroutine, where there is none otherwise: between two accesses to memory
/// that several coroutines share, in models of locks and queues. Does nothing outside of runs that are explored.
public func schedulingPoint() {
  guard let core = CoroutineCore.current, let run = TestRun.current, run.isCurrent else { return }
  run.reachOperation(core)
}
