// SPDX-License-Identifier: Apache-2.0

import CCoroutineIO
import Coroutine
import CoroutineLibc

/// Looks up hosts' names, as the system is set up to: `getaddrinfo`, on threads of its own, since it blocks.
///
/// Many threads: a look-up whose name server does not answer keeps its thread for ten seconds and more, whatever time its caller
/// has. It must not hold up those of other names.
enum NameResolution {
  private static let pool = BlockingPool(threadLimit: 512, name: "the pool of name lookups")

  /// The addresses of a host, in the order in which the system wants them used; suspends during the look-up. Numeric
  /// ones need no thread.
  static func addresses(of host: String, port: Int, timeout: Duration?) throws -> [SocketAddress] {
    guard let number = UInt16(exactly: port) else {
      throw InvalidAddress(text: "\(host):\(port)", reason: "a port is a number from 0 to 65535")
    }
    if let address = try? SocketAddress(ip: host, port: port) { return [address] }
    guard !host.isEmpty, !host.utf8.contains(0) else {
      throw InvalidAddress(text: host, reason: "it is no host's name")
    }
    let found = try resolving(timeout) { try blocking(on: pool) { try lookUp(host) } }
    return found.map { $0.with(port: number) }
  }

  // A timeout of zero lets a look-up fail at once, as no part of it can be done without a wait.
  private static func resolving<Value>(_ timeout: Duration?, _ body: () throws -> Value) throws -> Value {
    guard let timeout else { return try body() }
    return try withTimeout(timeout, body)
  }

  private static func lookUp(_ host: String) throws -> [SocketAddress] {
    var hints = addrinfo()
    hints.ai_socktype = coroutine_io_stream
    var list: UnsafeMutablePointer<addrinfo>?
    let code = getaddrinfo(host, nil, &hints, &list)
    guard code == 0 else {
      throw NameResolutionFailed(host: host, code: code, systemError: code == EAI_SYSTEM ? coroutine_io_errno() : nil)
    }
    defer { freeaddrinfo(list) }
    var addresses: [SocketAddress] = []
    var next = list
    while let entry = next?.pointee {
      if let pointer = entry.ai_addr, let address = SocketAddress(pointer, length: entry.ai_addrlen),
        !addresses.contains(address)
      {
        addresses.append(address)
      }
      next = entry.ai_next
    }
    guard !addresses.isEmpty else { throw NameResolutionFailed(host: host, code: EAI_NONAME, systemError: nil) }
    return addresses
  }
}

/// A host's name could not be looked up.
public struct NameResolutionFailed: Error, Equatable, CustomStringConvertible {
  /// The name.
  public let host: String
  /// What `getaddrinfo` returned, such as `EAI_NONAME`.
  public let code: Int32
  /// The `errno` behind `EAI_SYSTEM`.
  public let systemError: Int32?

  public var description: String {
    let reason = systemError.map { String(cString: strerror($0)) } ?? String(cString: gai_strerror(code))
    return "\"\(host)\" could not be looked up: \(reason)"
  }
}
