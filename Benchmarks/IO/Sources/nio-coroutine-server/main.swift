// SPDX-License-Identifier: Apache-2.0

// A fixed answer to each request, a coroutine per connection, on SwiftNIO's event loop. Without a word after the port there
// is no HTTP codec: one read and one write per request. With `codec` there is NIO's: two messages read, and three written.
import Coroutine
import CoroutineNIO
import NIOCore
import NIOHTTP1
import NIOPosix

func bootstrap(on group: MultiThreadedEventLoopGroup) -> ServerBootstrap {
  ServerBootstrap(group: group)
    .serverChannelOption(.backlog, value: 4096)
    .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
    .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
}

func serve(port: Int, on group: MultiThreadedEventLoopGroup) throws {
  let answer = ByteBuffer(
    string: "HTTP/1.1 200 OK\r\nContent-Length: 13\r\nContent-Type: text/plain\r\n\r\nHello, world!")
  let listener = try NIOListener(bootstrap(on: group), host: "127.0.0.1", port: port) { channel in
    try NIOConnection<ByteBuffer, ByteBuffer>(wrapping: channel)
  }
  try listener.serve { connection in
    while try connection.read() != nil { try connection.write(answer) }
  }
}

func serveByCodec(port: Int, on group: MultiThreadedEventLoopGroup) throws {
  let head = HTTPResponseHead(
    version: .http1_1, status: .ok, headers: ["Content-Length": "13", "Content-Type": "text/plain"])
  let text = ByteBuffer(string: "Hello, world!")
  let listener = try NIOListener(bootstrap(on: group), host: "127.0.0.1", port: port) { channel in
    try channel.pipeline.syncOperations.configureHTTPServerPipeline()
    return try NIOConnection<HTTPServerRequestPart, HTTPServerResponsePart>(wrapping: channel)
  }
  try listener.serve { connection in
    while let part = try connection.read() {
      guard case .end = part else { continue }
      try connection.write(.head(head))
      try connection.write(.body(.byteBuffer(text)))
      try connection.write(.end(nil))
    }
  }
}

let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
let port = Int(CommandLine.arguments[1])!
let hasCodec = CommandLine.arguments.dropFirst(2).first == "codec"
try await Coroutine(on: .eventLoop(group.next())) {
  try hasCodec ? serveByCodec(port: port, on: group) : serve(port: port, on: group)
}.value
