// SPDX-License-Identifier: Apache-2.0

/// Whether all workers of a pool are blocked while coroutines wait for one of them: from one look at the pool to the next.
/// Pure: no lock, no thread, no clock.
///
/// A worker that computes for long is not blocked, however long it takes: it gets processor time. Nor is one that goes
/// on from one coroutine to the next. And as long as nothing waits for a worker, it does no harm that all are blocked.
struct PoolStandstill {
  /// What a pool's workers have done by now. Only of a pool whose workers are all awake.
  struct Look {
    /// For each worker a number that changes when it picks something to run.
    var picks: [UInt32]
    /// For each worker the processor time of its thread in nanoseconds; `nil` where it has none, or has just got one.
    var processorTime: [UInt64?]
    /// Whether something is ready that no worker runs.
    var isSomethingWaiting: Bool
  }

  /// After this many looks in a row with the same result it is certain enough. Looks and not time: a process that was
  /// stopped for an hour has not stood still.
  static var lookCount: Int { 4 }

  private var last: Look?
  private var standingStill = 0

  /// Takes a look, `nil` if some worker is parked. Whether the pool has stood still for the last `lookCount` looks.
  ///
  /// - Parameter slack: nanoseconds of processor time between two looks that don't count as computing: a blocked call that is
  ///   interrupted and restarted takes some.
  mutating func takeLook(_ look: Look?, slack: UInt64) -> Bool {
    defer { last = look }
    guard let look, let last, look.isSomethingWaiting, look.picks == last.picks,
      Swift.zip(look.processorTime, last.processorTime).allSatisfy({ Self.isIdle($0, since: $1, slack) })
    else {
      standingStill = 0
      return false
    }
    standingStill += 1
    return standingStill >= Self.lookCount
  }

  private static func isIdle(_ now: UInt64?, since before: UInt64?, _ slack: UInt64) -> Bool {
    guard let now, let before, now >= before else { return false }  // another thread has become the worker
    return now - before <= slack
  }
}
