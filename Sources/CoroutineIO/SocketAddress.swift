// SPDX-License-Identifier: Apache-2.0

import CoroutineLibc

/// The place of a socket, or of its peer: an address and a port of IPv4 or IPv6, or a name of a Unix socket.
///
/// ```swift
/// let server = try SocketAddress(ip: "127.0.0.1", port: 8080)
/// print(server)                                   // 127.0.0.1:8080
/// print(SocketAddress("[::1]:80")?.port ?? 0)     // 80
/// ```
///
/// Numeric only: a name such as "example.org" is for `TCPConnection(to:port:)`, which looks it up. A plain value, for any
/// thread; two are equal if they name the same place.
public struct SocketAddress: Hashable, Sendable, LosslessStringConvertible {
  /// The kind of an address.
  public enum Family: Hashable, Sendable {
    /// An address and a port of IPv4, or of IPv6; a name of this machine.
    case ipv4, ipv6, unix
  }

  enum Form: Hashable, Sendable {
    /// The address as a number whose highest byte is the first.
    case ipv4(address: UInt32, port: UInt16)
    case ipv6(high: UInt64, low: UInt64, port: UInt16, flow: UInt32, scope: UInt32)
    /// The bytes of a path; an abstract name behind a zero; none for a socket that was never bound.
    case unix([UInt8])
  }

  let form: Form

  init(_ form: Form) {
    self.form = form
  }

  /// An address of IPv4 or IPv6 from its numeric text, and a port.
  ///
  /// - Parameters:
  ///   - ip: such as "127.0.0.1", "::1", or "fe80::1%eth0" with an interface.
  ///   - port: 0 to 65,535; 0 lets the kernel choose where it is bound to.
  /// - Throws: `InvalidAddress` if the text is no such address, or the port is out of range.
  public init(ip: String, port: Int) throws {
    guard let port = UInt16(exactly: port) else {
      throw InvalidAddress(text: "\(ip):\(port)", reason: "a port is a number from 0 to 65535")
    }
    guard let form = Self.parse(ip: ip, port: port) else {
      throw InvalidAddress(text: ip, reason: "it is no numeric address of IPv4 or IPv6")
    }
    self.form = form
  }

  /// The address of a Unix socket in the file system.
  ///
  /// - Parameter path: up to 107 bytes, without a zero.
  /// - Throws: `InvalidAddress` for an empty path or one that the kernel has no room for.
  public static func unix(path: String) throws -> SocketAddress {
    let bytes = Array(path.utf8)
    guard !bytes.isEmpty, !bytes.contains(0), bytes.count <= longestPath else {
      throw InvalidAddress(text: path, reason: "a Unix socket's path has 1 to \(longestPath) bytes, none of them zero")
    }
    return SocketAddress(.unix(bytes))
  }

  /// The address of a Unix socket that is in no file system: the kernel forgets it with the last socket at it.
  ///
  /// - Parameter name: up to 107 bytes.
  /// - Throws: `InvalidAddress` for an empty name or one that the kernel has no room for.
  public static func unix(abstractName name: String) throws -> SocketAddress {
    let bytes = Array(name.utf8)
    guard !bytes.isEmpty, bytes.count <= longestPath else {
      throw InvalidAddress(text: name, reason: "an abstract socket's name has 1 to \(longestPath) bytes")
    }
    return SocketAddress(.unix([0] + bytes))
  }

  /// Reads what `description` writes: "127.0.0.1:80", "[::1]:80", "unix:/tmp/socket", "unix:@abstract".
  public init?(_ text: String) {
    // By bytes: to a `Character` also belongs what combines with it.
    if text.utf8.starts(with: "unix:".utf8) {
      guard let address = Self.parse(unixName: text.utf8.dropFirst(5)) else { return nil }
      self = address
      return
    }
    guard let colon = text.lastIndex(of: ":"), let port = UInt16(digits: text[text.index(after: colon)...])
    else { return nil }
    var host = text[..<colon]
    let isBracketed = host.hasPrefix("[") && host.hasSuffix("]")
    if isBracketed { host = host.dropFirst().dropLast() }
    guard let form = Self.parse(ip: String(host), port: port) else { return nil }
    // Without brackets the last part of an address of IPv6 would be taken for a port.
    if case .ipv6 = form, !isBracketed { return nil }
    if case .ipv4 = form, isBracketed { return nil }
    self.form = form
  }

  /// Its kind.
  public var family: Family {
    switch form {
    case .ipv4: .ipv4
    case .ipv6: .ipv6
    case .unix: .unix
    }
  }

  /// The port; `nil` for a Unix socket, which has none.
  public var port: Int? {
    switch form {
    case .ipv4(_, let port), .ipv6(_, _, let port, _, _): Int(port)
    case .unix: nil
    }
  }

  /// The numeric address without the port, as `init(ip:port:)` takes it; `nil` for a Unix socket.
  public var ip: String? {
    switch form {
    case .ipv4(let address, _):
      return "\(address >> 24).\(address >> 16 & 255).\(address >> 8 & 255).\(address & 255)"
    case .ipv6(let high, let low, _, _, let scope):
      var address = in6_addr(high: high, low: low)
      let text = withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(INET6_ADDRSTRLEN)) { text in
        inet_ntop(AF_INET6, &address, text.baseAddress, socklen_t(text.count)).map { String(cString: $0) } ?? "::"
      }
      return scope == 0 ? text : "\(text)%\(scope)"
    case .unix: return nil
    }
  }

  /// The path of a Unix socket in the file system; `nil` for any other address.
  public var path: String? {
    guard case .unix(let bytes) = form, let first = bytes.first, first != 0 else { return nil }
    return String(decoding: bytes, as: UTF8.self)
  }

  /// The same address with another port; a Unix socket's as it is.
  func with(port: UInt16) -> SocketAddress {
    switch form {
    case .ipv4(let address, _): SocketAddress(.ipv4(address: address, port: port))
    case .ipv6(let high, let low, _, let flow, let scope):
      SocketAddress(.ipv6(high: high, low: low, port: port, flow: flow, scope: scope))
    case .unix: self
    }
  }

  /// Whether both are the same but for the flow of IPv6, which is a label of a packet.
  func isSamePlace(as other: SocketAddress) -> Bool {
    guard case .ipv6(let high, let low, let port, _, let scope) = form,
      case .ipv6(let otherHigh, let otherLow, let otherPort, _, let otherScope) = other.form
    else { return self == other }
    return (high, low, port, scope) == (otherHigh, otherLow, otherPort, otherScope)
  }

  /// Its text: "127.0.0.1:80", "[::1]:80", "unix:/tmp/socket", "unix:@abstract", or "unix:(unnamed)". A path that looks like
  /// one of the last two has "./" before it: "unix:./@name".
  public var description: String {
    switch form {
    case .ipv4(_, let port): return "\(ip ?? ""):\(port)"
    case .ipv6(_, _, let port, _, _): return "[\(ip ?? "")]:\(port)"
    case .unix(let bytes):
      guard let first = bytes.first else { return "unix:\(Self.unnamed)" }
      if first == 0 { return "unix:@" + String(decoding: bytes.dropFirst(), as: UTF8.self) }
      return (Self.looksLikeNoPath(bytes) ? "unix:./" : "unix:") + String(decoding: bytes, as: UTF8.self)
    }
  }

  private static var unnamed: String { "(unnamed)" }

  /// Whether a path has to be distinguished from an abstract name, and from none; also one that has "./" before it already.
  private static func looksLikeNoPath(_ path: some Collection<UInt8>) -> Bool {
    var rest = path[...]
    while rest.starts(with: "./".utf8) { rest = rest.dropFirst(2) }
    return rest.first == UInt8(ascii: "@") || rest.elementsEqual(unnamed.utf8)
  }

  private static func parse(unixName name: Substring.UTF8View) -> SocketAddress? {
    if name.elementsEqual(unnamed.utf8) { return SocketAddress(.unix([])) }
    if name.first == UInt8(ascii: "@") {
      return try? unix(abstractName: String(decoding: name.dropFirst(), as: UTF8.self))
    }
    // Then the first "./" is the description's.
    let path = looksLikeNoPath(name) ? name.dropFirst(2) : name
    return try? unix(path: String(decoding: path, as: UTF8.self))
  }

  private static func parse(ip: String, port: UInt16) -> Form? {
    // C would see the part before it.
    if ip.utf8.contains(0) { return nil }
    var four = in_addr()
    if inet_pton(AF_INET, ip, &four) == 1 { return .ipv4(address: UInt32(bigEndian: four.s_addr), port: port) }
    let parts = ip.split(separator: "%", maxSplits: 1, omittingEmptySubsequences: false)
    var scope: UInt32 = 0
    if parts.count == 2 {
      scope = UInt32(digits: parts[1]) ?? if_nametoindex(String(parts[1]))
      guard scope != 0 else { return nil }
    }
    var six = in6_addr()
    guard let address = parts.first, inet_pton(AF_INET6, String(address), &six) == 1 else { return nil }
    let (high, low) = six.words
    return .ipv6(high: high, low: low, port: port, flow: 0, scope: scope)
  }
}

extension FixedWidthInteger {
  /// A number without a sign, which the usual form takes as well.
  fileprivate init?(digits: Substring) {
    guard digits.utf8.allSatisfy({ UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }) else { return nil }
    self.init(digits)
  }
}

/// A text, or a port, that is no address.
public struct InvalidAddress: Error, Equatable, CustomStringConvertible {
  /// What was given.
  public let text: String
  /// What is wrong with it.
  public let reason: String

  public var description: String { "\"\(text)\" is not an address: \(reason)" }
}
