// SPDX-License-Identifier: Apache-2.0

import Coroutine
import CoroutineLibc

/// Finds coroutines that can never go on, or keep others from it: those that wait for each other in a cycle, those that are left when
/// nothing in the process can happen any more, and those that have suspended inside the initialiser of a static or global variable.
///
/// ```swift
/// try DeadlockDetector.start()                    // in a program: reports to the standard error, each deadlock once
/// let reports = try DeadlockDetector.find()       // now, to look at
/// let leak = try DeadlockDetector.findLeaks()     // at the end of a test
/// ```
///
/// What is reported is certain. A cycle consists of coroutines that wait, with no deadline and in no `withTimeout`, for
/// what only the next one can do: give back a mutex, a read-write lock, the making of a `Once`; end (a join, a scope's
/// end); answer an ask, or settle the promise of an actor's `send`; make room in its mailbox; produce an
/// `AsyncGenerator`'s element. Only a cancel could still help. A waiter whose waker can be any code (channels, other
/// promises, callbacks, semaphores, conditions) is in no cycle. Such waiters are reported when there is no possible
/// waker left: no timer, thread, event loop or task.
///
/// Limits, and what is found of which fault: the article "Debugging".
public enum DeadlockDetector {
  /// The cycles that there are at this moment, and the coroutines that have suspended inside the initialiser of a variable.
  ///
  /// All coroutines are kept from going on while it looks, some two microseconds for each. Callable from any thread, also
  /// inside a coroutine, which must have 64 KiB of its stack left; not in a signal handler.
  ///
  /// - Throws: `CoroutineDump.Unavailable`.
  public static func find() throws -> [DeadlockReport] {
    try CoroutineDump.explaining {
      guard try !DeadlockSearch.findings().isEmpty else { return [] }
      return try DeadlockSearch.reports().map(\.report)
    }
  }
}

// MARK: - Leaks

extension DeadlockDetector {
  /// The coroutines that are still suspended when all is quiet: for the end of a test, or of a program, when all work
  /// should have ended.
  ///
  /// ```swift
  /// if let leak = try DeadlockDetector.findLeaks() { fatalError("\(leak)") }
  /// ```
  ///
  /// Waits until no coroutine runs or is ready, none waits until a deadline or inside `withTimeout`, and none waits for
  /// a tick, a callback or `async` code: then those that are left can only be woken from outside of all coroutines. By
  /// calling this, the caller states that no thread, task or event loop is going to do so. (A callback that will never
  /// be called is taken for a leak when no thread of the process is left that could call it: see `Kind.standstill`.)
  ///
  /// Blocks the calling thread meanwhile. A coroutine that calls it is not counted; it must have 64 KiB of its stack left.
  ///
  /// - Parameters:
  ///   - timeout: how long to wait for quiet.
  ///   - isIgnored: whether a coroutine does not count: it is no leak, and its activity does not matter. For those that
  ///     are there for good, and for those of tests that run at the same time.
  /// - Returns: `nil` if all have ended.
  /// - Throws: `NotQuiet` if something still happens when the time is up; `CoroutineDump.Unavailable`.
  public static func findLeaks(
    timeout: Duration = .seconds(2), ignoring isIgnored: (CoroutineBacktrace) -> Bool = { _ in false }
  ) throws -> DeadlockReport? {
    let deadline = ContinuousClock.now + min(timeout, .seconds(1 << 32))
    let caller = Coroutine.currentID
    var before: [UInt64]?
    var standing = Standstill()
    while true {
      let start = ContinuousClock.now
      // In this order: where nothing else can happen any more, what is found is final.
      let isStill = standing.look()
      let left = try CoroutineDump.explaining { try DeadlockSearch.leftovers() }
        .filter { $0.backtrace.id != caller && !Inspection.isLasting($0.backtrace.id) && !isIgnored($0.backtrace) }
      guard !left.isEmpty else { return nil }
      let active = left.first { $0.activity != nil }
      let ids = active == nil ? left.map(\.backtrace.id) : nil
      // A coroutine that has just ended is not listed any more, but may still be about to wake another: hence twice.
      if isStill || ids != nil && ids == before {
        return DeadlockReport(kind: .leak, coroutines: left.map(\.backtrace))
      }
      before = ids
      if let active, let activity = active.activity, ContinuousClock.now >= deadline {
        throw NotQuiet(activity: "coroutine \(active.backtrace.label) \(activity)")
      }
      // No coroutine goes on while it looks: they get at least as much time to go on.
      let pause = max(.milliseconds(2), ContinuousClock.now - start)
      usleep(UInt32(min(pause / .microseconds(1), 100_000)))
    }
  }

  /// Coroutines still do something, or will.
  public struct NotQuiet: Error, CustomStringConvertible {
    /// What one of them does, in words.
    public let activity: String

    public var description: String { "it is not quiet, so that a leak can't be told: \(activity)" }
  }
}

// MARK: - All the time

extension DeadlockDetector {
  /// Looks for deadlocks from now on, on a thread of its own, and reports each once: a cycle; a coroutine that has suspended inside the
  /// initialiser of a variable; and a standstill, when nothing in the process can go on any more.
  ///
  /// A look takes some two microseconds for each coroutine, in which those that wait do not go on. Looks of more than a
  /// millisecond are made more seldom, so that they take a hundredth of the time. Calling it again changes the interval
  /// and the handler.
  ///
  /// - Parameters:
  ///   - interval: from one look to the next; positive: traps otherwise.
  ///   - handler: called with each report, on the detector's thread, without a lock. The default prints it to the
  ///     standard error. May end the program.
  /// - Throws: `CoroutineDumpError` if there is no thread.
  public static func start(
    every interval: Duration = .milliseconds(500),
    handler: @escaping @Sendable (DeadlockReport) -> Void = DeadlockReport.print
  ) throws(CoroutineDumpError) {
    require(interval > .zero, "deadlocks are looked for every \(interval): the interval must be positive")
    try DeadlockDetectorThread.shared.start(every: interval, handler)
  }

  /// Looks no more. A report that is being made may still come.
  public static func stop() {
    DeadlockDetectorThread.shared.stop()
  }
}
