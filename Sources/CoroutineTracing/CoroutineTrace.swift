// SPDX-License-Identifier: Apache-2.0

import Coroutine
import CoroutineLibc

/// A trace of what runs when and where, and of which coroutine wakes which: a file that Perfetto (ui.perfetto.dev) and
/// chrome://tracing open, in the JSON format of Chrome.
///
/// ```swift
/// let trace = try CoroutineTrace.start(to: "/tmp/app.json")
/// try serve()
/// let summary = try trace.stop()
/// print(summary.events, summary.dropped)
/// ```
///
/// Each thread is a track; on it a slice for each turn of a coroutine, with what ended it. An arrow goes from where a
/// coroutine was made ready to where it ran.
///
/// A thread that runs coroutines writes its events into a buffer of its own, without waiting; a thread of the trace's
/// empties the buffers into the file. Events that find a buffer full are dropped, counted, and marked in the trace. The
/// file is complete JSON after each write, also if the program crashes.
public final class CoroutineTrace: Sendable {
  /// What to record.
  public struct Options: Sendable {
    /// How many events wait for the writer in the buffer of a thread, at most: 80 bytes each. At least 16.
    public var eventsPerThread: Int
    /// Whether a slice says what its coroutine then waits for in words, with the name of the channel or the mutex. Making
    /// them takes some microseconds for each suspension; without, it is the kind.
    public var describesWaits: Bool

    /// The usual ones, but for those that are named.
    public init(eventsPerThread: Int = 8192, describesWaits: Bool = false) {
      self.eventsPerThread = eventsPerThread
      self.describesWaits = describesWaits
    }
  }

  /// What has been recorded.
  public struct Summary: Equatable, Sendable {
    /// Events of coroutines that are in the file, or that began before the trace did.
    public let events: Int
    /// Those that found a buffer full.
    public let dropped: Int
  }

  private let recorder: TraceRecorder

  private init(_ recorder: TraceRecorder) { self.recorder = recorder }

  /// Begins a trace. One at a time in a process. A new file is readable by its owner alone; what an old one has is replaced.
  /// Only a regular file, or `/dev/null`, and no symbolic link.
  ///
  /// - Throws: `CoroutineTraceError` if the file can't be written, the system refuses a thread, or another trace is under way.
  /// - Precondition: `options.eventsPerThread` is at least 16: traps otherwise.
  public static func start(to path: String, options: Options = Options()) throws -> CoroutineTrace {
    guard options.eventsPerThread >= 16 else {
      fatalError("eventsPerThread is \(options.eventsPerThread): a trace's buffer has to be for 16 events at least")
    }
    let recorder = try TraceRecorder(path, options)
    CoroutineObservation.install(recorder)
    return CoroutineTrace(recorder)
  }

  /// Ends the trace: when it returns, the file is complete and closed. The second time it returns the same again.
  ///
  /// Blocks the calling thread until all is written: a few milliseconds. Not to be called by a `CoroutineObserver`: traps.
  ///
  /// - Throws: `CoroutineTraceError` if a write failed, now or before.
  @discardableResult
  public func stop() throws -> Summary {
    CoroutineObservation.remove(recorder)
    return try recorder.stop()
  }
}

/// A trace could not be begun, or written.
public struct CoroutineTraceError: Error, Equatable, CustomStringConvertible {
  /// What was done: `open /tmp/app.json`, `write`.
  public let operation: String
  /// The system's number of the reason; `EBUSY` if another trace is under way.
  public let code: CInt

  public var description: String { "a coroutine trace: \(operation): \(String(cString: strerror(code)))" }
}
