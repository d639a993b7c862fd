// SPDX-License-Identifier: Apache-2.0

// A fixed answer to each request, by a handler on SwiftNIO's event loop. Without a word after the port there is no HTTP
// codec: one read and one write per request. With `codec` there is NIO's: two messages read, and three written. With `echo`
// it sends back what it reads.
import NIOCore
import NIOHTTP1
import NIOPosix

private final class Answerer: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private let answer = ByteBuffer(
    string: "HTTP/1.1 200 OK\r\nContent-Length: 13\r\nContent-Type: text/plain\r\n\r\nHello, world!")

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    context.writeAndFlush(wrapOutboundOut(answer), promise: nil)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}

private final class CodecAnswerer: ChannelInboundHandler {
  typealias InboundIn = HTTPServerRequestPart
  typealias OutboundOut = HTTPServerResponsePart

  private let head = HTTPResponseHead(
    version: .http1_1, status: .ok, headers: ["Content-Length": "13", "Content-Type": "text/plain"])
  private let text = ByteBuffer(string: "Hello, world!")

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard case .end = unwrapInboundIn(data) else { return }
    context.write(wrapOutboundOut(.head(head)), promise: nil)
    context.write(wrapOutboundOut(.body(.byteBuffer(text))), promise: nil)
    context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}

private final class Echoer: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  func channelRead(context: ChannelHandlerContext, data: NIOAny) { context.writeAndFlush(data, promise: nil) }

  func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}

let mode = CommandLine.arguments.dropFirst(2).first
let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup(numberOfThreads: 1))
  .serverChannelOption(.backlog, value: 4096)
  .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
  .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
  .childChannelInitializer { channel in
    channel.eventLoop.makeCompletedFuture {
      let pipeline = channel.pipeline.syncOperations
      switch mode {
      case "codec":
        try pipeline.configureHTTPServerPipeline()
        try pipeline.addHandler(CodecAnswerer())
      case "echo": try pipeline.addHandler(Echoer())
      default: try pipeline.addHandler(Answerer())
      }
    }
  }
  .bind(host: "127.0.0.1", port: Int(CommandLine.arguments[1])!).get()
try await server.closeFuture.get()
