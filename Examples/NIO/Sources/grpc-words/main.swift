// A gRPC service whose handlers call coroutines, and a client of it in the same process, over HTTP/2. The library calls a
// handler in `async` code; what it does is synchronous code, in a coroutine that starts others and talks with them.
//
// The messages are plain text, so that the example needs no protobuf. Generated code makes the same calls as these.

import Coroutine
import GRPCCore
import GRPCNIOTransportHTTP2Posix

/// Counts the words of a text, in several coroutines that get its lines through a channel.
func countWords(_ text: String) throws -> Int {
  try withScope { scope in
    let lines = Coroutine::Channel<Substring>(capacity: .buffered(4))
    let counters = (0..<4).map { _ in
      scope.launch { lines.received.reduce(0) { $0 + $1.split(separator: " ").count } }
    }
    for line in text.split(separator: "\n") { try lines.send(line) }
    lines.close()
    return try counters.reduce(0) { $0 + (try $1.get()) }
  }
}

struct Words: RegistrableRPCService {
  static let count = MethodDescriptor(fullyQualifiedService: "examples.Words", method: "Count")

  func registerMethods<Transport: ServerTransport>(with router: inout RPCRouter<Transport>) {
    router.registerHandler(forMethod: Self.count, deserializer: Text(), serializer: Text()) { request, _ in
      let text = try await ServerRequest(stream: request).message
      let counting = Coroutine(on: .pool, name: "\(Self.count)") { try countWords(text) }
      // The task is cancelled when the client goes away.
      let count = try await withTaskCancellationHandler {
        try await counting.get()
      } onCancel: {
        counting.cancel()
      }
      return StreamingServerResponse(single: ServerResponse(message: "\(count)"))
    }
  }
}

struct Text: MessageSerializer, MessageDeserializer {
  func serialize<Bytes: GRPCContiguousBytes>(_ message: String) -> Bytes { Bytes(message.utf8) }

  func deserialize<Bytes: GRPCContiguousBytes>(_ bytes: Bytes) -> String {
    bytes.withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
  }
}

/// What the server says of a text of so many lines.
func ask(_ client: GRPCClient<some ClientTransport>, lines: Int) async throws -> Int? {
  let text = String(repeating: "three more words\n", count: lines)
  return try await client.unary(
    request: ClientRequest(message: text), descriptor: Words.count, serializer: Text(), deserializer: Text(),
    options: .defaults
  ) { Int(try $0.message) }
}

func run() async throws {
  let transport = HTTP2ServerTransport.Posix(
    address: .ipv4(host: "127.0.0.1", port: 0), transportSecurity: .plaintext)
  try await withGRPCServer(transport: transport, services: [Words()]) { server in
    guard let port = try await server.listeningAddress?.ipv4?.port else { fatalError("not on TCP") }
    let connection = try HTTP2ClientTransport.Posix(
      target: .ipv4(host: "127.0.0.1", port: port), transportSecurity: .plaintext)
    try await withGRPCClient(transport: connection) { client in
      let right = try await withThrowingTaskGroup(of: Bool.self) { calls in
        for lines in 1...100 {
          calls.addTask { try await ask(client, lines: lines) == 3 * lines }
        }
        return try await calls.reduce(0) { $0 + ($1 ? 1 : 0) }
      }
      print("\(right) right answers to 100 calls")
    }
  }
}

try await run()
