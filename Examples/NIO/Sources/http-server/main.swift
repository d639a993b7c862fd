// An HTTP server on SwiftNIO, with its codecs, and a coroutine for each request. The coroutine reads the body as it needs
// it, and writes as fast as the client reads. SIGTERM or Ctrl-C stops the server: requests have five seconds to end.
//
//     http-server 8080
//     curl localhost:8080/hello; curl --data-binary @file localhost:8080/count; curl localhost:8080/numbers/1000000
//
// With a certificate it speaks HTTPS: HTTP/2, or HTTP/1.1 to clients that have nothing newer.
//
//     openssl req -x509 -newkey rsa:2048 -noenc -subj /CN=localhost -out certificate.pem -keyout key.pem
//     http-server 8443 certificate.pem key.pem
//     curl --insecure https://localhost:8443/hello

import Coroutine
import CoroutineIO
import CoroutineNIO
import Glibc
import NIOCore
import NIOHTTP1
import NIOHTTP2
import NIOPosix
import NIOSSL

/// A connection of HTTP/1.1, or a stream of HTTP/2: NIO's codecs make the same messages of both.
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

  /// A line for each, several in a write.
  func writeNumbers(_ count: Int) throws {
    var lines = ""
    for number in 0..<count {
      lines += "\(number)\n"
      guard lines.utf8.count >= 4096 else { continue }
      try write(lines)
      lines = ""
    }
    if !lines.isEmpty { try write(lines) }
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
      try writeNumbers(Int(path[1]) ?? 0)
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

/// A client of HTTP/2 sends each request as a stream of its connection.
func secure(_ channel: any NIOCore::Channel, by tls: NIOSSLContext) throws -> NIOConnection<HTTPConnection, Never> {
  try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: tls))
  // Tells the client when the server stops, and ends connections that are not in use any more.
  let management = NIOHTTP2ServerConnectionManagementHandler(
    eventLoop: channel.eventLoop,
    configuration: .init(maxIdleTime: .seconds(60), maxAge: nil, maxGraceTime: nil, keepalive: nil))
  let managed = NIOLoopBound(management, eventLoop: channel.eventLoop)
  return try NIOConnection(multiplexing: channel) { stream in
    try HTTPConnection(wrapping: stream)
  } configure: { initializer in
    _ = channel.configureCommonHTTPServerPipeline(
      connectionConfiguration: .init(), streamConfiguration: .init(), streamDelegate: management.http2StreamDelegate,
      h2ConnectionChannelConfigurator: { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandlers(managed.value, NIOCloseOnErrorHandler())
        }
      },
      configurator: initializer)
  }
}

/// Serves until a signal comes.
func serve<Inbound, Outbound>(
  _ listener: NIOListener<Inbound, Outbound>,
  _ handler: @escaping @Sendable (NIOConnection<Inbound, Outbound>) throws -> Void
) throws {
  let signals = try Signals.received(SIGTERM, SIGINT)
  try withScope { scope in
    scope.launch(name: "server") { try listener.serve(limit: 10_000, grace: .seconds(5), handler) }
    print("listening on 127.0.0.1:\(listener.localAddress?.port ?? 0)")
    fflush(nil)

    _ = try signals.receive()  // a server that fails ends this wait, too
    signals.close()  // a second signal ends the process at once
    scope.cancel()
  }
  print("stopped")
}

func run(port: Int, certificate: (chain: String, key: String)?, on group: MultiThreadedEventLoopGroup) throws {
  let bootstrap = ServerBootstrap(group: group)
    .serverChannelOption(.backlog, value: 1024)
    .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
    .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
  if let certificate {
    var configuration = TLSConfiguration.makeServerConfiguration(
      certificateChain: try NIOSSLCertificate.fromPEMFile(certificate.chain).map { .certificate($0) },
      privateKey: .privateKey(try NIOSSLPrivateKey(file: certificate.key, format: .pem)))
    configuration.applicationProtocols = NIOHTTP2SupportedALPNProtocols
    let tls = try NIOSSLContext(configuration: configuration)
    let listener = try NIOListener(bootstrap, host: "127.0.0.1", port: port) { try secure($0, by: tls) }
    try serve(listener) { connection in try connection.serveStreams(serve) }
  } else {
    let listener = try NIOListener(bootstrap, host: "127.0.0.1", port: port) { channel in
      try channel.pipeline.syncOperations.configureHTTPServerPipeline()
      return try HTTPConnection(wrapping: channel)
    }
    try serve(listener, serve)
  }
}

let arguments = CommandLine.arguments.dropFirst()
let port = arguments.first.flatMap { Int($0) } ?? 8080
let certificate = arguments.count == 3 ? (chain: arguments[2], key: arguments[3]) : nil
try runUntilComplete { try run(port: port, certificate: certificate, on: .singleton) }
