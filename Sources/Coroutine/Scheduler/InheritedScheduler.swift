// SPDX-License-Identifier: Apache-2.0

/// Whichever scheduler the calling coroutine runs on; outside of one the pool. Also called `.inherited`: the default where
/// an operation takes a scheduler.
public final class InheritedScheduler: Scheduler {
  fileprivate static let shared = InheritedScheduler()

  private init() {}

  public func enqueue(_ job: consuming CoroutineJob) {
    SchedulerReference.inherited.enqueue(job, .launched)
  }

  public var isCurrent: Bool { SchedulerReference.inherited.isCurrent }

  public var isSerial: Bool { SchedulerReference.inherited.isSerial }
}

extension Scheduler where Self == InheritedScheduler {
  /// Whichever scheduler the calling coroutine runs on; outside of one the pool.
  public static var inherited: InheritedScheduler { .shared }
}
