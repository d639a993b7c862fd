// SPDX-License-Identifier: Apache-2.0

/// A message on its way, and where its answer goes. Not copyable: a copy would count references, where an ask has time for
/// none.
@usableFromInline
struct Envelope<Message>: ~Copyable {
  @usableFromInline let message: Message
  /// Keeps the asker waiting until the message has been handled, even if others drop the reply; `nil`: it is no ask.
  @usableFromInline let replyOwner: ReplyOwner?

  @inlinable @inline(__always)
  init(_ message: consuming Message, _ owner: consuming ReplyOwner?) {
    self.message = message
    replyOwner = owner
  }
}

/// A sender with an envelope for which there is no room. On the sender's own stack.
@usableFromInline
struct MailboxNode<Message>: ~Copyable, WaitingNode {
  @usableFromInline var wait: WaitNode
  /// Until it is taken. Guarded by the actor's lock while it waits.
  @usableFromInline var envelope: Envelope<Message>?

  @inlinable
  init(_ waiter: Waiter, _ envelope: consuming Envelope<Message>?) {
    wait = WaitNode(waiter)
    self.envelope = envelope
  }
}

/// The messages of an actor, and the senders that wait for room. Pure: no lock, no switch.
///
/// Invariants: senders wait only while the mailbox is full; none waits in a closed one.
@usableFromInline
struct MailboxStateMachine<Message>: ~Copyable {
  @usableFromInline typealias Node = UnsafeMutablePointer<MailboxNode<Message>>

  @usableFromInline private(set) var envelopes = ElementRing<Envelope<Message>>()
  @usableFromInline private(set) var senders = WaitQueue<MailboxNode<Message>>()
  @usableFromInline private(set) var isClosed = false
  @usableFromInline let capacity: Int
  @usableFromInline let overflow: MailboxPolicy.Overflow

  init(_ policy: MailboxPolicy) {
    capacity = policy.capacity
    overflow = policy.overflow
  }

  @usableFromInline
  enum Post {
    /// It is in the mailbox.
    case kept
    /// There is no room: the sender keeps it.
    case full
    /// The sender has the oldest one instead, which will not be handled.
    case displaced
    /// The actor has ended: the sender keeps it.
    case closed
  }

  /// Whether it takes a message.
  @inlinable @inline(__always)
  var hasRoom: Bool { !isClosed && envelopes.count < capacity }

  /// Whether it takes a message into the memory that it has.
  @inlinable @inline(__always)
  var hasRoomAtHand: Bool { hasRoom && envelopes.hasRoom }

  /// A message comes in, in registers. There must be room.
  @inlinable @inline(__always)
  mutating func keep(_ message: consuming Message, _ owner: consuming ReplyOwner?) {
    envelopes.append(Envelope(consume message, consume owner))
  }

  /// The same where `hasRoomAtHand` has just been true.
  @inlinable @inline(__always)
  mutating func keepAtHand(_ message: consuming Message) {
    envelopes.appendIntoRoom(Envelope(consume message, nil))
  }

  /// The actor takes all at once: `inbox`, which is empty, changes places with what is here.
  @inlinable @inline(__always)
  mutating func exchange(with inbox: inout ElementRing<Envelope<Message>>) { swap(&inbox, &envelopes) }

  /// A sender sends what is in `envelope`. `isUrgent`: even if there is no room.
  @inlinable
  mutating func post(_ envelope: inout Envelope<Message>?, isUrgent: Bool = false) -> Post {
    guard hasRoom || isUrgent && !isClosed else { return refuse(&envelope) }
    envelopes.append(envelope.take()!)
    return .kept
  }

  @inlinable @inline(never)
  mutating func refuse(_ envelope: inout Envelope<Message>?) -> Post {
    if isClosed { return .closed }
    guard overflow == .dropOldest else { return .full }
    let oldest = envelopes.removeFirst()
    envelopes.append(envelope.take()!)
    envelope = consume oldest
    return .displaced
  }

  /// A sender that found no room waits for it.
  @inlinable
  mutating func waitForRoom(_ node: Node) {
    senders.append(node)
  }

  /// A sender gives up.
  @inlinable
  mutating func withdrawSender(_ node: Node) -> Attempt {
    senders.remove(node)
    return .done
  }

  @usableFromInline
  enum Take {
    case taken
    /// A waiting sender's message went into the room; that sender is to be woken.
    case admitted(Waiter)
    case empty
    case closed
  }

  /// The actor takes its next message.
  @inlinable @inline(__always)
  mutating func take(_ envelope: inout Envelope<Message>?) -> Take {
    guard envelopes.count > 0 else { return isClosed ? .closed : .empty }
    envelope = envelopes.removeFirst()
    return senders.isEmpty ? .taken : admit()
  }

  /// The first message, if there is one, no sender waits for the room that it leaves, and the ring stays as it is: the
  /// most frequent case of `take`: a call would cost more than that.
  @inlinable @inline(__always)
  mutating func takeKept() -> Envelope<Message>? {
    guard envelopes.count > 0, senders.isEmpty, !envelopes.isReleasedByNext else { return nil }
    return envelopes.removeNext()
  }

  @inlinable @inline(never)
  mutating func admit() -> Take {
    guard envelopes.count < capacity, let sender = senders.popClaimed() else { return .taken }
    envelopes.append(sender.pointee.envelope.take()!)
    return .admitted(sender.pointee.wait.waiter)
  }

  /// No more messages. Returns the senders whose wait is over: they keep their envelopes. What is in the mailbox stays there.
  @inlinable
  mutating func close() -> ClaimedWaiters {
    isClosed = true
    return senders.claimAll()
  }

  /// Whether the invariants hold; for tests.
  func checkInvariants() -> Bool {
    senders.isEmpty || envelopes.count >= capacity && !isClosed
  }
}
