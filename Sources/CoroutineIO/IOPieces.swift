// SPDX-License-Identifier: Apache-2.0

import CoroutineLibc

extension iovec {
  /// The kernel only reads what a write's pieces point to.
  init(_ bytes: UnsafeRawBufferPointer) {
    self.init(iov_base: UnsafeMutableRawPointer(mutating: bytes.baseAddress), iov_len: bytes.count)
  }
}

/// The pieces of a vectored write that are still to be written.
struct IOPieces {
  private var pieces: [iovec]
  private var first = 0
  /// How many bytes they have.
  private(set) var count: Int

  /// How many pieces one system call takes: IOV_MAX.
  private static var most: Int { 1024 }

  init(_ pieces: [UnsafeRawBufferPointer]) {
    self.pieces = pieces.filter { !$0.isEmpty }.map { iovec($0) }
    count = pieces.reduce(0) { $0 + $1.count }
  }

  /// Calls `body` with the next pieces, as many as one system call takes, and with how many bytes they have.
  mutating func withNext<Result>(_ body: (UnsafeMutableBufferPointer<iovec>, Int) throws -> Result) rethrows -> Result {
    let (first, next) = (first, min(pieces.count - first, Self.most))
    return try pieces.withUnsafeMutableBufferPointer { all in
      let some = UnsafeMutableBufferPointer(rebasing: all[first..<first + next])
      return try body(some, some.reduce(0) { $0 + $1.iov_len })
    }
  }

  /// The first `written` bytes are written.
  mutating func drop(_ written: Int) {
    count -= written
    var written = written
    while written > 0 {
      let length = pieces[first].iov_len
      if written < length {
        pieces[first].iov_base += written
        pieces[first].iov_len -= written
        return
      }
      written -= length
      first += 1
    }
  }
}
