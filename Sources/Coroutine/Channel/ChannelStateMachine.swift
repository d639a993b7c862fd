/// One party of a rendezvous, on its own stack: a place in the queue, and the element, before or after it was handed over.
@usableFromInline
struct ChannelNode<Element> {
  /// First, so that a node's address is also its place's.
  @usableFromInline var place: WaitNode
  /// A sender's element until it is taken; a receiver's once it has come. Guarded by the channel's lock while it waits.
  @usableFromInline var element: Element?

  @inlinable
  init(_ waiter: Waiter, element: Element?) {
    place = WaitNode(waiter)
    self.element = element
  }
}

/// Who waits at a rendezvous. Pure: no lock, no switch.
///
/// Invariant: never do senders and receivers wait at the same time, and nobody waits at a closed channel.
@usableFromInline
struct ChannelStateMachine<Element> {
  @usableFromInline typealias Node = UnsafeMutablePointer<ChannelNode<Element>>

  @usableFromInline var senders = WaitQueue()
  @usableFromInline var receivers = WaitQueue()
  @usableFromInline var isClosed = false

  @inlinable
  init() {}

  /// Somebody sends what is in `node`. Over with the element still there: the channel is closed.
  @inlinable
  mutating func send(_ node: Node) -> Attempt {
    if isClosed { return .done }
    guard let receiver = receivers.popClaimed() else {
      senders.append(Self.place(node))
      return .wait
    }
    Self.node(receiver).pointee.element = node.pointee.element.take()
    return .wake(receiver.pointee.waiter)
  }

  /// Somebody receives into `node`. Over with nothing there: the channel is closed.
  @inlinable
  mutating func receive(_ node: Node) -> Attempt {
    if let sender = senders.popClaimed() {
      node.pointee.element = Self.node(sender).pointee.element.take()
      return .wake(sender.pointee.waiter)
    }
    if isClosed { return .done }
    receivers.append(Self.place(node))
    return .wait
  }

  /// No more elements. Returns those whose wait is over: the senders keep their elements.
  @inlinable
  mutating func close() -> (senders: ClaimedWaiters, receivers: ClaimedWaiters) {
    isClosed = true
    return (senders.claimAll(), receivers.claimAll())
  }

  /// A sender gives up.
  @inlinable
  mutating func withdrawSender(_ node: Node) -> Attempt {
    senders.remove(Self.place(node))
    return .done
  }

  /// A receiver gives up.
  @inlinable
  mutating func withdrawReceiver(_ node: Node) -> Attempt {
    receivers.remove(Self.place(node))
    return .done
  }

  /// Whether the invariant holds; for tests.
  func checkInvariants() -> Bool {
    (senders.isEmpty || receivers.isEmpty) && (!isClosed || (senders.isEmpty && receivers.isEmpty))
  }

  @inlinable @inline(__always)
  static func place(_ node: Node) -> UnsafeMutablePointer<WaitNode> {
    UnsafeMutableRawPointer(node).assumingMemoryBound(to: WaitNode.self)
  }

  @inlinable @inline(__always)
  static func node(_ place: UnsafeMutablePointer<WaitNode>) -> Node {
    UnsafeMutableRawPointer(place).assumingMemoryBound(to: ChannelNode<Element>.self)
  }
}
