// SPDX-License-Identifier: Apache-2.0

/// One waiter's place in a queue: lies on the stack of the waiting coroutine, so that waiting allocates nothing.
///
/// Guarded by the queue's lock from the moment it is appended until it is out of the queue and its wait was claimed. It
/// stays where it is until the waiter goes on.
@usableFromInline
package struct WaitNode {
  @usableFromInline package var next: UnsafeMutablePointer<WaitNode>?
  @usableFromInline package var previous: UnsafeMutablePointer<WaitNode>?
  /// Whether it is in the queue.
  @usableFromInline package var isQueued = false
  /// What the wait ends with if it ends here.
  @usableFromInline package let cause: WakeCause
  /// The waiter to wake.
  @usableFromInline package let waiter: Waiter

  @inlinable
  package init(_ waiter: Waiter, cause: WakeCause = .event) {
    self.waiter = waiter
    self.cause = cause
  }
}

/// What a primitive puts into its queue: a place in the queue, and what the waiter hands over or wants.
///
/// `wait` is the first stored property, so that a node has the address of its wait node.
@usableFromInline
package protocol WaitingNode: ~Copyable {
  var wait: WaitNode { get }
}

extension WaitNode: WaitingNode {
  @inlinable package var wait: WaitNode { self }
}

extension UnsafeMutablePointer where Pointee: WaitingNode & ~Copyable {
  /// What of the node lies in the queue.
  @inlinable @inline(__always)
  package var waitNode: UnsafeMutablePointer<WaitNode> {
    UnsafeMutableRawPointer(self).assumingMemoryBound(to: WaitNode.self)
  }

  /// The node that has this wait node.
  @inlinable @inline(__always)
  package init(at waitNode: UnsafeMutablePointer<WaitNode>) {
    self = UnsafeMutableRawPointer(waitNode).assumingMemoryBound(to: Pointee.self)
  }
}

/// A waiter. Holds nothing alive: what waits is alive. Trivial to copy.
@usableFromInline
package enum Waiter {
  /// A coroutine that is suspended, or will be before a claim succeeds.
  case coroutine(Unmanaged<CoroutineCore>)
  /// `async` code.
  case task(Unmanaged<WaitingTask>)
  /// A thread that blocks.
  case thread(Unmanaged<BlockedThread>)
  /// An object that is called: nothing stands still for it.
  case listener(Unmanaged<WaitListener>)

  /// Ends the wait. Whether the caller has to call `wake()`, once it holds no lock: it was the first.
  @inlinable @inline(__always)
  package func claim(_ cause: WakeCause) -> Bool {
    switch self {
    case .coroutine(let core): core._withUnsafeGuaranteedRef { $0.parking.claim(cause) }
    // A task's deadline runs before the task is parked.
    case .task(let task): task._withUnsafeGuaranteedRef { $0.parking.claimEarly(cause).mustWake }
    case .thread(let thread): thread._withUnsafeGuaranteedRef { $0.parking.claim(cause) }
    // It is in one queue, once: the waker that takes it out is the first.
    case .listener: true
    }
  }

  /// Wakes the waiter, whose wait the caller has claimed. Not under a lock.
  @inlinable
  package func wake() {
    switch self {
    case .coroutine(let core): CoroutineCore.wake(core)
    case .task(let task): task._withUnsafeGuaranteedRef { $0.resume() }
    case .thread(let thread): thread._withUnsafeGuaranteedRef { $0.unblock() }
    case .listener(let listener): listener.takeRetainedValue().notify()
    }
  }

  /// Wakes it; but a coroutine of `scheduler`, the caller, is returned instead: the caller runs it at once, past its queue.
  @usableFromInline
  package func wakeOrTake(for scheduler: any Scheduler) -> CoroutineJob? {
    guard case .coroutine(let core) = self else {
      wake()
      return nil
    }
    return CoroutineCore.wakeOrTake(core, for: scheduler)
  }

  /// The same for one that has waited for a coroutine's end.
  func wakeJoiner() {
    if case .coroutine(let core) = self { CoroutineCore.wakeJoiner(core) } else { wake() }
  }
}

/// Waiters in the order in which they came, each with what it hands over or wants. Guarded by its owner's lock.
///
/// A waiter in it may have *given up*, claimed by a cancel or by a deadline, and not yet have *withdrawn*: hence `popClaimed`,
/// and hence a queue that is not empty may have no waiter to wake. It withdraws, and so takes its node out, when it has its
/// turn, which may be late: see `firstWaiting`.
@usableFromInline
package struct WaitQueue<Node: WaitingNode & ~Copyable> {
  @usableFromInline var list = WaitList()

  @inlinable
  package init() {}

  @inlinable @inline(__always)
  package var isEmpty: Bool { list.first == nil }
  /// How many are in the queue. Those that have given up but not yet withdrawn count, too.
  @inlinable @inline(__always)
  package var count: Int { list.count }
  /// The waiter that came first.
  @inlinable @inline(__always)
  package var first: UnsafeMutablePointer<Node>? { list.first.map { UnsafeMutablePointer(at: $0) } }

  /// Appends a waiter. Constant time.
  @inlinable @inline(__always)
  package mutating func append(_ node: UnsafeMutablePointer<Node>) { list.append(node.waitNode) }

  /// Takes out a waiter that withdraws, unless it is out already. Constant time.
  ///
  /// - Returns: whether it was in the queue.
  @inlinable @inline(__always) @discardableResult
  package mutating func remove(_ node: UnsafeMutablePointer<Node>) -> Bool { list.remove(node.waitNode) }

  /// Takes out the waiter that came first among those whose wait has not ended, and ends its wait: it is to be woken.
  @inlinable @inline(__always)
  package mutating func popClaimed() -> UnsafeMutablePointer<Node>? {
    guard let waitNode = list.popClaimed() else { return nil }
    return UnsafeMutablePointer(at: waitNode)
  }

  /// Takes a waiter out, and ends its wait: it is to be woken. False if the wait had ended otherwise.
  @inlinable @inline(__always)
  package mutating func claim(_ node: UnsafeMutablePointer<Node>) -> Bool {
    list.remove(node.waitNode)
    return node.pointee.wait.waiter.claim(node.pointee.wait.cause)
  }

  /// Ends all waits. Returns the waiters to wake, in their order; the queue is empty afterwards.
  @inlinable @inline(__always)
  package mutating func claimAll() -> ClaimedWaiters { list.claimAll() }
}

/// A queue's doubly linked list, over the waiters' own nodes.
@usableFromInline
package struct WaitList {
  @usableFromInline var first: UnsafeMutablePointer<WaitNode>?
  @usableFromInline var last: UnsafeMutablePointer<WaitNode>?
  /// How many are in the queue. Those that have given up but not yet withdrawn count, too. A plain word, which debuggers may
  /// read without the lock.
  @usableFromInline package var count = 0

  @inlinable
  package init() {}

  @inlinable
  package var isEmpty: Bool { first == nil }

  /// Appends a waiter. Constant time.
  @inlinable
  package mutating func append(_ node: UnsafeMutablePointer<WaitNode>) {
    node.pointee.next = nil
    node.pointee.previous = last
    node.pointee.isQueued = true
    if let last { last.pointee.next = node } else { first = node }
    last = node
    count &+= 1
  }

  /// Takes out a waiter that withdraws, unless it is out already. Constant time.
  ///
  /// - Returns: whether it was in the queue.
  @inlinable @discardableResult
  package mutating func remove(_ node: UnsafeMutablePointer<WaitNode>) -> Bool {
    guard node.pointee.isQueued else { return false }
    node.pointee.isQueued = false
    count &-= 1
    let (next, previous) = (node.pointee.next, node.pointee.previous)
    if let previous { previous.pointee.next = next } else { first = next }
    if let next { next.pointee.previous = previous } else { last = previous }
    return true
  }

  /// Takes out the waiter that came first among those whose wait has not ended, and ends its wait: it is to be woken.
  @inlinable @inline(__always)
  package mutating func popClaimed() -> UnsafeMutablePointer<WaitNode>? {
    guard let node = first else { return nil }
    removeFirst(node)
    // Nearly always it is a coroutine that waits. All else is a call.
    if case .coroutine(let core) = node.pointee.waiter,
      core._withUnsafeGuaranteedRef({ $0.parking.claimParked(node.pointee.cause) })
    {
      return node
    }
    return claimOrPopClaimed(node)
  }

  /// The same, where `node` is out of the queue and may be the first.
  @inlinable @inline(never)
  mutating func claimOrPopClaimed(_ node: UnsafeMutablePointer<WaitNode>) -> UnsafeMutablePointer<WaitNode>? {
    var node = node
    while !node.pointee.waiter.claim(node.pointee.cause) {
      guard let next = first else { return nil }
      removeFirst(next)
      node = next
    }
    return node
  }

  @inlinable @inline(__always)
  mutating func removeFirst(_ node: UnsafeMutablePointer<WaitNode>) {
    first = node.pointee.next
    if let first { first.pointee.previous = nil } else { last = nil }
    node.pointee.isQueued = false
    count &-= 1
  }

  /// Ends all waits. Returns the waiters to wake, in their order; the queue is empty afterwards.
  @inlinable @inline(__always)
  package mutating func claimAll() -> ClaimedWaiters {
    isEmpty ? ClaimedWaiters() : claimEach()
  }

  @inlinable @inline(never)
  mutating func claimEach() -> ClaimedWaiters {
    var claimed = ClaimedWaiters()
    while let node = popClaimed() { claimed.append(node) }
    return claimed
  }
}

/// Waiters whose waits have ended, and which are still to be woken: linked through their nodes, which stay valid until
/// then. Belongs to the waker that claimed them.
@usableFromInline
package struct ClaimedWaiters {
  @usableFromInline var first: UnsafeMutablePointer<WaitNode>?
  @usableFromInline var last: UnsafeMutablePointer<WaitNode>?

  @inlinable
  package init() {}

  @inlinable
  package var isEmpty: Bool { first == nil }

  /// Whether any of them is suspended or blocked. If not, all are listeners.
  var haveWaiter: Bool {
    var node = first
    while let current = node {
      guard case .listener = current.pointee.waiter else { return true }
      node = current.pointee.next
    }
    return false
  }

  @inlinable @inline(__always)
  package mutating func append<Node: WaitingNode & ~Copyable>(_ node: UnsafeMutablePointer<Node>) {
    append(node.waitNode)
  }

  @inlinable
  mutating func append(_ node: UnsafeMutablePointer<WaitNode>) {
    node.pointee.next = nil
    if let last { last.pointee.next = node } else { first = node }
    last = node
  }

  /// Wakes them, in their order. Not under a lock.
  @inlinable
  package consuming func wakeAll() { wakeAll { $0.wake() } }

  @inlinable @inline(__always)
  consuming func wakeAll(by wake: (Waiter) -> Void) {
    var node = first
    while let current = node {
      // A woken waiter takes its node with it: read before.
      node = current.pointee.next
      wake(current.pointee.waiter)
    }
  }
}
