import Coroutine
import CoroutineIO
import CoroutineObservability
import Glibc
import InMemoryTracing
import Logging
import ServiceLifecycle
import Synchronization
import Tracing

// The programs of the article ServerWorld of CoroutineObservability, and what they have to show.

/// A server that stops when its group does: without a new connection, and with the answers of those that it has.
struct EchoService: Service {
  let listener: TCPListener

  func run() async throws {
    // In a scope, so that a cancelled task cancels the server, and waits for its end.
    try await withScope { scope in
      let serving = scope.launch(on: .pool, name: "echo") {
        try listener.serve(grace: .seconds(10)) { connection in
          while let bytes = try connection.read() { try connection.write(bytes) }
        }
      }
      try await withGracefulShutdownHandler {
        try await serving.value
      } onGracefulShutdown: {
        listener.close()
      }
    }
  }
}

func checkLifecycle() async throws {
  let listener = try TCPListener()
  let group = ServiceGroup(
    services: [EchoService(listener: listener)], gracefulShutdownSignals: [], logger: Logger(label: "services"))
  let running = Task { try await group.run() }
  let answer = try await Coroutine(on: .pool) {
    let connection = try TCPConnection(to: listener.address)
    try connection.write("before")
    _ = try connection.readExactly(6)
    try Coroutine.await { await group.triggerGracefulShutdown() }
    while !listener.descriptor.isClosed { try Coroutine.sleep(for: .milliseconds(1)) }
    // The connection is served to its end.
    try connection.write("after")
    return String(decoding: try connection.readExactly(5), as: UTF8.self)
  }.value
  try expect("an answer while the group stops", answer, "after")
  try await running.value
}

/// A group that is cancelled ends when its server has ended, and leaves no coroutine behind.
func checkCancelledGroup() async throws {
  let listener = try TCPListener()
  let group = ServiceGroup(
    services: [EchoService(listener: listener)], gracefulShutdownSignals: [], logger: Logger(label: "services"))
  let running = Task { try await group.run() }
  try await Coroutine(on: .pool) {
    let connection = try TCPConnection(to: listener.address)
    try connection.write("before")
    _ = try connection.readExactly(6)
    running.cancel()
    // In the grace.
    try connection.write("after")
    _ = try connection.readExactly(5)
  }.value
  _ = await running.result
  try expect("what waits when a cancelled group has ended", try CoroutineCensus.take().suspended, [:])
}

/// A span is the task-local value of the code in it: it stays that across suspensions and threads, and children and
/// `async` code get it.
func checkTracing(_ tracer: InMemoryTracer) async throws {
  let pool = ThreadPool(threads: 2)
  let requests = (0..<20).map { number in
    Coroutine(on: pool) {
      try withSpan("request \(number)") { request in
        let own = ServiceContext.current?.inMemorySpanContext
        let channel = Channel<Int>()
        // Launched in the span, so its own span is a child of it.
        let query = Coroutine { try withSpan("query \(number)") { _ in try channel.send(number) } }
        for _ in 0..<10 { Coroutine.yield() }
        _ = try channel.receive()
        try query.get()
        try Coroutine.await { withSpan("async \(number)") { _ in } }
        return own == ServiceContext.current?.inMemorySpanContext && own == request.context.inMemorySpanContext
      }
    }
  }
  for request in requests { try expect("the span after suspensions", try await request.value, true) }
  let spans = Dictionary(uniqueKeysWithValues: tracer.popFinishedSpans().map { ($0.operationName, $0) })
  for number in 0..<20 {
    let request = spans["request \(number)"]?.spanID
    try expect("a request's parent", spans["request \(number)"]?.parentSpanID, nil)
    try expect("a query's parent", spans["query \(number)"]?.parentSpanID, request)
    try expect("the parent of async code", spans["async \(number)"]?.parentSpanID, request)
  }
}

/// It goes with its coroutine to the only thread of another pool, and back.
func checkTracingAcrossThreads() async throws {
  let (home, other) = (ThreadPool(threads: 1), ThreadPool(threads: 1))
  let facts = try await Coroutine(on: home) {
    withSpan("hop") { _ -> [Bool] in
      let (own, thread) = (ServiceContext.current?.inMemorySpanContext, currentThread())
      let (there, ownThere) = on(other) { (currentThread(), ServiceContext.current?.inMemorySpanContext) }
      let isKept = own == ownThere && own == ServiceContext.current?.inMemorySpanContext
      return [own != nil, thread != "", there != thread, currentThread() != there, isKept]
    }
  }.value
  try expect("the span on another thread, and back", facts, [true, true, true, true, true])
}

/// The kernel's name for the calling thread.
private func currentThread() -> String {
  var name = [CChar](repeating: 0, count: 64)
  let length = readlink("/proc/thread-self", &name, name.count)
  return String(decoding: name.prefix(max(0, length)).map(UInt8.init(bitPattern:)), as: UTF8.self)
}

func checkMetadata() async throws {
  let provider = Logger.MetadataProvider.coroutine
  try expect("metadata outside of coroutines", provider.get(), [:])
  let named = Coroutine(on: .pool, name: "worker") { (provider.get(), Coroutine.current?.id ?? 0) }
  let (metadata, id) = try await named.value
  try expect("a coroutine's metadata", metadata, ["coroutine": "\(id)", "coroutine.name": "worker"])
  let unnamed = Coroutine(on: .pool) { Array(provider.get().keys) }
  try expect("metadata of one without a name", await unnamed.value, ["coroutine"])
}
