/// Asking: a message goes to the actor with a way back in it, and the asker waits for the answer.
extension ActorStorage {
  /// On a coroutine. Where the actor waits for a message and the thread can be lent to it, the answer is usually there when
  /// the message has been delivered: then nobody has waited, and nothing was allocated.
  ///
  /// `end` is in a variable that is emptied before the wait: an asker who holds it is one of those who could answer.
  @inlinable
  func ask<Value: Sendable>(timeout: Duration?, _ make: (Reply<Value>) -> Message) throws -> Value {
    let core = CoroutineCore.runningUncounted(for: "MessageActor.ask(_:)")
    return try core._withUnsafeGuaranteedRef { core in
      guard !core.isInterrupted else { throw CancellationError() }
      let deadline = WaitDeadline.after(timeout)
      var end: ReplyEnd? = ReplyEnd.make(for: core, Value.self)
      var letter: Letter<Message>? = Letter(make(Reply(end!)), end)
      guard type(of: core) != ActorCoroutine.self else {
        return try askAsActor(core, &end, &letter, until: deadline, timeout)
      }
      return try answer(core, &end, &letter, until: deadline, timeout)
    }
  }

  /// An actor asks: it must not be the one that waits, in the end, for itself.
  @inlinable @inline(never)
  func askAsActor<Value: Sendable>(
    _ core: CoroutineCore, _ end: inout ReplyEnd?, _ letter: inout Letter<Message>?, until deadline: UInt64,
    _ timeout: Duration?
  ) throws -> Value {
    let asker = unsafeDowncast(core, to: ActorCoroutine.self).actor
    // The graph refers to it until this one has left.
    let reply = end!.storage.retain()
    defer { reply.release() }
    if let circle = reply._withUnsafeGuaranteedRef({ AskGraph.enter(asker, waitsFor: self, $0) }) { throw circle }
    defer { AskGraph.leave(asker) }
    return try answer(core, &end, &letter, until: deadline, timeout)
  }

  @inlinable @inline(__always)
  func answer<Value: Sendable>(
    _ core: CoroutineCore, _ end: inout ReplyEnd?, _ letter: inout Letter<Message>?, until deadline: UInt64,
    _ timeout: Duration?
  ) throws -> Value {
    switch deliver(&letter, by: core) {
    case .delivered: break
    case .full: try check(waitForRoom(core, &letter, until: deadline), letter, timeout)
    case .refused(let error): throw error
    }
    guard end!.isSettled else { return try waitForAnswer(core, &end, until: deadline, timeout) }
    defer { core.spareReply = end }
    return try end!.storage._withUnsafeGuaranteedRef {
      try unsafeDowncast($0, to: ReplyStorage<Value>.self).takeOutcome()
    }
  }

  /// What a wait for room came to: throws if the message was not delivered.
  @usableFromInline
  func check(_ cause: WakeCause, _ letter: Letter<Message>?, _ timeout: Duration?) throws {
    switch cause {
    case .event: if letter != nil { throw ActorStopped(actor: name) }
    case .timedOut: throw TimeoutError(after: timeout)
    default: throw CancellationError()
    }
  }

  @inlinable @inline(never)
  func waitForAnswer<Value: Sendable>(
    _ core: CoroutineCore, _ end: inout ReplyEnd?, until deadline: UInt64, _ timeout: Duration?
  ) throws -> Value {
    let reply = end!.storage.retain()
    defer { reply.release() }
    ReplyEnd.release(&end)
    return try reply._withUnsafeGuaranteedRef { reply in
      let storage = unsafeDowncast(reply, to: ReplyStorage<Value>.self)
      storage.recipient = self
      var node = WaitNode(.coroutine(.passUnretained(core)))
      let cause = withUnsafeMutablePointer(to: &node) { node in
        storage.wait(core, .promise, until: deadline) {
          storage.machine.wait(node)
        } withdraw: {
          .done
        }
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
    var letter: Letter<Message>?
    let storage = prepare(&letter, make)
    if Task.isCancelled { throw CancellationError() }
    switch deliver(&letter) {
    case .delivered: break
    case .full: try check(await waitForRoom(&letter, until: deadline), letter, timeout)
    case .refused(let error): throw error
    }
    let task = WaitingTask()
    let node = UnsafeMutablePointer<WaitNode>.allocate(capacity: 1)
    node.initialize(to: WaitNode(.task(.passUnretained(task))))
    defer { node.deallocate() }
    let cause = await storage.wait(task, until: deadline) {
      storage.machine.wait(node)
    } withdraw: {
      .done
    }
    return try storage.outcome(after: cause, timeout)
  }

  @inlinable
  func askBlocking<Value: Sendable>(timeout: Duration?, _ make: (Reply<Value>) -> Message) throws -> Value {
    requireThread()
    let deadline = WaitDeadline.after(timeout)
    var letter: Letter<Message>?
    let storage = prepare(&letter, make)
    switch deliver(&letter) {
    case .delivered: break
    case .full: try check(waitForRoomBlocking(&letter, until: deadline), letter, timeout)
    case .refused(let error): throw error
    }
    let thread = BlockedThread()
    var node = WaitNode(.thread(.passUnretained(thread)))
    let cause = withUnsafeMutablePointer(to: &node) { node in
      storage.wait(thread, until: deadline) {
        storage.machine.wait(node)
      } withdraw: {
        .done
      }
    }
    return try storage.outcome(after: cause, timeout)
  }

  /// Makes a way back that the asker himself does not hold, and the message.
  @inlinable
  func prepare<Value: Sendable>(
    _ letter: inout Letter<Message>?, _ make: (Reply<Value>) -> Message
  ) -> ReplyStorage<Value> {
    let storage = ReplyStorage<Value>()
    storage.recipient = self
    let end = ReplyEnd(storage)
    letter = Letter(make(Reply(end)), end)
    return storage
  }
}

extension ReplyStorage {
  /// What a wait came to.
  @usableFromInline
  func outcome(after cause: WakeCause, _ timeout: Duration?) throws -> Value {
    // Cancelled, or out of time, but answered before anybody knew.
    if cause == .event || giveUp() { return try takeOutcome() }
    if cause == .timedOut { throw TimeoutError(after: timeout) }
    throw CancellationError()
  }
}

extension ActorCore {
  @usableFromInline
  final func requireThread() {
    require(
      CoroutineCore.current == nil,
      "askBlocking() and tellBlocking() inside a coroutine would block its whole thread: use ask() and tell()")
    require(
      !(coroutine?.home.isMainQueueOnMainThread ?? false),
      "askBlocking() on the main thread for \(describeActor(name)), which runs on the main queue, would wait for ever")
  }
}
