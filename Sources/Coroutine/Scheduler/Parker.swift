// SPDX-License-Identifier: Apache-2.0

import Context
import Synchronization

/// Where one thread sleeps, and others wake it up: a futex that remembers one wake. It may also sleep in a poller.
struct Parker: ~Copyable, Sendable {
  private let state = Atomic<UInt32>(Parker.noUnpark)
  /// The sleeper has seen each unpark. It runs, or sleeps on the futex.
  private static var noUnpark: UInt32 { 0 }
  /// It was unparked, and the sleeper has not seen it yet.
  private static var unparked: UInt32 { 1 }
  /// It sleeps in the poller, past the futex.
  private static var inPoller: UInt32 { 2 }

  /// Sleeps until it is unparked, or returns at once if it has been.
  borrowing func park() {  // litmus: parker-work
    while state.exchange(Self.noUnpark, ordering: .acquiring) == Self.noUnpark {
      // In a child of `fork`, where no other thread could wake this one.
      if Fork.isAlone, state.load(ordering: .relaxed) == Self.noUnpark { Fork.reportNoOtherThread() }
      Futex.wait(on: state, while: Self.noUnpark)
    }
  }

  /// Sleeps until it is unparked, or until `duration` has passed. Returns whether it was unparked; may also wake up for
  /// no reason.
  borrowing func park(for duration: Duration) -> Bool {
    _ = Futex.wait(on: state, while: Self.noUnpark, for: duration)
    return state.exchange(Self.noUnpark, ordering: .acquiring) != Self.noUnpark
  }

  /// Sleeps in the poller, until it is unparked, until there are events, which it delivers, or until `duration` has
  /// passed. Returns whether it was unparked; may also wake up for no reason.
  ///
  /// - Parameter beforeDelivery: is called once there are events, before the first of them wakes a waiter.
  // litmus: poller-interrupt
  borrowing func park(in poller: EventPoller, for duration: Duration?, beforeDelivery: () -> Void) -> Bool {
    let begin = state.compareExchange(
      expected: Self.noUnpark, desired: Self.inPoller, successOrdering: .acquiringAndReleasing,
      failureOrdering: .acquiring)
    // From here on a waker interrupts the poller, whether or not the thread is in there already.
    if begin.exchanged { poller.poll(for: duration, as: .worker, beforeDelivery: beforeDelivery) }
    return state.exchange(Self.noUnpark, ordering: .acquiringAndReleasing) == Self.unparked
  }

  /// Wakes the sleeper, now or when it is about to sleep. The owner of the parker is kept alive meanwhile.
  borrowing func unpark() {  // litmus: parker-work, poller-interrupt
    if state.exchange(Self.unparked, ordering: .acquiringAndReleasing) == Self.inPoller {
      EventPoller.installed?._withUnsafeGuaranteedRef { $0.interrupt(.worker) }
    } else {
      Futex.wake(1, on: state)
    }
  }
}
