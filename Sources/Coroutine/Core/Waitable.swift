public import Context

/// What a coroutine can wait for: a channel, a promise, another coroutine's end. The storage of each primitive is one.
///
/// The order of one wait is the same everywhere, and the reason why nobody is ever resumed too early:
///
/// 1. take `lock`, ask the state machine;
/// 2. it says "wait": a node is in its queue now, but the lock is still held;
/// 3. the coroutine leaves its stack; its context is saved;
/// 4. *whoever resumed it* unlocks. From here on a waker finds the node, takes it out, and, after its own unlock, makes
///    the coroutine ready.
///
/// No coroutine is resumed and no user code runs while `lock` is held.
@usableFromInline
package class Waitable {
  /// Guards the state machine of the subclass.
  @usableFromInline package let lock = Lock()

  @usableFromInline
  package init() {}

  /// What a coroutine that waits here waits for, for people: one line. Called by debuggers without the lock, while the
  /// waiting coroutines can't run: must read nothing that the lock guards.
  package func describe(_ operation: WaitReason.Operation) -> String {
    "\(operation)"
  }
}

/// What a suspended coroutine waits for: two words, written by the coroutine itself before it leaves its stack.
@usableFromInline
package struct WaitReason: Sendable {
  /// What it does there.
  @usableFromInline
  package enum Operation: UInt8, Sendable {
    case send, receive, join, suspension, turn
  }

  @usableFromInline package let operation: Operation
  /// What it waits at: kept alive by the frames of the waiting coroutine. Nobody's for `.turn`.
  // Unmanaged: `WaitReason` is read by debuggers only while the coroutine, whose frames own the object, can't run.
  @usableFromInline package nonisolated(unsafe) let object: Unmanaged<Waitable>?

  @inlinable
  package init(_ operation: Operation, at object: Waitable?) {
    self.operation = operation
    self.object = object.map { .passUnretained($0) }
  }
}

/// One waiter's place in a queue: lies on the stack of the waiting coroutine, so that waiting allocates nothing.
@usableFromInline
package struct WaitNode {
  /// Guarded by the queue's lock.
  @usableFromInline package var next: UnsafeMutablePointer<WaitNode>?
  /// Whom to wake.
  @usableFromInline package let waiter: Waiter

  @inlinable
  package init(_ waiter: Waiter) {
    self.waiter = waiter
  }
}

/// Somebody who waits. Holds nothing alive: whoever waits is alive. Trivial to copy.
@usableFromInline
package enum Waiter {
  /// A coroutine that is suspended, or will be before the lock is released.
  case coroutine(Unmanaged<CoroutineCore>)
  /// `async` code.
  case task(UnsafeContinuation<Void, Never>)
  /// A thread that blocks.
  case thread(Unmanaged<BlockedThread>)

  /// Lets the waiter go on. Not under a lock. Once for each wait.
  @inlinable
  package func wake() {
    switch self {
    case .coroutine(let core): CoroutineCore.wake(core)
    case .task(let continuation): continuation.resume()
    case .thread(let thread): thread._withUnsafeGuaranteedRef { $0.unblock() }
    }
  }
}

/// Waiters in the order in which they came: a singly linked list over their own nodes. Guarded by its owner's lock.
@usableFromInline
package struct WaitQueue {
  @usableFromInline var first: UnsafeMutablePointer<WaitNode>?
  @usableFromInline var last: UnsafeMutablePointer<WaitNode>?

  @inlinable
  package init() {}

  @inlinable
  package var isEmpty: Bool { first == nil }

  /// Appends a waiter. Constant time.
  @inlinable
  package mutating func append(_ node: UnsafeMutablePointer<WaitNode>) {
    node.pointee.next = nil
    if let last { last.pointee.next = node } else { first = node }
    last = node
  }

  /// Takes out the waiter that came first. Constant time.
  @inlinable
  package mutating func popFirst() -> UnsafeMutablePointer<WaitNode>? {
    guard let node = first else { return nil }
    first = node.pointee.next
    if first == nil { last = nil }
    return node
  }

  /// Wakes everybody, in the order in which they came. Not under the lock: the caller took the queue out of its owner.
  @inlinable
  package consuming func wakeAll() {
    while let node = popFirst() {
      // A woken waiter takes its node with it: read before.
      node.pointee.waiter.wake()
    }
  }
}
