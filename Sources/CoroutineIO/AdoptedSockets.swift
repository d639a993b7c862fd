// SPDX-License-Identifier: Apache-2.0

import CCoroutineIO
import Coroutine
import CoroutineLibc

// Sockets that other code has made: a service manager, the parent process, a C library.

extension TCPListener {
  /// Takes over a socket that listens already: that of a service manager, or of a parent process. Callable from any thread.
  ///
  /// ```swift
  /// let listener = try TCPListener(adopting: 3)      // the first one that systemd has opened for the service
  /// try listener.serve { connection in … }
  /// ```
  ///
  /// It is not blocking from here on, closed by exec, and belongs to the result. Its options stay as they are. If this fails the
  /// caller keeps it, as it was.
  ///
  /// - Parameter fileDescriptor: a socket of IPv4 or IPv6 that listens.
  /// - Throws: `InvalidAddress` for a socket of another kind; `IOError`: ENOTSOCK, EPROTOTYPE for one of datagrams, EINVAL for one
  ///   that does not listen.
  public init(adopting fileDescriptor: Int32) throws {
    let address = try AdoptedSocket.addressOfListener(fileDescriptor)
    try requireInternet(address)
    let descriptor = try Descriptor(adopting: fileDescriptor, name: "TCP listener \(address)")
    self.init(ListenerStorage(descriptor, at: address))
  }
}

extension UnixListener {
  /// Takes over a socket that listens already. Its path is not removed at the end: that is for the code which has made it.
  /// Otherwise as `TCPListener.init(adopting:)`.
  ///
  /// - Parameter fileDescriptor: a Unix socket that listens.
  /// - Throws: as `TCPListener.init(adopting:)`.
  public init(adopting fileDescriptor: Int32) throws {
    let address = try AdoptedSocket.addressOfListener(fileDescriptor)
    try requireUnix(address)
    let name = "Unix listener \(address.description.dropFirst(5))"
    self.init(ListenerStorage(try Descriptor(adopting: fileDescriptor, name: name), at: address))
  }
}

extension TCPConnection {
  /// Takes over a socket that is connected. Callable from any thread.
  ///
  /// It is not blocking from here on, closed by exec unless it is a standard stream, and belongs to the result. Its options stay as
  /// they are. If this fails the caller keeps it, as it was.
  ///
  /// - Parameter fileDescriptor: a socket of IPv4 or IPv6 that is connected.
  /// - Throws: `InvalidAddress` for a socket of another kind; `IOError`: ENOTSOCK, EPROTOTYPE for one of datagrams, ENOTCONN for
  ///   one that is not connected.
  public init(adopting fileDescriptor: Int32) throws {
    let address = try AdoptedSocket.addressOfPeer(fileDescriptor)
    try requireInternet(address)
    self.init(try Descriptor(adopting: fileDescriptor, name: Self.name(address)), to: address)
  }
}

extension UnixConnection {
  /// Takes over a socket that is connected, as one end of a `socketpair` that a parent process has left. As
  /// `TCPConnection.init(adopting:)`.
  ///
  /// - Parameter fileDescriptor: a Unix socket that is connected.
  /// - Throws: as `TCPConnection.init(adopting:)`.
  public init(adopting fileDescriptor: Int32) throws {
    let address = try AdoptedSocket.addressOfPeer(fileDescriptor)
    try requireUnix(address)
    self.init(try Descriptor(adopting: fileDescriptor, name: Self.name(address)), to: address)
  }
}

/// Looks at a socket, which stays as it is. No state.
private enum AdoptedSocket {
  static func addressOfListener(_ number: Int32) throws -> SocketAddress {
    let name = "socket \(number)"
    try requireStream(number, name)
    guard try option(SO_ACCEPTCONN, of: number, name) != 0 else {
      throw IOError(operation: "adopt", code: EINVAL, subject: name)
    }
    return try SocketSetup.localAddress(of: number, name: name)
  }

  static func addressOfPeer(_ number: Int32) throws -> SocketAddress {
    let name = "socket \(number)"
    try requireStream(number, name)
    let (result, address) = SocketAddress.filled { Int(getpeername(number, $0, $1)) }
    guard result == 0, let address else {
      throw IOError(operation: "getpeername", code: coroutine_io_errno(), subject: name)
    }
    return address
  }

  private static func requireStream(_ number: Int32, _ name: String) throws {
    guard try option(SO_TYPE, of: number, name) == coroutine_io_stream else {
      throw IOError(operation: "adopt", code: EPROTOTYPE, subject: name)
    }
  }

  private static func option(_ option: Int32, of number: Int32, _ name: String) throws -> Int32 {
    var value: Int32 = 0
    var length = socklen_t(MemoryLayout<Int32>.size)
    guard getsockopt(number, SOL_SOCKET, option, &value, &length) == 0 else {
      throw IOError(operation: "getsockopt", code: coroutine_io_errno(), subject: name)
    }
    return value
  }
}
