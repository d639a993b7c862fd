// SPDX-License-Identifier: Apache-2.0

import Coroutine

/// A coroutine of a run that keeps the run's one thread while it waits: `withThreadPinned`.
extension TestRun {
  /// No other coroutine has a turn meanwhile, as on any serial scheduler. The run's tasks do, which may be what it waits for, and
  /// its time goes on; what comes from other threads is waited for as long as elsewhere.
  func keepThread(for core: CoroutineCore, untilTurn hasTurn: (_ deadline: UInt64) -> Bool) {
    /// Since when there was nothing to do.
    var begin = TimerService.shared.kernelTime
    var steps = 0
    while !hasTurn(WaitDeadline.now) {
      emptyInbox()
      let now = TimerService.shared.kernelTime
      // At its end the run has no limits but that of its steps.
      let latest: UInt64 = isOver ? .max : end ?? .max
      guard steps < options.turnLimit, now <= latest else { reportThreadKept(by: core) }
      if runTask() {
        steps += 1
        begin = TimerService.shared.kernelTime
        continue
      }
      let due = timers.nextDeadline
      let patient = min(endOfPatience(since: begin, due == nil ? .nothing : .timers), latest)
      // A waker on another thread gives the turn without an arrival, and a task arrives without a turn: it looks for both.
      if now < patient {
        if hasTurn(min(patient, now.addingSaturated(Self.waitBetweenLooks))) { return }
        continue
      }
      // One that was looked at may have woken it, or a task, just before that.
      if hasTurn(WaitDeadline.now) { return }
      if arrival.wait(until: WaitDeadline.now) { continue }
      if begin < patient { noteWaitInVain(since: begin, until: now) }
      guard let due else { reportThreadKept(by: core) }
      steps += 1
      timers.advance(to: due)
      begin = TimerService.shared.kernelTime
    }
  }

  private func reportThreadKept(by core: CoroutineCore) -> Never {
    fatalError(
      "\(core.description) waits in vain inside withThreadPinned (\(core.waitReason?.description ?? "for its turn")): on a "
        + "run's one thread nothing else runs while a coroutine keeps it by withThreadPinned. Wait outside of it, or launch "
        + "what it waits for, or the coroutine itself, on another scheduler: Coroutine(on: .pool).")
  }
}
