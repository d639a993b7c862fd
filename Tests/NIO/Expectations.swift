import Coroutine
import CoroutineNIO
import NIOCore
import NIOPosix
import Synchronization

/// A hazard, by name, and code that shows that it does not happen.
struct Check: Sendable {
  let name: String
  let body: @Sendable () throws -> Void

  init(_ name: String, _ body: @escaping @Sendable () throws -> Void) {
    self.name = name
    self.body = body
  }
}

struct Unexpected: Error, CustomStringConvertible {
  let description: String
}

struct Failure: Error, Equatable {}

func expect(_ what: String, _ isTrue: Bool) throws {
  if !isTrue { throw Unexpected(description: "not \(what)") }
}

func expect<Value: Equatable>(_ what: String, _ value: Value, _ expected: Value) throws {
  if value != expected { throw Unexpected(description: "\(what): \(value), not \(expected)") }
}

func expectError<Problem: Error>(_ type: Problem.Type, _ body: () throws -> Void) throws {
  do {
    try body()
  } catch is Problem {
    return
  }
  throw Unexpected(description: "no \(type)")
}

/// Lets other coroutines run until `isSo` is true.
func wait(until isSo: () -> Bool) throws {
  while !isSo() {
    try Coroutine.checkCancellation()
    Coroutine.yield()
  }
}

/// What happened, in order.
final class Log: Sendable {
  private let entries = Mutex<[String]>([])
  func add(_ entry: String) { entries.withLock { $0.append(entry) } }
  var all: [String] { entries.withLock { $0 } }
}

typealias Bytes = NIOConnection<ByteBuffer, ByteBuffer>

/// Listens at a free port, with options and handlers.
func listen(
  highWatermark: Int? = nil, halves: Bool = false,
  _ handlers: @escaping @Sendable (any NIOCore::Channel) throws -> Void = { _ in }
) throws -> NIOListener<ByteBuffer, ByteBuffer> {
  var bootstrap = ServerBootstrap(group: group)
    .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
    .childChannelOption(.allowRemoteHalfClosure, value: halves)
  if let highWatermark {
    bootstrap = bootstrap.childChannelOption(.writeBufferWaterMark, value: .init(low: 1, high: highWatermark))
  }
  return try NIOListener(bootstrap, host: "127.0.0.1", port: 0) { channel in
    try handlers(channel)
    return try Bytes(wrapping: channel)
  }
}

func connect(_ listener: NIOListener<ByteBuffer, ByteBuffer>, halves: Bool = false) throws -> Bytes {
  guard let address = listener.localAddress else { throw Unexpected(description: "no address") }
  return try ClientBootstrap(group: group).channelOption(.allowRemoteHalfClosure, value: halves).connect(to: address) {
    try Bytes(wrapping: $0)
  }
}

/// The two ends of a new connection.
func makePair(
  highWatermark: Int? = nil, halves: Bool = false,
  _ handlers: @escaping @Sendable (any NIOCore::Channel) throws -> Void = { _ in }
) throws -> (client: Bytes, server: Bytes) {
  let listener = try listen(highWatermark: highWatermark, halves: halves, handlers)
  let client = try connect(listener, halves: halves)
  return (client, try listener.accept())
}

func text(_ string: String) -> ByteBuffer { ByteBuffer(string: string) }

extension NIOConnection<ByteBuffer, ByteBuffer> {
  /// Reads `count` bytes, or fewer at the end.
  func readBytes(_ count: Int) throws -> ByteBuffer {
    var all = ByteBuffer()
    while all.readableBytes < count, var bytes = try read() { all.writeBuffer(&bytes) }
    return all
  }

  func readText(_ count: Int) throws -> String { String(buffer: try readBytes(count)) }

  /// How many bytes come before the end.
  func countToEnd() throws -> Int {
    var count = 0
    while let bytes = try read() { count += bytes.readableBytes }
    return count
  }
}
