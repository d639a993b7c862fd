// A chat: all clients read what one says. Talk to it with `nc 127.0.0.1 7001`. SIGTERM or Ctrl-C stops it.
//
//     chat-server 7001

import Coroutine
import CoroutineIO
import Glibc

let port = CommandLine.arguments.dropFirst().first.flatMap { Int($0) } ?? 7001

/// A reader with 100 unread messages misses the oldest one, and holds up no sender.
let room = BroadcastChannel<String>(capacity: 100, onOverflow: .dropOldest, name: "room")

func talk(_ connection: TCPConnection) throws {
  try connection.write("your name?\n", timeout: .seconds(5))
  guard let name = try connection.readLine(limit: 40, timeout: .seconds(60)) else { return }
  let messages = room.subscribe()
  try withScope { scope in
    scope.launch(name: "writer") {
      for message in messages.received { try connection.write(message + "\n", timeout: .seconds(5)) }
      // The room is closed. The reader still waits for the end of its input.
      try connection.write("the server stops\n", timeout: .seconds(5))
      connection.close()
    }
    _ = room.trySend("\(name) comes")
    defer { _ = room.trySend("\(name) goes") }
    do {
      while let line = try connection.readLine(limit: 1000) { _ = room.trySend("\(name): \(line)") }
    } catch is DescriptorClosed {}
    scope.cancel()
  }
}

try runUntilComplete {
  let listener = try TCPListener(host: "127.0.0.1", port: port)
  let signals = try Signals.received(SIGTERM, SIGINT)
  try withScope { scope in
    scope.launch(on: .pool, name: "chat") {
      try listener.serve(limit: 1000, grace: .seconds(5), talk)
    }
    print("listening on \(listener.address)")
    fflush(nil)

    _ = try signals.receive()  // a server that fails ends this wait, too
    signals.close()  // a second signal ends the process at once
    scope.cancel()
    room.close()
  }
  print("stopped")
}
