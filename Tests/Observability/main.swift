// Metrics and logs of a fixed program, then other packages of servers. scripts/test-dependent.sh runs it, as a package
// that depends on this one.
import Coroutine
import CoroutineObservability
import InMemoryTracing
import Logging
import MetricsTestKit
import Synchronization
import Tracing

struct Failure: Error {}

/// Keeps the log lines.
final class Lines: Sendable {
  private let all = Mutex<[String]>([])
  func add(_ line: String) { all.withLock { $0.append(line) } }
  var text: [String] { all.withLock { $0 } }
}

struct Handler: LogHandler {
  let lines: Lines
  var metadata: Logger.Metadata = [:]
  var logLevel = Logger.Level.trace
  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }
  func log(event: LogEvent) {
    lines.add("\(event.level): \(event.message) \(event.metadata?["name"] ?? event.metadata?["error"] ?? "")")
  }
}

struct Unexpected: Error, CustomStringConvertible {
  let description: String
}

func expect<Value: Equatable>(_ what: String, _ value: Value, _ expected: Value) throws {
  if value != expected { throw Unexpected(description: "\(what): \(value), not \(expected)") }
}

func check() throws {
  let backend = TestMetrics()
  let metrics = CoroutineMetrics(factory: backend)
  let lines = Lines()
  let logger = Logger(label: "test") { _ in Handler(lines: lines) }
  let log = CoroutineLog(logger, queueLimit: .zero, interval: .seconds(1_000_000))
  CoroutineLog.logLostErrors(to: logger)
  CoroutineObservation.install(metrics)
  CoroutineObservation.install(log)

  let jobs = Channel<Int>()
  let waiting = Coroutine(name: "waiting") { try jobs.receive() }
  try runUntilComplete {
    // Created and launched, so ready once. It has two turns: before the yield and after it.
    let child = Coroutine(name: "child") {
      Coroutine.yield()
      throw Failure()
    }
    do { try child.get() } catch {}
  }
  while waiting.state != .suspended {}
  try metrics.report()

  func counter(_ name: String, _ reason: String? = nil) throws -> Int64 {
    try backend.expectCounter("coroutine.\(name)", reason.map { [("reason", $0)] } ?? []).totalValue
  }
  func gauge(_ name: String, _ reason: String? = nil) throws -> Double? {
    try backend.expectGauge("coroutine.\(name)", reason.map { [("reason", $0)] } ?? []).lastValue
  }

  try expect("created", try counter("created"), 3)
  try expect("finished", try counter("finished"), 2)
  try expect("failed", try counter("failed"), 1)
  try expect("switches", try counter("switches"), 1 + 2 + 2)
  try expect("suspensions by receive", try counter("suspensions", "receive"), 1)
  try expect("suspensions by join", try counter("suspensions", "join"), 1)
  try expect("queue times", try backend.expectTimer("coroutine.queue_time").values.count, 5)
  try expect("live", try gauge("live"), 1)
  try expect("ready", try gauge("ready"), 0)
  try expect("suspended in receive", try gauge("suspended", "receive"), 1)
  try expect("suspended in send", try gauge("suspended", "send"), 0)
  try expect("stacks", try gauge("stacks"), 1)

  // A second report adds nothing to the counters.
  try metrics.report()
  try expect("created, reported twice", try counter("created"), 3)

  CoroutineObservation.remove(log)
  CoroutineObservation.remove(metrics)
  do { Coroutine<Void, any Error>(name: "lost") { throw Failure() } }
  while Coroutine.statistics.liveCoroutines > 1 || lines.text.count < 2 {}
  try expect("warnings", lines.text.count { $0.hasPrefix("warning: a coroutine was ready and found no thread") }, 1)
  try expect("errors", lines.text.filter { $0.hasPrefix("error") }, ["error: an error was not handled Failure()"])
  jobs.close()
}

func checkAll() async throws {
  // In a function that is not async, as most of it waits by spinning.
  try check()
  try await checkMetadata()
  let tracer = InMemoryTracer()
  InstrumentationSystem.bootstrap(tracer)
  try await checkTracing(tracer)
  try await checkTracingAcrossThreads()
  try await checkLifecycle()
  try await checkCancelledGroup()
}

do {
  try await checkAll()
  print("all as expected")
} catch {
  print(error)
}
