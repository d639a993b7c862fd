// An echo server. SIGTERM or Ctrl-C stops it: it accepts no more connections, and the open ones have five seconds to
// end.
//
//     echo-server 7000

import Coroutine
import CoroutineIO
import Glibc

let port = CommandLine.arguments.dropFirst().first.flatMap { Int($0) } ?? 7000

try runUntilComplete {
  let listener = try TCPListener(host: "127.0.0.1", port: port)
  let signals = try Signals.received(SIGTERM, SIGINT)
  try withScope { scope in
    scope.launch(on: .pool, name: "echo") {
      try listener.serve(limit: 10_000, grace: .seconds(5)) { connection in
        while let bytes = try connection.read() { try connection.write(bytes, timeout: .seconds(10)) }
      }
    }
    print("listening on \(listener.address)")
    fflush(nil)

    _ = try signals.receive()  // a server that fails ends this wait, too
    signals.close()  // a second signal ends the process at once
    scope.cancel()
  }
  print("stopped")
}
