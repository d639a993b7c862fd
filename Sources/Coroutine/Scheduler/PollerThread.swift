// SPDX-License-Identifier: Apache-2.0

import CCoroutineSystem
import Context
import CoroutineLibc
import Synchronization

/// Waits for events while no worker of a pool does.
///
///     dormant ──wake───> checking ──no worker has looked for a tick──> polling
///        ^                   │                                            │
///        └─ a worker sleeps in the poller ──────────────────────────< leaveToWorkers
///
/// While it is dormant it costs nothing, and a worker that comes and goes within a tick does not wake it. While it
/// polls, a worker that can poll itself interrupts it. So in a program whose pool serves its connections it wakes up
/// once in a while to see that it is not needed, and in one that has no pool it serves them all.
final class PollerThread: Sendable {
  private enum Mode {
    static var dormant: UInt32 { 0 }
    static var checking: UInt32 { 1 }
    static var polling: UInt32 { 2 }
  }

  /// What it does; the futex that it sleeps on while it is dormant.
  private let mode = Atomic<UInt32>(Mode.checking)

  var isDormant: Bool { mode.load(ordering: .acquiring) == Mode.dormant }

  private static var tick: Duration { .milliseconds(2) }

  /// A worker has left the poller: it may be long until a worker looks again.
  func wake() {
    guard mode.load(ordering: .sequentiallyConsistent) == Mode.dormant else { return }  // litmus: poller-watch
    if mode.compareExchange(expected: Mode.dormant, desired: Mode.checking, ordering: .acquiringAndReleasing).exchanged
    {
      Futex.wake(1, on: mode)
    }
  }

  /// A worker is about to sleep in the poller: events are for it.
  func leaveToWorkers(_ poller: EventPoller) {
    guard mode.load(ordering: .sequentiallyConsistent) == Mode.polling else { return }  // litmus: poller-watch
    if mode.compareExchange(expected: Mode.polling, desired: Mode.checking, ordering: .acquiringAndReleasing).exchanged
    {
      poller.interrupt(.thread)
    }
  }

  /// Returns 0, or an errno where the system refuses it.
  func start(for poller: EventPoller) -> CInt {
    // The poller lives for ever, and so does the thread.
    coroutine_system_start_thread(
      { Unmanaged<EventPoller>.fromOpaque($0!).takeUnretainedValue().runThread() },
      Unmanaged.passUnretained(poller).toOpaque())
  }

  fileprivate func run(for poller: EventPoller) -> Never {
    coroutine_system_name_thread("coroutine-poll")
    var seen = poller.lookCount
    while true {
      switch mode.load(ordering: .acquiring) {
      case Mode.dormant:
        Futex.wait(on: mode, while: Mode.dormant)
      case Mode.polling:
        poller.poll(for: nil, as: .thread, beforeDelivery: {})
      default:
        _ = Futex.wait(on: mode, while: Mode.checking, for: Self.tick)
        seen = check(poller, seen)
      }
    }
  }

  /// Decides about the next step, after a tick. Returns the count of the workers' looks.
  private func check(_ poller: EventPoller, _ seen: UInt32) -> UInt32 {
    let looks = poller.lookCount
    if poller.isWorkerAsleepHere {
      // Takes back an interrupt that was meant for the last polling, if an event had ended that before.
      poller.forgetInterruptOfThread()
      mode.store(Mode.dormant, ordering: .sequentiallyConsistent)  // litmus: poller-watch
      // Either this sees that the worker has left meanwhile, or that one sees the mode.
      if !poller.isWorkerAsleepHere { mode.store(Mode.checking, ordering: .relaxed) }
    } else if looks == seen {
      // The workers compute for long: the coroutines that are ready behind them need a monitor.
      for pool in PoolCore.all.all { pool.appointMonitor() }
      mode.store(Mode.polling, ordering: .sequentiallyConsistent)  // litmus: poller-watch
      // A worker that has come in between found it checking, and did not interrupt it.
      if poller.isWorkerAsleepHere { mode.store(Mode.checking, ordering: .relaxed) }
    }
    return looks
  }
}

extension EventPoller {
  fileprivate func runThread() -> Never { thread.run(for: self) }
}
