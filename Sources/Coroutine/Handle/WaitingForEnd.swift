// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import Context

/// Waiting for a coroutine's end, behind `Joining.swift`.
extension CoroutineCore {
  /// A waiter wants the result: now it has to begin, if it is held until then. Returns whether it was.
  @usableFromInline @discardableResult
  final func startOnDemand() -> Bool { isHeldOnDemand && startHeld() }

  /// Calls `listener` at the end, once; false if the end has come already. Where the result is read then, its owner says so
  /// (`resultIsTaken`).
  final func join(_ listener: WaitListener) -> Bool {
    startOnDemand()
    return addEndListener(listener)
  }

  /// The same for a listener that does not start one which is held on demand.
  final func addEndListener(_ listener: WaitListener) -> Bool {
    lock.withLock {
      guard case .wait = completion.join(listener.node) else { return false }
      listener.enter()
      return true
    }
  }

  /// Does not call `listener` any more, if it is not being called this moment. Whether this keeps it from being called.
  @discardableResult
  final func withdraw(_ listener: WaitListener) -> Bool {
    lock.lock()
    let wasQueued = completion.withdraw(listener.node)
    lock.unlock()
    if wasQueued { listener.leave() }
    return wasQueued
  }

  /// Runs this coroutine at once, if `joiner`, which is about to wait for its end, would be suspended for nothing else:
  /// in a serial pool, where no coroutine but this one is ready. It may suspend before its end; then the joiner waits
  /// for it.
  ///
  /// For both it is as if this one had been run next and the joiner after it: in two switches instead of four, and past
  /// the line. Not done if:
  /// - the pool has more threads: there a joiner that is cancelled goes on, though the other coroutine keeps its thread;
  /// - the joiner must not wait, or keeps its thread (`withoutSuspension`, `withThreadPinned`): whether it waits would depend
  ///   on luck;
  /// - the joiner is cancelled, or a timer is going to cancel it: this one may wait pinned to the thread;
  /// - the joiner has a small stack: this one's would be taken from its pool and given back on it;
  /// - `async` code runs inside the joiner, or an observer takes notes of the waiters.
  @inline(__always)
  private final func runAhead(of joiner: CoroutineCore) {
    guard let pool = joiner.pool, joiner.hasStackOfDefaultSize, joiner.isUnrestrained,
      !joiner.isInterrupted, !coroutine_is_inside_task(), !coroutine_notes_are_taken(),
      PoolWorker.current(ofPoolAt: pool)?._withUnsafeGuaranteedRef({ $0.isSerial }) == true,
      !joiner.hasAnyDeadline, PoolWorker.takeOnlyOne(self, ofPoolAt: pool)
    else { return }
    let accesses = AttachedAccesses(ofPoolAt: pool)
    accesses?.attach()
    // Should it wait pinned to this thread, the pool goes on with another one, as this one's runner knows.
    run(keepsWorker: false, isOnTop: true)
    if let accesses {
      accesses.end()
      joiner.attachSharedAccesses()
    }
    // Those that it has made ready would have come before the joiner.
    if PoolWorker.isSerialAndBusy(ofPoolAt: pool) { joiner.yieldTurn() }
  }

  /// Suspends the calling coroutine until this one has ended, the time is up, or the caller is cancelled.
  @usableFromInline
  final func waitForEnd(until deadline: UInt64 = WaitDeadline.never) -> WakeCause {
    let core = CoroutineCore.runningUncounted(for: "Coroutine.get()")
    if isFinished { core._withUnsafeGuaranteedRef { $0.countOperation() } }
    if deadline == WaitDeadline.never, !isFinished { core._withUnsafeGuaranteedRef { runAhead(of: $0) } }
    // Without the lock, and without a node, as there is no waiter to wake.
    if isFinished, !core._withUnsafeGuaranteedRef({ $0.isHeldUp }) {
      resultIsTaken()
      return .event
    }
    return core._withUnsafeGuaranteedRef { suspend($0, until: deadline) }
  }

  /// The way of `waitForEnd` on which `core`, the calling coroutine, is suspended.
  @inline(never)
  private final func suspend(_ core: CoroutineCore, until deadline: UInt64) -> WakeCause {
    require(core !== self, "\(core.description) waits for its own end: it would wait for ever. Join it from outside")
    startOnDemand()
    defer { core.hasJoined = true }
    return taking(waitWithoutResult(core, until: deadline))
  }

  /// Suspends the calling coroutine, `core`, until this one, which is not held on demand, has ended, the time is up, or the caller
  /// is cancelled. An error is still there for another caller, or is reported.
  @inline(__always)
  final func waitWithoutResult(_ core: CoroutineCore, until deadline: UInt64 = WaitDeadline.never) -> WakeCause {
    var node = WaitNode(.coroutine(.passUnretained(core)))
    return wait(core, .join, by: &node, until: deadline) {
      completion.join($0)
    } withdraw: {
      completion.withdraw($0)
      return .done
    }
  }

  /// The same for the calling task.
  @inline(__always)
  nonisolated(nonsending) final func waitWithoutResult(until deadline: UInt64 = WaitDeadline.never) async -> WakeCause {
    await wait(until: deadline) {
      WaitNode($0)
    } attempt: {
      completion.join($0)
    } withdraw: {
      completion.withdraw($0)
      return .done
    }
  }

  /// A wait for the result is over. Where it has ended otherwise, an error is still there for another caller, or is reported.
  private final func taking(_ cause: WakeCause) -> WakeCause {
    if cause == .event { resultIsTaken() }
    return cause
  }

  /// Suspends the calling task until this coroutine has ended, the time is up, or the caller is cancelled.
  @usableFromInline
  nonisolated(nonsending) final func waitForEnd(until deadline: UInt64 = WaitDeadline.never) async -> WakeCause {
    if isFinished, !Task.isCancelled {
      resultIsTaken()
      return .event
    }
    startOnDemand()
    return taking(await waitWithoutResult(until: deadline))
  }

  /// Blocks the calling thread until this coroutine has ended, or the time is up.
  @usableFromInline
  final func blockUntilEnd(
    until deadline: UInt64 = WaitDeadline.never, at call: BlockingCall, insteadUse instead: StaticString = "join()"
  ) -> WakeCause {
    call.requireNoCoroutine(insteadUse: instead)
    if deadline != WaitDeadline.now { requireNotOnlyHere(call) }
    if isFinished {
      resultIsTaken()
      return .event
    }
    startOnDemand()
    let cause = block(until: deadline, at: call) {
      WaitNode($0)
    } attempt: {
      completion.join($0)
    } withdraw: {
      completion.withdraw($0)
      return .done
    }
    return taking(cause)
  }

  /// Ends the program where the calling thread, which is about to be blocked until this coroutine ends, is the only one that could
  /// run it.
  final func requireNotOnlyHere(_ call: BlockingCall) {
    require(
      isFinished || !home.isThisThreadAlone,
      "\(call.description) blocks the only thread of \(home.description), on which \(description) runs: it would wait for ever. "
        + "Use 'await', or start the coroutine elsewhere: Coroutine(on: .pool) { … }")
  }

  /// Blocks the calling thread until the end: what `joinBlocking` of each kind of handle does.
  final func joinBlocking(timeout: Duration?, _ file: StaticString, _ line: UInt) throws {
    let call = BlockingCall("joinBlocking(timeout:)", file, line)
    try blockUntilEnd(until: WaitDeadline.after(timeout), at: call).check(timeout)
  }
}
