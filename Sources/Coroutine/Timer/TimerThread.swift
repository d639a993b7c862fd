// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import CCoroutineSystem
import Context
import CoroutineLibc
import Synchronization

/// The thread that drives a queue of timers by the kernel's clock. It starts at the first ring, and never ends.
///
/// It sleeps until the earliest deadline, and is rung out of that sleep only for one that is earlier still. A timer that
/// is disarmed does not ring it: it wakes once for nothing, at the time of that timer.
final class TimerThread: Sendable {
  private let queue: TimerQueue
  /// 1: a caller rang, so look before going to sleep. The futex that the thread sleeps on.
  private let rung = Atomic<UInt32>(0)
  private let hasStarted = Atomic<Bool>(false)
  /// `Fork.count` when it did.
  private let startedIn = Atomic<UInt32>(0)

  /// Which thread it is, in this process.
  private static let thread = Atomic<coroutine_system_thread>(0)

  init(driving queue: TimerQueue) {
    self.queue = queue
  }

  /// Whether the calling thread is the one that drives timers by the kernel's clock. With a virtual time none is.
  static var isCurrent: Bool { thread.load(ordering: .relaxed) == coroutine_system_own_thread() }

  /// Makes the thread look at the queue at once. For a thread that armed a timer, when `TimerQueue.arm` says so.
  func ring() {
    // The queue asks for a ring only when no other ring is still to be answered, so the first one is alone.
    guard hasStarted.load(ordering: .relaxed) || hasStarted.exchange(true, ordering: .relaxed) else { return start() }
    rung.store(1, ordering: .releasing)  // litmus: timer-ring
    Futex.wake(1, on: rung)
  }

  /// Ends the program if the thread was started, and is not in this process.
  @inline(__always)
  func requireIsHere() {
    if Fork.count != 0 { requireIsHereInChild() }
  }

  @inline(never)
  private func requireIsHereInChild() {
    guard hasStarted.load(ordering: .relaxed), startedIn.load(ordering: .relaxed) != Fork.count else { return }
    reportLeftInParent("a sleep or a timeout begins", "fork before the first of them")
  }

  private func run() -> Never {
    coroutine_system_name_thread("coroutine-timer")
    Self.thread.store(coroutine_system_own_thread(), ordering: .relaxed)
    // The kernel delays a thread's timeouts by up to 50 us in order to bundle wakes; here they are bundled already.
    coroutine_system_precise_timeouts()
    while true {
      // Before the look: a ring from here on is about what the look may have missed.
      rung.store(0, ordering: .relaxed)  // litmus: timer-ring
      let next = queue.fireExpired(at: MonotonicClock.now)
      guard let next else {
        Futex.wait(on: rung, while: 0)
        continue
      }
      // To notify takes its time: the next one may be due by now.
      if next > MonotonicClock.now { _ = Futex.wait(on: rung, while: 0, until: timespec(nanoseconds: next)) }
    }
  }

  private func start() {
    startedIn.store(Fork.count, ordering: .relaxed)
    // The thread's reference; never released, since the thread never ends.
    let argument = Unmanaged.passRetained(self).toOpaque()
    var backoff = RetryBackoff()
    while true {
      let code = coroutine_system_start_thread(
        { Unmanaged<TimerThread>.fromOpaque($0!).takeUnretainedValue().run() }, argument)
      if code == 0 { break }
      // Without it each sleep and each timeout would last for ever.
      warnAboutRefusal(of: "the timers' thread", code, "It is tried again.")
      if !backoff.wait() { refused("the timers' thread", code) }
    }
  }
}
