// SPDX-License-Identifier: Apache-2.0

// What debuggers see of a pool.

extension PoolCore {
  /// How many stacks the workers keep, which count as in use to their pool of stacks.
  var spareStackCount: Int { workers.count { $0.hasSpareStack } }

  /// How many coroutines have ended here.
  var endedCount: UInt64 { workers.reduce(0) { $0 &+ $1.endedCount } }

  /// The coroutines that are ready here, in no order, during a freeze. One that is taken out meanwhile does not go on
  /// before the freeze ends, so none that is found here goes away. One that is moved meanwhile may be found twice, or
  /// not at all.
  func visitReady(_ body: (CoroutineCore) throws -> Void) rethrows {
    try ReadyQueue.visit(from: firstInGlobal, body)
    for worker in workers { try worker.visitReady(body) }
  }

  /// Passes what its workers begin, to be called after `visitReady`: it has left the queues.
  func visitStarting(_ body: (CoroutineCore) throws -> Void) rethrows {
    for worker in workers { try worker.visitStarting(body) }
  }

  /// For people.
  var description: String {
    switch host {
    case .callingThread: SchedulerText.callingThread
    case .threads: SchedulerText.pool(count)
    }
  }
}
