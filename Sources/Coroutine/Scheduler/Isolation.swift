// SPDX-License-Identifier: Apache-2.0

import Dispatch

extension SchedulerReference {
  /// Where a coroutine starts that was given no scheduler, but a body that may belong to an actor.
  @inlinable
  static func inherited(isolation: (any Actor)?) -> SchedulerReference {
    guard let isolation else { return inherited }
    return inherited(isolatedTo: isolation)
  }

  /// The main actor's executor is the main queue. Code of the main actor that runs inside a coroutine is there by that
  /// coroutine's scheduler, and stays with it: the main queue, or in its place `runUntilComplete` or the run of a test. When these
  /// have returned, what is left for them goes to the main queue.
  @usableFromInline
  static func inherited(isolatedTo isolation: any Actor) -> SchedulerReference {
    require(
      isolation === MainActor.shared,
      "a coroutine can't be isolated to \(isolation): of all actors it can run on the main actor only. Use a Task, or pass "
        + "the body what it needs.")
    if let scheduler = CoroutineCore.current?.scheduler, scheduler.belongsToTheMainActor { return scheduler }
    return SchedulerReference(DispatchQueue.main)
  }

  /// Whether what runs on it, and so the caller, may do what the main actor may.
  var belongsToTheMainActor: Bool {
    switch self {
    // On the main thread, or on the queue: not while one of its coroutines comes back from another scheduler.
    case .pool(let pool): pool.core.isMainActors && MainActorJobs.isOnMainActor
    // The run of a test that code of the main actor has called: the main queue waits for it.
    case .other(let other): other.explorer?.isCurrent == true && MainActorJobs.isOnMainActor
    case .sharedPool: false
    // The main queue is the only one that is known to be serial.
    case .queue(let queue): queue.isSerial && queue.isCurrent
    }
  }
}

/// Drops the isolation from a function's type: the caller runs it where it is isolated to.
///
/// The two have the same representation; the language has no conversion between them that can be called synchronously.
@inlinable @inline(__always)
func withoutIsolation<Success, Failure: Error>(
  @_eagerMove _ body: __owned @escaping @Sendable @isolated(any) () throws(Failure) -> Success
) -> @Sendable () throws(Failure) -> Success {
  // The isolation of a function value lies in its context, not in the value.
  unsafeBitCast(body, to: (@Sendable () throws(Failure) -> Success).self)
}

/// Where code of the main actor runs that is begun here: on the main queue, or in its place in `runUntilComplete` or the run of
/// a test.
var mainActorScheduler: any Scheduler {
  switch SchedulerReference.inherited(isolatedTo: MainActor.shared) {
  case .pool(let pool): pool
  case .other(let other): other.scheduler
  case .sharedPool, .queue: DispatchQueue.main
  }
}

/// Drops the main actor from a function's type: the caller runs it there.
func withoutMainActor<Success, Failure: Error>(
  _ body: @escaping @MainActor @Sendable () throws(Failure) -> Success
) -> @Sendable () throws(Failure) -> Success {
  // The isolation is part of the type only: both types have the same representation.
  unsafeBitCast(body, to: (@Sendable () throws(Failure) -> Success).self)
}

func withoutMainActor<Argument, Success>(
  _ body: @escaping @MainActor @Sendable (Argument) throws -> Success
) -> @Sendable (Argument) throws -> Success {
  // The isolation is part of the type only: both types have the same representation.
  unsafeBitCast(body, to: (@Sendable (Argument) throws -> Success).self)
}

func withoutMainActor<State, Message>(
  _ body: @escaping @MainActor @Sendable (inout State, Message) throws -> Void
) -> @Sendable (inout State, Message) throws -> Void {
  // The isolation is part of the type only: both types have the same representation.
  unsafeBitCast(body, to: (@Sendable (inout State, Message) throws -> Void).self)
}
