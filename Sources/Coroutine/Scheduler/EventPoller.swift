// SPDX-License-Identifier: Apache-2.0

import Context
import Synchronization

/// The kernel's queue of events, such as an epoll set.
package protocol EventQueue: AnyObject, Sendable {
  /// Waits for events until there is one, until `duration` has passed (`nil`: no limit), or until `interrupt`. Delivers
  /// them: wakes the coroutines that wait for them, on the calling thread.
  ///
  /// - Parameter beforeDelivery: called once, if there are events that may wake a waiter, before the first does.
  /// - Returns: whether there were.
  func poll(for duration: Duration?, as role: EventPoller.Role, beforeDelivery: () -> Void) -> Bool

  /// Ends the `poll` that waits in this role, or the next one. From any thread. A worker's interrupt that comes when no worker
  /// waits any more may be forgotten.
  func interrupt(_ role: EventPoller.Role)

  /// Takes back an interrupt of the thread, if there is one. By the thread, while it does not poll.
  func forgetInterruptOfThread()
}

/// An idle worker waits in it, in place of its futex: a queue of events, which wake the coroutines that wait for
/// descriptors. CoroutineIO installs one with its first descriptor; other programs have none.
///
/// # Which thread polls
///
/// - A worker that falls asleep as the last one of its pool, or monitors the others, sleeps in the poller instead. It is
///   *the* poller meanwhile: `tryTake` and `giveBack`. What its events wake is ready on its own thread, past any queue.
/// - A worker that has nothing to run looks for events before it looks for others' work. A busy one looks once in a
///   number of picks, as it does for other work from outside.
/// - Where no worker does either (all are inside of long computations, or the coroutines run on Dispatch queues), the
///   `PollerThread` waits for events instead.
///
/// Two threads may poll at once without harm: the kernel gives each event to one of them. But at most one sleeps there
/// as a worker, so that an interrupt reaches the right one.
package final class EventPoller: Sendable {
  private static let word = Atomic<Unmanaged<EventPoller>?>(nil)

  /// The process's poller, if there is one. It lives for ever.
  @inline(__always)
  static var installed: Unmanaged<EventPoller>? { word.load(ordering: .acquiring) }

  private let isTaken = Atomic<Bool>(false)
  /// When a busy worker has last looked, on the monotonic clock.
  private let lastLook = Atomic<UInt64>(0)
  /// How often a worker has looked for events, or slept here. The thread's measure of whether it is needed.
  private let looks = Atomic<UInt32>(0)
  let thread = PollerThread()

  private let queue: any EventQueue

  private init(_ queue: any EventQueue) { self.queue = queue }

  /// Makes `queue` the one that all pools poll, and starts the thread. Once in a process; it lives for ever.
  ///
  /// - Returns: 0, or an errno where the system refuses the thread: then nothing has changed.
  package static func install(_ queue: any EventQueue) -> CInt {
    let poller = EventPoller(queue)
    require(installed == nil, "a process has one EventPoller")
    // The thread, and from here on the word too, never let go of it.
    let installed = Unmanaged.passRetained(poller)
    let code = poller.thread.start(for: poller)
    guard code == 0 else {
      installed.release()
      return code
    }
    // Before it is there: the set is the parent's too, and events that a child took would be lost to it.
    Fork.handle(child: { EventPoller.word.store(nil, ordering: .relaxed) })
    word.store(installed, ordering: .releasing)
    return 0
  }

  /// The thread that polls.
  package enum Role {
    /// The worker that has taken the poller.
    case worker
    /// The poller's own thread.
    case thread
    /// A worker that just looks, and does not wait.
    case visitor
  }

  /// Whether a worker sleeps in the process's poller. A waker interrupts that worker only after this has become true.
  package static var isWorkerAsleep: Bool { installed?._withUnsafeGuaranteedRef { $0.isWorkerAsleepHere } ?? false }

  /// Whether the thread sleeps until it is needed: no interrupt is meant for it. Stays so while a worker sleeps in the poller.
  package static var isThreadDormant: Bool { installed?._withUnsafeGuaranteedRef { $0.thread.isDormant } ?? false }

  /// Delivers the events that are there by now, on the calling thread, without waiting. Returns whether there were any.
  package static func deliverEvents() -> Bool { installed?._withUnsafeGuaranteedRef { $0.look() } ?? false }

  /// As `EventQueue` says.
  @discardableResult
  func poll(for duration: Duration?, as role: Role, beforeDelivery: () -> Void) -> Bool {
    queue.poll(for: duration, as: role, beforeDelivery: beforeDelivery)
  }

  func interrupt(_ role: Role) { queue.interrupt(role) }

  func forgetInterruptOfThread() { queue.forgetInterruptOfThread() }

  // MARK: The workers'

  /// Makes the calling worker the one that sleeps in the poller; false if another one is.
  func tryTake() -> Bool {  // litmus: poller-watch, poller-interrupt
    guard !isTaken.load(ordering: .relaxed), !isTaken.exchange(true, ordering: .sequentiallyConsistent) else {
      return false
    }
    looks.wrappingAdd(1, ordering: .relaxed)
    thread.leaveToWorkers(self)
    return true
  }

  /// Gives the poller up again.
  func giveBack() {
    isTaken.store(false, ordering: .sequentiallyConsistent)  // litmus: poller-watch
    thread.wake()
  }

  /// Looks for events without waiting. Whether there were any. By a worker that is awake.
  func look() -> Bool {
    looks.wrappingAdd(1, ordering: .relaxed)
    return poll(for: .zero, as: .visitor, beforeDelivery: {})
  }

  /// The same once in a while. For a worker that never has nothing to run.
  func lookIfDue() {
    let now = MonotonicClock.now
    guard !isWorkerAsleepHere, now &- lastLook.load(ordering: .relaxed) > Self.timeBetweenLooks else { return }
    lastLook.store(now, ordering: .relaxed)
    _ = look()
  }

  /// In nanoseconds.
  private static var timeBetweenLooks: UInt64 { 100_000 }

  // MARK: The thread's

  var isWorkerAsleepHere: Bool { isTaken.load(ordering: .sequentiallyConsistent) }
  var lookCount: UInt32 { looks.load(ordering: .relaxed) }
}
