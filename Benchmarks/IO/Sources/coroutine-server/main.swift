// A fixed answer to each read, a coroutine a connection: one read and one write a request.
import Coroutine
import CoroutineIO

let answer: [UInt8] = Array(
  "HTTP/1.1 200 OK\r\nContent-Length: 13\r\nContent-Type: text/plain\r\n\r\nHello, world!".utf8)

let listener = try TCPListener(host: "127.0.0.1", port: Int(CommandLine.arguments[1])!)
try await Coroutine(on: .pool) {
  try listener.serve { connection in
    try withUnsafeTemporaryAllocation(byteCount: 4096, alignment: 16) { request in
      while try connection.read(into: UnsafeMutableRawBufferPointer(request)) > 0 { try connection.write(answer) }
    }
  }
}.value
