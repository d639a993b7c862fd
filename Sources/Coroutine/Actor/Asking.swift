// SPDX-License-Identifier: Apache-2.0

public import CCoroutine

/// Asking: a message goes to the actor with a way back in it, and the asker waits for the answer.
extension ActorStorage {
  /// On a coroutine. Where the actor waits for a message and the thread can be handed off to it, the answer is usually
  /// there when the message has been delivered: then the asker has not waited, and nothing was allocated.
  ///
  /// The asker holds `owner`, and releases it before it waits: as long as it holds it, it counts as one of those that
  /// could answer. What `askAsActor` and `answer` get is retained twice, for them and for the mailbox.
  @inlinable
  func ask<Value: Sendable>(timeout: Duration?, _ make: (Reply<Value>) -> Message) throws -> Value {
    let core = CoroutineCore.runningUncounted(for: "MessageActor.ask(_:)")
    return try core._withUnsafeGuaranteedRef { core in
      guard !core.isHeldUp || core.mayGoOn() else { throw CancellationError() }
      let deadline = WaitDeadline.after(timeout)
      let owner = ReplyOwner.make(for: core, Value.self)
      // The message's, and the mailbox's.
      coroutine_retain_unshared_twice(owner.toOpaque())
      let message = make(Reply(owner.takeRetainedValue()))
      CoroutineCore.requireIsCurrent(.passUnretained(core), behindClosureOf: "MessageActor.ask")
      guard !core.notesWaits else {
        return try askAsActor(core, consume message, owner, until: deadline, timeout)
      }
      return try answer(core, consume message, owner, until: deadline, timeout)
    }
  }

  /// An actor asks: it must not be the one that waits, in the end, for itself.
  @inlinable @inline(never)
  func askAsActor<Value: Sendable>(
    _ core: CoroutineCore, _ message: consuming Message, _ owner: Unmanaged<ReplyOwner>, until deadline: UInt64,
    _ timeout: Duration?
  ) throws -> Value {
    guard let asker = core.asker else { fatalError("an actor asks before it is one") }
    // The graph refers to it until this one has left.
    let reply = owner._withUnsafeGuaranteedRef { $0.storage.retain() }
    defer { reply.release() }
    if let cycle = reply._withUnsafeGuaranteedRef({ AskGraph.addEdge(from: asker, to: self, $0) }) {
      // The mailbox's too.
      owner.release()
      owner.release()
      throw cycle
    }
    defer { reply._withUnsafeGuaranteedRef { AskGraph.removeEdge(from: asker, $0) } }
    return try answer(core, consume message, owner, until: deadline, timeout)
  }

  @inlinable @inline(__always)
  func answer<Value: Sendable>(
    _ core: CoroutineCore, _ message: consuming Message, _ owner: Unmanaged<ReplyOwner>, until deadline: UInt64,
    _ timeout: Duration?
  ) throws -> Value {
    do {
      // One with a deadline has to go on then, even if the actor blocks the thread: it keeps its own.
      let asker = deadline == WaitDeadline.never ? Unmanaged.passUnretained(core) : nil
      if claimIdle() {
        hand(consume message, owner.takeRetainedValue(), by: asker)
      } else {
        try deliver(core, consume message, owner.takeRetainedValue(), by: asker, until: deadline, timeout)
      }
    } catch {
      owner.release()
      throw error
    }
    guard owner._withUnsafeGuaranteedRef({ $0.isSettled }) else {
      return try waitForAnswer(core, owner, until: deadline, timeout)
    }
    defer { core.neededExtras._withUnsafeGuaranteedRef { $0.keepSpareReply(owner) } }
    return try owner._withUnsafeGuaranteedRef { owner in
      // Unchecked: made for this type of value, by `ask`.
      try owner.withStorage { try unsafeDowncast($0, to: ReplyStorage<Value>.self).takeOutcome() }
    }
  }

  /// The actor was not idle: puts the message into the mailbox, and waits for room in it if need be.
  @inlinable @inline(never)
  func deliver(
    _ core: CoroutineCore, _ message: consuming Message, _ owner: consuming ReplyOwner,
    by asker: Unmanaged<CoroutineCore>?, until deadline: UInt64, _ timeout: Duration?
  ) throws {
    var envelope: Envelope<Message>?
    switch deliver(consume message, consume owner, &envelope, by: asker) {
    case .delivered: return
    case .full: try check(waitForRoom(core, &envelope, until: deadline), envelope == nil, timeout)
    case .refused(let error): throw error
    }
  }

  /// The outcome of a wait for room: throws if the message was not delivered.
  @usableFromInline
  func check(_ cause: WakeCause, _ isDelivered: Bool, _ timeout: Duration?) throws {
    try cause.check(timeout)
    if !isDelivered { throw ActorStopped(actor: name) }
  }

  @inlinable @inline(never)
  func waitForAnswer<Value: Sendable>(
    _ core: CoroutineCore, _ owner: Unmanaged<ReplyOwner>, until deadline: UInt64, _ timeout: Duration?
  ) throws -> Value {
    // Retained for `keepStorage`.
    let reply = owner._withUnsafeGuaranteedRef { $0.storage.retain() }
    defer { ReplyOwner.keepStorage(reply, for: core) }
    ReplyOwner.release(owner)
    return try reply._withUnsafeGuaranteedRef { reply in
      // Unchecked: made for this type of value, by `ask`.
      let storage = unsafeDowncast(reply, to: ReplyStorage<Value>.self)
      storage.recipient = self
      var node = WaitNode(.coroutine(.passUnretained(core)))
      let cause = storage.wait(core, .promise, by: &node, until: deadline) {
        storage.wait($0)
      } withdraw: { _ in
        storage.withdraw()
      }
      return try storage.outcome(after: cause, timeout)
    }
  }
}

// MARK: - In async code, on plain threads

extension ActorStorage {
  @inlinable
  nonisolated(nonsending) func ask<Value: Sendable>(
    timeout: Duration?, _ make: (Reply<Value>) -> Message
  ) async throws -> Value {
    let deadline = WaitDeadline.after(timeout)
    if Task.isCancelled { throw CancellationError() }
    let storage = ReplyStorage<Value>()
    var envelope: Envelope<Message>?
    switch send(storage, &envelope, make) {
    case .delivered: break
    case .full: try check(await waitForRoom(&envelope, until: deadline), envelope == nil, timeout)
    case .refused(let error): throw error
    }
    let cause = await storage.wait(until: deadline) {
      WaitNode($0)
    } attempt: {
      storage.wait($0)
    } withdraw: { _ in
      storage.withdraw()
    }
    return try storage.outcome(after: cause, timeout)
  }

  @inlinable
  func askBlocking<Value: Sendable>(
    timeout: Duration?, at call: BlockingCall, _ make: (Reply<Value>) -> Message
  ) throws -> Value {
    requireThread()
    let deadline = WaitDeadline.after(timeout)
    let storage = ReplyStorage<Value>()
    var envelope: Envelope<Message>?
    switch send(storage, &envelope, make) {
    case .delivered: break
    case .full: try check(waitForRoomBlocking(&envelope, until: deadline, at: call), envelope == nil, timeout)
    case .refused(let error): throw error
    }
    let cause = storage.block(until: deadline, at: call) {
      WaitNode($0)
    } attempt: {
      storage.wait($0)
    } withdraw: { _ in
      storage.withdraw()
    }
    return try storage.outcome(after: cause, timeout)
  }

  /// Sends a message with a `Reply` in it that the asker itself no longer holds when this has returned.
  @inlinable @inline(never)
  func send<Value: Sendable>(
    _ reply: ReplyStorage<Value>, _ unsent: inout Envelope<Message>?, _ make: (Reply<Value>) -> Message
  ) -> Delivery {
    reply.recipient = self
    let owner = ReplyOwner(reply)
    return deliver(make(Reply(owner)), owner, &unsent)
  }
}

extension ReplyStorage {
  /// The outcome of a wait.
  @usableFromInline
  func outcome(after cause: WakeCause, _ timeout: Duration?) throws -> Value {
    // One that was cancelled, or is out of time, may have been answered before that was known.
    if cause != .event, !abandon() { try cause.check(timeout) }
    return try takeOutcome()
  }
}

extension ActorCore {
  @usableFromInline
  final func requireThread() {
    requireNoCoroutine()
    requireAnotherThread()
  }

  @usableFromInline
  final func requireNoCoroutine() {
    require(
      CoroutineCore.current == nil,
      "askBlocking() and tellBlocking() inside a coroutine would block its whole thread: use ask() and tell()")
  }

  @usableFromInline
  final func requireAnotherThread() {
    require(
      !coroutine.home.isThisThreadAlone,
      "askBlocking() and tellBlocking() block the only thread of \(coroutine.home.description), on which "
        + "\(describeActor(name)) runs: they would wait for ever")
  }
}
