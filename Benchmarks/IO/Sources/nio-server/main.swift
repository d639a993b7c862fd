// SPDX-License-Identifier: Apache-2.0

// A fixed answer to each read, by a handler on SwiftNIO's event loop: one read and one write per request. Like the
// other servers it has no HTTP codec. With the word `echo` after the port it sends back what it reads.
import NIOCore
import NIOPosix

private final class Answerer: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private let answer: ByteBuffer

  init(_ answer: ByteBuffer) { self.answer = answer }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    context.writeAndFlush(wrapOutboundOut(answer), promise: nil)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}

private final class Echoer: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  func channelRead(context: ChannelHandlerContext, data: NIOAny) { context.writeAndFlush(data, promise: nil) }

  func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}

let echoes = CommandLine.arguments.dropFirst(2).first == "echo"
let answer = ByteBuffer(
  string: "HTTP/1.1 200 OK\r\nContent-Length: 13\r\nContent-Type: text/plain\r\n\r\nHello, world!")
let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
let server = try await ServerBootstrap(group: group)
  .serverChannelOption(.backlog, value: 4096)
  .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
  .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
  .childChannelInitializer { channel in
    channel.eventLoop.makeCompletedFuture {
      try channel.pipeline.syncOperations.addHandler(echoes ? Echoer() : Answerer(answer))
    }
  }
  .bind(host: "127.0.0.1", port: Int(CommandLine.arguments[1])!).get()
try await server.closeFuture.get()
