// SPDX-License-Identifier: Apache-2.0

import CCoroutine

/// Runs `operation` on another scheduler, on the stack of the calling coroutine, and comes back.
///
/// ```swift
/// let thumbnail = on(.pool) { scale(image) }     // called on the main queue, which is free meanwhile
/// ```
///
/// The coroutine is put behind those that are ready there, and afterwards behind those that are ready where it came from.
/// It comes back after an error too, and cancelled or not. Coroutines that `operation` launches start there.
///
/// - Throws: what `operation` throws.
/// - Precondition: called inside a coroutine: traps elsewhere. Not called by code of the main actor inside an access to a
///   variable, such as a mutating call on an object's property; nor by a coroutine of an event loop of SwiftNIO, nor in a
///   `runUntilComplete` or a `runTest` that code of an actor has called. Other code of the actor, or of the loop, could use the
///   variable at the same time. Traps, whichever code has begun the access.
@_disfavoredOverload @available(*, noasync, message: "a task changes its executor otherwise")
public func on<Result: ~Copyable, Failure: Error>(
  _ scheduler: some Scheduler, operation: sending () throws(Failure) -> Result
) throws(Failure) -> Result {
  let core = CoroutineCore.running(for: "on(_:operation:)")
  let before = core.visiting
  let destination = SchedulerReference(scheduler)
  core.requireNoSharedAccess(movingTo: destination)
  core.move(to: destination)
  defer {
    core.requireIsCurrent(atTheEndOf: "on(_:operation:)")
    core.move(to: before)
  }
  return try operation()
}

/// Refuses functions of a global actor, such as methods of the main actor: they would run outside of their actor.
///
/// The compiler prefers this form for them and no others. (The other form would take them in code of the same actor, without
/// a word. This one is the more special of the two, as it has no results that can't be copied.)
@available(*, deprecated, message: "a function of an actor can't be moved to another scheduler: pass on what it needs")
@_disfavoredOverload @FunctionsOfNoActorOnly
public func on<Result, Failure: Error>(
  _ scheduler: some Scheduler, operation: @Sendable @isolated(any) () throws(Failure) -> Result
) throws(Failure) -> Result {
  fatalError("a function of an actor was to run on another scheduler")
}

@available(
  *, unavailable,
  message: "what runs on another scheduler is not async: wait in it by 'try Coroutine.await { try await … }'"
)
public func on<Result>(_ scheduler: some Scheduler, operation: () async throws -> Result) throws -> Result {
  fatalError("unavailable")
}

/// Code runs on no such actor: to call one of its functions is an error of the compiler's.
@globalActor
public enum FunctionsOfNoActorOnly {
  /// A global actor needs a type of actor. There is no instance of this one.
  public actor NoActor {
    fileprivate init() {}
  }

  public static let shared = NoActor()
}

extension CoroutineCore {
  /// Where it runs at present.
  @usableFromInline
  final var scheduler: SchedulerReference { visiting ?? home }

  /// The access would go on on another thread, beside other code of the main actor or of the event loop, whose variable it may be.
  fileprivate final func requireNoSharedAccess(movingTo destination: SchedulerReference) {
    // Those of the code that has resumed it end on their thread: they are cut off when it leaves.
    guard hasAccessesOfItsOwn, let accesses = scheduler.sharedAccesses, accesses !== destination.sharedAccesses,
      scheduler.isIsolated
    else { return }
    let domain = scheduler.belongsToTheMainActor ? "the main actor" : "its actor or event loop"
    fatalError(
      "\(description) leaves \(domain) inside an access to a variable (a mutating call, or an inout argument, such as a "
        + "property of an object). Other code of \(domain) could use the variable at the same time. Take a copy before "
        + "on(_:operation:), and put it back after it.")
  }

  /// Goes on elsewhere; `nil`: at home. On the coroutine itself.
  fileprivate final func move(to scheduler: SchedulerReference?) {
    require(
      restraint.pins == 0,
      "\(description) moves to another scheduler inside withThreadPinned, which keeps it on its thread")
    explorer?.willMoveAway(self)
    visiting = scheduler
    pool = nil
    yieldTurn()
  }
}
