// SPDX-License-Identifier: Apache-2.0

public import Context
public import Synchronization

/// An actor's mailbox, its lock, and what its state machine decides.
@usableFromInline
// Unchecked: the lock guards the machine; the rest is the actor's own.
final class ActorStorage<Message: Sendable>: ActorCore, @unchecked Sendable {
  @usableFromInline typealias Body = (Mailbox<Message>) throws -> Void

  /// Guarded by the lock.
  @exclusivity(unchecked) @usableFromInline var machine: MailboxStateMachine<Message>
  /// Whether the mailbox can be full. Here and not in the machine, which must not be touched without the lock.
  @usableFromInline let isBounded: Bool
  /// Messages that the actor has taken out of a mailbox without a limit, all at once, and not begun. The actor's own, on its
  /// coroutine: for these it needs no lock.
  @exclusivity(unchecked) @usableFromInline var inbox = ElementRing<Envelope<Message>>()
  /// Where the actor gets its next message, while it waits for one; empty until then. Written by the actor before it
  /// waits; belongs to the waker that has ended the wait by `claimIdle`.
  @exclusivity(unchecked) @usableFromInline var receiver: UnsafeMutablePointer<Envelope<Message>?>?
  /// The message that is being handled, if it is no ask. The actor's own, on its coroutine, as the next one.
  @exclusivity(unchecked) @usableFromInline var current: Message?
  /// Where the answer to the message that is being handled goes, if it is an ask. Retained; unmanaged, since looking at
  /// it would count otherwise.
  @exclusivity(unchecked) @usableFromInline var currentReply: Unmanaged<ReplyOwner>?
  /// What it does. Let go of at the end, for what it captured.
  @exclusivity(unchecked) private var body: Body?

  init(
    name: String, on scheduler: SchedulerReference, stackSize: Int?, mailbox: MailboxPolicy, parent: SupervisorNode?,
    policy: Supervision, body: @escaping Body
  ) {
    machine = MailboxStateMachine(mailbox)
    isBounded = mailbox.capacity != .max
    self.body = body
    super.init(name: name, on: scheduler, stackSize: stackSize, parent: parent, policy: policy)
  }

  override func runBody() throws {
    guard let body else { fatalError("\(describeActor(name)) runs after its end") }
    try body(Mailbox(self))
  }

  override func endMessage(_ failure: (any Error)?) -> Bool {
    guard let failure else {
      endCurrent()
      return false
    }
    let (message, owner) = (current.take(), currentReply.take()?.takeRetainedValue())
    guard message != nil || owner != nil else { return false }
    owner?.fail(failure)
    DeadLetters.report(DeadLetter(message: message, actor: name, reason: .failed(failure)))
    return true
  }

  override func closeMailbox() -> ClaimedWaiters { machine.close() }

  override func clear() {
    body = nil
    while inbox.count > 0 { sendToDeadLetters(inbox.removeFirst(), .stopped, ActorStopped(actor: name)) }
    while true {
      var envelope: Envelope<Message>?
      lock.lock()
      let take = machine.take(&envelope)
      lock.unlock()
      guard case .taken = take, let envelope = envelope.take() else { return }
      sendToDeadLetters(envelope, .stopped, ActorStopped(actor: name))
    }
  }

  /// A message that was accepted is not handled: the asker gets an error, or else the handler of dead letters gets the
  /// message.
  @usableFromInline
  func sendToDeadLetters(_ envelope: borrowing Envelope<Message>, _ reason: DeadLetter.Reason, _ error: any Error) {
    if let owner = envelope.replyOwner, owner.fail(error) { return }
    DeadLetters.report(DeadLetter(message: envelope.message, actor: name, reason: reason))
  }
}

// MARK: - The actor's side

extension ActorStorage {
  /// The next message; `nil` when there will be none, or the body has to end.
  ///
  /// Inlined into the body's loop, for the switch in it: else a mispredicted return (see `CoroutineCore.run`). All the rest
  /// is calls that return before they switch.
  @inlinable @inline(__always)
  func next() -> Message? {
    requireOwn(for: "Mailbox.next()")
    if inbox.count > 0, let message = takeFromInbox() { return message }
    if isBounded, let message = takeFromMailbox() { return message }
    var envelope: Envelope<Message>?
    return withUnsafeMutablePointer(to: &envelope) { envelope in
      let block = takeOrWait(envelope)
      if let block { _ = ControlBlock.suspend(block, passing: 0) }
      return begin(envelope, hasWaited: block != nil)
    }
  }

  /// Takes a message that is the actor's already. None if it has to look at other things first.
  @inlinable @inline(never)
  func takeFromInbox() -> Message? {
    guard !runsOnHandOff else { return nil }
    endCurrent()
    coroutine.countOperation()
    // After that, which may have let others run; and what went with the last message may have taken others, or cancelled it.
    guard inbox.count > 0, !coroutine.isInterrupted else { return nil }
    return begin(inbox.removeFirst())
  }

  /// Takes a message out of a mailbox with a limit, if nothing else has to be done.
  @inlinable @inline(never)
  func takeFromMailbox() -> Message? {
    endCurrent()
    coroutine.countOperation()
    guard tryLock(for: coroutine) else { return nil }
    let envelope = isHeldUp(coroutine) || runsOnHandOff || isToStartAgain ? nil : machine.takeKept()
    unlock(for: coroutine)
    guard let envelope else { return nil }
    return begin(envelope)
  }

  /// Takes a message, or finds that there will be none. Otherwise the actor has to wait: returns the block that it leaves, at
  /// once, with the lock held.
  @inlinable @inline(never)
  func takeOrWait(_ envelope: UnsafeMutablePointer<Envelope<Message>?>) -> UnsafeMutablePointer<ControlBlock>? {
    endCurrent()
    // With a limit it has counted in `takeFromMailbox`. An actor that sends itself its next message always comes here. On a thread
    // that was handed over it gives that back below.
    if !isBounded, !runsOnHandOff { coroutine.countOperation() }
    while true {
      guard lockUnlessCancelled(coroutine) else { return nil }
      guard !isToStartAgain else {
        unlock(for: coroutine)
        return nil
      }
      guard machine.envelopes.count | inbox.count > 0 else { break }
      // The asker that handed its thread off goes on before the next message.
      guard !runsOnHandOff else {
        unlock(for: coroutine)
        returnThread()
        continue
      }
      if !isBounded {
        if inbox.count == 0 { machine.exchange(with: &inbox) }
        unlock(for: coroutine)
        envelope.initialize(to: inbox.removeFirst())
      } else if case .admitted(let sender) = machine.take(&envelope.pointee) {
        unlock(for: coroutine)
        sender.wake()
      } else {
        unlock(for: coroutine)
      }
      return nil
    }
    runsOnHandOff = false
    // litmus: actor-handles
    guard !machine.isClosed, handles.load(ordering: .acquiring) > 0 else {
      unlock(for: coroutine)
      return nil
    }
    receiver = envelope
    coroutine.parking.prepareIdle()
    coroutine.waitReason = WaitReason(.receive, at: self)
    return coroutine.prepare(.unlock(.passUnretained(self)))
  }

  // A call, after the switch: inlined it takes half as long again, by mispredicted returns (see `CoroutineCore.run`).
  @inlinable @inline(never)
  func begin(_ envelope: UnsafeMutablePointer<Envelope<Message>?>, hasWaited: Bool) -> Message? {
    if hasWaited { coroutine.waitReason = nil }
    guard let envelope = envelope.pointee.take() else { return nil }
    return begin(envelope)
  }

  /// The body gets the message. One that is no ask is kept for the case that it fails; an asker gets the error instead.
  @inlinable @inline(__always)
  func begin(_ envelope: consuming Envelope<Message>) -> Message {
    if isFresh { noteFirstMessage() }
    let (message, owner) = (envelope.message, envelope.replyOwner)
    if let owner {
      currentReply = .passRetained(owner)
    } else {
      // After `endCurrent` there is nothing here that an assignment would have to release.
      withUnsafeMutablePointer(to: &current) { $0.initialize(to: message) }
    }
    return message
  }

  /// The message has been handled, answered or not.
  @inlinable @inline(__always)
  func endCurrent() {
    endReply()
    dropCurrent()
  }

  /// If the message is an ask it has been handled, answered or not. So have those that were taken when its answer went.
  @inlinable @inline(__always)
  func endReply() {
    while let owner = currentReply {
      currentReply = nil
      owner._withUnsafeGuaranteedRef { owner in
        if !owner.isSettled { owner.withStorage { $0.noteHandled() } }
      }
      owner.release()
    }
  }

  /// The message goes when it is out of the field: code of the user's, in its `deinit`, may ask for the next one, which is the
  /// current one then, and has been handled when that returns.
  @inlinable @inline(__always)
  func dropCurrent() {
    // One without an end of its own runs no code. A constant in specialised code.
    if _isPOD(Message.self) {
      current = nil
      return
    }
    while true {
      // A scope of its own: the message goes at the end of that, which is before the look below.
      do {
        guard let message = current.take() else { return }
        withExtendedLifetime(message) {}
      }
      if currentReply != nil { endReplyOnceMore() }
    }
  }

  @inlinable @inline(never)
  func endReplyOnceMore() { endReply() }

  /// Ends the program if it is not the actor that runs here.
  @inlinable @inline(__always)
  func requireOwn(for operation: StaticString) {
    if CoroutineCore.currentUncounted?.toOpaque() != core.toOpaque() { reportForeignUse(operation) }
  }
}

// MARK: - Sending

extension ActorStorage {
  /// The outcome of sending a message.
  @usableFromInline
  enum Delivery {
    case delivered
    /// The sender keeps it, and has to wait for room.
    case full
    /// It will not be handled: the sender gets this error.
    case refused(any Error)
  }

  /// Puts a message into the mailbox, if there is room; a message that was not delivered is in `unsent` then. `asker`:
  /// a coroutine that is going to wait for the answer.
  ///
  /// The message goes there in registers: through memory it would be written in parts and read as a whole, for which the
  /// processor has to wait.
  @inlinable @inline(__always)
  func deliver(
    _ message: consuming Message, _ owner: consuming ReplyOwner?, _ unsent: inout Envelope<Message>?,
    by asker: Unmanaged<CoroutineCore>? = nil
  ) -> Delivery {
    if !claimIdle() {
      lock.lock()
      // It may have begun to wait meanwhile. From here on it can't.
      guard claimIdle() else {
        guard machine.hasRoom else {
          unsent = Envelope(consume message, consume owner)
          return refuse(&unsent)
        }
        machine.keep(consume message, consume owner)
        lock.unlock()
        return .delivered
      }
      lock.unlock()
    }
    hand(consume message, consume owner, by: asker)
    return .delivered
  }

  /// Gives the message to the actor and lets it go on. The caller has claimed its wait for one.
  @inlinable @inline(__always)
  func hand(_ message: consuming Message, _ owner: consuming ReplyOwner?, by asker: Unmanaged<CoroutineCore>?) {
    receiver!.initialize(to: Envelope(consume message, consume owner))
    if let asker { handOff(by: asker) } else { CoroutineCore.wake(core) }
  }

  /// Takes the lock, if a message can simply go into the mailbox: the actor does not wait for one, and there is room.
  @inlinable @inline(__always)
  func lockIfRoom() -> Bool {
    guard !isIdle, lock.tryLock() else { return false }
    // It may have begun to wait meanwhile. From here on it can't.
    guard !isIdle, machine.hasRoomAtHand else {
      lock.unlock()
      return false
    }
    return true
  }

  /// After `lockIfRoom`.
  @inlinable @inline(__always)
  func keep(_ message: consuming Message) {
    machine.keepAtHand(consume message)
    lock.unlock()
  }

  /// There is no room. The caller holds `lock`.
  @inlinable @inline(never)
  func refuse(_ envelope: inout Envelope<Message>?) -> Delivery {
    let post = machine.post(&envelope)
    lock.unlock()
    return undelivered(&envelope, post)
  }

  /// Hands the message to the actor if it waits for one. Returns whether it did: then the caller has to wake it.
  @inlinable @inline(__always)
  func handOver(_ envelope: inout Envelope<Message>?) -> Bool {
    guard claimIdle() else { return false }
    receiver!.initialize(to: envelope.take())
    return true
  }

  @inlinable
  func undelivered(_ envelope: inout Envelope<Message>?, _ post: MailboxStateMachine<Message>.Post) -> Delivery {
    switch post {
    case .kept: return .delivered
    case .closed: return .refused(ActorStopped(actor: name))
    case .displaced:
      if let oldest = envelope.take() { sendToDeadLetters(oldest, .overflow, MailboxFull(actor: name)) }
      return .delivered
    case .full:
      switch machine.overflow {
      case .suspend, .dropOldest: return .full
      case .fail: return .refused(MailboxFull(actor: name))
      case .dropNewest:
        if let newest = envelope.take() { sendToDeadLetters(newest, .overflow, MailboxFull(actor: name)) }
        return .delivered
      }
    }
  }

  /// Puts a message into the mailbox whether there is room or not; what cannot be delivered is a dead letter. Anywhere.
  func deliverUrgently(_ message: Message) {
    var envelope: Envelope<Message>? = Envelope(message, nil)
    lock.lock()
    let isHanded = handOver(&envelope)
    if !isHanded { _ = machine.post(&envelope, isUrgent: true) }
    lock.unlock()
    if isHanded { CoroutineCore.wake(core) }
    if let envelope = envelope.take() { sendToDeadLetters(envelope, .stopped, ActorStopped(actor: name)) }
  }

  // To wait for room, with the message in a node. `event`: the message was taken, or the actor has ended and it is still
  // there.

  @inlinable @inline(never)
  func waitForRoom(_ core: CoroutineCore, _ envelope: inout Envelope<Message>?, until deadline: UInt64) -> WakeCause {
    var node = MailboxNode(.coroutine(.passUnretained(core)), envelope.take())
    let cause = withUnsafeMutablePointer(to: &node) { node in
      wait(core, .send, by: node, until: deadline) {
        postOrWait($0)
      } withdraw: {
        machine.withdrawSender($0)
      }
    }
    envelope = node.envelope.take()
    return cause
  }

  @inlinable @inline(never)
  nonisolated(nonsending) func waitForRoom(
    _ envelope: inout Envelope<Message>?, until deadline: UInt64
  ) async -> WakeCause {
    await wait(until: deadline) {
      MailboxNode($0, envelope.take())
    } attempt: {
      postOrWait($0)
    } withdraw: {
      machine.withdrawSender($0)
    } afterwards: {
      envelope = $0.envelope.take()
    }
  }

  @inlinable @inline(never)
  func waitForRoomBlocking(
    _ envelope: inout Envelope<Message>?, until deadline: UInt64, at call: BlockingCall
  ) -> WakeCause {
    block(until: deadline, at: call) {
      MailboxNode($0, envelope.take())
    } attempt: {
      postOrWait($0)
    } withdraw: {
      machine.withdrawSender($0)
    } afterwards: {
      envelope = $0.envelope.take()
    }
  }

  /// The caller holds `lock`.
  @inlinable
  func postOrWait(_ node: UnsafeMutablePointer<MailboxNode<Message>>) -> Attempt {
    if handOver(&node.pointee.envelope) { return .wake(.coroutine(core)) }
    switch machine.post(&node.pointee.envelope) {
    case .kept, .closed, .displaced: return .done
    case .full:
      machine.waitForRoom(node)
      return .wait
    }
  }
}
