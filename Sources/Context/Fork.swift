// SPDX-License-Identifier: Apache-2.0

import CCoroutineSystem
import CoroutineLibc

/// The state of the runtime in a child by `fork`, which has the calling thread only.
///
/// A lock that another thread held at that moment would stay held in the child for ever, and what it guards half changed.
/// So `fork` itself takes the locks of the whole process first, and both processes give them back: the pools of stacks do
/// so, and `Lock.keepFreeInChildren` for others. All else (a channel's lock, say) ends the child with a message where
/// it would wait for a thread that is not there: at once where the child has no other thread, else after some seconds.
///
/// An owner of threads remembers the `count` under which it got them, and compares.
package enum Fork {
  /// How many forks lie behind this process.
  @inline(__always)
  package static var count: UInt32 { coroutine_system_fork_count() }

  /// Whether this process came of a fork and has the calling thread only: what that waits for does not come, unless it has come
  /// by now. It costs one load in a process that did not come of a fork.
  @inline(__always)
  package static var isAlone: Bool { count != 0 && coroutine_system_is_lonely_child() }

  /// For a thread that waits for another one's next step, which takes some instructions: ends the program in a child of `fork`
  /// that does not have the other thread.
  ///
  /// - Parameter waited: how many milliseconds it has waited, of its own time: not those for which the whole process stood
  ///   still. After five seconds the other thread counts as one of the parent's, even if the child has threads of its own.
  @inline(__always)
  package static func requireAnotherThread(waited milliseconds: Int) {
    if count != 0, milliseconds > 5_000 || coroutine_system_is_lonely_child() { reportNoOtherThread() }
  }

  @inline(never)
  package static func reportNoOtherThread() -> Never {
    fatalError(
      "a child of fork waits for a thread that only its parent has: one that was using the same channel, promise or other "
        + "object then, or that was to end the wait. In the child use objects that were made there, or call exec.")
  }

  /// Registers `prepare` to be called before each fork, on the thread that calls it, and one of the others after it.
  /// Refused for lack of memory only; then children are as they were without.
  package static func handle(
    prepare: (@convention(c) () -> Void)? = nil, parent: (@convention(c) () -> Void)? = nil,
    child: (@convention(c) () -> Void)?
  ) {
    _ = pthread_atfork(prepare, parent, child)
  }

  fileprivate static let locks = ForkedLocks()
}

extension Lock {
  /// Makes `fork` wait until it holds this one, so that it is free in the child and what it guards is whole. For a lock that
  /// lives as long as the process, under which none of the same kind is taken. Not to be called with the lock held.
  package borrowing func keepFreeInChildren() {
    // A lock is never moved: it is stored in an object or a global, and an atomic's address is its identity.
    withUnsafePointer(to: self) { Fork.locks.add($0) }
  }
}

/// The locks that `fork` takes.
private final class ForkedLocks: Sendable {
  private struct Entry {
    let lock: UnsafePointer<Lock>
    let older: UnsafeMutablePointer<Entry>?
  }

  /// Held during a fork, too: two threads may fork at the same time, and none is added between `takeAll` and `giveBackAll`.
  private let lock = Lock()
  /// Guarded by the lock.
  nonisolated(unsafe) private var newest: UnsafeMutablePointer<Entry>?

  init() {
    Fork.handle(
      prepare: { Fork.locks.takeAll() }, parent: { Fork.locks.giveBackAll() }, child: { Fork.locks.giveBackAll() })
  }

  func add(_ added: UnsafePointer<Lock>) {
    let entry = UnsafeMutablePointer<Entry>.allocate(capacity: 1)
    lock.withLock {
      entry.initialize(to: Entry(lock: added, older: newest))
      newest = entry
    }
  }

  private func takeAll() {
    lock.lock()
    forEach { $0.pointee.lock() }
  }

  private func giveBackAll() {
    forEach { $0.pointee.unlock() }
    lock.unlock()
  }

  private func forEach(_ body: (UnsafePointer<Lock>) -> Void) {
    var next = newest
    while let entry = next {
      body(entry.pointee.lock)
      next = entry.pointee.older
    }
  }
}
