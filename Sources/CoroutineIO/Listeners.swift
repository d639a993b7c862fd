// SPDX-License-Identifier: Apache-2.0

import CCoroutineIO
import Coroutine
import CoroutineLibc

/// A socket that others connect to: `TCPListener`, `UnixListener`. `serve` handles the connections, `accept` gets one.
public protocol StreamListener: Sendable {
  /// What `accept` returns, and `serve` gives to its handler.
  associatedtype Connection: SocketConnection

  /// Where it listens.
  var address: SocketAddress { get }

  /// Suspends the calling coroutine until there is a connection. Several coroutines may wait: each gets another one.
  ///
  /// A connection that its peer has reset meanwhile is skipped. When the process has no descriptor left (EMFILE), the
  /// listener reports this through `CoroutineErrors.unhandled`, once a minute at most, and waits until there are some: it goes
  /// on as soon as a descriptor of this module is closed, and looks ten times a second for those of other code, of which
  /// nothing notifies it.
  ///
  /// - Parameter timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Throws: `TimeoutError`, `CancellationError`, `DescriptorClosed`, `IOError`.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "call it in a coroutine")
  func accept(timeout: Duration?) throws -> Connection

  /// Stops listening: coroutines that wait in `accept` throw `DescriptorClosed`; connections that were accepted go on.
  /// Callable from any thread; further calls have no effect.
  func close()
}

extension StreamListener {
  /// Suspends the calling coroutine until there is a connection, for as long as it takes.
  ///
  /// - Throws: `CancellationError`, `DescriptorClosed`, `IOError`.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "call it in a coroutine")
  public func accept() throws -> Connection { try accept(timeout: nil) }
}

/// Where others connect to by TCP.
///
/// ```swift
/// let listener = try TCPListener(port: 8080)
/// try listener.serve { connection in
///   while let line = try connection.readLine() { try connection.write(line + "\n") }
/// }
/// ```
///
/// Copies are the same listener, for any thread; it is closed with the last one.
public struct TCPListener: StreamListener, DescriptorListener {
  private let storage: ListenerStorage

  init(_ storage: ListenerStorage) {
    self.storage = storage
  }

  /// Listens at an address of this machine. Callable from any thread.
  ///
  /// - Parameters:
  ///   - host: a numeric address: "127.0.0.1" and "::1" for this machine only, "0.0.0.0" for all of IPv4, "::" for all of
  ///     IPv6 and IPv4 (whose peers then look like "::ffff:192.0.2.1"). No name.
  ///   - port: 0: a free one, which is in `address`.
  ///   - backlog: how many connections may wait for `accept`; the system has a limit of its own (somaxconn).
  ///   - reusePort: lets several sockets listen at the same port, in this or in other processes of the user: the kernel
  ///     spreads the connections (SO_REUSEPORT).
  ///   - noDelay: whether small writes of the connections leave at once (TCP_NODELAY).
  /// - Throws: `InvalidAddress`; `IOError`, such as EADDRINUSE, EACCES.
  public init(
    host: String = "127.0.0.1", port: Int = 0, backlog: Int = 4096, reusePort: Bool = false, noDelay: Bool = true
  ) throws {
    try self.init(
      at: SocketAddress(ip: host, port: port), backlog: backlog, reusePort: reusePort, noDelay: noDelay)
  }

  /// Listens at an address of this machine. As the form with a text.
  ///
  /// - Throws: `InvalidAddress` for that of a Unix socket; `IOError`, such as EADDRINUSE, EACCES.
  public init(
    at address: SocketAddress, backlog: Int = 4096, reusePort: Bool = false, noDelay: Bool = true
  ) throws {
    try requireInternet(address)
    let name = "TCP listener \(address)"
    let number = try SocketSetup.make(address.domain, coroutine_io_stream, name: name)
    storage = try SocketSetup.closingOnError(number) {
      // Connections of an earlier run that linger do not keep the port from being used again.
      try SocketSetup.set(SO_REUSEADDR, of: SOL_SOCKET, on: number, name: name)
      if reusePort { try SocketSetup.set(SO_REUSEPORT, of: SOL_SOCKET, on: number, name: name) }
      if address.family == .ipv6 {
        try SocketSetup.set(IPV6_V6ONLY, of: Int32(IPPROTO_IPV6), to: 0, on: number, name: name)
      }
      // Each connection inherits it from its listener.
      if noDelay { try SocketSetup.set(TCP_NODELAY, of: Int32(IPPROTO_TCP), on: number, name: name) }
      try SocketSetup.bind(number, to: address, name: name)
      guard listen(number, Int32(clamping: backlog)) == 0 else {
        throw IOError(operation: "listen", code: coroutine_io_errno(), subject: name)
      }
      let bound = try SocketSetup.localAddress(of: number, name: name)
      return ListenerStorage(try Descriptor(adopting: number, name: "TCP listener \(bound)"), at: bound)
    }
  }

  /// Where it listens, with the port that it has got.
  public var address: SocketAddress { storage.address }

  /// What it listens by.
  public var descriptor: Descriptor { storage.descriptor }

  /// Suspends the calling coroutine until there is a connection. See `StreamListener.accept(timeout:)`.
  ///
  /// - Throws: `TimeoutError`, `CancellationError`, `DescriptorClosed`, `IOError`.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "call it in a coroutine")
  public func accept(timeout: Duration?) throws -> TCPConnection {
    _ = CoroutineCore.running(for: "TCPListener.accept()")
    let (descriptor, peer) = try storage.accept(WaitLimit(timeout)) { TCPConnection.name($0) }
    return TCPConnection(descriptor, to: peer)
  }

  /// Stops listening. See `StreamListener.close()`.
  public func close() { storage.close() }
}

/// Where others of this machine connect to by a Unix socket.
///
/// ```swift
/// let listener = try UnixListener(path: "/run/user/1000/cache.socket")
/// try listener.serve { connection in … }
/// ```
///
/// Copies are the same listener, for any thread; it is closed with the last one, and its path removed.
public struct UnixListener: StreamListener, DescriptorListener {
  private let storage: ListenerStorage

  init(_ storage: ListenerStorage) {
    self.storage = storage
  }

  /// Listens at a path. It takes over a socket that a process which no longer lives has left behind, but not that of a
  /// living one, nor another kind of file. Callable from any thread. It may block for some milliseconds, while another
  /// listener begins in the same folder.
  ///
  /// - Parameters:
  ///   - path: up to 107 bytes. The permissions of the file (by the umask) and of its folders decide which users may
  ///     connect.
  ///   - backlog: how many connections may wait for `accept`; the system has a limit of its own (somaxconn).
  /// - Throws: `InvalidAddress`; `IOError`, such as EADDRINUSE, EACCES, ENOENT.
  public init(path: String, backlog: Int = 4096) throws {
    try self.init(at: SocketAddress.unix(path: path), backlog: backlog)
  }

  /// Listens at the address of a Unix socket, perhaps an abstract one. As the form with a path.
  ///
  /// - Throws: `InvalidAddress` for an address of another kind; `IOError`.
  public init(at address: SocketAddress, backlog: Int = 4096) throws {
    try requireUnix(address)
    let name = "Unix listener \(address.description.dropFirst(5))"
    let number = try SocketSetup.make(AF_UNIX, coroutine_io_stream, name: name)
    storage = try SocketSetup.closingOnError(number) {
      let file = try SocketFile.bind(number, to: address, name: name, backlog: Int32(clamping: backlog))
      do {
        return ListenerStorage(try Descriptor(adopting: number, name: name), at: address, file: file)
      } catch {
        file?.remove()
        throw error
      }
    }
  }

  /// Where it listens.
  public var address: SocketAddress { storage.address }

  /// What it listens by.
  public var descriptor: Descriptor { storage.descriptor }

  /// Suspends the calling coroutine until there is a connection. See `StreamListener.accept(timeout:)`.
  ///
  /// - Throws: `TimeoutError`, `CancellationError`, `DescriptorClosed`, `IOError`.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "call it in a coroutine")
  public func accept(timeout: Duration?) throws -> UnixConnection {
    _ = CoroutineCore.running(for: "UnixListener.accept()")
    let (descriptor, peer) = try storage.accept(WaitLimit(timeout)) { _ in UnixConnection.name(address) }
    return UnixConnection(descriptor, to: peer)
  }

  /// Stops listening, and removes the path if it still is this listener's. See `StreamListener.close()`.
  public func close() { storage.close() }
}
