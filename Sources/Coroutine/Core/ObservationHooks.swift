// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import Synchronization

/// What the setters of bits in `coroutine_requests` ask for: times, creators, launches, events for observers. Kept out of
/// the way of other code: no function here is inlined. Only the thread that may touch the coroutine's fields at that moment
/// calls them.
extension CoroutineCore {
  @inline(never)
  final func noteCreation() {
    record.note()
    if let backtracer = coroutine_get_creation_backtracer() { noteCreators(backtracer) }
    if coroutine_events_are_observed() { CoroutineObservation.notify(.created, of: self) }
  }

  /// It is about to be handed to its scheduler for the first time.
  @inline(never)
  final func noteLaunch() {
    if coroutine_launches_are_observed() { notifyRun() }
    if coroutine_events_are_observed() { notifyReady(.launched) }
  }

  /// Notifies the run of a test that it will run elsewhere, if the launching code is a part of one.
  private final func notifyRun() {
    guard case .other(let run)? = SchedulerReference.run, let explorer = run.explorer else { return }
    if case .other(let other) = home, other.scheduler === run.scheduler { return }
    explorer.willRunElsewhere(self)
  }

  /// Its wait has been claimed: it is ready in the next moment.
  @inline(never)
  final func noteWake() {
    record.note()
    guard coroutine_events_are_observed() else { return }
    let cause: ReadyCause =
      switch parking.cause {
      case .cancelled: .cancelled
      case .timedOut: .timedOut
      default: .woken
      }
    notifyReady(cause)
  }

  /// Off its stack, at the end of a turn that is observed or tracked.
  @inline(never)
  final func endObservedTurn(_ block: UnsafeMutablePointer<ControlBlock>) {
    if coroutine_properties_are_tracked(), ControlBlock.isInsideTracking(block, RunningBodies(leftBy: block)) {
      reportTracking("\(description) suspends")
    }
    if coroutine_turn_is_observed() { noteTurnEnd(block.pointee.afterSwitch) }
  }

  /// Its turn is over, and no other thread knows yet.
  @inline(never)
  final func noteTurnEnd(_ afterSwitch: ControlBlock.AfterSwitch) {
    // A debugger that has found it running relies on it, as on those that are suspended. litmus: freeze-none
    if case .finish = afterSwitch, coroutine_inspection_requested() { Freeze.waitForEnd() }
    record.note()
    guard coroutine_events_are_observed() else { return }
    switch afterSwitch {
    case .unlock, .unlockAll:
      CoroutineObservation.notify(.suspended(waitReason.map { SuspensionReason($0.operation) } ?? .turn), of: self)
    case .enqueue: notifyReady(.yielded)
    case .finish: CoroutineObservation.notify(.finished, of: self)
    case .none: break
    }
  }

  @inline(never)
  final func notifyReady(_ cause: ReadyCause) {
    let now = coroutine_exact_time()
    neededExtras._withUnsafeGuaranteedRef {
      $0.turn &+= 1
      $0.readySince = now
    }
    let waker = CoroutineCore.currentUncounted?._withUnsafeGuaranteedRef { $0.id } ?? 0
    CoroutineObservation.notify(.ready(cause, by: cause == .yielded ? id : waker), of: self, at: now)
  }

  @inline(never)
  final func notifyResumed() {
    let now = coroutine_exact_time()
    let since =
      extras?._withUnsafeGuaranteedRef { extras -> UInt64 in
        defer { extras.readySince = 0 }
        return extras.readySince
      } ?? 0
    let isKnown = since != 0 && since >= CoroutineObservation.begin.load(ordering: .relaxed)  // litmus: end-result
    CoroutineObservation.notify(.resumed(queued: isKnown ? now - since : nil), of: self, at: now)
  }

  @inline(never)
  final func notifyStolen() { CoroutineObservation.notify(.stolen, of: self) }
}

extension CoroutineCore: ObservedCoroutine {
  final var schedulerText: String { scheduler.description }
  final var waitText: String { waitReason?.description ?? "" }
  final var turn: UInt32 { extras?._withUnsafeGuaranteedRef { $0.turn } ?? 0 }
}
