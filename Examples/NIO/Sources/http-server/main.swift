// An HTTP/1.1 server on SwiftNIO, with its codec, and a coroutine for each request. The coroutine reads the body as
// it needs it, and writes as fast as the client reads. SIGTERM or Ctrl-C stops the server: connections have five
// seconds to end.
//
//     http-server 8080
//     curl localhost:8080/hello; curl --data-binary @file localhost:8080/count; curl localhost:8080/numbers/1000000

import Coroutine
import CoroutineIO
import CoroutineNIO
import Glibc
import NIOCore
import NIOHTTP1
import NIOPosix

typealias HTTPConnection = NIOConnection<HTTPServerRequestPart, HTTPServerResponsePart>

/// A request, as its coroutine sees it.
struct Request: Sendable {
  let head: HTTPRequestHead
  let connection: HTTPConnection

  /// The next piece of the body; `nil` at its end. Throws if the client goes away before that.
  func nextPiece() throws -> ByteBuffer? {
    switch try connection.read(timeout: .seconds(30)) {
    case .body(let bytes): return bytes
    case .end: return nil
    case .head, nil: throw ChannelError.inputClosed
    }
  }

  func skipBody() throws {
    while try nextPiece() != nil {}
  }

  func begin(_ status: HTTPResponseStatus, length: Int? = nil) throws {
    var answer = HTTPResponseHead(version: head.version, status: status)
    if let length { answer.headers.add(name: "Content-Length", value: "\(length)") }
    if !head.isKeepAlive { answer.headers.add(name: "Connection", value: "close") }
    try connection.write(.head(answer))
  }

  func write(_ text: String) throws {
    try connection.write(.body(.byteBuffer(ByteBuffer(string: text))), timeout: .seconds(30))
  }

  func answer(_ status: HTTPResponseStatus, _ text: String) throws {
    try begin(status, length: text.utf8.count)
    try write(text)
  }

  func respond() throws {
    let path = head.uri.split(separator: "/")
    switch (path.first, path.count) {
    case ("hello", 1):
      try skipBody()
      try answer(.ok, "Hello, world!\n")
    case ("count", 1):
      var count = 0
      while let piece = try nextPiece() { count += piece.readableBytes }
      try answer(.ok, "\(count) bytes\n")
    case ("numbers", 2):
      try skipBody()
      try begin(.ok)  // in chunks: without a length
      for number in 0..<(Int(path[1]) ?? 0) { try write("\(number)\n") }
    default:
      try skipBody()
      try answer(.notFound, "There is no \(head.uri)\n")
    }
    try connection.write(.end(nil))
  }
}

/// One request after another, each in a coroutine of its own, named after the request, so that a dump shows it.
func serve(_ connection: HTTPConnection) throws {
  while case .head(let head)? = try connection.read(timeout: .seconds(60)) {
    try withScope { scope in
      _ = scope.launch(name: "\(head.method) \(head.uri)") {
        try Request(head: head, connection: connection).respond()
      }
    }
    guard head.isKeepAlive else { return }
  }
}

func run(port: Int, on group: MultiThreadedEventLoopGroup) throws {
  let bootstrap = ServerBootstrap(group: group)
    .serverChannelOption(.backlog, value: 1024)
    .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
    .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
  let listener = try NIOListener(bootstrap, host: "127.0.0.1", port: port) { channel in
    try channel.pipeline.syncOperations.configureHTTPServerPipeline()
    return try HTTPConnection(wrapping: channel)
  }
  let signals = try Signals.received(SIGTERM, SIGINT)
  let server = Coroutine(name: "server") { try listener.serve(limit: 10_000, grace: .seconds(5), serve) }
  print("listening on 127.0.0.1:\(listener.localAddress?.port ?? 0)")
  fflush(nil)

  _ = try signals.receive()
  server.cancel()
  try server.join()
  print("stopped")
}

let port = CommandLine.arguments.dropFirst().first.flatMap { Int($0) } ?? 8080
try runUntilComplete { try run(port: port, on: .singleton) }
