// SPDX-License-Identifier: Apache-2.0

// The waiters whose waits a deadline may end.

extension CoroutineCore: TimedWaiter {
  @usableFromInline package static func isSuspending(_ waiter: UnsafeRawPointer) -> Bool {
    Unmanaged<CoroutineCore>.fromOpaque(waiter)._withUnsafeGuaranteedRef {
      $0.parking.word.load(ordering: .relaxed) == Parking.suspending
    }
  }

  @usableFromInline package static func claimTimedOut(_ waiter: UnsafeRawPointer) -> Bool {
    Unmanaged<CoroutineCore>.fromOpaque(waiter)._withUnsafeGuaranteedRef { $0.parking.claim(.timedOut) }
  }

  @usableFromInline package static func wakeTimedOut(_ waiter: UnsafeRawPointer) { wake(.fromOpaque(waiter)) }
}

extension WaitingTask: TimedWaiter {
  /// The deadline of a wait for one thing runs while the word says "awake", when it can be claimed early; that of a joint
  /// wait, which has several locks, while it says "suspending".
  @usableFromInline package static func isSuspending(_ waiter: UnsafeRawPointer) -> Bool {
    Unmanaged<WaitingTask>.fromOpaque(waiter)._withUnsafeGuaranteedRef {
      $0.parking.word.load(ordering: .relaxed) == Parking.suspending
    }
  }

  @usableFromInline package static func claimTimedOut(_ waiter: UnsafeRawPointer) -> Bool {
    Unmanaged<WaitingTask>.fromOpaque(waiter)._withUnsafeGuaranteedRef { $0.parking.claimEarly(.timedOut).mustWake }
  }

  @usableFromInline package static func wakeTimedOut(_ waiter: UnsafeRawPointer) {
    Unmanaged<WaitingTask>.fromOpaque(waiter)._withUnsafeGuaranteedRef { $0.resume() }
  }
}
