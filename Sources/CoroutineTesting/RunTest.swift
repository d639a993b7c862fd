// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import Coroutine
import Synchronization

/// Runs a body in a coroutine with a virtual time: sleeps, timeouts and tickers take none.
///
/// ```swift
/// try runTest {
///   let cache = Cache(lifetime: .seconds(3600))
///   cache["a"] = 1
///   try Coroutine.sleep(for: .seconds(3601))
///   #expect(cache["a"] == nil)
/// }
/// ```
///
/// All coroutines that are created in it without a scheduler of their own, by its coroutines and tasks, run on the calling
/// thread, one at a time, in the order in which they became ready. When none can go on the time does (`TestClock`), to the
/// next moment for which one waits. For work that blocks (`blocking { }`) it stands still; for tasks and descriptors that a
/// coroutine waits for, for 20 real milliseconds.
///
/// A coroutine that names another scheduler (`on: .pool`) is not one of them, but goes by the same time. While it computes the
/// time stands still: as long as it does where a coroutine or task of the test waits for its end (by `get()`, in a `select`, or
/// at the end of its scope), for a second where the test waits for anything else that it may bring, for 20 milliseconds where
/// the test only sleeps. Before that it waits for its turn, where its scheduler has other work: up to ten seconds.
///
/// Where there is no time to go on to, what is waited for may still come from another thread. For the whole `limit` the run waits
/// for coroutines on other schedulers, for a promise and for `withSuspension`, which a callback may settle; for a second, whatever
/// else is waited for. After that it is a deadlock.
///
/// In a test with a trait such as `.exploringSchedules(seeds: 0..<1000)` it runs the body by many schedules, as `explore`.
///
/// When the body has ended the others go on as far as they can, but the time does not: one that still waits a second later was
/// left over. Those that are left are cancelled, and one that computes on another scheduler is waited for, however long: it may
/// use what the test's caller has. An error of a coroutine, on whichever scheduler, that has ended by then counts as lost if no
/// caller has got it.
///
/// One that was launched on another scheduler and waits at the end is neither reported nor cancelled: it may be meant to
/// outlive the test. Its time stands still from then on. Cancel it in the test, launch it in a scope, or give the tested code
/// its scheduler as a parameter: with `.inherited` it is a part of the run.
///
/// - Parameters:
///   - limit: so long it waits, in real time, for what comes from outside of the test, and so long the test may take.
///   - body: what is tested.
/// - Returns: what the body returned.
/// - Throws: what the body threw; `ScheduleFailure` if it comes to no end, if an error is lost, or coroutines are left over.
/// - Precondition: not called inside a coroutine: traps otherwise. A body that ignores its cancel, at the end of a test that
///   has failed, is not inside an access to a variable, such as a call of `sort`: ends the program, since that variable may be
///   the caller's.
@discardableResult
@_disfavoredOverload @available(*, noasync, message: "use 'await'")
public func runTest<Result>(
  upTo limit: Duration = .seconds(60), _ body: @escaping () throws -> Result
) throws -> Result {
  try run(upTo: limit, body)
}

/// As the synchronous form; the test has a thread of its own meanwhile.
@discardableResult
public func runTest<Result: Sendable>(
  upTo limit: Duration = .seconds(60), _ body: @escaping @Sendable () throws -> Result
) async throws -> Result {
  try await RunThread.call { try run(upTo: limit, body) }
}

/// Runs `async` code with a virtual time, as the form for coroutines.
///
/// ```swift
/// try await runTest {
///   let sleeper = Coroutine { try Coroutine.sleep(for: .seconds(100)) }
///   await #expect(throws: TimeoutError.self) { try await sleeper.get(timeout: .seconds(10)) }
///   #expect(TestClock().now.offset == .seconds(10))
///   try await sleeper.get()
/// }
/// ```
///
/// The body's task runs on the thread of the run, and so do its child tasks (`async let`, groups), where they don't belong to an
/// actor. What they launch without a scheduler is a part of the run: it begins when they next suspend, before the time goes on.
///
/// `Task { }` runs on Swift's pool, since Swift hands no executor on to it: at any moment, while the run goes on. What it
/// launches is still a part of the run. Wait for its value before the time is to go on: as long as a coroutine or the body waits
/// for a task, the time stands still, for 20 real milliseconds. One that outlives the run may launch more; the time of that
/// stands still for ever.
@discardableResult
public func runTest<Result: Sendable>(
  upTo limit: Duration = .seconds(60), _ body: @escaping @Sendable () async throws -> Result
) async throws -> Result {
  try await RunThread.call { try run(upTo: limit) { try Coroutine.await(body) } }
}

private func run<Result>(upTo limit: Duration, _ body: @escaping () throws -> Result) throws -> Result {
  requireOutside(of: "runTest")
  var result: Result?
  if let plan = ExplorationPlan.current {
    try explore(plan.exploration, plan.options) { result = try body() }
    guard let result else { fatalError("no schedule was explored") }
    return result
  }
  let run = TestRun(
    OrdinarySource(), ExplorationOptions(preemption: .atSuspensions, turnLimit: .max),
    patience: TestRun.Patience(
      awaitsCallbacks: true, limit: limit, courtesy: min(limit, TestRun.moment), grace: .milliseconds(20),
      runLimit: limit))
  let outcome = run.run { result = try body() }
  if let problem = outcome.problem {
    if problem.kind == .thrown, let error = problem.error { throw error }
    throw ScheduleFailure(
      problem, Schedule([:], ExplorationOptions(preemption: .atSuspensions)), run: 1, seed: nil, isRepeatable: true)
  }
  guard let result else { fatalError("a body has ended without a result") }
  return result
}

/// What the trait of a test makes of `runTest`.
struct ExplorationPlan: Sendable {
  let exploration: Exploration
  let options: ExplorationOptions
  /// That of one test; `nil` in the trait itself, which several tests may have.
  var use: Use?

  /// Whether a test has explored anything.
  final class Use: Sendable {
    // With its module: a build for interleavings has another `Atomic`, for the runtime's own words.
    private let hasExplored = Synchronization.Atomic<Bool>(false)

    func note() { hasExplored.store(true, ordering: .relaxed) }
    var isNoted: Bool { hasExplored.load(ordering: .relaxed) }
  }

  @TaskLocal static var current: ExplorationPlan?
}

/// Ends the program where the thread that a run needs for itself is a coroutine's.
func requireOutside(of function: StaticString) {
  require(
    CoroutineCore.current == nil, "\(function) inside a coroutine would block its whole thread: call it outside of one")
  require(
    coroutine_thread_state_found() & UInt32(COROUTINE_THREAD_STATE_TASK.rawValue) != 0
      || withUnsafeCurrentTask { $0 == nil },
    "\(function) inside a task, with a Swift runtime that does not let coroutines leave it: call it on a plain thread")
}
