// SPDX-License-Identifier: Apache-2.0

// A fixed answer to each read, a coroutine per connection, on SwiftNIO's event loop: one read and one write per
// request.
import Coroutine
import CoroutineNIO
import NIOCore
import NIOPosix

func serve(port: Int, on group: MultiThreadedEventLoopGroup) throws {
  let answer = ByteBuffer(
    string: "HTTP/1.1 200 OK\r\nContent-Length: 13\r\nContent-Type: text/plain\r\n\r\nHello, world!")
  let bootstrap = ServerBootstrap(group: group)
    .serverChannelOption(.backlog, value: 4096)
    .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
    .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
  let listener = try NIOListener(bootstrap, host: "127.0.0.1", port: port) { channel in
    try NIOConnection<ByteBuffer, ByteBuffer>(wrapping: channel)
  }
  try listener.serve { connection in
    while try connection.read() != nil { try connection.write(answer) }
  }
}

let group = MultiThreadedEventLoopGroup(
  numberOfThreads: CommandLine.arguments.count > 2 ? Int(CommandLine.arguments[2])! : 1)
let port = Int(CommandLine.arguments[1])!
try await Coroutine(on: .eventLoop(group.next())) { try serve(port: port, on: group) }.value
