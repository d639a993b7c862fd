public import Context
public import Synchronization

/// An actor's mailbox, its lock, and what its state machine decides.
@usableFromInline
// Unchecked: the lock guards the machine; the rest is the actor's own.
final class ActorStorage<Message: Sendable>: ActorCore, @unchecked Sendable {
  @usableFromInline typealias Body = (Mailbox<Message>) throws -> Void

  @exclusivity(unchecked) @usableFromInline var machine: MailboxStateMachine<Message>
  /// The message that is being handled, if nobody asked. The actor's own, on its coroutine, as the next one.
  @exclusivity(unchecked) @usableFromInline var current: Message?
  /// Where the answer to the message that is being handled goes, if somebody asked.
  @exclusivity(unchecked) @usableFromInline var currentEnd: ReplyEnd?
  /// What it does. Let go of at the end, for what it captured.
  @exclusivity(unchecked) private var body: Body?

  init(
    name: String, on scheduler: SchedulerReference, stackSize: Int?, mailbox: MailboxPolicy, parent: SupervisorNode?,
    policy: Supervision, body: @escaping Body
  ) {
    machine = MailboxStateMachine(mailbox)
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
    let (message, end) = (current.take(), currentEnd.take())
    guard message != nil || end != nil else { return false }
    end?.fail(failure)
    DeadLetters.report(DeadLetter(message: message, actor: name, reason: .failed(failure)))
    return true
  }

  override func closeMailbox() -> (senders: ClaimedWaiters, receiver: Attempt) {
    (machine.close(), machine.interruptReceiver())
  }

  override func clear() {
    body = nil
    while true {
      var letter: Letter<Message>?
      lock.lock()
      let take = machine.take(&letter)
      lock.unlock()
      guard case .taken = take, let letter else { return }
      lose(letter, .stopped, ActorStopped(actor: name))
    }
  }

  /// A message that was accepted is not handled: tells whoever asked, or else the handler of dead letters.
  private func lose(_ letter: Letter<Message>, _ reason: DeadLetter.Reason, _ error: any Error) {
    if let end = letter.end, end.fail(error) { return }
    DeadLetters.report(DeadLetter(message: letter.message, actor: name, reason: reason))
  }

  override func interruptWait() -> Attempt { machine.interruptReceiver() }
}

// MARK: - The actor's side

extension ActorStorage {
  /// The next message; `nil` when there will be none, or the body has to end.
  @inlinable
  func next() -> Message? {
    let core = CoroutineCore.runningUncounted(for: "Mailbox.next()")
    return core._withUnsafeGuaranteedRef { core in
      requireOwn(core)
      while true {
        endCurrent()
        guard enter(core) else { return nil }
        // Whoever lent the thread goes on before the next message.
        guard !isLent || machine.letters.count == 0 else {
          leave(core)
          returnThread()
          continue
        }
        isLent = false
        var letter: Letter<Message>?
        switch machine.take(&letter) {
        case .taken: leave(core)
        case .admitted(let sender):
          leave(core)
          sender.wake()
        case .closed: leave(core)
        case .empty:
          guard handles.load(ordering: .acquiring) > 0 else {
            leave(core)
            return nil
          }
          letter = waitForMessage(core)
        }
        guard let letter else { return nil }
        if isFresh { noteFirstMessage() }
        return begin(letter)
      }
    }
  }

  /// The lock is held.
  @inlinable @inline(__always)
  func waitForMessage(_ core: CoroutineCore) -> Letter<Message>? {
    var node = MailboxNode<Message>(.coroutine(.passUnretained(core)), nil)
    withUnsafeMutablePointer(to: &node) { node in
      machine.receiver = node
      _ = suspend(core, .receive, until: WaitDeadline.never) { machine.withdrawReceiver(node) }
    }
    return node.letter.take()
  }

  /// The body gets the message. What nobody asked is kept for the case that it fails; whoever asked is told instead.
  @inlinable @inline(__always)
  func begin(_ letter: consuming Letter<Message>) -> Message {
    if letter.end == nil { current = letter.message } else { currentEnd = letter.end }
    return letter.message
  }

  /// The message has been handled, answered or not.
  @inlinable @inline(__always)
  func endCurrent() {
    guard let end = currentEnd else {
      current = nil
      return
    }
    if !end.isSettled { end.storage._withUnsafeGuaranteedRef { $0.noteHandled() } }
    currentEnd = nil
  }

  @inlinable @inline(__always)
  func requireOwn(_ core: CoroutineCore) {
    if core !== coroutine { reportForeignUse() }
  }
}

// MARK: - Sending

extension ActorStorage {
  /// What came of a message.
  @usableFromInline
  enum Delivery {
    case delivered
    /// The sender, who has it back, has to wait for room.
    case full
    /// Nobody will handle it: the sender is told so.
    case refused(any Error)
  }

  /// Puts a message into the mailbox, if there is room. `asker`: a coroutine that is going to wait for
  /// the answer.
  @inlinable @inline(__always)
  func deliver(_ letter: inout Letter<Message>?, by asker: CoroutineCore? = nil) -> Delivery {
    lock.lock()
    let post = machine.post(&letter)
    lock.unlock()
    switch post {
    case .kept: return .delivered
    case .handed(let actor):
      if let asker { lend(to: actor, by: asker) } else { actor.wake() }
      return .delivered
    case .full, .displaced, .closed: return undelivered(&letter, post)
    }
  }

  @usableFromInline @inline(never)
  func undelivered(_ letter: inout Letter<Message>?, _ post: MailboxStateMachine<Message>.Post) -> Delivery {
    switch post {
    case .kept, .handed: return .delivered
    case .closed: return .refused(ActorStopped(actor: name))
    case .displaced:
      if let oldest = letter.take() { lose(oldest, .overflow, MailboxFull(actor: name)) }
      return .delivered
    case .full:
      switch machine.overflow {
      case .suspend, .dropOldest: return .full
      case .fail: return .refused(MailboxFull(actor: name))
      case .dropNewest:
        if let newest = letter.take() { lose(newest, .overflow, MailboxFull(actor: name)) }
        return .delivered
      }
    }
  }

  /// Puts a message into the mailbox whether there is room or not; what cannot be delivered is a dead letter. Anywhere.
  func deliverUrgently(_ message: Message) {
    var letter: Letter<Message>? = Letter(message, nil)
    lock.lock()
    let post = machine.post(&letter, isUrgent: true)
    lock.unlock()
    if case .handed(let actor) = post { actor.wake() }
    if let letter { lose(letter, .stopped, ActorStopped(actor: name)) }
  }

  // To wait for room, with the message in a node. `event`: the message was taken, or the actor has ended and it is still
  // there.

  @inlinable @inline(never)
  func waitForRoom(_ core: CoroutineCore, _ letter: inout Letter<Message>?, until deadline: UInt64) -> WakeCause {
    var node = MailboxNode(.coroutine(.passUnretained(core)), letter.take())
    let cause = withUnsafeMutablePointer(to: &node) { node in
      wait(core, .send, until: deadline) {
        postOrWait(node)
      } withdraw: {
        machine.withdrawSender(node)
      }
    }
    letter = node.letter.take()
    return cause
  }

  @inlinable @inline(never)
  nonisolated(nonsending) func waitForRoom(
    _ letter: inout Letter<Message>?, until deadline: UInt64
  ) async -> WakeCause {
    let task = WaitingTask()
    let node = UnsafeMutablePointer<MailboxNode<Message>>.allocate(capacity: 1)
    node.initialize(to: MailboxNode(.task(.passUnretained(task)), letter.take()))
    defer { node.deinitialize(count: 1).deallocate() }
    let cause = await wait(task, until: deadline) {
      postOrWait(node)
    } withdraw: {
      machine.withdrawSender(node)
    }
    letter = node.pointee.letter.take()
    return cause
  }

  @inlinable @inline(never)
  func waitForRoomBlocking(_ letter: inout Letter<Message>?, until deadline: UInt64) -> WakeCause {
    let thread = BlockedThread()
    var node = MailboxNode(.thread(.passUnretained(thread)), letter.take())
    let cause = withUnsafeMutablePointer(to: &node) { node in
      wait(thread, until: deadline) {
        postOrWait(node)
      } withdraw: {
        machine.withdrawSender(node)
      }
    }
    letter = node.letter.take()
    return cause
  }

  /// Under the lock.
  @inlinable
  func postOrWait(_ node: UnsafeMutablePointer<MailboxNode<Message>>) -> Attempt {
    switch machine.post(&node.pointee.letter) {
    case .kept, .closed, .displaced: return .done
    case .handed(let actor): return .wake(actor)
    case .full:
      machine.waitForRoom(node)
      return .wait
    }
  }
}
