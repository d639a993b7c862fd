// SPDX-License-Identifier: Apache-2.0

/// A channel's elements and its waiters. Pure: no lock, no switch.
///
/// Invariants:
/// - Receivers wait only where the buffer is empty, senders only where it is full. So both never wait at once. The
///   exception is one select that does both, alone at a rendezvous. And an element that was sent before another is
///   received before it.
/// - A closed channel has no waiters.
/// - The buffer has no more elements than the capacity: none for a rendezvous, one at a conflated channel.
///
/// A queue may also have waiters whose wait was ended otherwise and that have not withdrawn yet. `popClaimed` skips them,
/// and "wait" above means the others.
@usableFromInline
struct ChannelStateMachine<Element: ~Copyable>: ~Copyable {
  @usableFromInline typealias Node = UnsafeMutablePointer<ChannelNode<Element>>

  @usableFromInline private(set) var isClosed = false
  /// Whether an element that finds the buffer full takes the place of the oldest one that is there.
  @usableFromInline let isConflated: Bool
  /// How many elements the buffer may have.
  @usableFromInline let limit: Int
  @usableFromInline private(set) var buffer = ElementRing<Element>()
  @usableFromInline private(set) var receivers = WaitQueue<ChannelNode<Element>>()
  @usableFromInline private(set) var senders = WaitQueue<ChannelNode<Element>>()

  @inlinable
  init(capacity: ChannelCapacity = .rendezvous) {
    switch capacity {
    case .rendezvous: (limit, isConflated) = (0, false)
    case .buffered(let count): (limit, isConflated) = (count, false)
    case .unbounded: (limit, isConflated) = (.max, false)
    case .conflated: (limit, isConflated) = (1, true)
    case .newest(let count): (limit, isConflated) = (count, true)
    }
  }
}

// MARK: - What can be done at once

extension ChannelStateMachine where Element: ~Copyable {
  /// The outcome for an element that a sender offers without waiting.
  @usableFromInline
  enum SendAttempt {
    /// It is in the buffer.
    case buffered
    /// A receiver has it, and its wait was claimed.
    case handed(Waiter)
    /// It is in the buffer; the caller's variable now has the older element that it replaced.
    case replaced
    /// Nothing: the channel is closed.
    case closed
    /// Nothing: the sender would have to wait.
    case full
  }

  /// A sender offers an element, and keeps it if the channel does not take it now.
  @inlinable @inline(__always)
  mutating func sendNow(_ element: inout Element?) -> SendAttempt {
    if isClosed { return .closed }
    if !receivers.isEmpty, let receiver = receivers.popClaimed() {
      receiver.pointee.element = element.take()
      return .handed(receiver.pointee.wait.waiter)
    }
    if buffer.count < limit {
      buffer.append(element.take()!)
      return .buffered
    }
    if isConflated {
      replaceOldest(&element)
      return .replaced
    }
    return .full
  }

  @inlinable @inline(never)
  mutating func replaceOldest(_ element: inout Element?) {
    let oldest = buffer.removeFirst()
    buffer.append(element.take()!)
    element = consume oldest
  }

  /// The outcome of a receive that does not wait.
  @usableFromInline
  enum ReceiveAttempt {
    /// An element.
    case received
    /// An element. A waiting sender's element went into the buffer, and its wait was claimed.
    case admitted(Waiter)
    /// Nothing: the channel is closed.
    case closed
    /// Nothing: the receiver would have to wait.
    case empty
  }

  /// A receiver takes an element, if there is one. `element` is `nil` before.
  @inlinable @inline(__always)
  mutating func receiveNow(_ element: inout Element?) -> ReceiveAttempt {
    if buffer.count > 0 {
      element = buffer.removeFirst()
      // There is room now: the sender that has waited longest puts its element behind the others.
      guard !senders.isEmpty, let sender = senders.popClaimed() else { return .received }
      buffer.append(sender.pointee.element.take()!)
      return .admitted(sender.pointee.wait.waiter)
    }
    if !senders.isEmpty, let sender = senders.popClaimed() {
      element = sender.pointee.element.take()
      return .admitted(sender.pointee.wait.waiter)
    }
    return isClosed ? .closed : .empty
  }
}

// MARK: - What the buffer alone can do

// The most frequent cases of the above: a few loads and stores, so that a call would cost more than they do.
extension ChannelStateMachine where Element: ~Copyable {
  /// Takes the first element, if there is one, no sender waits for the room that it leaves, and the ring keeps its
  /// memory.
  @inlinable @inline(__always)
  mutating func takeBuffered() -> Element? {
    guard buffer.count > 0, senders.isEmpty, !buffer.isReleasedByNext, !buffer.countsAtRemoval else { return nil }
    return buffer.removeNext()
  }

  /// Whether a send, or a receive, is about to use a counted slot of the buffer: see `OperationBudget`. A send to a waiting
  /// receiver uses no slot. So it must not count: the next slot stays the same, and each such send would.
  @inlinable @inline(__always)
  var countsSend: Bool { buffer.countsAtAppend && buffer.count < limit && receivers.isEmpty }
  @inlinable @inline(__always)
  var countsReceive: Bool { buffer.countsAtRemoval && buffer.count > 0 }
}

extension ChannelStateMachine {
  /// Puts an element into the buffer, if the ring has room without growing, and no receiver waits. Returns whether it
  /// did.
  @inlinable @inline(__always)
  mutating func appendBuffered(_ element: Element) -> Bool {
    guard !isClosed, receivers.isEmpty, buffer.count < limit, buffer.hasRoom, !buffer.countsAtAppend else {
      return false
    }
    buffer.appendIntoRoom(element)
    return true
  }
}

// MARK: - Several at once

extension ChannelStateMachine {
  /// A receiver takes elements, until `elements` has `limit`. Appends the senders to wake to `admitted`.
  ///
  /// The waiting senders are let in one by one, at the end, as by single receives.
  @inlinable
  mutating func receive(into elements: inout [Element], upTo limit: Int, _ admitted: inout ClaimedWaiters) {
    while elements.count < limit {
      if buffer.count > 0 {
        elements.append(buffer.removeFirst())
        guard !senders.isEmpty, let sender = senders.popClaimed() else { continue }
        buffer.append(sender.pointee.element.take()!)
        admitted.append(sender)
      } else if !senders.isEmpty, let sender = senders.popClaimed() {
        elements.append(sender.pointee.element.take()!)
        admitted.append(sender)
      } else {
        return
      }
    }
  }

  /// The same, but where nothing is there the receiver waits by `node`, which gets one element. Nothing anywhere, and no wait:
  /// the channel is closed.
  @inlinable
  mutating func receive(into elements: inout [Element], upTo limit: Int, orWaitBy node: Node) -> Attempt {
    var admitted = ClaimedWaiters()
    let count = elements.count
    receive(into: &elements, upTo: limit, &admitted)
    guard elements.count == count, !isClosed else { return admitted.isEmpty ? .done : .wakeAll(admitted) }
    enqueueReceiver(node)
    return .wait
  }
}

// MARK: - What may have to wait

extension ChannelStateMachine where Element: ~Copyable {
  /// A sender sends the element in `node`. `.done` with the element still there: the channel is closed.
  @inlinable
  mutating func send(_ node: Node) -> Attempt {
    switch sendNow(&node.pointee.element) {
    case .buffered, .closed: return .done
    case .handed(let receiver): return .wake(receiver)
    case .replaced:
      node.pointee.replaced = node.pointee.element.take()
      return .done
    case .full:
      enqueueSender(node)
      return .wait
    }
  }

  /// A receiver takes an element into `node`. `.done` with nothing there: the channel is closed.
  @inlinable
  mutating func receive(_ node: Node) -> Attempt {
    switch receiveNow(&node.pointee.element) {
    case .received, .closed: return .done
    case .admitted(let sender): return .wake(sender)
    case .empty:
      enqueueReceiver(node)
      return .wait
    }
  }

  /// A sender that has found the channel full waits; or a select does, which waits elsewhere, too.
  @inlinable @inline(__always)
  mutating func enqueueSender(_ node: Node) { senders.append(node) }

  /// A receiver that has found the channel empty waits; or a select does, which waits elsewhere, too.
  @inlinable @inline(__always)
  mutating func enqueueReceiver(_ node: Node) { receivers.append(node) }

  /// A sender gives up.
  @inlinable
  mutating func withdrawSender(_ node: Node) -> Attempt {
    senders.remove(node)
    return .done
  }

  /// A receiver gives up.
  @inlinable
  mutating func withdrawReceiver(_ node: Node) -> Attempt {
    receivers.remove(node)
    return .done
  }

  /// No more elements. Returns whether it was open, and the waiters whose wait is over: the senders keep their
  /// elements, what is in the buffer stays there.
  @inlinable
  mutating func close() -> (isFirst: Bool, senders: ClaimedWaiters, receivers: ClaimedWaiters) {
    let isFirst = !isClosed
    isClosed = true
    return (isFirst, senders.claimAll(), receivers.claimAll())
  }

  /// Takes out what is in the buffer.
  mutating func takeBuffer() -> ElementRing<Element> {
    var elements = ElementRing<Element>()
    swap(&elements, &buffer)
    return elements
  }

  /// Whether the invariants hold, as far as they can be seen without knowing which waiters have given up; for tests.
  func checkInvariants() -> Bool {
    buffer.count <= limit && buffer.count <= buffer.mask + 1
      && (isClosed ? senders.isEmpty && receivers.isEmpty : true)
  }
}
