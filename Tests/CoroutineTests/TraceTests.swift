import Coroutine
import CoroutineTestSupport
import Foundation
import Testing

@testable import CoroutineTracing

/// One event of a trace, as its reader sees it.
private struct Event: Decodable {
  struct Arguments: Decodable {
    var coroutine: UInt64?
    var then: String?
    var detail: String?
    var name: String?
    var events: Int?
  }
  let ph: String
  let tid: Int
  var name: String?
  var ts: Double?
  var id: Int?
  var args: Arguments?
}

private struct Trace: Decodable {
  let traceEvents: [Event]
  let otherData: [String: String]

  init(_ path: String) throws {
    self = try JSONDecoder().decode(Trace.self, from: Data(contentsOf: URL(filePath: path)))
  }

  /// The trace's faults: an end without a beginning, a step back in time, half an arrow.
  var faults: [String] {
    var faults: [String] = []
    var open: [Int: Int] = [:]
    var times: [Int: Double] = [:]
    var arrows: [Int: [String]] = [:]
    for event in traceEvents {
      switch event.ph {
      case "M": continue
      case "s", "f":
        arrows[event.id ?? -1, default: []].append(event.ph)
        continue
      case "B": open[event.tid, default: 0] += 1
      case "E":
        open[event.tid, default: 0] -= 1
        if open[event.tid]! < 0 { faults.append("an end without a beginning on \(event.tid)") }
      default: break
      }
      guard let time = event.ts else {
        faults.append("no time: \(event)")
        continue
      }
      if time < times[event.tid] ?? 0 { faults.append("a step back in time on \(event.tid)") }
      times[event.tid] = time
    }
    for (thread, count) in open where count != 0 { faults.append("\(count) beginnings without an end on \(thread)") }
    for (arrow, ends) in arrows where ends != ["s", "f"] { faults.append("arrow \(arrow) has \(ends)") }
    return faults
  }

  /// The events of the thread that ran `name`, in order.
  func track(of name: String) -> [String] {
    guard let thread = traceEvents.first(where: { $0.ph == "B" && $0.name == name })?.tid else { return [] }
    return traceEvents.filter { $0.tid == thread && ["B", "E"].contains($0.ph) }.map { event in
      event.ph == "B"
        ? "\(event.name ?? "?") begins"
        : "ends: " + [event.args?.then, event.args?.detail].compactMap { $0 }.joined(separator: ", ")
    }
  }
}

private func temporaryPath() -> String {
  FileManager.default.temporaryDirectory.appending(path: "trace-\(UUID().uuidString).json").path(percentEncoded: false)
}

private struct Failure: Error {}

/// Each in a process of its own, since a process has one trace.
@Suite(.ownThreads, .timeLimit(.minutes(30))) struct TraceTests {
  @Test func aProgramsTurnsAndWakes() async {
    await #expect(processExitsWith: .success) {
      let path = temporaryPath()
      defer { try? FileManager.default.removeItem(atPath: path) }
      let trace = try CoroutineTrace.start(to: path, options: .init(describesWaits: true))
      try await Coroutine(on: ThreadPool(threads: 1), name: "main \"1\"\n") {
        let jobs = Channel<Int>(name: "jobs")
        let worker = Coroutine(name: "worker") {
          _ = try jobs.receive()
          throw Failure()
        }
        Coroutine.yield()
        try jobs.send(1)
        do { _ = try worker.get() } catch {}
      }.get()
      let summary = try trace.stop()
      #expect(try trace.stop() == summary)
      let read = try Trace(path)
      #expect(read.faults == [])
      let track = read.track(of: "worker").map { $0.hasPrefix("ends: join") ? "ends: join" : $0 }
      #expect(
        track == [
          "main \"1\"\n begins", "ends: yielded",
          "worker begins", "ends: receive, receive on channel \"jobs\" (1 receiver)",
          "main \"1\"\n begins", "ends: join", "worker begins", "ends: finished, Failure",
          "main \"1\"\n begins", "ends: finished",
        ])
      // Both launches, the send, and the end of the worker. A yield wakes no coroutine.
      #expect(read.traceEvents.count { $0.ph == "s" } == 4)
      #expect(read.traceEvents.contains { $0.ph == "M" && $0.args?.name == "coroutine-pool" })
      #expect(summary.dropped == 0 && read.otherData["dropped events"] == "0")
      #expect(UInt64(read.otherData["monotonic clock at 0"] ?? "") != nil)
    }
  }

  @Test func manyThreadsAndAnEndInTheMiddleOfEverything() async {
    await #expect(processExitsWith: .success) {
      let path = temporaryPath()
      defer { try? FileManager.default.removeItem(atPath: path) }
      let pool = ThreadPool(threads: 3)
      let rounds = 200
      func start(_ name: String) -> Coroutine<Void, any Error> {
        Coroutine<Void, any Error>(on: pool, name: name) {
          let (there, back) = (Channel<Int>(), Channel<Int>())
          let echo = Coroutine { for value in there.received { try back.send(value) } }
          for round in 0..<rounds {
            try there.send(round)
            _ = try back.receive()
          }
          there.close()
          try echo.get()
        }
      }
      // The trace starts and stops while these run, so it lacks beginnings and ends.
      let early = (0..<4).map { _ in start("early") }
      let trace = try CoroutineTrace.start(to: path)
      let late = (0..<4).map { _ in start("late") }
      try await late[0].get()
      try trace.stop()
      for coroutine in early + late { try await coroutine.get() }
      #expect(try Trace(path).faults == [])
      // A second trace, by threads that had a buffer of the first one.
      let second = try CoroutineTrace.start(to: path)
      do {
        _ = try CoroutineTrace.start(to: path + ".other")
        Issue.record("two traces at once")
      } catch let error as CoroutineTraceError {
        #expect(error.code == EBUSY)
      }
      try await start("again").get()
      try second.stop()
      let read = try Trace(path)
      #expect(read.faults == [] && read.traceEvents.contains { $0.name == "again" })
    }
  }

  @Test func whatFindsTheBufferFullIsCountedAndMarked() async {
    await #expect(processExitsWith: .success) {
      let path = temporaryPath()
      defer { try? FileManager.default.removeItem(atPath: path) }
      let trace = try CoroutineTrace.start(to: path, options: .init(eventsPerThread: 16))
      try await Coroutine(on: ThreadPool(threads: 1)) { for _ in 0..<20_000 { Coroutine.yield() } }.get()
      let summary = try trace.stop()
      let read = try Trace(path)
      #expect(read.faults == [])
      #expect(summary.dropped > 0 && read.otherData["dropped events"] == "\(summary.dropped)")
      let marked = read.traceEvents.filter { $0.name == "dropped" }.reduce(0) { $0 + ($1.args?.events ?? 0) }
      #expect(marked == summary.dropped)
      // Ready, and then each turn's beginning and end.
      #expect(summary.events + summary.dropped == 1 + 2 * 20_001)
    }
  }

  @Test func aProgramThatCrashesLeavesACompleteFile() async throws {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let path = temporaryPath()
      let trace = try CoroutineTrace.start(to: path)
      try await Coroutine(name: "before") {}.get()
      // Until the event is in the file, which is read here between two writes or in the middle of one.
      while (try? Trace(path))?.traceEvents.contains(where: { $0.name == "before" }) != true { await Task.yield() }
      FileHandle.standardError.write(Data("\ntrace: \(path)\n".utf8))
      withExtendedLifetime(trace) { abort() }
    }
    let text = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
    let line = try #require(text.split(separator: "\n").first { $0.hasPrefix("trace: ") })
    let path = String(line.dropFirst("trace: ".count))
    defer { try? FileManager.default.removeItem(atPath: path) }
    #expect(try Trace(path).traceEvents.contains { $0.name == "before" })
  }

  @Test func aTraceIsItsOwnersAndReplacesNoOtherFile() async {
    await #expect(processExitsWith: .success) {
      let path = temporaryPath()
      let link = path + ".link"
      defer {
        unlink(path)
        unlink(link)
      }
      try CoroutineTrace.start(to: path).stop()
      var status = stat()
      #expect(stat(path, &status) == 0 && status.st_mode & 0o777 == 0o600)
      symlink(path, link)
      #expect {
        try CoroutineTrace.start(to: link)
      } throws: {
        "\($0)".contains("open \(link), a symbolic link, which is not followed")
      }
      #expect(try Trace(path).faults == [])
    }
  }

  @Test func aFileThatCanNotBeWritten() async {
    await #expect(processExitsWith: .success) {
      for (path, code) in [("/nowhere/trace.json", ENOENT), ("/dev/full", ENOSPC)] {
        do {
          let trace = try CoroutineTrace.start(to: path)
          try await Coroutine {}.get()
          try trace.stop()
          Issue.record("no error for \(path)")
        } catch let error as CoroutineTraceError {
          #expect(error.code == code)
        }
      }
    }
  }

  /// The process's limit on file sizes stands in for a full disk.
  @Test func aFullDiskLeavesCompleteJSONOrNothing() async {
    await #expect(processExitsWith: .success) {
      signal(SIGXFSZ, SIG_IGN)
      let path = temporaryPath()
      defer { unlink(path) }
      var limit = rlimit()
      getrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit)
      let usual = limit.rlim_cur
      func limitFiles(to size: rlim_t) {
        limit.rlim_cur = size
        setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit)
      }
      func size() -> Int {
        var status = stat()
        return stat(path, &status) == 0 ? Int(status.st_size) : -1
      }

      // Not even the beginning has room.
      limitFiles(to: 10)
      var file = try TraceFile(path, startedAt: 0)
      file.flush(dropped: 0)
      limitFiles(to: usual)
      #expect(size() == 0)
      if case .failure(let error) = file.close() { #expect(error.code == EFBIG) } else { Issue.record("no error") }

      // What has no room has more dropped events to tell of than before.
      file = try TraceFile(path, startedAt: 0)
      file.flush(dropped: 0)
      limitFiles(to: rlim_t(size()))
      file.text.append(",\n{\"ph\":\"M\",\"name\":\"late\",\"tid\":1}")
      file.flush(dropped: 1_234_567)
      limitFiles(to: usual)
      let read = try Trace(path)
      #expect(read.traceEvents.count == 1 && read.otherData["dropped events"] == "1234567")
      _ = file.close()
    }
  }

  // MARK: The writer

  @Test func whatIsMissingLeavesTheRestInOrder() throws {
    var (tracks, text) = (TraceTracks(from: 0), TraceText())
    func record(_ kind: TraceRecord.Kind, _ id: UInt64, _ time: UInt64, turn: UInt32 = 1, dropped: UInt32 = 0)
      -> TraceRecord
    {
      TraceRecord(kind: kind, time: time, id: id, turn: turn, dropped: dropped, name: "")
    }
    tracks.add(thread: 1, name: "one", to: &text)
    tracks.add(thread: 2, name: "two", to: &text)
    tracks.take(record(.end("yielded", detail: ""), 7, 1), of: 1, to: &text)  // began before the trace
    tracks.take(record(.begin(queued: 5), 8, 10), of: 1, to: &text)  // its wake comes later
    tracks.take(record(.begin(queued: nil), 9, 20), of: 1, to: &text)  // inside the last one; its end is missing
    tracks.take(record(.end("send", detail: ""), 8, 30), of: 1, to: &text)
    tracks.take(record(.ready, 8, 5), of: 2, to: &text)
    tracks.take(record(.begin(queued: nil), 8, 40), of: 1, to: &text)
    tracks.take(record(.begin(queued: nil), 9, 50, dropped: 3), of: 1, to: &text)
    tracks.end(1, dropped: 2, at: 60, to: &text)
    tracks.end(2, dropped: 0, at: 60, to: &text)
    let all = String(decoding: text.bytes.dropFirst(2), as: UTF8.self)
    let events = try JSONDecoder().decode([Event].self, from: Data("[\(all)]".utf8))
    #expect(
      events.map { "\($0.ph) \($0.tid) \($0.args?.coroutine ?? UInt64($0.args?.events ?? 0))" } == [
        "M 1 0", "M 2 0", "B 1 8", "B 1 9", "E 1 0", "E 1 0", "X 2 0", "s 2 0", "f 1 0", "B 1 8", "E 1 0", "i 1 3",
        "B 1 9", "E 1 0", "i 1 2",
      ])
    #expect(tracks.dropped == 5)
  }

  /// The trace's readers take times for floating-point numbers, and so does the test.
  @Test func timesAreExactOnAMachineThatHasBeenUpForADecade() throws {
    let start: UInt64 = 315_360_000_000_000_000
    var (tracks, text) = (TraceTracks(from: start), TraceText())
    tracks.add(thread: 1, name: "one", to: &text)
    func take(_ kind: TraceRecord.Kind, at time: UInt64) {
      tracks.take(TraceRecord(kind: kind, time: time, id: 1, turn: 1, name: ""), of: 1, to: &text)
    }
    take(.begin(queued: 1), at: start - 5)  // seen before the trace began
    take(.end("send", detail: ""), at: start + 1001)
    take(.begin(queued: 1), at: start + 1002)
    take(.end("finished", detail: ""), at: start + 1003)
    let all = String(decoding: text.bytes.dropFirst(2), as: UTF8.self)
    let events = try JSONDecoder().decode([Event].self, from: Data("[\(all)]".utf8))
    #expect(events.compactMap(\.ts) == [0, 1.001, 1.002, 1.003])
  }

  @Test func yieldsTakeNoRoomFromArrows() {
    var (tracks, text) = (TraceTracks(from: 0), TraceText())
    tracks.add(thread: 1, name: "one", to: &text)
    tracks.add(thread: 2, name: "two", to: &text)
    func take(_ kind: TraceRecord.Kind, _ id: UInt64, _ turn: UInt32, on thread: Int) {
      tracks.take(TraceRecord(kind: kind, time: UInt64(turn), id: id, turn: turn, name: ""), of: thread, to: &text)
    }
    take(.begin(queued: 1), 1, 1, on: 1)  // its wake comes last
    for turn in UInt32(1)...100_000 {
      take(.end("yielded", detail: ""), 2, turn, on: 2)
      take(.begin(queued: 1), 2, turn, on: 2)
    }
    take(.ready, 1, 1, on: 2)
    #expect(String(decoding: text.bytes, as: UTF8.self).components(separatedBy: #""ph":"f""#).count == 2)
  }
}
