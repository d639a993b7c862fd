// SPDX-License-Identifier: Apache-2.0

import CCoroutineSystem

/// One timer: when it is due, and its target.
///
/// Lies in raw memory that does not move while it is armed: on the waiter's stack, or in a `TimerTarget`. Arming links
/// it into the wheel, so that timers allocate nothing.
@usableFromInline
package struct TimerNode {
  /// Guarded by the queue's lock while armed; meaningless otherwise.
  var next: UnsafeMutablePointer<TimerNode>?
  var previous: UnsafeMutablePointer<TimerNode>?
  /// Where it is linked, or `TimerWheel.nowhere`: it is not armed. Guarded by the queue's lock.
  var slotIndex = TimerWheel.nowhere

  /// The service that stood for `shared` when it was armed there last; `nil`: none. Written when the owner arms it, and kept
  /// alive by what made that service.
  var elsewhere: Unmanaged<TimerService>?

  /// Nanoseconds on the clock of the service. Changed by the owner, only while the node is not armed.
  @usableFromInline package var deadline: UInt64
  /// What it fires at.
  @usableFromInline package let target: Target

  @usableFromInline
  package init(_ target: Target, deadline: UInt64) {
    self.target = target
    self.deadline = deadline
  }

  /// What a timer fires at when the time is up.
  @usableFromInline
  package enum Target {
    /// A waiter whose wait others may end too, so that the timer has to win it. The node lies in the waiter's frame,
    /// which does not go away before the node is disarmed, or the waiter has learned that the timer won.
    case wait(TimedWait)
    /// An object. The queue keeps it alive from `arm` until it has been called or disarmed.
    case object(Unmanaged<TimerTarget>)
  }
}

/// What waits until a time at the most, if nothing else ends its wait before: what timers have to know of it. Static, with
/// the address of the waiter: nothing is counted, since it may be gone as soon as its wait is claimed.
@usableFromInline
package protocol TimedWaiter: AnyObject {
  /// Whether it is leaving its stack right now: a claim would wait for that.
  static func isSuspending(_ waiter: UnsafeRawPointer) -> Bool
  /// Ends its wait, since the time is up. Whether the timer has to wake it: it was the first to.
  static func claimTimedOut(_ waiter: UnsafeRawPointer) -> Bool
  /// Wakes a waiter whose wait the timer has claimed. Not under a lock.
  static func wakeTimedOut(_ waiter: UnsafeRawPointer)
}

/// A waiter, as its timer knows it. Trivial to copy.
@usableFromInline
package struct TimedWait {
  private let address: UnsafeRawPointer
  private let type: any TimedWaiter.Type

  @inline(__always)
  package init<Object: TimedWaiter>(_ waiter: Unmanaged<Object>) {
    address = UnsafeRawPointer(waiter.toOpaque())
    type = Object.self
  }

  var isSuspending: Bool { type.isSuspending(address) }
  func claim() -> Bool { type.claimTimedOut(address) }
  func wake() { type.wakeTimedOut(address) }

  /// Lets the processor fetch the object, which need not be alive: nothing of it is read.
  @inline(__always)
  func prefetch() {
    for line in 0..<5 { coroutine_system_prefetch(address + 64 * line) }
  }
}

/// An object that is called when a time has come. `TimerService.arm(_:at:)` and `disarm(_:)` take it as it is.
///
/// The timers' thread may be the last to let go of it. So no reference to what is a user's, whose `deinit` could block, may be
/// left in it by then: whoever ends the object's use takes such references out.
@usableFromInline
package class TimerTarget {
  /// Not for other code: a holder of the pointer alone does not keep the object alive.
  final let node: UnsafeMutablePointer<TimerNode>

  @usableFromInline
  package init() {
    node = .allocate(capacity: 1)
    node.initialize(to: TimerNode(.object(.passUnretained(self)), deadline: .max))
  }

  deinit {
    // An armed node holds the object, so nothing is linked here any more.
    node.deallocate()
  }

  /// When it is due, or was. For its owner, which arms it.
  package final var deadline: UInt64 { node.pointee.deadline }

  /// The time has come. Called once for each `arm` that was not undone by `disarm`, on the timer thread: not under a lock,
  /// and all other timers wait meanwhile, so it must be brief. May arm the timer again.
  @usableFromInline
  package func timerFired() {
    fatalError("\(type(of: self)) was armed but does not say what happens then: override timerFired()")
  }
}
