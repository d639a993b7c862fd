// SPDX-License-Identifier: Apache-2.0

import Context
import Synchronization

/// A plain thread that waits for something of the runtime's, once.
@usableFromInline
package final class BlockedThread: Sendable {
  /// The word by which a waker claims the wait.
  @usableFromInline let parking = Parking()
  private let semaphore = ThreadSemaphore()
  /// 1: a waker has claimed the wait, and what it did, after its claim too, comes before what the thread does. The futex that
  /// the main thread sleeps on.
  private let wasUnblocked = Atomic<UInt32>(0)

  private let call: BlockingCall
  /// Then it sleeps on `wasUnblocked` first.
  private let isMainThread: Bool

  @usableFromInline
  init(at call: BlockingCall) {
    self.call = call
    isMainThread = call.isOnMainQueue
  }

  /// Waits until a waker has claimed the wait and unblocks the thread, or until the deadline, if no waker has by then. In a
  /// test with a virtual time it waits for as long by the kernel's clock: a thread can only sleep by that.
  @usableFromInline
  func block(until deadline: UInt64) -> WakeCause {
    if deadline != WaitDeadline.now { call.warnIfThreadIsCooperative() }
    if deadline == WaitDeadline.never {
      if Fork.isAlone, wasUnblocked.load(ordering: .relaxed) == 0 { Fork.reportNoOtherThread() }
      if isMainThread { waitOnMainThread() }
      semaphore.wait()
    } else if !semaphore.wait(until: TimerService.shared.kernelTime(of: deadline)), !parking.claim(.timedOut) {
      semaphore.wait()
    }
    _ = wasUnblocked.load(ordering: .acquiring)
    return parking.cause
  }

  /// Waits, and looks again and again, ever less often, whether others wait for the main thread: they may begin to at any time.
  /// Once that is reported it looks no more.
  ///
  /// Not on the semaphore: a detector of deadlocks has to see that the end of these waits makes nothing happen.
  private func waitOnMainThread() {
    call.requireAnotherThread()
    var pause = Duration.seconds(1)
    while wasUnblocked.load(ordering: .acquiring) == 0 {
      if Futex.wait(on: wasUnblocked, while: 0, for: pause) { continue }
      if call.warnIfMainQueueWaits() { return }
      pause = min(pause * 2, .seconds(32))
    }
  }

  /// For the waker that has claimed its wait.
  @usableFromInline
  func unblock() {
    wasUnblocked.store(1, ordering: .releasing)
    if isMainThread { Futex.wake(1, on: wasUnblocked) }
    // The last access: then the thread may go on, and this be gone.
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
      thread.parking.markParked()
      lock.unlock()
      let cause = thread.block(until: deadline)
      if cause != .event { lockAndWithdraw { withdraw(node) } }
      return cause
    }
    afterwards(&node)
    return cause
  }
}
