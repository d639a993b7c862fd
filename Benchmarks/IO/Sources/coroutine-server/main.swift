// SPDX-License-Identifier: Apache-2.0

// A fixed answer to each read, a coroutine per connection: one read and one write per request. With the word `echo`
// after the port it sends back what it reads.
import Coroutine
import CoroutineIO

let answer: [UInt8] = Array(
  "HTTP/1.1 200 OK\r\nContent-Length: 13\r\nContent-Type: text/plain\r\n\r\nHello, world!".utf8)

let listener = try TCPListener(host: "127.0.0.1", port: Int(CommandLine.arguments[1])!)
let echoes = CommandLine.arguments.dropFirst(2).first == "echo"
try await Coroutine(on: .pool) {
  if echoes {
    try listener.serve { connection in
      let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: 65536, alignment: 16)
      defer { bytes.deallocate() }
      while case let count = try connection.read(into: bytes), count > 0 {
        try connection.write(UnsafeRawBufferPointer(rebasing: bytes[..<count]))
      }
    }
  } else {
    try listener.serve { connection in
      try withUnsafeTemporaryAllocation(byteCount: 4096, alignment: 16) { request in
        while try connection.read(into: UnsafeMutableRawBufferPointer(request)) > 0 { try connection.write(answer) }
      }
    }
  }
}.value
