// SPDX-License-Identifier: Apache-2.0

// A fixed answer to each read, a task per connection, by SwiftNIO's NIOAsyncChannel: one read and one write per
// request.
import NIOCore
import NIOPosix

let answer = ByteBuffer(
  string: "HTTP/1.1 200 OK\r\nContent-Length: 13\r\nContent-Type: text/plain\r\n\r\nHello, world!")
let group = MultiThreadedEventLoopGroup(
  numberOfThreads: CommandLine.arguments.count > 2 ? Int(CommandLine.arguments[2])! : 1)
let server = try await ServerBootstrap(group: group)
  .serverChannelOption(.backlog, value: 4096)
  .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
  .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
  .bind(host: "127.0.0.1", port: Int(CommandLine.arguments[1])!) { channel in
    channel.eventLoop.makeCompletedFuture {
      try NIOAsyncChannel<ByteBuffer, ByteBuffer>(wrappingChannelSynchronously: channel)
    }
  }
try await withThrowingDiscardingTaskGroup { tasks in
  try await server.executeThenClose { connections in
    for try await connection in connections {
      tasks.addTask {
        // A client that goes away ends only its own connection.
        try? await connection.executeThenClose { requests, answers in
          for try await _ in requests { try await answers.write(answer) }
        }
      }
    }
  }
}
