// Sends messages to an echo server over many connections, and compares the answers. Prints its progress twice a
// second.
//
//     load-client 7000 100 1000         # port, connections, messages of each

import Coroutine
import CoroutineIO
import Glibc
import Synchronization

let numbers = CommandLine.arguments.dropFirst().compactMap { Int($0) }
guard numbers.count == 3 else { fatalError("usage: load-client <port> <connections> <messages>") }
let (port, connections, messages) = (numbers[0], numbers[1], numbers[2])

/// How many messages have come back.
let answers = Atomic(0)

func converse(_ number: Int) throws {
  let connection = try TCPConnection(to: "127.0.0.1", port: port, timeout: .seconds(10))
  for turn in 0..<messages {
    let message = "connection \(number), message \(turn)"
    try connection.write(message + "\n", timeout: .seconds(10))
    guard try connection.readLine(timeout: .seconds(10)) == message else {
      fatalError("another answer than \(message)")
    }
    answers.wrappingAdd(1, ordering: .relaxed)
  }
}

func showProgress() {
  for _ in Ticker(every: .milliseconds(500)) {
    let text = "\r\(100 * answers.load(ordering: .relaxed) / max(1, connections * messages)) %"
    _ = text.withCString { write(STDERR_FILENO, $0, strlen($0)) }
  }
}

try runUntilComplete {
  let progress = Coroutine(on: .pool, name: "progress") { showProgress() }
  try withScope { scope in
    for number in 0..<connections { scope.launch(on: .pool, name: "\(number)") { try converse(number) } }
  }
  progress.cancel()
  print("\(answers.load(ordering: .relaxed)) answers over \(connections) connections")
}
