// SPDX-License-Identifier: Apache-2.0

import Context
import CoroutineLibc

/// The armed timers, for all threads: the wheel and its lock. Knows neither a clock nor a thread: its driver says what
/// time it is.
///
/// What makes a timer on a waiter's stack safe:
///
/// 1. Nodes are worked on under the lock only, and a waiter disarms under the lock before its frame goes away. So whatever
///    is linked is alive.
/// 2. When a timer is due, its node is taken out, what it says is copied, and the wait is claimed: all under the lock. The
///    claim is the last access to the node. So a waiter that sees `.timedOut` need not disarm; one whose wait ended
///    otherwise disarms, and waits for the lock to do so.
/// 3. The waiters won are woken after the unlock. They stay suspended until then, since no other waker may wake them.
///
/// A coroutine arms its timer after `Parking.prepare`: an awake one can't be claimed, and its deadline would be lost. A task
/// may arm while awake: its timer claims by `claimEarly`. Arm where the state machine has said "wait", so that an operation
/// that need not wait arms nothing. The lock of what is waited for is held there, so it comes before this one, and nothing
/// under this one may wait for a suspension, which may need that lock.
// Unchecked: the lock guards the wheel and the driver's promise.
final class TimerQueue: @unchecked Sendable {
  private let lock = Lock()
  // Guarded by the lock, both. Unchecked: its critical sections nest nothing.
  @exclusivity(unchecked) private var wheel = TimerWheel()
  /// When the driver will next look without being rung: 0 while it is about to, or busy with it.
  @exclusivity(unchecked) private var nextLook = UInt64.max

  init() {}

  /// For the queue of the process: its timers are in a child as they were, though no thread drives them there.
  func keepWholeInChildren() { lock.keepFreeInChildren() }

  /// How many timers one critical section may touch: some microseconds, since each may be a cache miss. Their targets take
  /// less than 1 KiB: above that Swift takes temporary memory from the heap.
  private static var effort: Int { 40 }

  /// Arms a timer that is not armed. Constant time.
  ///
  /// - Returns: whether the caller must ring the driver, which then looks at once: it would look too late by itself.
  func arm(_ node: UnsafeMutablePointer<TimerNode>) -> Bool {  // litmus: timer-armed, timer-ring
    // An object may lose its last owner while its timer is being fired: the queue's own reference keeps that apart.
    if case .object(let target) = node.pointee.target { _ = target.retain() }
    lock.lock()
    wheel.insert(node)
    let isEarlier = node.pointee.deadline < nextLook
    if isEarlier { nextLook = 0 }
    lock.unlock()
    return isEarlier
  }

  /// Disarms a timer. Constant time.
  ///
  /// - Returns: whether it was still armed: then it does not fire. Otherwise it has fired, or is about to on another
  ///   thread; in any case its memory is not touched any more.
  func disarm(_ node: UnsafeMutablePointer<TimerNode>) -> Bool {
    let target = node.pointee.target
    lock.lock()
    let wasArmed = wheel.remove(node)
    lock.unlock()
    if wasArmed, case .object(let target) = target { target.release() }
    return wasArmed
  }

  /// Fires all timers whose time has come by `now`. Only one thread at a time.
  ///
  /// - Returns: when to call again, unless `arm` asks for it earlier; `nil`: nothing is armed. It may be before the
  ///   earliest deadline, if timers were disarmed; then nothing will fire, and the next answer is a better one.
  func fireExpired(at now: UInt64) -> UInt64? {  // litmus: timer-ring
    withUnsafeTemporaryAllocation(of: TimerNode.Target.self, capacity: Self.effort) { fired in
      while true {
        var count = 0
        lock.lock()
        let progress = takeExpired(at: now, into: fired, &count)
        let next = wheel.nextDeadline
        nextLook = progress == .upToDate ? next ?? .max : 0
        lock.unlock()
        for index in 0..<count { fired[index].notify() }
        switch progress {
        case .upToDate: return next
        case .unfinished: break
        // A coroutine that suspends has a few instructions to go, unless its thread was preempted: then it needs the processor.
        case .suspending: if count == 0 { sched_yield() }
        }
      }
    }
  }

  private enum Progress { case upToDate, unfinished, suspending }

  /// Takes out a batch of targets to fire at. The caller holds `lock`.
  private func takeExpired(  // litmus: timer-armed
    at now: UInt64, into fired: UnsafeMutableBufferPointer<TimerNode.Target>, _ count: inout Int
  ) -> Progress {
    var effort = Self.effort
    // Linked by `next`, which is theirs to use while they are in no slot.
    var suspending: UnsafeMutablePointer<TimerNode>?
    advancing: while true {
      switch wheel.advance(to: now, effort: &effort) {
      case .expired(let node):
        let target = node.pointee.target
        if target.isSuspending {
          node.pointee.next = suspending
          suspending = node
        } else if target.claim() {
          fired.initializeElement(at: count, to: target)
          count += 1
        }
      case .unfinished: break advancing
      case .upToDate:
        if suspending == nil { return .upToDate }
        break advancing
      }
    }
    // Back to where they are found at the next try, and by their waiters.
    guard suspending != nil else { return .unfinished }
    while let node = suspending {
      suspending = node.pointee.next
      wheel.insert(node)
    }
    return .suspending
  }

  /// No timer is due before; `nil`: none is armed. As exact as the wheel's.
  var nextDeadline: UInt64? { lock.withLock { wheel.nextDeadline } }

  /// How many timers are armed.
  var count: Int { lock.withLock { wheel.count } }
}

extension TimerNode.Target {
  /// Whether a waiter is leaving its stack right now: a claim would wait for that.
  fileprivate var isSuspending: Bool {
    guard case .wait(let wait) = self else { return false }
    return wait.isSuspending
  }

  /// Whether the timer has to fire. If not, the timer's owner may be gone after this. The caller holds `lock`.
  fileprivate func claim() -> Bool {
    switch self {
    case .wait(let wait): wait.claim()
    case .object: true
    }
  }

  /// After the unlock.
  fileprivate func notify() {
    switch self {
    case .wait(let wait): wait.wake()
    case .object(let target): target.takeRetainedValue().timerFired()
    }
  }
}
