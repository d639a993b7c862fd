// SPDX-License-Identifier: Apache-2.0

import CCoroutineIO
import Coroutine
import CoroutineLibc

/// A connection between Unix sockets, within this machine.
///
/// ```swift
/// let connection = try UnixConnection(to: "/run/database.socket")
/// ```
///
/// Copies are the same connection, for any thread; with the last one it is closed.
public struct UnixConnection: SocketConnection {
  public let endpoint: StreamEndpoint
  /// The peer's address: the path of the connect; without a name for a peer that has connected to us.
  public let remoteAddress: SocketAddress

  init(_ descriptor: Descriptor, to remoteAddress: SocketAddress) {
    endpoint = StreamEndpoint(descriptor, socketDomain: AF_UNIX)
    self.remoteAddress = remoteAddress
  }

  /// Connects to a socket in the file system; suspends while the listener's queue is full: the kernel does not say when it no
  /// longer is, so that it tries again after a while, 64 ms at most.
  ///
  /// - Parameters:
  ///   - path: of the socket.
  ///   - timeout: how long it may take; zero or less: at once or not at all; `nil`: without a limit.
  /// - Throws: `IOError`, such as ENOENT, ECONNREFUSED; `InvalidAddress` for a path that is too long; `TimeoutError`;
  ///   `CancellationError`.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "call it in a coroutine")
  public init(to path: String, timeout: Duration? = nil) throws {
    try self.init(to: SocketAddress.unix(path: path), timeout: timeout)
  }

  /// Connects to the address of a Unix socket, perhaps an abstract one. As `init(to:timeout:)` of a path.
  ///
  /// - Throws: `IOError`; `InvalidAddress` for an address of another kind; `TimeoutError`; `CancellationError`.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "call it in a coroutine")
  public init(to address: SocketAddress, timeout: Duration? = nil) throws {
    _ = CoroutineCore.running(for: "UnixConnection(to:)")
    try requireUnix(address)
    self.init(
      try SocketSetup.connect(to: address, name: Self.name(address), WaitLimit(timeout)), to: address)
  }

  /// Two connections that are each other's peer (socketpair). Callable from any thread.
  ///
  /// ```swift
  /// let (parent, child) = try UnixConnection.pair()
  /// ```
  ///
  /// - Throws: `IOError` if the process has no descriptor left.
  public static func pair() throws -> (UnixConnection, UnixConnection) {
    var ends: [Int32] = [-1, -1]
    let type = coroutine_io_stream | coroutine_io_socket_flags
    guard socketpair(AF_UNIX, type, 0, &ends) == 0 else {
      throw IOError(operation: "socketpair", code: coroutine_io_errno(), subject: "a pair of Unix sockets")
    }
    let (one, other) = try adoptBoth(
      ends[0], "Unix pair \(ends[0])-\(ends[1])", ends[1], "Unix pair \(ends[1])-\(ends[0])")
    let address = SocketAddress(.unix([]))
    return (UnixConnection(one, to: address), UnixConnection(other, to: address))
  }

  static func name(_ address: SocketAddress) -> String { "Unix \(address.description.dropFirst(5))" }
}

func requireUnix(_ address: SocketAddress) throws {
  if address.family != .unix {
    throw InvalidAddress(text: address.description, reason: "a Unix socket's is needed here")
  }
}

/// Both, or neither.
func adoptBoth(
  _ one: Int32, _ name: String, _ other: Int32, _ otherName: String
) throws -> (Descriptor, Descriptor) {
  let first: Descriptor
  do {
    first = try SocketSetup.closingOnError(one) { try Descriptor(adopting: one, name: name) }
  } catch {
    CoroutineLibc.close(other)
    throw error
  }
  do {
    return (first, try SocketSetup.closingOnError(other) { try Descriptor(adopting: other, name: otherName) })
  } catch {
    first.close()
    throw error
  }
}
