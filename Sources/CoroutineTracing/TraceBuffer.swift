// SPDX-License-Identifier: Apache-2.0

import CCoroutineSystem
import Synchronization

/// What one thread has seen and the writer has not yet written: a ring that the thread fills and the writer empties.
// Unchecked: each slot belongs to the thread until `tail` has passed it, then to the writer until `head` has.
final class TraceBuffer: @unchecked Sendable {
  /// The thread's, for the kernel and for people.
  let thread: Int
  let threadName: String
  /// The number of the trace that it is for.
  let trace: UInt64
  /// Whether the trace has its track. The writer's.
  var isAnnounced = false
  private var isFreed = false
  private let slots: UnsafeMutablePointer<TraceRecord>
  private let capacity: Int
  private let head = Atomic<Int>(0)
  private let tail = Atomic<Int>(0)
  /// The thread's: what it could not put since the last that it could.
  private let dropped = Atomic<UInt32>(0)
  /// Whether the thread has ended, and puts no more.
  let isClosed = Atomic<Bool>(false)

  /// For the calling thread.
  init(trace: UInt64, capacity: Int) {
    thread = Int(coroutine_system_thread_id())
    threadName = withUnsafeTemporaryAllocation(of: CChar.self, capacity: 16) { name in
      coroutine_system_get_thread_name(name.baseAddress!)
      return String(cString: name.baseAddress!)
    }
    self.trace = trace
    self.capacity = capacity
    slots = .allocate(capacity: capacity)
  }

  deinit { if !isFreed { free() } }

  /// Gives its memory back: it may be the thread's for long. When the thread puts no more, and the writer takes no more.
  func free() {
    drain { _ in }
    slots.deallocate()
    isFreed = true
  }

  /// Appends one, or counts it as dropped. Whether the writer should come soon. The thread's.
  func put(_ record: consuming TraceRecord) -> Bool {
    let end = tail.load(ordering: .relaxed)
    let count = end - head.load(ordering: .acquiring)  // litmus: slot-reuse
    guard count < capacity else {
      dropped.store(dropped.load(ordering: .relaxed) &+ 1, ordering: .relaxed)
      return false
    }
    record.dropped = dropped.load(ordering: .relaxed)
    if record.dropped > 0 { dropped.store(0, ordering: .relaxed) }
    (slots + end % capacity).initialize(to: record)
    tail.store(end + 1, ordering: .releasing)  // litmus: end-result, trace-call
    return count == capacity / 2
  }

  /// Takes out all records. The writer's.
  func drain(_ body: (TraceRecord) -> Void) {
    var first = head.load(ordering: .relaxed)
    let end = tail.load(ordering: .acquiring)  // litmus: end-result
    while first < end {
      body((slots + first % capacity).move())
      first += 1
      // One by one: the thread has room again at once.
      head.store(first, ordering: .releasing)  // litmus: slot-reuse
    }
  }

  /// What was dropped after the last one. When the thread puts no more.
  var droppedAtTheEnd: UInt32 { dropped.load(ordering: .relaxed) }
}
