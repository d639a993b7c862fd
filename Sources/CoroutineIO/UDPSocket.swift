// SPDX-License-Identifier: Apache-2.0

import CCoroutineIO
import Context
import Coroutine
import CoroutineLibc

/// A socket for datagrams by UDP: each is sent and received as a whole, or not at all.
///
/// ```swift
/// let socket = try UDPSocket(port: 5353)
/// while true {
///   let question = try socket.receive()
///   try socket.send(answer(to: question.bytes), to: question.sender)
/// }
/// ```
///
/// Copies are the same socket, for any thread; with the last one it is closed. Any number of coroutines may send and
/// receive: each datagram goes to one of them.
public struct UDPSocket: Sendable {
  /// What it sends and receives by.
  public let descriptor: Descriptor
  private let peer = DatagramPeer()

  /// A socket at an address of this machine, by default one that only this machine reaches, and that reaches only this machine.
  /// Callable from any thread.
  ///
  /// - Parameters:
  ///   - host: a numeric address: "127.0.0.1", "::1"; "0.0.0.0" and "::" for all of this machine's. It decides between
  ///     IPv4 and IPv6.
  ///   - port: 0: a free one, which is in `localAddress`.
  ///   - reusePort: lets several sockets have the same port; the kernel spreads the senders (SO_REUSEPORT).
  /// - Throws: `InvalidAddress`; `IOError`, such as EADDRINUSE.
  public init(host: String = "127.0.0.1", port: Int = 0, reusePort: Bool = false) throws {
    let address = try SocketAddress(ip: host, port: port)
    let name = "UDP \(address)"
    let number = try SocketSetup.make(address.domain, coroutine_io_datagrams, name: name)
    descriptor = try SocketSetup.closingOnError(number) {
      if reusePort { try SocketSetup.set(SO_REUSEPORT, of: SOL_SOCKET, on: number, name: name) }
      try SocketSetup.bind(number, to: address, name: name)
      let bound = try SocketSetup.localAddress(of: number, name: name)
      return try Descriptor(adopting: number, name: "UDP \(bound)")
    }
  }

  /// A socket for talks with one peer, at the address of this machine from which the peer is reached. Callable from any thread.
  ///
  /// ```swift
  /// let resolver = try UDPSocket(to: SocketAddress(ip: "192.0.2.53", port: 53))
  /// try resolver.send(question)
  /// let answer = try resolver.receive(timeout: .seconds(2))
  /// ```
  ///
  /// - Throws: `InvalidAddress` for that of a Unix socket; `IOError`, such as ENETUNREACH.
  public init(to peer: SocketAddress) throws {
    try requireInternet(peer)
    let name = "UDP to \(peer)"
    let number = try SocketSetup.make(peer.domain, coroutine_io_datagrams, name: name)
    descriptor = try SocketSetup.closingOnError(number) { try Descriptor(adopting: number, name: name) }
    try connect(to: peer)
  }

  /// Where it is.
  ///
  /// - Throws: `DescriptorClosed`, `IOError`.
  public var localAddress: SocketAddress {
    get throws { try descriptor.withFileDescriptor { try SocketSetup.localAddress(of: $0, name: descriptor.name) } }
  }

  /// Gives the socket one peer: `send(_:)` sends to it, and datagrams of others are dropped. If no socket is open
  /// there, and the peer's machine says so, a later operation throws an `IOError` (ECONNREFUSED). Callable from any
  /// thread.
  ///
  /// - Throws: `InvalidAddress` for that of a Unix socket; `DescriptorClosed`; `IOError`.
  public func connect(to peer: SocketAddress) throws {
    try requireInternet(peer)
    try descriptor.withFileDescriptor { number in
      try self.peer.change {
        if peer.withSockaddr({ CoroutineLibc.connect(number, $0, $1) }) != 0 {
          throw IOError(operation: "connect", code: coroutine_io_errno(), subject: descriptor.name)
        }
        // As the kernel writes it: to "0.0.0.0" means to this machine.
        let (result, address) = SocketAddress.filled { Int(getpeername(number, $0, $1)) }
        return result == 0 ? address ?? peer : peer
      }
    }
  }

  /// Sends a datagram; suspends while the kernel has no room for it.
  ///
  /// - Parameters:
  ///   - bytes: up to 65,507 of them by IPv4; larger than the path takes, some 1,400, they travel in parts.
  ///   - peer: where to; `nil`: to the one that was given by `connect(to:)`.
  ///   - timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Throws: `TimeoutError`, `CancellationError`, `DescriptorClosed`; `IOError`, such as EMSGSIZE.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "call it in a coroutine")
  public func send(_ bytes: [UInt8], to peer: SocketAddress? = nil, timeout: Duration? = nil) throws {
    _ = CoroutineCore.running(for: "UDPSocket.send(_:to:)")
    try Coroutine.checkCancellation()
    _ = try bytes.withUnsafeBytes { bytes in
      try descriptor.perform(.write, WaitLimit(timeout)) { number in
        let flags = Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT)
        guard let peer else { return CoroutineLibc.send(number, bytes.baseAddress, bytes.count, flags) }
        return peer.withSockaddr { sendto(number, bytes.baseAddress, bytes.count, flags, $0, $1) }
      }
    }
  }

  /// Receives a datagram; suspends until there is one.
  ///
  /// - Parameters:
  ///   - count: how many bytes at most; not negative: traps otherwise. The bytes behind those are lost; the datagram says so.
  ///   - timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Throws: `TimeoutError`, `CancellationError`, and has received nothing; `DescriptorClosed`; `IOError`.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "call it in a coroutine")
  public func receive(upTo count: Int = 65_535, timeout: Duration? = nil) throws -> Datagram {
    _ = CoroutineCore.running(for: "UDPSocket.receive(upTo:)")
    require(count >= 0, "receive(upTo: \(count)) on \(descriptor.name): the number of bytes must not be negative")
    try Coroutine.checkCancellation()
    let limit = WaitLimit(timeout)
    while true {
      // No datagram has more.
      let datagram = try receiveAny(upTo: min(count, 65_535), limit)
      // The kernel keeps those that had come before it knew the peer.
      if peer.mayHaveSent(datagram) { return datagram }
      try limit.checkBetweenCalls()
    }
  }

  private func receiveAny(upTo count: Int, _ limit: WaitLimit) throws -> Datagram {
    var bytes: [UInt8] = []
    var sender: SocketAddress?
    let length = try descriptor.perform(.read, limit) { number in
      var result = 0
      var code: Int32 = 0
      bytes = [UInt8](unsafeUninitializedCapacity: count) { target, initialized in
        // With MSG_TRUNC the result is how long it was.
        (result, sender) = SocketAddress.filled {
          recvfrom(number, target.baseAddress, count, Int32(MSG_TRUNC) | Int32(MSG_DONTWAIT), $0, $1)
        }
        code = coroutine_io_errno()
        initialized = min(max(result, 0), count)
      }
      // A waiter keeps no memory.
      if result < 0 { bytes = [] }
      return result < 0 ? Int(coroutine_io_fail(code)) : result
    }
    // Few bytes in much memory, which the caller may keep.
    if bytes.count < count / 4 { bytes = bytes.withUnsafeBytes { [UInt8]($0) } }
    guard let sender else { fatalError("\(descriptor.name) has got a datagram of no address") }
    return Datagram(bytes: bytes, sender: sender, length: length)
  }

  /// Closes it: operations that wait throw `DescriptorClosed`, as all do that come later. Callable from any thread.
  public func close() { descriptor.close() }
}

/// The one whose datagrams a socket receives, shared by its copies.
// Unchecked: guarded by the lock.
private final class DatagramPeer: HiddenFromMirrors, @unchecked Sendable {
  private let lock = Lock()
  private var address: SocketAddress?

  /// The socket is connected under the lock: so this is the same peer as the kernel's. (That does not wait.)
  func change(_ connect: () throws -> SocketAddress) throws { try lock.withLock { address = try connect() } }

  func mayHaveSent(_ datagram: Datagram) -> Bool {
    guard let address = lock.withLock({ address }) else { return true }
    return address.isSamePlace(as: datagram.sender)
  }
}

/// What a `UDPSocket` has received.
public struct Datagram: Equatable, Sendable {
  /// What was sent, or its beginning.
  public let bytes: [UInt8]
  /// The address that it came from.
  public let sender: SocketAddress
  /// How many bytes were sent.
  public let length: Int

  /// Whether bytes are missing at the end, as there was no room for them.
  public var isTruncated: Bool { length > bytes.count }
}
