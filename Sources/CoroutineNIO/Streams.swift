// SPDX-License-Identifier: Apache-2.0

#if NIO
  import Context
  import Coroutine
  public import NIOCore

  extension NIOConnection where Outbound == Never {
    /// Wraps a channel that carries several others, as HTTP/2 does: the connection's messages are the streams that the peer
    /// opens, each a connection of its own. `serveStreams` handles them, `read` gets one.
    ///
    /// ```swift
    /// typealias Stream = NIOConnection<HTTPServerRequestPart, HTTPServerResponsePart>
    ///
    /// let listener = try NIOListener(bootstrap, host: "127.0.0.1", port: 8443) { channel in
    ///   try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: tls))
    ///   return try NIOConnection(multiplexing: channel) { stream in
    ///     try Stream(wrapping: stream)
    ///   } configure: { initializer in
    ///     _ = channel.configureCommonHTTPServerPipeline(
    ///       h2ConnectionChannelConfigurator: { $0.pipeline.addHandler(NIOCloseOnErrorHandler()) }, initializer)
    ///   }
    /// }
    /// try listener.serve { connection in
    ///   try connection.serveStreams { stream in
    ///     while let part = try stream.read() { … }
    ///   }
    /// }
    /// ```
    ///
    /// To be called in the channel's initializer, on its loop, behind the handlers that come before the multiplexer, such
    /// as that of TLS: what they report ends the connection. What the multiplexer reports is for the streams, and for
    /// handlers that are added behind it. It leaves to one of them to close the connection: `NIOCloseOnErrorHandler` does. Nor does
    /// it say to the client that the server stops: `NIOHTTP2ServerConnectionManagementHandler` does, which the article
    /// <doc:CoroutineNIO> adds, too.
    ///
    /// The channel itself may be passed for a stream, too, as the example does where a client has chosen HTTP/1.1: then it is
    /// the only one.
    ///
    /// Streams are not held up when no coroutine takes them, since those that were taken share the socket with them. The protocol
    /// bounds the number of open ones: HTTP/2 by `maxConcurrentStreams`, 100 where NIO's settings are not changed. Those that the
    /// peer has reset before they were taken are dropped when there are as many of them as of the others.
    ///
    /// - Parameters:
    ///   - channel: what to wrap.
    ///   - streamInitializer: adds the handlers to a new stream's channel, on its loop, and wraps it. If it throws, the stream
    ///     is closed.
    ///   - configure: adds the multiplexer to `channel`; called once, right now. Its argument is what the multiplexer calls for
    ///     each stream that the peer opens.
    /// - Throws: what the pipeline throws, if it is closed already, and what `configure` throws.
    /// - Precondition: called on the channel's loop: traps otherwise.
    public init<StreamInbound, StreamOutbound>(
      multiplexing channel: any NIOCore::Channel,
      _ streamInitializer:
        @escaping @Sendable (any NIOCore::Channel) throws -> NIOConnection<StreamInbound, StreamOutbound>,
      configure: (_ initializer: @escaping @Sendable (any NIOCore::Channel) -> EventLoopFuture<Void>) throws -> Void
    ) throws where Inbound == NIOConnection<StreamInbound, StreamOutbound> {
      storage = try ConnectionStorage(channel, .ofStreams, readAhead: 0...Int.max) {
        $0.fill(with: Inbound.self, unwrapping: $1)
      }
      let streams = WaitingStreams<StreamInbound, StreamOutbound>(in: storage.handler)
      try configure { channel in
        channel.eventLoop.makeCompletedFuture {
          let stream = try streamInitializer(channel)
          // Not before it is active: until then nothing can be written.
          if channel.isActive {
            streams.append(stream)
          } else {
            stream.storage.handler.onActive = { streams.append(stream) }
          }
        }
      }
    }

    /// Handles the streams that the peer opens, each in a coroutine of its own on the connection's loop, until the connection
    /// is closed or the calling coroutine cancelled.
    ///
    /// ```swift
    /// try listener.serve(grace: .seconds(5)) { connection in
    ///   try connection.serveStreams(limit: 50) { stream in
    ///     while let part = try stream.read(timeout: .seconds(30)) { … }
    ///   }
    /// }
    /// ```
    ///
    /// The coroutines are named after the peer, and numbered. When a handler has returned or thrown, what it has written is
    /// sent, then the stream is closed: with an error for the peer, if the protocol's end was not written, or the peer has not
    /// sent its own. An error of one never ends the others.
    ///
    /// When the connection is closed, or a handler before the multiplexer has reported an error, it waits for the handlers
    /// that run. When it is cancelled, the channel's pipeline gets a `ChannelShouldQuiesceEvent`; it waits for as long as
    /// `grace` at most, then cancels them, and waits for their ends. In a listener's `serve` the connection has had its time
    /// when it is cancelled, so that zero is right there.
    ///
    /// - Parameters:
    ///   - limit: how many streams are handled at a time, at least 1; further ones wait. `nil`: as many as the protocol allows.
    ///   - grace: how long the streams may go on after a cancel; zero or less: they are cancelled at once.
    ///   - closeTimeout: how long a peer may take for what was written when the handler has returned; then it is cut off.
    ///   - stackSize: of each stream's coroutine; `nil` for the default. A stream that gets no stack is closed, and `onError`
    ///     called with a `StackError` by the coroutine that has called this.
    ///   - onError: called with each error of a handler, in the stream's coroutine, except that of a stream which was
    ///     cancelled at the end. `nil`: `CoroutineErrors.unhandled` receives the first error of each kind, and at the
    ///     end, how many there were.
    ///   - handler: what is done with a stream. Runs on the loop's thread: may suspend and throw, must not block.
    /// - Throws: `CancellationError` when it was cancelled; what a handler before the multiplexer has reported.
    /// - Precondition: called inside a coroutine: traps elsewhere.
    @available(*, noasync, message: "call it in a coroutine")
    public func serveStreams<StreamInbound, StreamOutbound>(
      limit: Int? = nil, grace: Duration = .zero, closeTimeout: Duration = .seconds(30),
      stackSize: Int? = nil,
      onError: (
        @Sendable (_ error: any Error, _ stream: NIOConnection<StreamInbound, StreamOutbound>) -> Void
      )? = nil,
      _ handler: @escaping @Sendable (NIOConnection<StreamInbound, StreamOutbound>) throws -> Void
    ) throws where Inbound == NIOConnection<StreamInbound, StreamOutbound> {
      require(limit ?? 1 > 0, "serveStreams(limit: \(limit ?? 0)) of \(name): at least one stream has to be allowed")
      var count = 0
      try Serving(
        name: "streams of \(name)", limit: limit, grace: grace, closeTimeout: closeTimeout,
        stackSize: stackSize, onError: onError,
        next: {
          guard let stream = try read() else { return nil }
          count += 1
          return (stream, "\(name) #\(count)")
        },
        waitsForRest: true,
        handler: handler,
        quiesce: { OpenChannels.quiesce(channel) }
      ).run()
    }
  }

  /// The streams of a connection that no coroutine has taken.
  ///
  /// The protocol bounds the number of open ones only: a client may reset each stream as soon as it has opened it (CVE-2023-44487).
  // Unchecked: used on the loop's thread. Readers of the queue may be on others.
  private final class WaitingStreams<Inbound: Sendable, Outbound: Sendable>: @unchecked Sendable {
    private let queue: DemandQueue<ErasedMessage>
    /// How many waiting streams trigger a search for closed ones: twice the number that was open at the last search.
    private var many = WaitingStreams.least

    private static var least: Int { 32 }

    init(in queue: DemandQueue<ErasedMessage>) { self.queue = queue }

    /// Constant time, taken over many.
    func append(_ stream: NIOConnection<Inbound, Outbound>) {
      queue.append(ErasedMessage(stream))
      if queue.elements.count >= many { dropClosed() }
    }

    /// As long as the connection lives, one that is closed was reset. (If it ends meanwhile, the queue takes none back: all are
    /// closed then.) A reader on another thread may find the queue empty meanwhile, or get a later stream first.
    private func dropClosed() {
      var open: [NIOConnection<Inbound, Outbound>] = []
      while case .received(let message) = queue.elements.tryReceive() {
        let stream = message.take(as: NIOConnection<Inbound, Outbound>.self)
        if !stream.isClosed { open.append(stream) }
      }
      for stream in open { queue.append(ErasedMessage(stream)) }
      many = max(Self.least, 2 * open.count)
    }
  }
#endif
