import Coroutine
import CoroutineTestSupport
import Foundation
import Glibc
import Testing

@testable import CoroutineIO

/// A pair of connected ends, of each kind that reads and writes on one descriptor.
enum PairKind: CaseIterable {
  case unix, tcp

  func make() throws -> (any SocketConnection, any SocketConnection) {
    switch self {
    case .unix: return try UnixConnection.pair()
    case .tcp:
      let listener = try TCPListener()
      let client = try TCPConnection(to: listener.address)
      return (client, try listener.accept())
    }
  }
}

/// A writer and its reader, of each kind.
enum StreamKind: CaseIterable {
  case unix, tcp, pipe

  func make() throws -> (any WritableByteStream, any ReadableByteStream) {
    switch self {
    case .unix: try PairKind.unix.make()
    case .tcp: try PairKind.tcp.make()
    case .pipe:
      { ($0.writer, $0.reader) }(try makePipe())
    }
  }
}

func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

/// Bytes that differ from position to position.
func pattern(_ count: Int) -> [UInt8] {
  // Repeats a block whose length is no power of two: fast even in unoptimised code.
  var bytes = (0..<min(count, 9973)).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) }
  while bytes.count < count { bytes += bytes.prefix(count - bytes.count) }
  return bytes
}

/// All bytes up to the end of the stream.
func readAll(_ stream: any ReadableByteStream) throws -> [UInt8] {
  var all: [UInt8] = []
  while let bytes = try stream.read() { all += bytes }
  return all
}

/// A folder for sockets, which is removed with its object.
final class TemporaryFolder: Sendable {
  let path: String

  init() throws {
    var template = Array("/tmp/coroutine-io-XXXXXX".utf8CString)
    guard let made = mkdtemp(&template) else { throw IOError(operation: "mkdtemp", code: errno, subject: "/tmp") }
    path = String(cString: made)
  }

  deinit { try? FileManager.default.removeItem(atPath: path) }
}

/// A TCP address that neither answers nor refuses: its listener's queue is full, so the kernel drops what arrives.
final class SilentAddress: Sendable {
  let address: SocketAddress
  private let numbers: [Int32]

  init() throws {
    let listener = try TCPListener(backlog: 0)
    address = listener.address
    var numbers = [try listener.descriptor.withFileDescriptor { dup($0) }]
    // With a backlog of 0 one connection is queued. The others wait for an answer that does not come.
    for _ in 0..<4 {
      let number = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue), 0)
      _ = address.withSockaddr { connect(number, $0, $1) }
      numbers.append(number)
    }
    self.numbers = numbers
  }

  deinit { for number in numbers { close(number) } }
}

/// `runUntilComplete` in the body of an exit test, which is `async` code.
func runInExitTest(_ body: () throws -> Void) throws { try runUntilComplete { try body() } }
