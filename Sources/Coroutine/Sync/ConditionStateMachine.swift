// SPDX-License-Identifier: Apache-2.0

/// The waiters for a condition's signal. Pure: no lock, no switch.
///
/// A wait has two steps, since it begins while the mutex is still held, and a waiter can be woken only when it is
/// suspended. From the first step on it is in the queue, so that no signal is lost; a signal before the second step is
/// recorded in the node.
struct ConditionStateMachine {
  typealias Node = UnsafeMutablePointer<ConditionNode>

  private(set) var waiters = WaitQueue<ConditionNode>()

  /// First step: the holder of the mutex is about to wait.
  mutating func register(_ node: Node) {
    waiters.append(node)
  }

  /// Second step: the mutex is given back. `.done` if the signal has come already.
  mutating func arrive(_ node: Node) -> Attempt {
    node.pointee.hasArrived = true
    return node.pointee.isSignalled ? .done : .wait
  }

  /// Lets the longest waiter go on. Returns the waiter to wake; `nil` if that one has not arrived, or there is none.
  mutating func signal() -> Waiter? {
    while let node = waiters.first {
      guard node.pointee.hasArrived else {
        waiters.remove(node)
        node.pointee.isSignalled = true
        return nil
      }
      if waiters.claim(node) { return node.pointee.wait.waiter }
    }
    return nil
  }

  /// Lets all present waiters go on. Returns the waiters to wake.
  mutating func broadcast() -> ClaimedWaiters {
    var woken = ClaimedWaiters()
    while let node = waiters.first {
      if !node.pointee.hasArrived {
        waiters.remove(node)
        node.pointee.isSignalled = true
      } else if waiters.claim(node) {
        woken.append(node)
      }
    }
    return woken
  }

  /// A waiter gives up, for the first time or again. A signal that was recorded for it goes to the next one.
  mutating func withdraw(_ node: Node) -> Attempt {
    waiters.remove(node)
    guard node.pointee.isSignalled else { return .done }
    node.pointee.isSignalled = false
    return signal().map { .wake($0) } ?? .done
  }
}

/// A waiter for a signal. Guarded by the condition's lock.
struct ConditionNode: WaitingNode {
  var wait: WaitNode
  /// It is suspended, or will be when the lock is released.
  var hasArrived = false
  /// Its signal came before that.
  var isSignalled = false
}
