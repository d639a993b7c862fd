// SPDX-License-Identifier: Apache-2.0

import CoroutineLibc

/// An address in the kernel's form.
extension SocketAddress {
  /// The room in `sun_path`, without the zero behind a path.
  static var longestPath: Int { 107 }
  private static var pathOffset: Int { MemoryLayout<sa_family_t>.size }

  /// The domain of its sockets: AF_INET, AF_INET6, AF_UNIX.
  var domain: Int32 {
    switch form {
    case .ipv4: AF_INET
    case .ipv6: AF_INET6
    case .unix: AF_UNIX
    }
  }

  /// Calls `body` with the address as system calls take it; the pointer is valid inside only.
  ///
  /// ```swift
  /// let code = address.withSockaddr { connect(number, $0, $1) }
  /// ```
  ///
  /// - Throws: what `body` throws.
  func withSockaddr<Result, Failure: Error>(
    _ body: (UnsafePointer<sockaddr>, socklen_t) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    var storage = sockaddr_storage()
    let length = write(to: &storage)
    return try withUnsafeBytes(of: &storage) { bytes throws(Failure) in
      guard let base = bytes.baseAddress else { fatalError("an address has no bytes") }
      return try body(base.assumingMemoryBound(to: sockaddr.self), length)
    }
  }

  /// The address that a system call has written; `nil` for a family other than IPv4, IPv6, Unix.
  ///
  /// - Parameters:
  ///   - pointer: `length` bytes that can be read.
  ///   - length: as the call returned it; a Unix socket without a name has the family only.
  init?(_ pointer: UnsafePointer<sockaddr>, length: socklen_t) {
    let bytes = UnsafeRawBufferPointer(start: pointer, count: Int(length))
    guard bytes.count >= Self.pathOffset else { return nil }
    switch Int32(bytes.loadUnaligned(as: sa_family_t.self)) {
    case AF_INET where bytes.count >= MemoryLayout<sockaddr_in>.size:
      let address = bytes.loadUnaligned(as: sockaddr_in.self)
      form = .ipv4(address: UInt32(bigEndian: address.sin_addr.s_addr), port: UInt16(bigEndian: address.sin_port))
    case AF_INET6 where bytes.count >= MemoryLayout<sockaddr_in6>.size:
      let address = bytes.loadUnaligned(as: sockaddr_in6.self)
      let (high, low) = address.sin6_addr.words
      form = .ipv6(
        high: high, low: low, port: UInt16(bigEndian: address.sin6_port),
        flow: UInt32(bigEndian: address.sin6_flowinfo), scope: address.sin6_scope_id)
    case AF_UNIX:
      var name = Array(bytes[Self.pathOffset...])
      // A path ends at its zero; an abstract name, which begins with one, at the length.
      if name.first != 0, let end = name.firstIndex(of: 0) { name.removeSubrange(end...) }
      if name == [0] { name = [] }
      form = .unix(name)
    default: return nil
    }
  }

  /// Asks a system call for an address: `getsockname`, `getpeername`, `accept`, `recvfrom`.
  ///
  /// - Returns: what the call returned, and the address, if it is of a known family.
  static func filled(
    by call: (UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Int
  ) -> (result: Int, address: SocketAddress?) {
    var storage = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    return withUnsafeMutableBytes(of: &storage) { bytes in
      guard let base = bytes.baseAddress?.assumingMemoryBound(to: sockaddr.self) else { return (-1, nil) }
      let result = call(base, &length)
      guard result >= 0 else { return (result, nil) }
      return (result, SocketAddress(base, length: min(length, socklen_t(bytes.count))))
    }
  }

  private func write(to storage: inout sockaddr_storage) -> socklen_t {
    withUnsafeMutableBytes(of: &storage) { bytes in
      switch form {
      case .ipv4(let address, let port):
        var result = sockaddr_in()
        result.sin_family = sa_family_t(AF_INET)
        result.sin_port = port.bigEndian
        result.sin_addr.s_addr = address.bigEndian
        bytes.storeBytes(of: result, as: sockaddr_in.self)
        return socklen_t(MemoryLayout<sockaddr_in>.size)
      case .ipv6(let high, let low, let port, let flow, let scope):
        var result = sockaddr_in6()
        result.sin6_family = sa_family_t(AF_INET6)
        result.sin6_port = port.bigEndian
        result.sin6_flowinfo = flow.bigEndian
        result.sin6_addr = in6_addr(high: high, low: low)
        result.sin6_scope_id = scope
        bytes.storeBytes(of: result, as: sockaddr_in6.self)
        return socklen_t(MemoryLayout<sockaddr_in6>.size)
      case .unix(let name):
        bytes.storeBytes(of: sa_family_t(AF_UNIX), as: sa_family_t.self)
        UnsafeMutableRawBufferPointer(rebasing: bytes[Self.pathOffset...]).copyBytes(from: name)
        // A path has its zero behind it, which the storage has already.
        let isPath = name.first.map { $0 != 0 } ?? false
        return socklen_t(Self.pathOffset + name.count + (isPath ? 1 : 0))
      }
    }
  }
}

extension in6_addr {
  init(high: UInt64, low: UInt64) {
    self.init()
    withUnsafeMutableBytes(of: &self) { bytes in
      bytes.storeBytes(of: high.bigEndian, as: UInt64.self)
      bytes.storeBytes(of: low.bigEndian, toByteOffset: 8, as: UInt64.self)
    }
  }

  /// Its first and its last eight bytes, as numbers whose highest byte is the first.
  var words: (high: UInt64, low: UInt64) {
    withUnsafeBytes(of: self) {
      (
        UInt64(bigEndian: $0.loadUnaligned(as: UInt64.self)),
        UInt64(bigEndian: $0.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
      )
    }
  }
}
