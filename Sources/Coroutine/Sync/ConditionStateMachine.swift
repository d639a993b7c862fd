/// Who waits for a condition's signal. Pure: no lock, no switch.
///
/// A wait has two steps, since it begins while the mutex is still held, and a waiter can be woken only when it is
/// suspended. From the first step on it is in the queue, so that no signal is lost; one that comes before the second is
/// noted in the node.
struct ConditionStateMachine {
  typealias Node = UnsafeMutablePointer<ConditionNode>

  private(set) var waiters = WaitQueue()

  /// First step: somebody who holds the mutex is about to wait.
  mutating func register(_ node: Node) {
    waiters.append(Self.place(node))
  }

  /// Second step: the mutex is given back. Over if the signal has come already.
  mutating func arrive(_ node: Node) -> Attempt {
    node.pointee.hasArrived = true
    return node.pointee.isSignalled ? .done : .wait
  }

  /// Lets go on whoever waits longest. Returns whom to wake; nobody if that one has not arrived, or nobody waits.
  mutating func signal() -> Waiter? {
    while let first = waiters.first {
      waiters.remove(first)
      let node = UnsafeMutableRawPointer(first).assumingMemoryBound(to: ConditionNode.self)
      guard node.pointee.hasArrived else {
        node.pointee.isSignalled = true
        return nil
      }
      if first.pointee.waiter.claim(first.pointee.cause) { return first.pointee.waiter }
    }
    return nil
  }

  /// Lets all go on that wait now. Returns whom to wake.
  mutating func broadcast() -> ClaimedWaiters {
    var woken = ClaimedWaiters()
    while let first = waiters.first {
      waiters.remove(first)
      let node = UnsafeMutableRawPointer(first).assumingMemoryBound(to: ConditionNode.self)
      if !node.pointee.hasArrived {
        node.pointee.isSignalled = true
      } else if first.pointee.waiter.claim(first.pointee.cause) {
        woken.append(first)
      }
    }
    return woken
  }

  /// Somebody gives up, for the first time or again. A signal that was noted for it goes to the next one.
  mutating func withdraw(_ node: Node) -> Attempt {
    waiters.remove(Self.place(node))
    guard node.pointee.isSignalled else { return .done }
    node.pointee.isSignalled = false
    return signal().map { .wake($0) } ?? .done
  }

  private static func place(_ node: Node) -> UnsafeMutablePointer<WaitNode> {
    UnsafeMutableRawPointer(node).assumingMemoryBound(to: WaitNode.self)
  }
}

/// Somebody who waits for a signal. Guarded by the condition's lock.
struct ConditionNode {
  /// First, so that a node's address is also its place's.
  var wait: WaitNode
  /// It is suspended, or will be when the lock is released.
  var hasArrived = false
  /// Its signal came before that.
  var isSignalled = false
}
