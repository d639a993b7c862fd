// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// A plain thread that waits for something of the runtime's, once.
@usableFromInline
package final class BlockedThread: Sendable {
  /// The word by which a waker claims the wait.
  @usableFromInline let parking = Parking()
  private let semaphore = ThreadSemaphore()
  /// Orders what the waker did, after its claim too, before what the thread does. The semaphore does so as well, but in a
  /// wait with a deadline by this clock ThreadSanitizer does not see it.
  private let wasUnblocked = Atomic<Bool>(false)

  private let call: BlockingCall

  @usableFromInline
  init(at call: BlockingCall) {
    self.call = call
  }

  /// Waits until a waker has claimed the wait and unblocks the thread, or until the deadline, if no waker has by then.
  @usableFromInline
  func block(until deadline: UInt64) -> WakeCause {
    if deadline != WaitDeadline.now { call.tellIfThreadIsCooperative() }
    if deadline == WaitDeadline.never {
      if !call.isOnMainQueue || !waitOnMainThread() { semaphore.wait() }
    } else if !semaphore.wait(until: deadline), !parking.claim(.timedOut) {
      semaphore.wait()
    }
    _ = wasUnblocked.load(ordering: .acquiring)
    return parking.cause
  }

  /// Waits a second, and looks then whether others wait for the main thread. Whether the wait is over.
  private func waitOnMainThread() -> Bool {
    call.requireAnotherThread()
    if semaphore.wait(until: WaitDeadline.after(.seconds(1))) { return true }
    call.tellIfMainQueueWaits()
    return false
  }

  /// For the waker that has claimed its wait.
  @usableFromInline
  func unblock() {
    wasUnblocked.store(true, ordering: .releasing)
    semaphore.signal()
  }
}

extension BlockedThread: TimedWaiter {
  @usableFromInline package static func isSuspending(_ waiter: UnsafeRawPointer) -> Bool { false }

  @usableFromInline package static func claimTimedOut(_ waiter: UnsafeRawPointer) -> Bool {
    Unmanaged<BlockedThread>.fromOpaque(waiter)._withUnsafeGuaranteedRef { $0.parking.claim(.timedOut) }
  }

  @usableFromInline package static func wakeTimedOut(_ waiter: UnsafeRawPointer) {
    Unmanaged<BlockedThread>.fromOpaque(waiter)._withUnsafeGuaranteedRef { $0.unblock() }
  }
}
