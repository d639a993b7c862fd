// SPDX-License-Identifier: Apache-2.0

// A fixed answer to each request, a task per connection, by SwiftNIO's NIOAsyncChannel. Without a word after the port there
// is no HTTP codec: one read and one write per request. With `codec` there is NIO's: two messages read, and three written,
// those by one call.
import NIOCore
import NIOHTTP1
import NIOPosix

/// Serves the connections that `bind` makes of `bootstrap`. A client that goes away ends only its own connection.
func serve<Inbound: Sendable, Outbound: Sendable>(
  _ server: NIOAsyncChannel<NIOAsyncChannel<Inbound, Outbound>, Never>,
  _ handler:
    @escaping @Sendable (NIOAsyncChannelInboundStream<Inbound>, NIOAsyncChannelOutboundWriter<Outbound>) async throws ->
    Void
) async throws {
  try await withThrowingDiscardingTaskGroup { tasks in
    try await server.executeThenClose { connections in
      for try await connection in connections {
        tasks.addTask { try? await connection.executeThenClose(handler) }
      }
    }
  }
}

let port = Int(CommandLine.arguments[1])!
let bootstrap = ServerBootstrap(group: MultiThreadedEventLoopGroup(numberOfThreads: 1))
  .serverChannelOption(.backlog, value: 4096)
  .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
  .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)

if CommandLine.arguments.dropFirst(2).first == "codec" {
  let head = HTTPResponseHead(
    version: .http1_1, status: .ok, headers: ["Content-Length": "13", "Content-Type": "text/plain"])
  let text = ByteBuffer(string: "Hello, world!")
  let server = try await bootstrap.bind(host: "127.0.0.1", port: port) { channel in
    channel.eventLoop.makeCompletedFuture {
      try channel.pipeline.syncOperations.configureHTTPServerPipeline()
      return try NIOAsyncChannel<HTTPServerRequestPart, HTTPServerResponsePart>(wrappingChannelSynchronously: channel)
    }
  }
  try await serve(server) { requests, answers in
    for try await part in requests {
      guard case .end = part else { continue }
      try await answers.write(contentsOf: [.head(head), .body(.byteBuffer(text)), .end(nil)])
    }
  }
} else {
  let answer = ByteBuffer(
    string: "HTTP/1.1 200 OK\r\nContent-Length: 13\r\nContent-Type: text/plain\r\n\r\nHello, world!")
  let server = try await bootstrap.bind(host: "127.0.0.1", port: port) { channel in
    channel.eventLoop.makeCompletedFuture {
      try NIOAsyncChannel<ByteBuffer, ByteBuffer>(wrappingChannelSynchronously: channel)
    }
  }
  try await serve(server) { requests, answers in
    for try await _ in requests { try await answers.write(answer) }
  }
}
