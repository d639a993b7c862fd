// SPDX-License-Identifier: Apache-2.0

public import CCoroutine
import Context
public import Synchronization

/// How a coroutine suspends until a waker claims its wait, and how the waker puts it in line again.
extension CoroutineCore {
  /// Whether an operation that may wait has to throw instead. On the coroutine itself.
  @inlinable @inline(__always)
  package final var isInterrupted: Bool { interruption.load(ordering: .relaxed) & Interruption.cancelled != 0 }

  /// Whether an operation that may wait can't simply be done: it has to throw, or is a point of a schedule that is
  /// explored. On the coroutine itself. Then `mayGoOn` or `Waitable.keepsLockUnlessCancelled` decides.
  @inlinable @inline(__always)
  final var isHeldUp: Bool { interruption.load(ordering: .relaxed) != 0 }

  /// Suspends the running coroutine until a waker claims its wait. The caller holds `waitable.lock`; it is released when
  /// the context is saved. On the coroutine's own stack or on a nested one; may return on another thread.
  ///
  /// Inlined, for the switch in it: else a mispredicted return (see `CoroutineCore.run`).
  @inlinable @inline(__always)
  package final func park(
    _ operation: WaitReason.Operation, at waitable: Waitable, until deadline: UInt64
  ) -> WakeCause {
    waitReason = WaitReason(operation, at: waitable, until: deadline)
    if deadline == WaitDeadline.never {
      _ = ControlBlock.suspend(prepare(.unlock(.passUnretained(waitable))), passing: 0)
    } else {
      suspendTimed(.unlock(.passUnretained(waitable)), until: deadline)
    }
    waitReason = nil
    // Until here: the unlock and the wake both use it, on other stacks.
    withExtendedLifetime(waitable) {}
    return parking.cause
  }

  /// A suspension that a deadline may end too.
  @usableFromInline @inline(never)
  final func suspendTimed(_ afterSwitch: ControlBlock.AfterSwitch, until deadline: UInt64) {
    var timer = TimerNode(.wait(TimedWait(Unmanaged<CoroutineCore>.passUnretained(self))), deadline: deadline)
    withUnsafeMutablePointer(to: &timer) { timer in
      // Should it be due before the context is saved, its claim waits for that.
      TimerService.shared.arm(timer)  // litmus: timer-armed
      suspendUntimed(afterSwitch)
      // One that has won is armed no more: see `TimerQueue`.
      if parking.cause != .timedOut { TimerService.shared.disarm(timer) }
    }
  }

  /// Suspends the running coroutine until a waker claims one of its waits. The locks of all that `wait` lists are held,
  /// and are released when the context is saved.
  @usableFromInline
  final func park(
    _ operation: WaitReason.Operation, jointly wait: UnsafeMutablePointer<JointWait>, until deadline: UInt64
  ) -> WakeCause {
    waitReason = WaitReason(operation, jointly: wait, until: deadline)
    if deadline == WaitDeadline.never {
      suspendUntimed(.unlockAll(wait))
    } else {
      suspendTimed(.unlockAll(wait), until: deadline)
    }
    waitReason = nil
    return parking.cause
  }

  private final func suspendUntimed(_ afterSwitch: ControlBlock.AfterSwitch) {
    _ = ControlBlock.suspend(prepare(afterSwitch), passing: 0)
  }

  /// The first half of a suspension. The second is the switch, at once. For callers that have to make the switch
  /// themselves: else a mispredicted return (see `CoroutineCore.run`).
  @inlinable @inline(__always)
  final func prepare(_ afterSwitch: ControlBlock.AfterSwitch) -> UnsafeMutablePointer<ControlBlock> {
    guard let block, !coroutine_is_inside_task(), restraint.bans == 0 || mayWaitPinned
    else { reportImpossibleSuspension() }
    block.pointee.afterSwitch = afterSwitch
    operationsLeft = Self.operationsPerTurn
    return block
  }

  @usableFromInline @inline(never)
  final func reportImpossibleSuspension() -> Never {
    require(block != nil, "\(description) suspends without a stack")
    // A coroutine runs with no task of its own, so what runs here is a job that a task began on this stack: it would be
    // left behind half-way, with what the concurrency runtime keeps of it on the stack.
    require(
      !coroutine_is_inside_task(),
      "\(description) suspends inside a task that runs on its stack (Task.immediate). Inside a task use the async forms."
    )
    reportBannedSuspension()
  }

  /// Makes a suspended coroutine ready, and hands it to its scheduler. For the waker that has claimed its wait.
  @usableFromInline
  static func wake(_ core: Unmanaged<CoroutineCore>) { wake(core, .woken) }

  /// The same for a coroutine that has waited for another one's end. If that was not its first, it is likely to wait
  /// next for the coroutines that are ready here, one by one, and each time they would have to let it run in between.
  static func wakeJoiner(_ core: Unmanaged<CoroutineCore>) {
    guard core._withUnsafeGuaranteedRef({ $0.hasJoined }) else { return wake(core) }
    wake(core, .joined)
  }

  /// As `Waiter.wakeOrTake`.
  @inline(__always)
  static func wakeOrTake(_ core: Unmanaged<CoroutineCore>, for scheduler: any Scheduler) -> CoroutineJob? {
    guard core._withUnsafeGuaranteedRef({ $0.restraint.pins == 0 && $0.scheduler.refers(to: scheduler) }) else {
      wake(core)
      return nil
    }
    makeReady(core)
    // As by `CoroutineJob.enqueue`.
    core._withUnsafeGuaranteedRef { $0.pool = nil }
    return CoroutineJob(core)
  }

  // Inlined into both callers, so that `reason` is a constant in each.
  @inline(__always)
  private static func wake(_ core: Unmanaged<CoroutineCore>, _ reason: EnqueueReason) {
    makeReady(core)
    guard core._withUnsafeGuaranteedRef({ $0.restraint.pins == 0 || !$0.resumePinned() }) else { return }
    CoroutineJob(core).enqueue(reason)
  }

  /// Runs a suspended coroutine at once, on the calling thread, until it suspends. For the waker that has claimed its
  /// wait, where the coroutine's scheduler would run it, if it is not pinned to another thread.
  @inline(__always)
  final func wakeHere() {
    guard let block, block.pointee.state.load(ordering: .relaxed) == .suspended else { reportSecondWake() }
    if coroutine_notes_are_taken() { noteWake() }
    // If it pins itself to this one, it is ready again.
    while Self.runTurn(block, keepsWorker: false, isOnTop: true) != nil { Self.requireReady(block) }
  }

  @inline(__always)
  private static func makeReady(_ core: Unmanaged<CoroutineCore>) {
    core._withUnsafeGuaranteedRef { core in
      // Its wait was claimed, with its context saved: its block says so, unless a waker wakes it without a claim.
      guard core.block?.pointee.state.load(ordering: .relaxed) == .suspended else { core.reportSecondWake() }
      if coroutine_notes_are_taken() { core.noteWake() }
      // A debugger that sees it reads the context, which another thread has saved.
      core.block?.pointee.state.store(.ready, ordering: .releasing)  // litmus: freeze-ready
      core.state.store(.ready, ordering: .relaxed)
    }
  }

  @inline(never)
  private final func reportSecondWake() -> Never {
    fatalError("\(description) was woken twice, or while it runs")
  }

  /// The coroutine that calls, or the end of the program: there is nothing to suspend.
  @inlinable @inline(__always)
  package static func running(for operation: StaticString) -> CoroutineCore {
    guard let current else { reportNoCoroutine(for: operation) }
    return current
  }

  /// The same for `_withUnsafeGuaranteedRef`, without counting a reference: the running coroutine is alive. For
  /// operations that take five nanoseconds otherwise.
  @inlinable @inline(__always)
  package static func runningUncounted(for operation: StaticString) -> Unmanaged<CoroutineCore> {
    guard let current = currentUncounted else { reportNoCoroutine(for: operation) }
    return current
  }

  /// For texts: number and name.
  @usableFromInline package final var description: String { Self.describe(id: id, name: name) }

  static func describe(id: UInt64, name: String) -> String {
    WaitText.coroutine(id, name)
  }
}

// Not a static member: a call would have to ask for the class's metadata first, also on the way of code that does not
// call it.
@usableFromInline @inline(never)
func reportNoCoroutine(for operation: StaticString) -> Never {
  fatalError(
    "\(operation) suspends the running coroutine, but no coroutine runs here. Call it inside `Coroutine { … }` or "
      + "`runUntilComplete { … }`, use the `async` form with `await`, or a blocking one on a plain thread.")
}
