// SPDX-License-Identifier: Apache-2.0

import Coroutine
import CoroutineLibc

/// A connection by TCP.
///
/// ```swift
/// let connection = try TCPConnection(to: "example.org", port: 80, timeout: .seconds(5))
/// try connection.write("GET / HTTP/1.0\r\nHost: example.org\r\n\r\n")
/// while let bytes = try connection.read() { … }
/// ```
///
/// Copies are the same connection, for any thread; with the last one it is closed. Reading and writing: see
/// `ReadableByteStream` and `WritableByteStream`.
public struct TCPConnection: SocketConnection {
  public let endpoint: StreamEndpoint
  /// The peer's address.
  public let remoteAddress: SocketAddress

  init(_ descriptor: Descriptor, to remoteAddress: SocketAddress) {
    endpoint = StreamEndpoint(descriptor, socketDomain: remoteAddress.domain)
    self.remoteAddress = remoteAddress
  }

  /// Connects to a host; suspends until it has answered.
  ///
  /// A name is looked up on a thread that may block. If it has several addresses they are tried in the order in which the
  /// system wants them used (IPv6 first, where there is a way), the two families alternately: the next one after 250 ms or as
  /// soon as one has failed. The first that answers counts, the others are dropped (RFC 8305).
  ///
  /// - Parameters:
  ///   - host: a name, or the text of an address of IPv4 or IPv6.
  ///   - port: up to 65,535.
  ///   - noDelay: whether small writes leave at once (TCP_NODELAY).
  ///   - timeout: how long all of it may take; `nil`: as long as the system tries.
  /// - Throws: `ConnectionFailed`, which has the error of each address; `NameResolutionFailed`; `InvalidAddress` for a port
  ///   out of range; `TimeoutError`; `CancellationError`.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "call it in a coroutine")
  public init(to host: String, port: Int, noDelay: Bool = true, timeout: Duration? = nil) throws {
    _ = CoroutineCore.running(for: "TCPConnection(to:port:)")
    try Coroutine.checkCancellation()
    let limit = WaitLimit(timeout)
    let addresses = try NameResolution.addresses(of: host, port: port, timeout: timeout)
    self = try ConnectionRace(to: addresses, host: host, port: port, noDelay: noDelay, limit).run()
  }

  /// Connects to an address; suspends until it has answered.
  ///
  /// - Parameters:
  ///   - address: of IPv4 or IPv6.
  ///   - noDelay: whether small writes leave at once (TCP_NODELAY).
  ///   - timeout: how long it may take; `nil`: as long as the system tries.
  /// - Throws: `IOError`, such as ECONNREFUSED; `InvalidAddress` for that of a Unix socket; `TimeoutError`;
  ///   `CancellationError`.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "call it in a coroutine")
  public init(to address: SocketAddress, noDelay: Bool = true, timeout: Duration? = nil) throws {
    _ = CoroutineCore.running(for: "TCPConnection(to:)")
    try self.init(to: address, noDelay: noDelay, WaitLimit(timeout))
  }

  init(to address: SocketAddress, noDelay: Bool, _ limit: WaitLimit) throws {
    try requireInternet(address)
    let descriptor = try SocketSetup.connect(to: address, name: Self.name(address), limit) { number in
      if noDelay {
        try SocketSetup.set(TCP_NODELAY, of: Int32(IPPROTO_TCP), on: number, name: Self.name(address))
      }
    }
    self.init(descriptor, to: address)
  }

  static func name(_ address: SocketAddress) -> String { "TCP \(address)" }

  /// Whether small writes leave at once, rather than wait for more or for the peer's acknowledgement (TCP_NODELAY).
  /// Callable from any thread.
  ///
  /// - Throws: `DescriptorClosed`, `IOError`.
  public func setNoDelay(_ noDelay: Bool) throws {
    try descriptor.withFileDescriptor {
      try SocketSetup.set(TCP_NODELAY, of: Int32(IPPROTO_TCP), to: noDelay ? 1 : 0, on: $0, name: name)
    }
  }
}

func requireInternet(_ address: SocketAddress) throws {
  if address.family == .unix {
    throw InvalidAddress(text: address.description, reason: "an address of IPv4 or IPv6 is needed here")
  }
}

/// No address of a host could be connected to.
public struct ConnectionFailed: Error, CustomStringConvertible {
  /// The host, as it was given.
  public let host: String
  /// The port, as it was given.
  public let port: Int
  /// The error of each address that was tried, in the order in which they failed.
  public let attempts: [(address: SocketAddress, error: any Error)]

  public var description: String {
    "no connection to \(host), port \(port): " + attempts.map { "\($0.error)" }.joined(separator: "; ")
  }
}
