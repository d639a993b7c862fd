// SPDX-License-Identifier: Apache-2.0

#if NIO
  import Context
  import Coroutine
  public import NIOCore

  /// What the copies of a connection share: the handler, and its owner.
  ///
  /// Neither knows the types of the messages, which are put on and taken off in the caller's code, where the compiler knows them:
  /// generic code that it does not is slow.
  ///
  /// An operation uses the handler alone, so that it does not fetch the owner's memory, too. So the compiler may release the owner,
  /// which closes the channel, before the operation ends, if it does not extend its life.
  @usableFromInline
  struct ConnectionStorage: Sendable {
    let handler: ConnectionHandler
    private let owner: ConnectionOwner

    /// Adds it to the channel's pipeline.
    @usableFromInline
    init(
      wrapping channel: any NIOCore::Channel, readAhead: ClosedRange<Int>, closesByHalves: Bool?,
      fill: @escaping (ErasedMessage, NIOAny) -> Void
    ) throws {
      require(
        readAhead.lowerBound >= 0 && readAhead.upperBound > 0, "NIOConnection(readAhead: \(readAhead)) reads nothing")
      let kind = closesByHalves.map { $0 ? ConnectionKind.whole : .stream } ?? ConnectionKind(of: channel)
      try self.init(channel, kind, readAhead: readAhead, fill: fill)
    }

    init(
      _ channel: any NIOCore::Channel, _ kind: ConnectionKind, readAhead: ClosedRange<Int>,
      fill: @escaping (ErasedMessage, NIOAny) -> Void
    ) throws {
      channel.eventLoop.preconditionInEventLoop()
      let name = channel.remoteAddress.map(Self.text) ?? ""
      handler = ConnectionHandler(of: channel, kind, readAhead: readAhead, name: name, fill: fill)
      owner = ConnectionOwner(of: handler, channel, name: name)
      try channel.pipeline.syncOperations.addHandler(handler)
    }

    var channel: any NIOCore::Channel { owner.channel }
    var eventLoop: any EventLoop { handler.eventLoop }
    var name: String { owner.name }

    /// Does something with the handler, right now or as soon as the loop comes to it. From any thread.
    func onLoopSoon(_ body: @escaping @Sendable (ConnectionHandler) -> Void) {
      defer { withExtendedLifetime(owner) {} }
      handler.onLoopSoon(body)
    }

    // MARK: In coroutines

    @usableFromInline
    func read(_ timeout: Duration?) throws -> ErasedMessage? {
      defer { withExtendedLifetime(owner) {} }
      var message: ErasedMessage?
      let core = CoroutineCore.runningUncounted(for: "NIOConnection.read()")
      withUnsafePointer(to: &message) { handler.reader.note(core, frame: $0) }
      let cause = handler.elements.receive(
        &message, until: WaitDeadline.after(timeout), for: "NIOConnection.read()")
      guard message != nil else {
        try handler.elements.checkEnd(cause, timeout)
        return nil
      }
      handler.tookOne()
      return message
    }

    /// A message whose value the reader has taken: for another value, where this is the loop's thread.
    @usableFromInline
    func reuse(_ message: consuming ErasedMessage) {
      if handler.eventLoop.inEventLoop, isKnownUniquelyReferenced(&message) { handler.scheduler.keep(consume message) }
    }

    /// Waits until there is room, and returns where to write a message at once. `nil` on another thread than the loop's: there
    /// it has to be submitted, which waits, too.
    @usableFromInline
    func placeToWrite(_ timeout: Duration?) throws -> UnsafeMutablePointer<NIOAny>? {
      defer { withExtendedLifetime(owner) {} }
      guard handler.eventLoop.inEventLoop else { return nil }
      let core = CoroutineCore.runningUncounted(for: "NIOConnection.write(_:)")
      // So that it is known whether there is room after those.
      handler.giveIfMany()
      let mayWait = core._withUnsafeGuaranteedRef { $0.isInterrupted } || !handler.takesMessages
      return mayWait ? try placeAfterWait(timeout) : try handler.placeInRun()
    }

    private func placeAfterWait(_ timeout: Duration?) throws -> UnsafeMutablePointer<NIOAny>? {
      // Whether there is room is of no interest then.
      if let refusal = handler.refusal { throw refusal }
      let begin = ContinuousClock.now
      let deadline = WaitDeadline.after(timeout)
      while true {
        try waitUntilWritable(until: deadline, timeout)
        // A coroutine of another scheduler that was begun at once on the loop may be on another thread after this wait, or
        // after the yield. There it must not touch what belongs to the loop.
        guard handler.eventLoop.inEventLoop else { return nil }
        // Of others that have waited, and were first.
        handler.giveWritten()
        if handler.takesMessages { return try handler.placeInRun() }
        guard handler.isFull else { continue }
        // A handler of the pipeline, which has one of the messages, has begun this coroutine: it has to go on first.
        if let timeout, ContinuousClock.now - begin >= timeout { throw TimeoutError(after: timeout) }
        // A pinned coroutine can't give the thread to that handler, and would loop for ever. So its message may exceed the
        // limit by one.
        if CoroutineCore.runningUncounted(for: "NIOConnection.write(_:)")._withUnsafeGuaranteedRef({ $0.isPinned }) {
          return try handler.placeInRun()
        }
        Coroutine.yield()
      }
    }

    /// Writes a message from another thread than the loop's, when there is room.
    @usableFromInline
    func submit(_ message: consuming NIOAny, _ timeout: Duration?) throws {
      defer { withExtendedLifetime(owner) {} }
      let message = OutboundMessage(message)
      let deadline = WaitDeadline.after(timeout)
      // Of several that have waited, others may have been faster.
      repeat { try waitUntilWritable(until: deadline, timeout) } while try !isTaken(message)
    }

    /// Has the loop write a message, if there is room. Suspended until that is so: a coroutine that runs elsewhere can't have more
    /// on the way than the loop has seen. A cancel would only hide whether it was done.
    private func isTaken(_ message: OutboundMessage) throws -> Bool {
      try withCancellationShield {
        let core = CoroutineCore.running(for: "NIOConnection.write(_:)")
        let wait = OutcomeWait<Bool>(of: core)
        handler.eventLoop.execute { [handler] in
          let outcome = Result<Bool, any Error> {
            if let refusal = handler.refusal { throw refusal }
            guard !handler.isHeldUp else { return false }
            handler.write(message.data, promise: nil)
            return true
          }
          _ = wait.settle(outcome)
        }
        // A loop that is shut down drops it, and nobody would end the wait. It has closed the channel before: where that is open
        // here, the loop was not shut down yet, and runs it.
        guard !handler.writability.isClosed else { throw handler.closedError }
        return try wait.value(core, as: .promise, until: WaitDeadline.never, timeout: nil)
      }
    }

    /// Suspends the calling coroutine while more is written than sent.
    func waitUntilWritable(until deadline: UInt64, _ timeout: Duration?) throws {
      defer { withExtendedLifetime(owner) {} }
      try CoroutineCore.runningUncounted(for: "NIOConnection.write(_:)")._withUnsafeGuaranteedRef { core in
        guard !core.isInterrupted else { throw CancellationError() }
        while handler.isHeldUp || handler.writability.isClosed {
          guard !handler.writability.isClosed else { throw handler.closedError }
          try handler.writability.wait(core, .write, seen: nil, until: deadline).check(timeout)
        }
      }
    }

    private static func text(_ address: SocketAddress) -> String {
      guard let ip = address.ipAddress else { return address.pathname ?? "" }
      let port = address.port.map { ":\($0)" } ?? ""
      return ip.contains(":") ? "[\(ip)]\(port)" : "\(ip)\(port)"
    }
  }

  /// Goes with the last copy of a connection, and then closes the channel.
  private final class ConnectionOwner: Sendable {
    let channel: any NIOCore::Channel
    let name: String
    private let handler: ConnectionHandler

    init(of handler: ConnectionHandler, _ channel: any NIOCore::Channel, name: String) {
      (self.handler, self.channel, self.name) = (handler, channel, name)
    }

    deinit {
      if handler.kind == .ofStreams {
        // Those that no coroutine has taken: each leads to the multiplexer, and that to the queue they are in.
        handler.elements.close()
        while case .received = handler.elements.tryReceive() {}
      }
      if !handler.writability.isClosed { handler.onLoopSoon { $0.close(cuttingOffAfter: .seconds(30)) } }
    }
  }

  /// A message on its way to a pipeline, from another thread.
  // Unchecked: the connection's type says that what is in it may be sent.
  final class OutboundMessage: @unchecked Sendable {
    let data: NIOAny

    @usableFromInline
    init(_ data: NIOAny) {
      self.data = data
    }
  }
#endif
