// SPDX-License-Identifier: Apache-2.0

import Coroutine
import CoroutineLibc

/// Makes the trace's events of the records of all threads: pure, but for the text that it appends to.
///
/// It keeps its output in order whatever is missing: an end without its beginning (the trace began later, or that was
/// dropped) is left out, a beginning without its end is ended; an arrow is written when both its ends are known.
struct TraceTracks {
  private struct Track {
    /// The coroutines whose turns are under way on the thread, each inside of the one before.
    var open: [UInt64] = []
  }

  private struct Turn: Hashable {
    let id: UInt64
    let turn: UInt32
  }

  private struct Point {
    let thread: Int
    let time: UInt64
  }

  /// What the trace's times count from, by the timers' clock. Its readers keep them as floating-point numbers, which from
  /// the clock's own beginning would be too coarse for nanoseconds once the machine has been up for some months.
  private let origin: UInt64
  private var tracks: [Int: Track] = [:]
  /// Ends of arrows whose other end has not come yet: it may lie in another thread's buffer. `nil`: there is no arrow to it,
  /// since it yielded.
  private var starts: [Turn: Point?] = [:]
  private var ends: [Turn: Point] = [:]
  private var arrows = 0
  private(set) var events = 0
  private(set) var dropped = 0

  /// So many ends wait for the other one, at most; then they are forgotten.
  private static var limit: Int { 65_536 }

  init(from origin: UInt64) { self.origin = origin }

  mutating func add(thread: Int, name: String, to text: inout TraceText) {
    tracks[thread] = Track()
    begin("M", "thread_name", thread, &text)
    text.append(",\"args\":{\"name\":")
    text.appendQuoted(name)
    text.append("}}")
  }

  mutating func take(_ record: TraceRecord, of thread: Int, to text: inout TraceText) {
    events += 1
    if record.dropped > 0 { mark(dropped: record.dropped, on: thread, at: record.time, to: &text) }
    let turn = Turn(id: record.id, turn: record.turn)
    let point = Point(thread: thread, time: record.time)
    switch record.kind {
    case .ready:
      // An arrow needs a slice to begin at.
      if tracks[thread]?.open.isEmpty ?? true {
        begin("X", "wake", thread, &text)
        at(record.time, &text)
        text.append(",\"dur\":0.001}")
      }
      if let end = ends.removeValue(forKey: turn) { return arrow(from: point, to: end, &text) }
      keep(point, at: turn)
    case .begin(let queued):
      begin("B", record.name.isEmpty ? "coroutine \(record.id)" : record.name, thread, &text)
      at(record.time, &text)
      text.append(",\"cat\":\"coroutine\",\"args\":{\"coroutine\":\(record.id)")
      if let queued {
        text.append(",\"queued us\":")
        text.append(microsecondsOf: queued)
      }
      text.append("}}")
      tracks[thread]?.open.append(record.id)
      guard queued != nil else { return }
      if let start = starts.removeValue(forKey: turn) {
        if let start { arrow(from: start, to: point, &text) }
        return
      }
      if ends.count >= Self.limit { ends.removeAll() }
      ends[turn] = point
    case .end(let cause, let detail):
      if cause == ReadyCause.yielded.rawValue, ends.removeValue(forKey: turn) == nil { keep(nil, at: turn) }
      guard tracks[thread]?.open.contains(record.id) ?? false else { return }
      // What was inside of it has ended before, unseen.
      while let last = tracks[thread]?.open.popLast(), last != record.id { end(thread, at: record.time, &text) }
      end(thread, at: record.time, &text, cause: cause, detail: detail)
    case .stolen:
      begin("i", "stolen", thread, &text)
      at(record.time, &text)
      text.append(",\"s\":\"t\",\"args\":{\"coroutine\":\(record.id)}}")
    }
  }

  private mutating func keep(_ start: Point?, at turn: Turn) {
    if starts.count >= Self.limit { starts.removeAll() }
    starts.updateValue(start, forKey: turn)
  }

  /// The thread has ended, or the trace.
  mutating func end(_ thread: Int, dropped: UInt32, at time: UInt64, to text: inout TraceText) {
    mark(dropped: dropped, on: thread, at: time, to: &text)
    tracks[thread] = nil
  }

  /// Ends what is under way on a thread: how it went on is not known.
  private mutating func mark(dropped: UInt32, on thread: Int, at time: UInt64, to text: inout TraceText) {
    while tracks[thread]?.open.popLast() != nil { end(thread, at: time, &text) }
    guard dropped > 0 else { return }
    self.dropped += Int(dropped)
    begin("i", "dropped", thread, &text)
    at(time, &text)
    text.append(",\"s\":\"t\",\"args\":{\"events\":\(dropped)}}")
  }

  // MARK: The text

  private func begin(_ phase: String, _ name: String, _ thread: Int, _ text: inout TraceText) {
    text.append(",\n{\"ph\":\"\(phase)\",\"pid\":\(getpid()),\"tid\":\(thread)")
    guard !name.isEmpty else { return }
    text.append(",\"name\":")
    text.appendQuoted(name)
  }

  private func at(_ time: UInt64, _ text: inout TraceText) {
    text.append(",\"ts\":")
    text.append(microsecondsOf: time > origin ? time - origin : 0)
  }

  private func end(
    _ thread: Int, at time: UInt64, _ text: inout TraceText, cause: String = "", detail: String = ""
  ) {
    begin("E", "", thread, &text)
    at(time, &text)
    if !cause.isEmpty {
      text.append(",\"args\":{\"then\":")
      text.appendQuoted(cause)
      if !detail.isEmpty {
        text.append(",\"detail\":")
        text.appendQuoted(detail)
      }
      text.append("}")
    }
    text.append("}")
  }

  private mutating func arrow(from start: Point, to end: Point, _ text: inout TraceText) {
    arrows += 1
    for (phase, point) in [("s", start), ("f", end)] {
      begin(phase, "ready", point.thread, &text)
      at(point.time, &text)
      text.append(",\"cat\":\"coroutine\",\"id\":\(arrows)\(phase == "f" ? ",\"bp\":\"e\"" : "")}")
    }
  }
}
