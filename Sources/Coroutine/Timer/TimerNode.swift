/// One timer: when it is due, and who is told.
///
/// Lies in raw memory that does not move while it is armed: on the stack of whoever waits, or in a `TimerTarget`. Arming
/// links it into the wheel, so that timers allocate nothing.
@usableFromInline
package struct TimerNode {
  /// Guarded by the queue's lock while armed; meaningless otherwise.
  var next: UnsafeMutablePointer<TimerNode>?
  var previous: UnsafeMutablePointer<TimerNode>?
  /// Where it is linked, or `TimerWheel.nowhere`: it is not armed. Guarded by the queue's lock.
  var place = TimerWheel.nowhere

  /// Nanoseconds on the clock of the service. Changed by the owner, only while the node is not armed.
  @usableFromInline package var deadline: UInt64
  /// Who is told.
  @usableFromInline package let target: Target

  @usableFromInline
  package init(_ target: Target, deadline: UInt64) {
    self.target = target
    self.deadline = deadline
  }

  /// Who is told that the time is up.
  @usableFromInline
  package enum Target {
    /// Somebody in a wait that others may end too, so that it has to be won. The node lies in the waiter's frame, which
    /// does not go away before the node is disarmed, or the waiter has learned that the timer won.
    case waiter(Waiter)
    /// An object, kept alive by the queue from `arm` until it has been told or disarmed.
    case object(Unmanaged<TimerTarget>)
  }
}

/// An object that is told when a time has come. `TimerService.arm(_:at:)` and `disarm(_:)` take it as it is.
@usableFromInline
package class TimerTarget {
  /// Not for others: whoever has nothing but the pointer does not keep the object alive.
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

  /// When it is to be told, or was. For whoever arms it.
  package final var deadline: UInt64 { node.pointee.deadline }

  /// The time has come. Called once for each `arm` that was not undone by `disarm`, on the timer thread: not under a lock,
  /// and all other timers wait meanwhile, so it must be brief. May arm the timer again.
  @usableFromInline
  package func timerFired() {
    fatalError("\(type(of: self)) was armed but does not say what happens then: override timerFired()")
  }
}
