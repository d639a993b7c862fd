import Coroutine
import CoroutineTestSupport
import Foundation  // brings select(2) along, as in many programs
import Testing

/// The examples of the documentation comments and of the README, word for word.
@Suite(.ownThreads) struct SelectExamplesTests {
  private enum Message: Equatable {
    case job(Int)
    case sent
    case finished(Int)
    case late
  }

  @Test func ofAllKinds() async throws {
    let (jobs, results) = (Channel<Int>(), Channel<String>())
    let worker = Coroutine { 5 }
    let result = "done"
    let selecting = Coroutine {
      let message: Message = try select {
        jobs.onReceive { job in .job(job) }
        results.onSend(result) { .sent }
        worker.onValue { value in .finished(value) }
        onTimeout(.seconds(60)) { .late }
      }
      return message == .finished(5)
    }
    #expect(try await selecting.get())
  }

  @Test func arrays() async throws {
    let sensors = (0..<3).map { _ in Channel<Int>(capacity: .buffered(1)) }
    try await sensors[1].send(4)
    let selecting = Coroutine {
      let first = try select(sensors.map { sensor in sensor.onReceive { $0 } })

      var cases: [any SelectCase<String>] = sensors.map { sensor in sensor.onReceive { "\($0)" } }
      cases.append(onTimeout(.milliseconds(1)) { "late" })
      return "\(first), \(try select(cases))"
    }
    #expect(try await selecting.get() == "4, late")
  }

  @Test func inAsyncCode() async throws {
    func reconnect() async throws { await Task.yield() }
    let jobs = Channel<Int>()
    let message: Message = try await select {
      jobs.onReceive { job in .job(job) }
      onTimeout(.milliseconds(1)) {
        try await reconnect()
        return .late
      }
    }
    #expect(message == .late)
  }

  /// The README's example.
  @Test func aStageOfAPipeline() async throws {
    let (input, output, stop) = (Channel<Int>(), Channel<Int>(), Channel<Void>())
    /// Doubles the numbers of `input` until `stop`. Keeps up to `limit` results that are not sent yet.
    @Sendable func double(_ input: Channel<Int>, _ output: Channel<Int>, stop: Channel<Void>, limit: Int) throws {
      var (results, isStopped) = ([Int](), false)
      while !isStopped {
        try select {
          if results.count < limit { input.onReceive { results.append(2 * $0) } }
          if let first = results.first { output.onSend(first) { results.removeFirst() } }
          stop.onNext { _ in isStopped = true }
        }
      }
    }
    let stage = Coroutine { try double(input, output, stop: stop, limit: 2) }
    for value in 1...2 { try await input.send(value) }
    let full = Coroutine { try input.send(3) }
    #expect(try await output.receive() == 2)
    #expect(try await output.receive() == 4)
    try await full.get()
    #expect(try await output.receive() == 6)
    stop.close()
    try await stage.get()
  }
}
