// SPDX-License-Identifier: Apache-2.0

import Context
import Synchronization

/// Where one thread sleeps, and others wake it up: a futex that remembers one wake. It may also sleep in a poller.
struct Parker: ~Copyable, Sendable {
  /// 1: it was unparked, and the sleeper has not seen it yet. 2: it sleeps in the poller, past the futex.
  private let isUnparked = Atomic<UInt32>(0)
  private static var inPoller: UInt32 { 2 }

  /// Sleeps until it is unparked, or returns at once if it has been.
  borrowing func park() {  // litmus: parker-work
    while isUnparked.exchange(0, ordering: .acquiring) == 0 {
      // In a child of `fork`, where no other thread could wake this one.
      if Fork.isAlone, isUnparked.load(ordering: .relaxed) == 0 { Fork.reportNoOtherThread() }
      Futex.wait(on: isUnparked, while: 0)
    }
  }

  /// Sleeps until it is unparked, or until `duration` has passed. Returns whether it was unparked; may also wake up for
  /// no reason.
  borrowing func park(for duration: Duration) -> Bool {
    _ = Futex.wait(on: isUnparked, while: 0, for: duration)
    return isUnparked.exchange(0, ordering: .acquiring) != 0
  }

  /// Sleeps in the poller, until it is unparked, until there are events, which it delivers, or until `duration` has
  /// passed. Returns whether it was unparked; may also wake up for no reason.
  ///
  /// - Parameter beforeDelivery: is called once there are events, before the first of them wakes a waiter.
  // litmus: poller-interrupt
  borrowing func park(in poller: EventPoller, for duration: Duration?, beforeDelivery: () -> Void) -> Bool {
    let begin = isUnparked.compareExchange(
      expected: 0, desired: Self.inPoller, successOrdering: .acquiringAndReleasing, failureOrdering: .acquiring)
    // From here on a waker interrupts the poller, whether or not the thread is in there already.
    if begin.exchanged { poller.poll(for: duration, as: .worker, beforeDelivery: beforeDelivery) }
    return isUnparked.exchange(0, ordering: .acquiringAndReleasing) == 1
  }

  /// Wakes the sleeper, now or when it is about to sleep. The owner of the parker is kept alive meanwhile.
  borrowing func unpark() {  // litmus: parker-work, poller-interrupt
    if isUnparked.exchange(1, ordering: .acquiringAndReleasing) == Self.inPoller {
      EventPoller.installed?._withUnsafeGuaranteedRef { $0.interrupt(.worker) }
    } else {
      Futex.wake(1, on: isUnparked)
    }
  }
}
