// SPDX-License-Identifier: Apache-2.0

import CCoroutine

/// Letting others run first.
///
/// Mostly the coroutine that yields goes back to its scheduler's loop, which puts it in line and runs the next one: two
/// switches, with the thread's words exchanged twice. In a serial pool it goes right into the next one, if that is known to
/// come next and there is nothing to do in between. For both it is as if the loop had run in between, without it:
///
/// - The loop has resumed the next coroutine then: the resumer of the yielding one becomes the resumer of the next. So
///   the coroutine that suspends next goes back to the loop, which asks which one it is, and a backtrace goes on there.
///   One that has its turn on top of other code, not in the loop, goes back there.
/// - It is put in line before its context is saved. No other thread notices: the line belongs to the thread. Its
///   block's state shows debuggers that they may look at the context, and that state is stored when the context is
///   saved.
/// - Each turn counts as a pick of the worker's. When it is time to look at what came from outside, and as soon as the
///   global list holds something, the loop goes first, also for jobs of `async` code.
/// - No debugger or observer needs to know of the turn: there is no freeze, and nothing records times or observes. The next
///   one's block says "running" before that is looked at, as always (`inspection.h`).
/// - It leaves no list of `withObservationTracking` behind in the thread, where the module Observation is loaded.
/// - All of the thread's words are zero, those of both coroutines and the loop's: they are exchanged by doing nothing.
/// - Neither of them is pinned to a thread, nor forbidden to suspend, nor known to a sanitizer, and the next one has
///   begun.
extension CoroutineCore {
  /// Lets the others on the scheduler run first. It waits for nothing that would have to be kept for debuggers: its turn.
  @inline(__always)
  final func yieldTurn() { Self.yieldTurn(.passUnretained(self)) }

  /// The same for the running coroutine.
  ///
  /// Not inlined: the coroutine that suspends here returns from the same calls as the resumed one. Inlined it would be a
  /// mispredicted return (see `CoroutineCore.run`).
  @inline(never)
  package static func yieldTurn(_ core: Unmanaged<CoroutineCore>) {
    // A function with a name, as that of a closure is one of its own in the program, too.
    @inline(__always)
    func yieldTurn(_ core: CoroutineCore) {
      guard !core.passTurn() else { return }
      _ = ControlBlock.suspend(core.prepare(.enqueue), passing: 0)
    }
    core._withUnsafeGuaranteedRef(yieldTurn)
  }

  /// Goes right into the next one, if it can. Returns whether it did, and is back.
  @inline(__always)
  private final func passTurn() -> Bool {
    guard SelectedBackend.passes, !coroutine_turn_is_observed_or_tracked() || passesLookedAt(), let block,
      isUnrestrained, let pool, let worker = PoolWorker.current(ofPoolAt: pool)
    else { return false }
    return worker._withUnsafeGuaranteedRef { worker in
      guard let next = worker.nextInLine else { return false }
      return next._withUnsafeGuaranteedRef { core in
        guard let target = core.beginPassedTurn(after: block) else { return false }
        state.store(.ready, ordering: .relaxed)
        operationsLeft = Self.operationsPerTurn
        _ = worker.exchange(CoroutineJob(.passUnretained(self)), for: next).take()
        coroutine_set_current(next.toOpaque())
        ControlBlock.pass(from: block, to: target)
        return true
      }
    }
  }

  /// In a program in which the module Observation is loaded. What leaves one of its lists behind goes to the loop, and traps there.
  @inline(never)
  private final func passesLookedAt() -> Bool {
    guard !coroutine_turn_is_observed(), let block else { return false }
    return !ControlBlock.isInsideTracking(block, RunningBodies())
  }

  /// Begins its turn, if it can follow right upon that of the coroutine that runs on `block`. Its block.
  @inline(__always)
  private final func beginPassedTurn(
    after block: UnsafeMutablePointer<ControlBlock>
  ) -> UnsafeMutablePointer<ControlBlock>? {
    guard let own = self.block, restraint.pins == 0,
      block.pointee.mode.union(own.pointee.mode).isEmpty,
      coroutine_thread_states_are_plain(&block.pointee.threadState, &own.pointee.threadState),
      own.pointee.state.load(ordering: .relaxed) == .ready
    else { return nil }
    // litmus: freeze-none
    // The order of these two is what a debugger's freeze relies on. (The earlier check for observers was to save time.)
    own.pointee.state.store(.running, ordering: .relaxed)
    guard !coroutine_turn_is_observed() else {
      own.pointee.state.store(.ready, ordering: .releasing)
      return nil
    }
    state.store(.running, ordering: .relaxed)
    return own
  }
}
