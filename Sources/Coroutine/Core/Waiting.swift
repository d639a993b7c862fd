// SPDX-License-Identifier: Apache-2.0

public import CCoroutine
public import Context
import Synchronization

/// What an operation's attempt came to, under the lock of what it is done at.
@usableFromInline
package enum Attempt {
  /// It is over.
  case done
  /// It is over, and so is the wait of this waiter, which was claimed.
  case wake(Waiter)
  /// It is over, and so are the waits of these waiters, which were claimed.
  case wakeAll(ClaimedWaiters)
  /// Its node is in a queue.
  case wait

  /// Wakes the waiters that the attempt concerns. Not under the lock.
  @inlinable @inline(__always)
  package func wakeOthers() {
    switch self {
    case .done, .wait: break
    case .wake(let waiter): waiter.wake()
    case .wakeAll(let waiters): waiters.wakeAll()
    }
  }
}

/// One operation that may have to wait. The forms for a coroutine and for a task; a thread's is in BlockedThread.swift.
///
/// - `attempt` asks the state machine, under `lock`, and hands it a node that names the caller as the waiter to wake.
/// - `withdraw`, under `lock`, takes the node out if it is still in the queue: the wait ended otherwise. Others may go on then.
/// - `deadline` is in nanoseconds on the timers' clock: `WaitDeadline`.
/// - The result is `.event` if the attempt was over at once, or a waker claimed the wait.
extension Waitable {
  /// Suspends the calling coroutine, `core`, if it has to wait. `node` lies on its stack, and is passed as `&node`: one more
  /// function around the switch, such as the closure of withUnsafeMutablePointer, may be a mispredicted return.
  @inlinable @inline(__always)
  package final func wait<Node: ~Copyable>(
    _ core: CoroutineCore, _ operation: WaitReason.Operation, by node: UnsafeMutablePointer<Node>,
    until deadline: UInt64 = WaitDeadline.never,
    attempt: (UnsafeMutablePointer<Node>) -> Attempt, withdraw: (UnsafeMutablePointer<Node>) -> Attempt
  ) -> WakeCause {
    core.countOperation()
    guard lockUnlessCancelled(core) else { return .cancelled }
    let result = attempt(node)
    guard case .wait = result else {
      unlock(for: core)
      result.wakeOthers()
      return .event
    }
    return suspend(core, operation, until: deadline) { withdraw(node) }
  }

  /// The second half of it, for an operation that looks by itself whether it has to wait: behind `lockUnlessCancelled` it
  /// has put its node into the queue.
  @inlinable @inline(__always)
  package final func suspend(
    _ core: CoroutineCore, _ operation: WaitReason.Operation, until deadline: UInt64, withdraw: () -> Attempt
  ) -> WakeCause {
    guard deadline != WaitDeadline.now else {
      let result = withdraw()
      unlock(for: core)
      result.wakeOthers()
      return .timedOut
    }
    let cause = core.park(operation, at: self, until: deadline)
    if cause != .event { lockAndWithdraw(by: withdraw) }
    return cause
  }

  /// After a wait that ended otherwise than by a waker here.
  @inlinable @inline(__always)
  final func lockAndWithdraw(by withdraw: () -> Attempt) {
    lock.lock()
    let result = withdraw()
    lock.unlock()
    result.wakeOthers()
  }

  /// Takes the lock for an operation that may wait; false, and not locked, if the coroutine was cancelled.
  @inlinable @inline(__always)
  package final func lockUnlessCancelled(_ core: CoroutineCore) -> Bool {
    lock(for: core)
    return keepsLockUnlessCancelled(core)
  }

  /// The first half of `lockUnlessCancelled`: the second, `keepsLockUnlessCancelled`, looks for a cancel.
  @inlinable @inline(__always)
  package final func lock(for core: CoroutineCore) {
    core.parking.prepare()
    lock.lock()
  }

  /// The same if the lock is free; false, and not locked, if another thread has it.
  @inlinable @inline(__always)
  package final func tryLock(for core: CoroutineCore) -> Bool {
    core.parking.prepare()
    guard lock.tryLock() else {
      core.parking.abandon()
      return false
    }
    return true
  }

  /// The caller holds `lock`; false, and not locked any more, if the coroutine was cancelled.
  @inlinable @inline(__always)
  package final func keepsLockUnlessCancelled(_ core: CoroutineCore) -> Bool {
    !isHeldUp(core) || relocksUnlessCancelled(core)
  }

  /// Whether the operation can't simply go on. Then `keepsLockUnlessCancelled` decides. The caller holds `lock`.
  @inlinable @inline(__always)
  package final func isHeldUp(_ core: CoroutineCore) -> Bool {
    // Either a cancel sees the word that says "suspending", or this sees the cancel's flag.
    coroutine_store_load_barrier_after_locking()  // litmus: cancel
    return core.isHeldUp
  }

  /// The rest of `keepsLockUnlessCancelled` for a coroutine that is held up.
  @usableFromInline @inline(never)
  final func relocksUnlessCancelled(_ core: CoroutineCore) -> Bool {
    unlock(for: core)
    guard core.mayGoOn() else { return false }
    core.parking.prepare()
    lock.lock()
    coroutine_store_load_barrier_after_locking()
    guard core.isInterrupted else { return true }
    unlock(for: core)
    return false
  }

  /// Gives the lock back after an operation that did not wait.
  @inlinable @inline(__always)
  package final func unlock(for core: CoroutineCore) {
    core.parking.abandon()
    lock.unlock()
  }

  /// Suspends the calling task if it has to wait. A cancel of the task ends the wait. It does not leave the caller's isolation
  /// before it is in the queue: so waiters that share one are served in their order.
  @inlinable
  package final func wait(
    _ task: WaitingTask, until deadline: UInt64 = WaitDeadline.never, isolation: isolated (any Actor)? = #isolation,
    attempt: () -> Attempt, withdraw: () -> Attempt
  ) async -> WakeCause {
    // Why it is over without a wait; a cancel that comes meanwhile is too late.
    var decided: WakeCause?
    await withTaskCancellationHandler {
      _ = isolation  // captured, so that the closure runs there
      await withUnsafeContinuation { (continuation: UnsafeContinuation<Void, Never>) in
        task.continuation = continuation
        lock.lock()
        // Cancelled before: then the operation is not even begun.
        guard task.parking.isAwake else {
          lock.unlock()
          return continuation.resume()
        }
        let result = attempt()
        guard case .wait = result else {
          lock.unlock()
          decided = .event
          result.wakeOthers()
          return continuation.resume()
        }
        guard deadline != WaitDeadline.now else {
          let result = withdraw()
          lock.unlock()
          decided = .timedOut
          result.wakeOthers()
          return continuation.resume()
        }
        task.arm(deadline)
        guard task.parking.markParkedUnlessClaimed() else {
          lock.unlock()
          return continuation.resume()
        }
        lock.unlock()
      }
    } onCancel: {
      if task.parking.claimEarly(.cancelled).mustWake { task.resume() }
    }
    if let decided { return decided }
    task.disarm()
    let cause = task.cause
    if cause != .event { lockAndWithdraw(by: withdraw) }
    return cause
  }
}

/// `async` code that waits, once.
@usableFromInline
// Unchecked: `continuation` is written before the wait can be claimed, and read only by the waker that has claimed it.
package final class WaitingTask: @unchecked Sendable {
  @usableFromInline let parking = Parking()
  /// Orders what the waker did, after its claim too, before what the task does. The continuation does so as well, but
  /// in a library that ThreadSanitizer does not see into.
  private let wasResumed = Atomic<Bool>(false)
  @usableFromInline var continuation: UnsafeContinuation<Void, Never>?
  /// In memory that does not move; touched by the waiting task, and, while it is armed, by the timers.
  private var timer: UnsafeMutablePointer<TimerNode>?
  @inlinable
  init() {}

  deinit { timer?.deallocate() }

  /// Before the task parks: the time may be up before it does. The caller holds the lock of what is waited for.
  @usableFromInline
  func arm(_ deadline: UInt64) {
    guard deadline != WaitDeadline.never else { return }
    let timer = UnsafeMutablePointer<TimerNode>.allocate(capacity: 1)
    timer.initialize(to: TimerNode(.wait(TimedWait(.passUnretained(self))), deadline: deadline))
    self.timer = timer
    TimerService.shared.arm(timer)
  }

  @usableFromInline
  func disarm() {
    if let timer { TimerService.shared.disarm(timer) }
  }

  /// Why the wait ended. For the task, once it goes on.
  @usableFromInline
  var cause: WakeCause {
    _ = wasResumed.load(ordering: .acquiring)
    return parking.cause
  }

  /// Resumes the task. For the waker that has claimed its wait.
  @usableFromInline
  func resume() {
    guard let continuation else { fatalError("a task was woken before it waited") }
    wasResumed.store(true, ordering: .releasing)
    // It looks into the task's context, which the task may free as soon as it goes on.
    coroutine_sanitizer_begin_unseen()
    continuation.resume()
    coroutine_sanitizer_end_unseen()
  }
}
