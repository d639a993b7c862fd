// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import CCoroutineSystem
import Context
import Coroutine
import CoroutineLibc
import Synchronization

/// The observer: gives each thread a buffer, and has a thread of its own that empties them into the file.
// Unchecked: `lock` and `ending` guard what changes; `tracks` and `file` are the writer's, and after its end `stop`'s.
final class TraceRecorder: CoroutineObserver, HiddenFromMirrors, @unchecked Sendable {
  private let options: CoroutineTrace.Options
  /// Of all traces of the process: an address may be used again.
  private let number = TraceRecorder.numbers.wrappingAdd(1, ordering: .relaxed).newValue
  private let lock = Lock()
  /// Guarded by `lock`.
  private var buffers: [TraceBuffer] = []
  /// Held by the thread that ends the trace.
  private let ending = Lock()
  /// Guarded by `ending`.
  private var outcome: Result<CoroutineTrace.Summary, CoroutineTraceError>?
  private var tracks: TraceTracks
  private var file: TraceFile
  private let writer = Atomic<coroutine_system_thread>(0)
  /// What the writer sleeps on: 1: it is to come.
  private let call = Atomic<UInt32>(0)
  private let isOver = Atomic<Bool>(false)
  /// `Fork.count` of the process that is traced.
  private let madeIn = Fork.count

  /// One in a process: a thread has one buffer.
  private static let isBusy = Atomic<Bool>(false)
  private static let numbers = Atomic<UInt64>(0)
  /// How long an event waits until it is written, at most.
  private static var interval: Duration { .milliseconds(20) }

  init(_ path: String, _ options: CoroutineTrace.Options) throws(CoroutineTraceError) {
    self.options = options
    guard !Self.isBusy.exchange(true, ordering: .acquiring) else {  // litmus: lock-handover
      throw CoroutineTraceError(operation: "start", code: EBUSY)
    }
    let start = coroutine_exact_time()
    tracks = TraceTracks(from: start)
    do {
      file = try TraceFile(path, startedAt: start)
    } catch {
      Self.isBusy.store(false, ordering: .releasing)
      throw error
    }
    var thread: coroutine_system_thread = 0
    let code = coroutine_system_create_thread(
      &thread, { Unmanaged<TraceRecorder>.fromOpaque($0!).takeUnretainedValue().write() },
      Unmanaged.passUnretained(self).toOpaque())
    guard code == 0 else {
      Self.isBusy.store(false, ordering: .releasing)
      throw CoroutineTraceError(operation: "a thread that writes it", code: code)
    }
    writer.store(thread, ordering: .relaxed)
  }

  // MARK: The threads that run coroutines

  func observe(_ event: borrowing CoroutineEvent) {
    let kind: TraceRecord.Kind
    switch event.kind {
    case .created: return
    case .ready(.yielded, _): kind = .end(ReadyCause.yielded.rawValue, detail: "")
    case .ready: kind = .ready
    case .resumed(let queued): kind = .begin(queued: queued)
    case .suspended(let reason): kind = .end(reason.rawValue, detail: options.describesWaits ? event.waitsFor : "")
    case .finished: kind = .end("finished", detail: event.failure.map { "\(type(of: $0))" } ?? "")
    case .stolen: kind = .stolen
    }
    let isUrgent = ownBuffer().put(
      TraceRecord(kind: kind, time: event.time, id: event.id, turn: event.turn, name: event.name))
    if isUrgent { wakeWriter() }
  }

  /// The calling thread's.
  private func ownBuffer() -> TraceBuffer {
    if let address = pthread_getspecific(Self.key) {
      let buffer = Unmanaged<TraceBuffer>.fromOpaque(address)
      if buffer._withUnsafeGuaranteedRef({ $0.trace }) == number { return buffer.takeUnretainedValue() }
      buffer.release()
    }
    let buffer = TraceBuffer(trace: number, capacity: options.eventsPerThread)
    pthread_setspecific(Self.key, Unmanaged.passRetained(buffer).toOpaque())
    lock.withLock { buffers.append(buffer) }
    return buffer
  }

  /// Where a thread has its buffer.
  private static let key: pthread_key_t = {
    var key = pthread_key_t()
    let code = coroutine_system_create_key(&key) { address in
      let buffer = Unmanaged<TraceBuffer>.fromOpaque(address!).takeRetainedValue()
      buffer.isClosed.store(true, ordering: .releasing)  // litmus: end-result
    }
    guard code == 0 else { fatalError("a coroutine trace has no thread-local: \(String(cString: strerror(code)))") }
    return key
  }()

  private func wakeWriter() {
    call.store(1, ordering: .releasing)  // litmus: trace-call
    Futex.wake(1, on: call)
  }

  // MARK: The writer

  private func write() -> UnsafeMutableRawPointer? {
    coroutine_system_name_thread("coroutine-trace")
    while !isOver.load(ordering: .acquiring) {
      writeOnce()
      _ = Futex.wait(on: call, while: 0, for: Self.interval)
      // An exchange, not a store, which could take a call away whose reason the next look does not see yet.
      _ = call.exchange(0, ordering: .acquiring)  // litmus: trace-call
    }
    return nil
  }

  /// Writes what all buffers hold. `isLast`: no thread puts any more.
  private func writeOnce(isLast: Bool = false) {
    // The older ones first: a thread may have the number of one that has ended.
    for buffer in lock.withLock({ buffers }) {
      if !buffer.isAnnounced {
        buffer.isAnnounced = true
        tracks.add(thread: buffer.thread, name: buffer.threadName, to: &file.text)
      }
      // Before the look: what it put before it ended is seen.
      let isOver = isLast || buffer.isClosed.load(ordering: .acquiring)  // litmus: end-result
      buffer.drain { record in
        tracks.take(record, of: buffer.thread, to: &file.text)
        if file.text.count > TraceFile.chunk { file.flush(dropped: tracks.dropped) }
      }
      guard isOver else { continue }
      tracks.end(buffer.thread, dropped: buffer.droppedAtTheEnd, at: coroutine_exact_time(), to: &file.text)
      lock.withLock { buffers.removeAll { $0 === buffer } }
      buffer.free()
    }
    file.flush(dropped: tracks.dropped)
  }

  /// When no thread puts any more.
  func stop() throws(CoroutineTraceError) -> CoroutineTrace.Summary {
    ending.lock()
    defer { ending.unlock() }
    if let outcome { return try outcome.get() }
    // The writer and the file are the parent's, which goes on.
    guard madeIn == Fork.count else { throw CoroutineTraceError(operation: "stop in a child of fork", code: ECHILD) }
    isOver.store(true, ordering: .releasing)
    wakeWriter()
    coroutine_system_join_thread(writer.load(ordering: .relaxed))
    writeOnce(isLast: true)
    let outcome = file.close().map { CoroutineTrace.Summary(events: tracks.events, dropped: tracks.dropped) }
    self.outcome = outcome
    Self.isBusy.store(false, ordering: .releasing)  // litmus: lock-handover
    return try outcome.get()
  }
}
