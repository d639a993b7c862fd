// SPDX-License-Identifier: Apache-2.0

#if NIO
  import Context
  import Coroutine
  public import NIOCore

  /// What the copies of a connection share: when it goes, the channel is closed.
  ///
  /// Neither this nor the handler knows the types of the messages, which are put on and taken off in the caller's code,
  /// where the compiler knows them: generic code that it does not is slow.
  // Unchecked: constant; the handler is touched on the loop's thread only, but for what it says itself.
  @usableFromInline
  final class ConnectionStorage: @unchecked Sendable {
    let inbound: DemandQueue<ErasedMessage>
    let handler: ConnectionHandler
    let eventLoop: any EventLoop
    /// What writers wait for.
    let writability: ReadinessStorage
    let channel: any NIOCore::Channel
    let name: String

    /// Adds it to the channel's pipeline.
    @usableFromInline
    convenience init(
      wrapping channel: any NIOCore::Channel, readAhead: ClosedRange<Int>, closesByHalves: Bool?,
      makeMessage: @escaping (NIOAny) -> ErasedMessage
    ) throws {
      require(
        readAhead.lowerBound >= 0 && readAhead.upperBound > 0, "NIOConnection(readAhead: \(readAhead)) reads nothing")
      let kind = closesByHalves.map { $0 ? ConnectionKind.whole : .stream } ?? ConnectionKind(of: channel)
      try self.init(channel, kind, readAhead: readAhead, makeMessage: makeMessage)
    }

    init(
      _ channel: any NIOCore::Channel, _ kind: ConnectionKind, readAhead: ClosedRange<Int>,
      makeMessage: @escaping (NIOAny) -> ErasedMessage
    ) throws {
      channel.eventLoop.preconditionInEventLoop()
      self.channel = channel
      eventLoop = channel.eventLoop
      name = channel.remoteAddress.map(Self.text) ?? ""
      handler = ConnectionHandler(of: channel, kind, readAhead: readAhead, name: name, makeMessage: makeMessage)
      (inbound, writability) = (handler.inbound, handler.writability)
      try channel.pipeline.syncOperations.addHandler(handler)
    }

    deinit {
      if !writability.isClosed { onLoopSoon { $0.close(within: .seconds(30)) } }
    }

    /// Does something with the handler, right now or as soon as the loop comes to it. From any thread.
    func onLoopSoon(_ body: @escaping @Sendable (ConnectionHandler) -> Void) {
      if eventLoop.inEventLoop {
        body(handler)
      } else {
        eventLoop.execute { [handler] in body(handler) }
      }
    }

    // MARK: In coroutines

    @usableFromInline
    func read(_ timeout: Duration?) throws -> ErasedMessage? {
      var message: ErasedMessage?
      let core = CoroutineCore.runningUncounted(for: "NIOConnection.read()")
      withUnsafePointer(to: &message) { handler.reader.note(core, frame: $0, object: self) }
      let cause = inbound.elements.receive(
        &message, until: WaitDeadline.after(timeout), for: "NIOConnection.read()")
      guard message != nil else {
        try inbound.elements.checkEnd(cause, timeout)
        return nil
      }
      inbound.tookOne()
      return message
    }

    @usableFromInline
    func write(_ message: consuming NIOAny, _ timeout: Duration?) throws {
      guard eventLoop.inEventLoop else {
        try waitUntilWritable(timeout)
        return try submit(OutboundMessage(message))
      }
      let core = CoroutineCore.runningUncounted(for: "NIOConnection.write(_:)")
      // So that it is known whether there is room after that.
      handler.giveWritten()
      let mayWait = core._withUnsafeGuaranteedRef { $0.isInterrupted } || !handler.takesMessages
      if mayWait {
        try waitUntilWritable(timeout)
        // One of another scheduler that has begun at once here goes on there.
        guard eventLoop.inEventLoop else { return try submit(OutboundMessage(message)) }
      }
      try handler.writeInTurn(message)
    }

    /// From another thread than the loop's.
    private func submit(_ message: OutboundMessage) throws {
      // Suspended until it is there: so a coroutine that runs elsewhere can't have more on the way than the loop has seen. A
      // cancel would only hide whether it was done.
      try withCancellationShield {
        try eventLoop.submit { [handler] in
          guard !handler.isGone else { throw handler.closedError }
          handler.write(message.data, promise: nil)
        }.get()
      }
    }

    /// Suspends the calling coroutine while more is written than sent.
    func waitUntilWritable(_ timeout: Duration?) throws {
      try CoroutineCore.runningUncounted(for: "NIOConnection.write(_:)")._withUnsafeGuaranteedRef { core in
        guard !core.isInterrupted else { throw CancellationError() }
        if handler.isHeldUp || writability.isClosed { try wait(core, timeout) }
      }
    }

    private func wait(_ core: CoroutineCore, _ timeout: Duration?) throws {
      let deadline = WaitDeadline.after(timeout)
      while true {
        guard !writability.isClosed else { throw handler.closedError }
        guard handler.isHeldUp else { return }
        try writability.wait(core, .write, seen: nil, until: deadline).check(timeout)
      }
    }

    private static func text(_ address: SocketAddress) -> String {
      guard let ip = address.ipAddress else { return address.pathname ?? "" }
      let port = address.port.map { ":\($0)" } ?? ""
      return ip.contains(":") ? "[\(ip)]\(port)" : "\(ip)\(port)"
    }
  }

  /// A message of a type that only the connection knows, on its way from a pipeline to a coroutine: opaque.
  ///
  /// An object, so that queues, waiters and frames have one word of it: the frames of a coroutine that waits are in no near
  /// cache when it goes on. Its own memory is: the message before has just given it back.
  // Unchecked: has nothing; see the class below.
  public class ErasedMessage: @unchecked Sendable {
    @inlinable
    init() {}

    /// What is in it.
    @inlinable
    final func value<Value: Sendable>(as type: Value.Type) -> Value {
      // Right: a connection makes and takes messages of one type.
      unsafeDowncast(self, to: InboundMessage<Value>.self).value
    }
  }

  @usableFromInline
  // Unchecked: restates that of the class above; the value is constant and may be sent.
  final class InboundMessage<Value: Sendable>: ErasedMessage, @unchecked Sendable {
    @usableFromInline let value: Value

    @inlinable
    init(_ value: Value) {
      self.value = value
    }

    /// What a pipeline delivers. Ends the program if it is of another type.
    @inlinable
    convenience init(unwrapping data: NIOAny) {
      self.init(Unwrapping<Value>.unwrapInboundIn(data))
    }
  }

  /// By which NIO tells what is in a message: never in a pipeline.
  @usableFromInline
  final class Unwrapping<InboundIn>: ChannelInboundHandler {}

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
