// SPDX-License-Identifier: Apache-2.0

#if NIO
  import Context
  import Coroutine
  public import NIOCore
  public import NIOPosix

  extension ClientBootstrap {
    /// Connects to a server. Suspends the calling coroutine until that is done.
    ///
    /// ```swift
    /// let connection = try ClientBootstrap(group: group).connect(host: "example.org", port: 80) { channel in
    ///   try channel.pipeline.syncOperations.addHTTPClientHandlers()
    ///   return try NIOConnection<HTTPClientResponsePart, HTTPClientRequestPart>(wrapping: channel)
    /// }
    /// ```
    ///
    /// The bootstrap's options hold, its `connectTimeout` too; its `channelInitializer` is replaced: one bootstrap makes one
    /// connection at a time.
    ///
    /// - Parameters:
    ///   - host: an address, or a name that is resolved: all of its addresses are tried.
    ///   - port: the server's.
    ///   - initializer: adds the handlers to the channel, on its loop, and wraps it, or a channel that it carries. Called for
    ///     each address that is tried.
    /// - Throws: `CancellationError`; `NIOConnectionError`, `ChannelError.connectTimeout`; what the initializer throws.
    /// - Precondition: called inside a coroutine: traps elsewhere.
    @available(*, noasync, message: "call it in a coroutine")
    public func connect<Inbound, Outbound>(
      host: String, port: Int,
      initializer: @escaping @Sendable (any NIOCore::Channel) throws -> NIOConnection<Inbound, Outbound>
    ) throws -> NIOConnection<Inbound, Outbound> {
      try connect(initializer) { $0.connect(host: host, port: port) }
    }

    /// Connects to a server, by a Unix socket for example. As the form with host and port.
    ///
    /// - Precondition: called inside a coroutine: traps elsewhere.
    @available(*, noasync, message: "call it in a coroutine")
    public func connect<Inbound, Outbound>(
      to address: NIOCore::SocketAddress,
      initializer: @escaping @Sendable (any NIOCore::Channel) throws -> NIOConnection<Inbound, Outbound>
    ) throws -> NIOConnection<Inbound, Outbound> {
      try connect(initializer) { $0.connect(to: address) }
    }

    @available(*, noasync)
    private func connect<Inbound, Outbound>(
      _ initializer: @escaping @Sendable (any NIOCore::Channel) throws -> NIOConnection<Inbound, Outbound>,
      _ start: (ClientBootstrap) -> EventLoopFuture<any NIOCore::Channel>
    ) throws -> NIOConnection<Inbound, Outbound> {
      let tries = Tries<NIOConnection<Inbound, Outbound>>()
      // The others, and one that comes too late, are closed with their last copies.
      defer { tries.end() }
      let connected = start(
        channelInitializer { channel in
          channel.eventLoop.makeCompletedFuture { tries.add(try initializer(channel), of: channel) }
        })
      let channel = try connected.get()
      guard let connection = tries.first(of: channel) else {
        fatalError("\(channel) was connected without its initializer")
      }
      return connection
    }
  }

  /// The connections of the addresses that are tried, until one of them stands; each with the channel of its address, which need
  /// not be the one that it wraps.
  // Unchecked: the lock guards what changes.
  private final class Tries<Connection: Sendable>: @unchecked Sendable {
    private let lock = Lock()
    /// Guarded by the lock.
    private var all: [(channel: any NIOCore::Channel, connection: Connection)]? = []

    func add(_ connection: Connection, of channel: any NIOCore::Channel) {
      lock.withLock { all?.append((channel, connection)) }
    }

    func first(of channel: any NIOCore::Channel) -> Connection? {
      lock.withLock { all }?.first { $0.channel === channel }?.connection
    }

    func end() {
      // Released after the unlock.
      _ = lock.withLock { all.take() }
    }
  }
#endif
