// SPDX-License-Identifier: Apache-2.0

import CCoroutineSystem
import Context
import CoroutineLibc
import Synchronization

/// Waits for events while no worker of a pool does, and sees to it that the workers of each pool have a monitor.
///
///     dormant ──wake───> checking ──no worker has looked for a tick──> polling
///        ^                   │                                            │
///        └─ a worker sleeps in the poller, and no pool lacks a monitor < leaveToWorkers
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
    // One that was meant for the last polling, if an event had ended that before: a worker that sleeps here would find it again
    // and again.
    poller.forgetInterruptOfThread()
    if poller.isWorkerAsleepHere {
      // Events are for that worker. But it may be another pool's than the workers that lack a monitor.
      if appointMonitors(atOnce: false) { goOn(Mode.dormant, poller, unless: looks, isWorkerAsleep: true) }
    } else if looks == seen {
      // The workers compute for long: the coroutines that are ready behind them need a monitor.
      _ = appointMonitors(atOnce: true)
      goOn(Mode.polling, poller, unless: looks, isWorkerAsleep: false)
    } else {
      _ = appointMonitors(atOnce: false)
    }
    return looks
  }

  /// Whether all pools have a monitor, or need none: `PoolCore.appointMonitor`.
  private func appointMonitors(atOnce: Bool) -> Bool {
    PoolCore.all.all.reduce(true) { $1.appointMonitor(atOnce: atOnce) && $0 }
  }

  /// No tick comes any more. Unless a worker has come or gone since the beginning of the check: it has found it checking, and its
  /// pool may lack a monitor by now.
  private func goOn(_ next: UInt32, _ poller: EventPoller, unless looks: UInt32, isWorkerAsleep: Bool) {
    mode.store(next, ordering: .sequentiallyConsistent)  // litmus: poller-watch
    // Either this sees that, or the worker sees the mode.
    if poller.isWorkerAsleepHere != isWorkerAsleep || poller.lookCount != looks {
      mode.store(Mode.checking, ordering: .relaxed)
    }
  }
}

extension EventPoller {
  fileprivate func runThread() -> Never { thread.run(for: self) }
}
