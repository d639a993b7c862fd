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

  /// Waits until a waker has claimed the wait and unblocks the thread, or until the deadline, if no waker has by then. In a
  /// test with a time of its own as long by the kernel's: a thread sleeps by that.
  @usableFromInline
  func block(until deadline: UInt64) -> WakeCause {
    if deadline != WaitDeadline.now { call.tellIfThreadIsCooperative() }
    if deadline == WaitDeadline.never {
      if !call.isOnMainQueue || !waitOnMainThread() { semaphore.wait() }
    } else if !semaphore.wait(until: TimerService.shared.kernelTime(of: deadline)), !parking.claim(.timedOut) {
      semaphore.wait()
    }
    _ = wasUnblocked.load(ordering: .acquiring)
    return parking.cause
  }

  /// Waits, and looks again and again whether others wait for the main thread: they may come to do so at any time. Ever less often,
  /// and not any more once that is told. Whether the wait is over.
  private func waitOnMainThread() -> Bool {
    call.requireAnotherThread()
    var pause: UInt64 = 1_000_000_000
    repeat {
      if semaphore.wait(until: TimerService.shared.kernelTime.addingSaturated(pause)) { return true }
      pause = min(pause * 2, 32_000_000_000)
    } while !call.tellIfMainQueueWaits()
    return false
  }

  /// For the waker that has claimed its wait.
  @usableFromInline
  func unblock() {
    wasUnblocked.store(true, ordering: .releasing)
    semaphore.signal()
  }
}

extension Waitable {
  /// Blocks the calling thread if it has to wait, with a node on its stack.
  ///
  /// - Parameter afterwards: gets what the node is at the end. It is in no queue any more.
  @inlinable @inline(__always)
  package final func block<Node: ~Copyable>(
    until deadline: UInt64, at call: BlockingCall, node makeNode: (Waiter) -> Node,
    attempt: (UnsafeMutablePointer<Node>) -> Attempt, withdraw: (UnsafeMutablePointer<Node>) -> Attempt,
    afterwards: (inout Node) -> Void = { _ in }
  ) -> WakeCause {
    let thread = BlockedThread(at: call)
    var node = makeNode(.thread(.passUnretained(thread)))
    let cause = withUnsafeMutablePointer(to: &node) { node in
      lock.lock()
      let result = attempt(node)
      guard case .wait = result else {
        lock.unlock()
        result.wakeOthers()
        return WakeCause.event
      }
      thread.parking.park()
      lock.unlock()
      let cause = thread.block(until: deadline)
      if cause != .event { leaveQueue { withdraw(node) } }
      return cause
    }
    afterwards(&node)
    return cause
  }
}
