// The packages that servers use, in one program with this one: a web server of Hummingbird whose handlers call coroutines,
// these a database of GRDB, and coroutines that ask the server by AsyncHTTPClient; and a child process of Subprocess's beside
// one of this package. scripts/test-everybody.sh runs it, with each backend.
//
// With a port, it is a client of the HTTPS server on it instead, that of Examples/NIO.
import AsyncHTTPClient
import Configuration
import Coroutine
import CoroutineDebug
import CoroutineIO
import CoroutineNIO
import GRDB
import Hummingbird
import Logging
import NIOCore
import NIOPosix
import Subprocess
import SystemPackage

struct Unexpected: Error, CustomStringConvertible {
  let description: String
}

func expect<Value: Equatable>(_ what: String, _ value: Value, _ expected: Value) throws {
  if value != expected { throw Unexpected(description: "\(what): \(value), not \(expected)") }
}

/// Reads a row, in a coroutine of its own, where calls may block.
func square(of number: Int, in database: DatabaseQueue) throws -> Int {
  let answers = Coroutine::Channel<Int>()
  Coroutine {
    let square = try blocking {
      try database.read { database in
        try Int.fetchOne(database, sql: "SELECT square FROM squares WHERE number = ?", arguments: [number])
      }
    }
    try answers.send(square ?? 0)
  }
  return try answers.receive()
}

func makeDatabase() throws -> DatabaseQueue {
  let database = try DatabaseQueue()
  try database.write { database in
    try database.execute(sql: "CREATE TABLE squares (number INTEGER PRIMARY KEY, square INTEGER NOT NULL)")
    for number in 1...100 {
      try database.execute(sql: "INSERT INTO squares VALUES (?, ?)", arguments: [number, number * number])
    }
  }
  return database
}

/// Asks for all of these at the same time, each in a coroutine. Returns the bodies.
func get(_ addresses: [String], by client: HTTPClient) throws -> [String] {
  let answers = addresses.map { address in
    Coroutine(name: address) {
      let answer = try client.get(url: address).get(timeout: .seconds(60))
      try expect("status", answer.status.code, 200)
      return (String(buffer: answer.body ?? ByteBuffer()), answer.version.major)
    }
  }
  return try answers.map { "\(try $0.get().1) \(try $0.get().0)" }
}

/// A client on the loops of the others. Trusts any certificate.
func withClient<Result>(
  _ version: HTTPClient.Configuration.HTTPVersion, _ body: (HTTPClient) throws -> Result
) throws -> Result {
  var configuration = HTTPClient.Configuration(certificateVerification: .none)
  configuration.httpVersion = version
  let client = HTTPClient(eventLoopGroup: .singletonMultiThreadedEventLoopGroup, configuration: configuration)
  let result = Swift.Result { try body(client) }
  try Coroutine.await { try await client.shutdown() }
  return try result.get()
}

func serveAndAsk() async throws {
  let database = try makeDatabase()
  let router = Router()
  router.get("square/:number") { _, context in
    let number = try context.parameters.require("number", as: Int.self)
    return "\(try await Coroutine(on: .pool) { try square(of: number, in: database) }.get())"
  }
  var logger = Logger(label: "server")
  logger.logLevel = .critical
  let (bound, resolver) = Promise.makePromise(of: Int.self)
  let server = Application(
    router: router, configuration: .init(address: .hostname("127.0.0.1", port: 0)),
    onServerRunning: { resolver.fulfill($0.localAddress?.port ?? 0) }, logger: logger)
  try await withThrowingTaskGroup { group in
    group.addTask { try await server.runService(gracefulShutdownSignals: []) }
    let port = try await bound.get()
    let answers = try await Coroutine(on: .eventLoop(MultiThreadedEventLoopGroup.singleton.next())) {
      try withClient(.automatic) { client in
        try get((1...100).map { "http://127.0.0.1:\(port)/square/\($0)" }, by: client)
      }
    }.get()
    try expect("answers", answers, (1...100).map { "1 \($0 * $0)" })
    group.cancelAll()
  }
}

/// HTTP/2, many requests over one connection; then HTTP/1.1.
func askHTTPS(port: Int) async throws {
  try await Coroutine(on: .pool) {
    let address = "https://localhost:\(port)"
    let numbers = (0..<100).map { "\($0 * 50)" }
    for (version, major) in [(HTTPClient.Configuration.HTTPVersion.automatic, 2), (.http1Only, 1)] {
      let answers = try withClient(version) { client in
        try get(["\(address)/hello"] + numbers.map { "\(address)/numbers/\($0)" }, by: client)
      }
      try expect("answer", answers[0], "\(major) Hello, world!\n")
      for (answer, number) in zip(answers.dropFirst(), numbers) {
        try expect("lines for \(number)", answer.split(separator: "\n").count, max(1, Int(number) ?? 0))
      }
    }
  }.get()
}

/// Each library is told by the system of the ends of its own children, and of no other's.
func runChildren() throws {
  let words = ConfigReader(provider: InMemoryProvider(values: ["words": "a word"]))
  let text = try words.requiredString(forKey: "words")
  let children = (0..<20).map { number in
    Coroutine(on: .pool, name: "child \(number)") {
      number.isMultiple(of: 2)
        ? try Coroutine.await {
          try await Subprocess.run(.path("/bin/echo"), arguments: [text], output: .string(limit: 100)).standardOutput
        } : String(decoding: try ChildProcess.run("/bin/echo", [text]).output, as: UTF8.self)
    }
  }
  for child in children { try expect("what a child says", try child.get(), "\(text)\n") }
}

func run() async throws {
  let isOther = (any NIOCore::Channel).self != Coroutine::Channel<Int>.self
  try expect("names that several have", isOther && FilePath("a").appending("b") == "a/b", true)
  let gate = Coroutine::Channel<Int>()
  let dumped = Coroutine(on: .pool, name: "dumped") { try gate.receive() }
  while gate.waitingReceiverCount == 0 { await Task.yield() }
  try expect("a dump", CoroutineDump.capture().coroutines.map(\.name), ["dumped"])
  try await gate.send(1)
  try expect("what was dumped goes on", try await dumped.value, 1)
  if CommandLine.arguments.count > 1, let port = Int(CommandLine.arguments[1]) {
    try await askHTTPS(port: port)
  } else {
    try await Coroutine(on: .pool) { try runChildren() }.get()
    try await serveAndAsk()
  }
  print(Coroutine.backendName, "all as expected")
}

try await run()
