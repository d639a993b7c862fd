// SPDX-License-Identifier: Apache-2.0

import CCoroutineIO
import Coroutine
import CoroutineLibc

/// A stream between two sockets: `TCPConnection`, `UnixConnection`.
public protocol SocketConnection: ReadableByteStream, WritableByteStream {
  /// The peer's address; that of a Unix socket that is bound to nothing has no name.
  var remoteAddress: SocketAddress { get }
}

extension SocketConnection {
  /// The address of this side.
  ///
  /// - Throws: `DescriptorClosed`, `IOError`.
  public var localAddress: SocketAddress {
    get throws {
      try descriptor.withFileDescriptor { try SocketSetup.localAddress(of: $0, name: name) }
    }
  }

  /// Ends this side's half of the stream: the peer reads what was written, then the end. Reading goes on. Callable
  /// inside coroutines; like a write, not beside another one.
  ///
  /// ```swift
  /// try connection.write(request)
  /// try connection.finishWriting()
  /// while let bytes = try connection.read() { answer += bytes }
  /// ```
  ///
  /// TCP resets a connection that is closed while bytes have come that were not read, and one whose peer goes on to send: what
  /// was written, and was not sent by then, is lost, though `write` has returned. So who closes before the peer has sent all
  /// ends its own half first, and reads up to the peer's end. (`serve` does it for its handlers.) By a Unix socket nothing is lost,
  /// but a peer whose bytes were not read gets ECONNRESET in place of the end.
  ///
  /// ```swift
  /// try connection.write("HTTP/1.1 413 Content Too Large\r\nConnection: close\r\n\r\n")
  /// try connection.finishWriting()
  /// _ = try? connection.readToEnd(limit: 256 << 10, timeout: .seconds(1))
  /// connection.close()
  /// ```
  ///
  /// - Throws: `StreamInUse` while another coroutine writes; `DescriptorClosed`; `CancellationError`; `IOError`, such as
  ///   ENOTCONN where the peer has reset the connection.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "call it in a coroutine")
  public func finishWriting() throws { try endpoint.finishWriting() }
}

/// What is done to sockets before they are of use. No state.
enum SocketSetup {
  /// A new socket that does not block and is closed by exec. The caller closes it.
  static func make(_ domain: Int32, _ type: Int32, name: String) throws -> Int32 {
    let number = socket(domain, type | coroutine_io_socket_flags, 0)
    guard number >= 0 else { throw IOError(operation: "socket", code: coroutine_io_errno(), subject: name) }
    return number
  }

  /// Gives `number` to `body`, which closes it or hands it on, or to the kernel if `body` throws.
  static func closingOnError<Result>(_ number: Int32, _ body: () throws -> Result) throws -> Result {
    do { return try body() } catch {
      CoroutineLibc.close(number)
      throw error
    }
  }

  static func set(_ option: Int32, of level: Int32, to value: Int32 = 1, on number: Int32, name: String) throws {
    var value = value
    guard setsockopt(number, level, option, &value, socklen_t(MemoryLayout<Int32>.size)) == 0 else {
      throw IOError(operation: "setsockopt", code: coroutine_io_errno(), subject: name)
    }
  }

  static func bind(_ number: Int32, to address: SocketAddress, name: String) throws {
    guard address.withSockaddr({ CoroutineLibc.bind(number, $0, $1) }) == 0 else {
      throw IOError(operation: "bind", code: coroutine_io_errno(), subject: name)
    }
  }

  static func localAddress(of number: Int32, name: String) throws -> SocketAddress {
    let (result, address) = SocketAddress.filled { Int(getsockname(number, $0, $1)) }
    guard result == 0, let address else {
      throw IOError(operation: "getsockname", code: coroutine_io_errno(), subject: name)
    }
    return address
  }

  /// Connects a new stream socket; suspends until the peer has answered.
  ///
  /// - Parameter configure: is given the socket before it connects.
  static func connect(
    to address: SocketAddress, name: String, _ limit: WaitLimit, configure: (Int32) throws -> Void = { _ in }
  ) throws -> Descriptor {
    try Coroutine.checkCancellation()
    let number = try make(address.domain, coroutine_io_stream, name: name)
    // The kernel reports a socket that is not connecting yet as writable: so the poller gets it only when it is
    // connecting.
    let (descriptor, isConnected) = try closingOnError(number) {
      try configure(number)
      let isConnected = try beginToConnect(number, to: address, name: name, limit)
      return (try Descriptor(adopting: number, name: name), isConnected)
    }
    do {
      if !isConnected { _ = try descriptor.perform(.connect, limit) { outcomeOfConnect($0) } }
      if try descriptor.withFileDescriptor({ isConnectedToItself($0, at: address) }) {
        throw IOError(operation: "connect", code: ECONNREFUSED, subject: name)
      }
    } catch {
      descriptor.close()
      throw error
    }
    return descriptor
  }

  /// Whether it is connected already; else it is going to be.
  private static func beginToConnect(
    _ number: Int32, to address: SocketAddress, name: String, _ limit: WaitLimit
  ) throws -> Bool {
    var backoff = ConnectBackoff()
    while true {
      if address.withSockaddr({ CoroutineLibc.connect(number, $0, $1) }) == 0 { return true }
      switch coroutine_io_errno() {
      // An interrupted one goes on by itself.
      case EINPROGRESS, EINTR: return false
      // The queue of a Unix listener is full. The kernel does not report when it no longer is.
      case EAGAIN where address.family == .unix: try limit.pause(for: backoff.next())
      case let code: throw IOError(operation: "connect", code: code, subject: name)
      }
    }
  }

  /// Whether a port of this machine at which no socket listens is the one that the kernel has given to this very socket. TCP makes
  /// a connection of that, which gives back what is written to it.
  private static func isConnectedToItself(_ number: Int32, at address: SocketAddress) -> Bool {
    guard let port = address.port else { return false }
    let own = SocketAddress.filled { Int(getsockname(number, $0, $1)) }.address
    // So it is with most connections: a second system call is spared.
    guard let own, own.port == port else { return false }
    return own == SocketAddress.filled { Int(getpeername(number, $0, $1)) }.address
  }

  /// 0: connected. -1 with `errno`: it failed, or (EAGAIN) it has not been decided.
  private static func outcomeOfConnect(_ number: Int32) -> Int {
    guard coroutine_io_is_ready(number, true) else { return Int(coroutine_io_fail(EAGAIN)) }
    var code: Int32 = 0
    var length = socklen_t(MemoryLayout<Int32>.size)
    guard getsockopt(number, SOL_SOCKET, SO_ERROR, &code, &length) == 0 else { return -1 }
    return code == 0 ? 0 : Int(coroutine_io_fail(code))
  }
}

/// How long a client waits between its tries to get into a listener's full queue: each time twice as long, up to a limit, so
/// that very many that wait leave the processor to the server; by chance, so that they do not come together.
struct ConnectBackoff {
  /// In microseconds.
  private var longest = 1000

  mutating func next() -> Duration {
    defer { longest = min(2 * longest, 64_000) }
    return .microseconds(Int.random(in: longest / 2...longest))
  }
}
