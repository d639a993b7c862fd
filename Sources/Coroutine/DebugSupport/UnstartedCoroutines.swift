// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import CCoroutineSystem
import Context
import CoroutineLibc
import Synchronization

/// The coroutines that have not begun and lie in the queue of a scheduler that can't be looked into: one of Dispatch or
/// of the program. (Those of pools are found in the pools' own queues: they need no slot here.)
///
/// Each thread has slots of its own for those that it schedules, and no other thread fills them. A coroutine that
/// begins empties its slot. So both are mere stores, without a lock, and without memory that threads which create
/// coroutines would share. The usual case is as short as it can be: the next slot is the thread's, and empty.
///
/// Slots lie side by side in rows, which are never freed: debuggers read them at any time. The rows of a thread that
/// has ended go to another one, with the coroutines that are still in them.
enum UnstartedCoroutines {
  /// Where one is found: filled by the thread that it belongs to, emptied by the coroutine as it begins.
  typealias Slot = UnsafeMutablePointer<Atomic<Unmanaged<AnyObject>?>>

  /// A number of slots, which lie behind it; and behind those one more, which is never empty, so that a search from
  /// slot to slot ends there.
  fileprivate struct Row {
    typealias Link = UnsafeMutablePointer<Row>

    /// The one of the process that was made before it.
    let next: Link?
    let count: Int

    static func slots(of row: Link) -> Slot {
      UnsafeMutableRawPointer(row + 1).assumingMemoryBound(to: Atomic<Unmanaged<AnyObject>?>.self)
    }
  }

  /// The newest row of the process; the others are linked.
  // Immutable address, of an atomic that is written under the lock.
  nonisolated(unsafe) private static let first: UnsafeMutablePointer<Atomic<Row.Link?>> = {
    let first = UnsafeMutablePointer<Atomic<Row.Link?>>.allocate(capacity: 1)
    first.initialize(to: Atomic(nil))
    return first
  }()

  private static let lock = Lock()
  private static let isLockFreeInChildren: Void = lock.keepFreeInChildren()
  /// What threads have left that have ended. Guarded by the lock.
  nonisolated(unsafe) private static var left: [ThreadSlots] = []

  /// For one that is about to be handed to its scheduler.
  @inline(__always)
  static func add(_ coroutine: AnyObject) -> Slot {
    let slot = coroutine_unstarted_next().assumingMemoryBound(to: Atomic<Unmanaged<AnyObject>?>.self)
    guard slot.pointee.load(ordering: .relaxed) == nil else { return addElsewhere(coroutine) }
    coroutine_unstarted_set_next(slot + 1)
    slot.pointee.store(.passUnretained(coroutine), ordering: .releasing)  // litmus: end-result
    return slot
  }

  @inline(never)
  private static func addElsewhere(_ coroutine: AnyObject) -> Slot {
    let own = coroutine_unstarted().map { Unmanaged<ThreadSlots>.fromOpaque($0) } ?? moveIn()
    own._withUnsafeGuaranteedRef { $0.findEmpty() }
    return add(coroutine)
  }

  /// Called by a coroutine that begins, or that ends without having begun. It does so after it has looked for a freeze,
  /// which might not find it elsewhere yet, and before it looks again as it ends. A freeze keeps the coroutines alive
  /// that it finds in a slot.
  @inline(__always)
  static func empty(_ slot: Slot) { slot.pointee.store(nil, ordering: .releasing) }  // litmus: freeze-none

  /// Passes each to `body`. During a freeze.
  static func visit(_ body: (AnyObject) throws -> Void) rethrows {
    var next = first.pointee.load(ordering: .acquiring)  // litmus: end-result
    while let row = next {
      for index in 0..<row.pointee.count {
        if let coroutine = (Row.slots(of: row) + index).pointee.load(ordering: .acquiring) {
          try body(coroutine.takeUnretainedValue())
        }
      }
      next = row.pointee.next
    }
  }

  // MARK: Threads

  /// Gives the calling thread its slots.
  @inline(never)
  private static func moveIn() -> Unmanaged<ThreadSlots> {
    coroutine_publish_debug_layout()
    // Before `key`, whose maker others wait for: it takes the dynamic linker's lock.
    coroutine_make_thread_keys()
    _ = isLockFreeInChildren
    let own = Unmanaged.passRetained(lock.withLock { left.popLast() } ?? ThreadSlots())
    coroutine_set_unstarted(own.toOpaque())
    own._withUnsafeGuaranteedRef { $0.begin() }
    pthread_setspecific(key, own.toOpaque())
    return own
  }

  /// The key whose destructor runs when a thread ends, and leaves its slots. If the thread creates a coroutine after
  /// that, it gets others.
  private static let key: pthread_key_t = {
    var key = pthread_key_t()
    let code = coroutine_system_create_key(&key) { slots in
      coroutine_set_unstarted(nil)
      let slots = Unmanaged<ThreadSlots>.fromOpaque(slots!).takeRetainedValue()
      lock.withLock { left.append(slots) }
    }
    guard code == 0 else { fatalError("Coroutine has no thread-local: \(String(cString: strerror(code)))") }
    return key
  }()

  fileprivate static func makeRow(of count: Int) -> Row.Link {
    let size = MemoryLayout<Row>.stride + (count + 1) * MemoryLayout<Atomic<Unmanaged<AnyObject>?>>.stride
    let row = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: 64).bindMemory(to: Row.self, capacity: 1)
    for index in 0..<count { (Row.slots(of: row) + index).initialize(to: Atomic(nil)) }
    // Never taken for a coroutine: it is none of the row's.
    (Row.slots(of: row) + count).initialize(to: Atomic(.fromOpaque(row)))
    lock.withLock {
      row.initialize(to: Row(next: first.pointee.load(ordering: .relaxed), count: count))
      // Complete before it can be found: a process may be stopped anywhere.
      first.pointee.store(row, ordering: .releasing)  // litmus: end-result
    }
    return row
  }
}

/// A thread's slots: it goes through its rows again and again, for the next slot that is empty.
///
/// Belongs to its thread, which keeps the next slot itself; in between to `UnstartedCoroutines`.
private final class ThreadSlots {
  @exclusivity(unchecked) private var rows: [UnstartedCoroutines.Row.Link]
  /// In which row it is.
  @exclusivity(unchecked) private var index = 0
  @exclusivity(unchecked) private var capacity: Int
  /// How many it has found full since it was at the beginning.
  @exclusivity(unchecked) private var full = 0

  private static var smallest: Int { 64 }

  init() {
    rows = [UnstartedCoroutines.makeRow(of: Self.smallest)]
    capacity = Self.smallest
  }

  /// Makes its first slot the calling thread's next one.
  func begin() {
    (index, full) = (0, 0)
    coroutine_unstarted_set_next(UnstartedCoroutines.Row.slots(of: rows[0]))
  }

  /// Makes an empty slot the calling thread's next one. The present one is not.
  func findEmpty() {
    var next = coroutine_unstarted_next().assumingMemoryBound(to: Atomic<Unmanaged<AnyObject>?>.self)
    while true {
      let end = UnstartedCoroutines.Row.slots(of: rows[index]) + rows[index].pointee.count
      while next < end {
        guard next.pointee.load(ordering: .relaxed) != nil else { return coroutine_unstarted_set_next(next) }
        full += 1
        next += 1
      }
      goToNextRow()
      next = UnstartedCoroutines.Row.slots(of: rows[index])
    }
  }

  /// Goes to the next row. At the end, if few slots were empty, there shall be twice as many: so a search takes four looks
  /// on average at most, and a coroutine that waits takes three slots at most.
  private func goToNextRow() {
    index += 1
    if index == rows.count {
      if full > capacity / 4 * 3 {
        rows.append(UnstartedCoroutines.makeRow(of: capacity))
        capacity *= 2
      } else {
        (index, full) = (0, 0)
      }
    }
  }
}

extension UnstartedCoroutines {
  /// For readers of another process: where the address of the first row lies, and what lies where in a row.
  struct Layout {
    let rows: UInt
    let next: UInt
    let count: UInt
    let slots: UInt

    /// `nil` without reflection metadata.
    init?() {
      guard let next = fieldOffset("next", in: Row.self), let count = fieldOffset("count", in: Row.self) else {
        return nil
      }
      rows = UInt(bitPattern: first)
      (self.next, self.count, slots) = (next, count, UInt(MemoryLayout<Row>.stride))
    }
  }
}
