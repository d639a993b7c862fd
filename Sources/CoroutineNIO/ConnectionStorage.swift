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
    let channel: any NIOCore::Channel
    let eventLoop: any EventLoop
    let name: String
    let handler: ConnectionHandler
    let inbound: DemandQueue<ErasedMessage>
    /// What writers wait for.
    let writability: ReadinessStorage

    init(_ channel: any NIOCore::Channel, _ kind: ConnectionKind, readAhead: ClosedRange<Int>) {
      self.channel = channel
      eventLoop = channel.eventLoop
      name = channel.remoteAddress.map(Self.text) ?? ""
      handler = ConnectionHandler(of: channel, kind, readAhead: readAhead, name: name)
      (inbound, writability) = (handler.inbound, handler.writability)
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
      _ = CoroutineCore.runningUncounted(for: "NIOConnection.read()")
      let message: ErasedMessage
      do {
        message = try inbound.elements.receive(timeout: timeout)
      } catch is ChannelClosed<ErasedMessage> {
        return nil
      }
      inbound.tookOne()
      return message
    }

    @usableFromInline
    func write(_ message: ErasedMessage, _ timeout: Duration?) throws {
      try waitUntilWritable(timeout)
      if eventLoop.inEventLoop { return try handler.write(message) }
      // Suspended until it is there: so a coroutine that runs elsewhere can't have more on the way than the loop has seen. A
      // cancel would only hide whether it was done.
      try withCancellationShield {
        try eventLoop.submit { [handler] in try handler.write(message) }.get()
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

  /// A message of any type on its way between a pipeline and a coroutine: opaque.
  // Unchecked: the connection's type says that what is in it may be sent.
  public struct ErasedMessage: @unchecked Sendable {
    @usableFromInline let data: NIOAny

    init(_ data: NIOAny) {
      self.data = data
    }

    @inlinable
    init<Value: Sendable>(_ value: Value) {
      data = NIOAny(value)
    }

    /// Ends the program where the pipeline's handlers deliver another type.
    @inlinable
    func unwrapped<Value>(as type: Value.Type) -> Value { Unwrapping<Value>.unwrapInboundIn(data) }
  }

  /// By which NIO tells what is in a message: never in a pipeline.
  @usableFromInline
  final class Unwrapping<InboundIn>: ChannelInboundHandler {}
#endif
