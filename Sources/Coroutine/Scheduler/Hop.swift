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
/// - Precondition: called inside a coroutine: traps elsewhere.
@_disfavoredOverload @available(*, noasync, message: "a task changes its executor otherwise")
public func on<Result, Failure: Error>(
  _ scheduler: some Scheduler, operation: sending () throws(Failure) -> Result
) throws(Failure) -> Result {
  let core = CoroutineCore.running(for: "on(_:operation:)")
  let before = core.visiting
  core.move(to: SchedulerReference(scheduler))
  defer {
    core.requireIsCurrent(atTheEndOf: "on(_:operation:)")
    core.move(to: before)
  }
  return try operation()
}

extension CoroutineCore {
  /// Where it runs at present.
  @usableFromInline
  final var scheduler: SchedulerReference { visiting ?? home }

  /// Goes on elsewhere; `nil`: at home. On the coroutine itself.
  fileprivate final func move(to scheduler: SchedulerReference?) {
    require(
      restraint.pins == 0,
      "\(description) moves to another scheduler inside withThreadPinned, which keeps it on its thread")
    visiting = scheduler
    pool = nil
    yieldTurn()
  }
}
