// SPDX-License-Identifier: Apache-2.0

#if NIO
  import Context
  import Coroutine
  import CoroutineIO
  import CoroutineLibc
  public import NIOCore
  public import NIOPosix

  /// Where clients connect to, by SwiftNIO: `serve` handles the connections, `accept` gets one.
  ///
  /// ```swift
  /// let bootstrap = ServerBootstrap(group: group).serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
  /// let listener = try NIOListener(bootstrap, host: "127.0.0.1", port: 8080) { channel in
  ///   try channel.pipeline.syncOperations.configureHTTPServerPipeline()
  ///   return try NIOConnection<HTTPServerRequestPart, HTTPServerResponsePart>(wrapping: channel)
  /// }
  /// try listener.serve { connection in
  ///   while let part = try connection.read() { … }
  /// }
  /// ```
  ///
  /// A few connections are accepted ahead of demand; the others wait in the system's queue. Copies are the same listener, for
  /// any thread; it is closed with the last one.
  public struct NIOListener<Inbound: Sendable, Outbound: Sendable>: Sendable {
    private let storage: ListenerStorage<NIOConnection<Inbound, Outbound>>

    /// Listens at an address of this machine. Suspends the calling coroutine until that is so.
    ///
    /// The bootstrap's options hold, and its `serverChannelInitializer`; its `childChannelInitializer` is replaced.
    ///
    /// - Parameters:
    ///   - bootstrap: has the loops on which the connections are to be.
    ///   - host: an address, or a name that is resolved.
    ///   - port: 0: one that is free, which `localAddress` says.
    ///   - initializer: adds the handlers to a new connection's channel, on its loop, and wraps it. If it throws, the
    ///     connection is closed.
    /// - Throws: `CancellationError`; `IOError` of NIO, such as EADDRINUSE.
    /// - Precondition: called inside a coroutine: traps elsewhere.
    @available(*, noasync, message: "call it in a coroutine")
    public init(
      _ bootstrap: ServerBootstrap, host: String, port: Int,
      initializer: @escaping @Sendable (any NIOCore::Channel) throws -> NIOConnection<Inbound, Outbound>
    ) throws {
      try self.init(bootstrap, initializer) { $0.bind(host: host, port: port) }
    }

    /// Listens at an address of this machine, that of a Unix socket for example. As the form with host and port.
    ///
    /// - Throws: `CancellationError`; `IOError` of NIO, such as EADDRINUSE.
    /// - Precondition: called inside a coroutine: traps elsewhere.
    @available(*, noasync, message: "call it in a coroutine")
    public init(
      _ bootstrap: ServerBootstrap, at address: NIOCore::SocketAddress,
      initializer: @escaping @Sendable (any NIOCore::Channel) throws -> NIOConnection<Inbound, Outbound>
    ) throws {
      try self.init(bootstrap, initializer) { $0.bind(to: address) }
    }

    private init(
      _ bootstrap: ServerBootstrap,
      _ initializer: @escaping @Sendable (any NIOCore::Channel) throws -> NIOConnection<Inbound, Outbound>,
      bind: (ServerBootstrap) -> EventLoopFuture<any NIOCore::Channel>
    ) throws {
      // The loop of the server's channel is known when it is bound; by then clients may have come.
      let arrivals = Arrivals<NIOConnection<Inbound, Outbound>>()
      let bound = bind(
        bootstrap.serverChannelOption(.autoRead, value: false).childChannelInitializer { channel in
          channel.eventLoop.makeCompletedFuture {
            let connection = try initializer(channel)
            // Not before: until then nothing can be written.
            connection.storage.handler.onActive = { arrivals.queue?.append(connection) }
            arrivals.end(channel)
          }
        })
      // For a caller that uses the bootstrap again.
      _ = bootstrap.serverChannelOption(.autoRead, value: true)
      // A cancel would leave a bound socket without an owner.
      let channel = try withCancellationShield { try bound.get() }
      let storage = ListenerStorage<NIOConnection<Inbound, Outbound>>(channel)
      arrivals.queue = storage.accepted
      self.storage = storage
      try channel.eventLoop.submit {
        try channel.pipeline.syncOperations.addHandler(
          AcceptGate(storage.accepted, arrivals, name: storage.name), position: .first)
      }.flatMap { channel.setOption(.autoRead, value: true) }.get()
    }

    /// The channel that listens.
    public var channel: any NIOCore::Channel { storage.channel }

    /// Where it listens; `nil` once it is closed.
    public var localAddress: NIOCore::SocketAddress? { storage.channel.localAddress }

    /// Suspends the calling coroutine until there is a connection. Several coroutines may wait: each gets another one.
    ///
    /// Where the process or the system has no descriptor or memory for another one, it goes on when there is one: that is
    /// reported once a minute to `CoroutineErrors.unhandled`, as `AcceptSuspended` of CoroutineIO. For other errors of accept(2),
    /// except that the client has gone (ECONNABORTED), NIO closes the channel: EPERM of a firewall, for example.
    ///
    /// - Parameter timeout: how long to wait at most; zero or less: not at all; `nil`: for ever.
    /// - Throws: `TimeoutError`, `CancellationError`; `ChannelError.ioOnClosedChannel` if it is closed; what else NIO has closed
    ///   the channel for.
    /// - Precondition: called inside a coroutine: traps elsewhere.
    @available(*, noasync, message: "call it in a coroutine")
    public func accept(timeout: Duration? = nil) throws -> NIOConnection<Inbound, Outbound> {
      let connection: NIOConnection<Inbound, Outbound>
      do {
        connection = try storage.accepted.elements.receive(timeout: timeout)
      } catch is ChannelClosed<NIOConnection<Inbound, Outbound>> {
        throw ChannelError.ioOnClosedChannel
      }
      storage.accepted.tookOne()
      return connection
    }

    /// Stops listening: coroutines that wait in `accept` throw; connections that were accepted go on, but those that no
    /// caller has taken are closed. Callable from any thread; again: without effect.
    public func close() { storage.close() }

    /// Handles connections, each in a coroutine of its own on its channel's loop, until the calling coroutine is cancelled or
    /// the listener closed.
    ///
    /// ```swift
    /// let server = Coroutine(name: "server") {
    ///   try listener.serve(limit: 10_000) { connection in
    ///     while let bytes = try connection.read(timeout: .seconds(60)) { try connection.write(bytes) }
    ///   }
    /// }
    /// …
    /// server.cancel()             // no new connections; those that run have ten seconds to end
    /// ```
    ///
    /// The coroutines are named after their peers. When a handler has returned or thrown, what it has written is sent, and
    /// the connection closed, by `close()`: also a client that still sends gets its answer. An error of one never ends the
    /// others.
    ///
    /// A client that ends its half before it has the answer does not get it, unless the bootstrap has the option
    /// `childChannelOption(.allowRemoteHalfClosure, value: true)`: without it NIO closes a channel as a whole at the end of the
    /// peer's half. With it `read()` gives `nil` then, and the handler may go on writing.
    ///
    /// When it is cancelled, or the listener closed, it takes no more connections. The pipelines of those that run get a
    /// `ChannelShouldQuiesceEvent`: NIO's handlers for HTTP/1.1 then close those that are between two requests, and the others
    /// after the request; for HTTP/2 this takes one more handler, see the article <doc:CoroutineNIO>. It waits for their ends, for
    /// as long as `grace` at most, then cancels them, and waits again. A listener that was not closed stays open. The grace after a
    /// close is ended by a cancel; that after a cancel by nothing.
    ///
    /// - Parameters:
    ///   - limit: how many connections are handled at a time, at least 1; a few more may be accepted, and wait. `nil`: any
    ///     number.
    ///   - grace: how long the connections may go on after the end; zero or less: they are cancelled at once.
    ///   - closeTimeout: how long a peer may take for what was written when the handler has returned; then it is cut off.
    ///   - stackSize: of each connection's coroutine; `nil` for the default. A connection that gets no stack is closed, and
    ///     `onError` called with a `StackError` by the coroutine that has called this.
    ///   - onError: called with each error of a handler, in the connection's coroutine, except that of a connection
    ///     which was cancelled at the end. `nil`: `CoroutineErrors.unhandled` receives the first error of each kind,
    ///     and at the end, how many there were.
    ///   - handler: what is done with a connection. Runs on the loop's thread: may suspend and throw, must not block.
    /// - Throws: `CancellationError` when it was cancelled, also in the grace after a close; what NIO has closed the channel for.
    ///   Nothing if the listener was closed.
    /// - Precondition: called inside a coroutine: traps elsewhere.
    @available(*, noasync, message: "call it in a coroutine")
    public func serve(
      limit: Int? = nil, grace: Duration = .seconds(10), closeTimeout: Duration = .seconds(30),
      stackSize: Int? = nil,
      onError: (@Sendable (_ error: any Error, _ connection: NIOConnection<Inbound, Outbound>) -> Void)? = nil,
      _ handler: @escaping @Sendable (NIOConnection<Inbound, Outbound>) throws -> Void
    ) throws {
      _ = CoroutineCore.running(for: "serve")
      let name = localAddress.map { "\($0)" } ?? "a closed listener"
      require(limit ?? 1 > 0, "serve(limit: \(limit ?? 0)) at \(name): at least one connection has to be allowed")
      let open = OpenChannels()
      try Serving(
        name: "connections at \(name)", limit: limit, grace: grace, closeTimeout: closeTimeout,
        stackSize: stackSize, onError: onError,
        next: {
          do {
            let connection = try accept()
            return (connection, connection.name)
          } catch ChannelError.ioOnClosedChannel { return nil }
        },
        ended: storage.ended,
        waitsForRest: false,
        handler: { connection in
          open.add(connection.channel)
          defer { open.remove(connection.channel) }
          try handler(connection)
        },
        quiesce: open.quiesce
      ).run()
    }
  }

  /// What the copies of a listener share: when it goes, the channel is closed.
  private final class ListenerStorage<Connection: Sendable>: Sendable {
    let channel: any NIOCore::Channel
    let name: String
    let accepted: DemandQueue<Connection>
    /// Closed with `accepted`, by the same error: for a `serve` that has no room for another connection.
    let ended: Coroutine::Channel<Void>

    init(_ channel: any NIOCore::Channel) {
      self.channel = channel
      name = "connections at " + (channel.localAddress.map { "\($0)" } ?? "")
      accepted = DemandQueue(
        Coroutine::Channel(capacity: .unbounded, name: name), of: channel.eventLoop, readAhead: 4...16)
      let ended = Coroutine::Channel<Void>(name: "end of \(name)")
      self.ended = ended
      accepted.elements.whenClosed { ended.close(throwing: $0) }
    }

    // Also what no caller has taken: the bootstrap, which its owner may keep, leads to the queue.
    deinit { close() }

    func close() {
      // One that is closed may have a loop that is shut down, and takes nothing.
      if channel.isActive { channel.close(promise: nil) }
      accepted.elements.close()
      // With the last copy of each, it is closed.
      while case .received = accepted.elements.tryReceive() {}
    }
  }

  /// New connections, from the accept until they are set up.
  ///
  /// A connection is set up on its own loop, which may have other things to do. Meanwhile the server's loop would accept any
  /// number: so the queue counts those, too. (Not until they are in the queue: a handler of the user's may wait for the client's
  /// first bytes before it lets the connection become active, and silent clients would keep others out.)
  // Unchecked: the queue is written before the server's channel reads for the first time; the lock guards the rest.
  private final class Arrivals<Connection: Sendable>: @unchecked Sendable {
    var queue: DemandQueue<Connection>?
    private let lock = Lock()
    /// Guarded by the lock.
    private var underway: Set<ObjectIdentifier> = []

    func begin(_ channel: any NIOCore::Channel) {
      let id = ObjectIdentifier(channel)
      lock.withLock { _ = underway.insert(id) }
      queue?.announce()
      // One that can't be set up is closed.
      channel.closeFuture.whenComplete { _ in self.end(id) }
    }

    func end(_ channel: any NIOCore::Channel) { end(ObjectIdentifier(channel)) }

    private func end(_ id: ObjectIdentifier) {
      if lock.withLock({ underway.remove(id) }) != nil { queue?.settle() }
    }
  }

  /// The first one in the pipeline of the server's channel: has it accept no more than are wanted.
  // Unchecked: belongs to the loop's thread.
  private final class AcceptGate<Connection: Sendable>: ChannelDuplexHandler, @unchecked Sendable {
    typealias InboundIn = any NIOCore::Channel
    typealias OutboundIn = Never

    private let accepted: DemandQueue<Connection>
    private let arrivals: Arrivals<Connection>
    private let name: String
    /// Why NIO is about to close the channel.
    private var failure: (any Error)?
    /// When a shortage was last reported.
    private var lastReport: NIODeadline?
    /// While there is one: the next try has its time.
    private var isPaused = false

    init(_ accepted: DemandQueue<Connection>, _ arrivals: Arrivals<Connection>, name: String) {
      self.accepted = accepted
      self.arrivals = arrivals
      self.name = name
    }

    func read(context: ChannelHandlerContext) { if !isPaused { accepted.readIfWanted(context) } }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      arrivals.begin(unwrapInboundIn(data))
      context.fireChannelRead(data)
    }

    /// Errors of a read that does not end the channel come before this, the last one of a channel behind it.
    func channelReadComplete(context: ChannelHandlerContext) {
      failure = nil
      context.fireChannelReadComplete()
    }

    /// A connection could not be accepted.
    func errorCaught(context: ChannelHandlerContext, error: any Error) {
      switch (error as? NIOCore.IOError)?.errnoCode {
      // The client has gone.
      case ECONNABORTED: break
      // NIO goes on behind these only: for all others, such as the EPROTO and EPERM for which CoroutineIO tries again, it is about
      // to close the channel.
      case .some(let code) where [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(code): pause(context, code)
      default: failure = error
      }
      context.fireErrorCaught(error)
    }

    /// The kernel does not say when there is room again, and goes on to report the waiting client: NIO would try at once, and
    /// for ever.
    private func pause(_ context: ChannelHandlerContext, _ code: CInt) {
      guard !isPaused, let options = context.channel.syncOptions else { return }
      isPaused = true
      let now = NIODeadline.now()
      if lastReport.map({ now - $0 >= .minutes(1) }) ?? true {
        lastReport = now
        let cause = CoroutineIO::IOError(operation: "accept", code: code, subject: name)
        CoroutineErrors.unhandled(AcceptSuspended(cause: cause), name)
      }
      // Off, it is not asked for events; on, it reads. By then the channel may be closed.
      try? options.setOption(.autoRead, value: false)
      context.eventLoop.assumeIsolated().scheduleTask(in: .milliseconds(100)) {
        self.isPaused = false
        try? options.setOption(.autoRead, value: true)
      }
    }

    func channelInactive(context: ChannelHandlerContext) {
      accepted.endReading(throwing: failure)
      context.fireChannelInactive()
    }

    func handlerRemoved(context: ChannelHandlerContext) { accepted.endReading() }
  }
#endif
