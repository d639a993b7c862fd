#if NIO
  import Context
  import Coroutine
  import NIOCore

  /// What the copies of a connection share: when it goes, the channel is closed.
  // Unchecked: constant; the handler is touched on the loop's thread only, but for what it says itself.
  final class ConnectionStorage<Inbound: Sendable, Outbound: Sendable>: @unchecked Sendable {
    let channel: any NIOCore::Channel
    let name: String
    let handler: ConnectionHandler<Inbound, Outbound>

    var inbound: DemandQueue<Inbound> { handler.inbound }
    /// Whom writers wait for.
    var writability: ReadinessStorage { handler.writability }

    init(_ channel: any NIOCore::Channel, readAhead: ClosedRange<Int>) {
      self.channel = channel
      name = channel.remoteAddress.map(Self.text) ?? ""
      handler = ConnectionHandler(of: channel, readAhead: readAhead, name: name)
    }

    deinit {
      if !writability.isClosed { onLoopSoon { $0.close() } }
    }

    /// Does something with the handler, right now or as soon as the loop comes to it. From any thread.
    func onLoopSoon(_ body: @escaping @Sendable (ConnectionHandler<Inbound, Outbound>) -> Void) {
      if channel.eventLoop.inEventLoop {
        body(handler)
      } else {
        channel.eventLoop.execute { [handler] in body(handler) }
      }
    }

    /// The same for a coroutine, which is suspended until it is done. So one that runs elsewhere can't have more on the way
    /// than the loop has seen, whose `isWritable` it asks.
    func onLoop(_ body: @escaping @Sendable (ConnectionHandler<Inbound, Outbound>) -> Void) throws {
      guard !channel.eventLoop.inEventLoop else { return body(handler) }
      // It is on its way: a cancel would only hide whether it was done.
      try withCancellationShield {
        try channel.eventLoop.submit { [handler] in body(handler) }.get()
      }
    }

    /// Suspends the calling coroutine while more is written than sent.
    func waitUntilWritable(_ timeout: Duration?) throws {
      let core = CoroutineCore.running(for: "NIOConnection.write(_:)")
      guard !core.isInterrupted else { throw CancellationError() }
      guard !channel.isWritable || writability.isClosed else { return }
      let deadline = WaitDeadline.after(timeout)
      while true {
        guard !writability.isClosed else { throw handler.failure ?? ChannelError.ioOnClosedChannel }
        guard !channel.isWritable else { return }
        try writability.wait(core, .write, seen: nil, until: deadline).check(timeout)
      }
    }

    private static func text(_ address: SocketAddress) -> String {
      guard let ip = address.ipAddress else { return address.pathname ?? "" }
      let port = address.port.map { ":\($0)" } ?? ""
      return ip.contains(":") ? "[\(ip)]\(port)" : "\(ip)\(port)"
    }
  }

  /// The last handler of a connection's pipeline: what arrives here, coroutines read.
  // Unchecked: belongs to the loop's thread, but for `inbound` and `writability`, which are for any thread, and `failure`,
  // which is written before the waits are ended, and read after.
  final class ConnectionHandler<Inbound: Sendable, Outbound: Sendable>: ChannelDuplexHandler, Flushable,
    @unchecked Sendable
  {
    typealias InboundIn = Inbound
    typealias OutboundIn = Never
    typealias OutboundOut = Outbound

    let inbound: DemandQueue<Inbound>
    let writability: ReadinessStorage
    private let scheduler: EventLoopScheduler
    private var context: ChannelHandlerContext?
    private var isUnflushed = false
    private var isClosing = false
    /// What a handler has reported, first.
    private(set) var failure: (any Error)?
    /// Told once, when the channel is active.
    var onActive: (() -> Void)?

    init(of channel: any NIOCore::Channel, readAhead: ClosedRange<Int>, name: String) {
      let name = "NIO connection \(name)"
      inbound = DemandQueue(of: channel.eventLoop, readAhead: readAhead, name: name)
      // Both sides of the circle through the channel are cut when it has closed: it removes its handlers.
      writability = ReadinessStorage(name: name) { _ in channel.isWritable }
      scheduler = EventLoopScheduler.of(channel.eventLoop)
    }

    // MARK: Inbound

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func channelActive(context: ChannelHandlerContext) {
      onActive?()
      onActive = nil
      context.fireChannelActive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) { inbound.append(unwrapInboundIn(data)) }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
      if case .inputClosed = event as? ChannelEvent { inbound.close() }
      context.fireUserInboundEventTriggered(event)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
      // Not once it is closed: then others may read it.
      if failure == nil, !writability.isClosed { failure = error }
      inbound.close(throwing: error)
    }

    func channelInactive(context: ChannelHandlerContext) {
      end()
      context.fireChannelInactive()
    }

    func handlerRemoved(context: ChannelHandlerContext) {
      self.context = nil
      end()
    }

    private func end() {
      onActive = nil
      inbound.close()
      _ = writability.closeWaits()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
      if context.channel.isWritable { writability.becomeReady(.writable) }
      context.fireChannelWritabilityChanged()
    }

    // MARK: Outbound

    func read(context: ChannelHandlerContext) { inbound.read(context) }

    func write(_ message: Outbound, promise: EventLoopPromise<Void>?) {
      guard let context else { return refuse(promise) }
      context.write(wrapOutboundOut(message), promise: promise)
      guard !isUnflushed else { return }
      isUnflushed = true
      scheduler.flushLater(self)
    }

    func flush() {
      isUnflushed = false
      context?.flush()
    }

    func closeOutput(promise: EventLoopPromise<Void>?) {
      guard let context else { return refuse(promise) }
      flush()
      context.close(mode: .output, promise: promise)
    }

    /// It is closed.
    private func refuse(_ promise: EventLoopPromise<Void>?) {
      promise?.fail(failure ?? ChannelError.ioOnClosedChannel)
    }

    func close() {
      guard let context, !isClosing else { return }
      isClosing = true
      // The half that writes is closed when all is sent; where a channel has no halves, at once.
      let sent = context.eventLoop.makePromise(of: Void.self)
      sent.futureResult.assumeIsolated().whenComplete { _ in self.context?.close(promise: nil) }
      closeOutput(promise: sent)
    }
  }
#endif
