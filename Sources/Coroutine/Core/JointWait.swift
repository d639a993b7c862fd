// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import Synchronization

/// One wait for several things: lies on the stack that waits. Trivial; its lists are its creator's memory.
///
/// The waiter is in several queues at once, so it holds all their locks from the last look at the cases until its
/// context is saved. Locks are taken in the order of their addresses, each once, so that two such waits can't wait for
/// each other.
@usableFromInline
package struct JointWait {
  /// What one case waits for.
  @usableFromInline
  package enum Target {
    /// Something with a lock and a queue. Kept alive by the operation.
    case waitable(Unmanaged<Waitable>, WaitOperation)
    /// A time to wait.
    case timeout(Duration)
    /// A time to wait until, in nanoseconds on the timers' clock.
    case deadline(UInt64)
    /// No wait: this case is chosen if no other can be at once.
    case otherwise
  }

  /// In the order of the cases.
  @usableFromInline let targets: UnsafeMutableBufferPointer<Target>
  /// By address, each once.
  @usableFromInline let waitables: UnsafeMutableBufferPointer<Unmanaged<Waitable>>

  /// - Parameters:
  ///   - targets: filled.
  ///   - room: not initialised, one slot for each target.
  @usableFromInline
  init(_ targets: UnsafeMutableBufferPointer<Target>, room: UnsafeMutableBufferPointer<Unmanaged<Waitable>>) {
    self.targets = targets
    var count = 0
    for target in targets {
      guard case .waitable(let waitable, _) = target else { continue }
      room.initializeElement(at: count, to: waitable)
      count += 1
    }
    let sorted = UnsafeMutableBufferPointer(rebasing: room[..<count])
    Self.sort(sorted)
    var distinct = 0
    for index in 0..<count where index == 0 || sorted[index].toOpaque() != sorted[distinct - 1].toOpaque() {
      sorted[distinct] = sorted[index]
      distinct += 1
    }
    waitables = UnsafeMutableBufferPointer(rebasing: sorted[..<distinct])
  }

  /// Takes all locks. A cancel that came before is seen after it; one that comes later sees what was stored before.
  @usableFromInline
  func lockAll() {
    for waitable in waitables { waitable._withUnsafeGuaranteedRef { $0.lock.lock() } }
    if waitables.isEmpty {
      atomicMemoryFence(ordering: .sequentiallyConsistent)
    } else {
      coroutine_store_load_barrier_after_locking()  // litmus: cancel
    }
  }

  /// Gives all locks back.
  @usableFromInline
  func unlockAll() {
    for waitable in waitables { waitable._withUnsafeGuaranteedRef { $0.lock.unlock() } }
  }

  /// By address, in place: heapsort, since there may be thousands.
  private static func sort(_ waitables: UnsafeMutableBufferPointer<Unmanaged<Waitable>>) {
    func siftDown(_ start: Int, in count: Int) {
      var parent = start
      while true {
        var child = 2 * parent + 1
        guard child < count else { return }
        if child + 1 < count, waitables[child].toOpaque() < waitables[child + 1].toOpaque() { child += 1 }
        guard waitables[parent].toOpaque() < waitables[child].toOpaque() else { return }
        waitables.swapAt(parent, child)
        parent = child
      }
    }
    for start in stride(from: waitables.count / 2 - 1, through: 0, by: -1) { siftDown(start, in: waitables.count) }
    for count in stride(from: waitables.count - 1, to: 0, by: -1) {
      waitables.swapAt(0, count)
      siftDown(0, in: count)
    }
  }
}

extension JointWait {
  /// For debuggers, while the waiter can't run: each case, in words.
  var description: String {
    WaitText.firstOf(targets.lazy.map(\.description))
  }

  /// For debuggers: which wakers can end the wait.
  var wakers: Wakers {
    .any(
      targets.map { target in
        guard case .waitable(let waitable, let operation) = target else { return .unknown }
        return waitable._withUnsafeGuaranteedRef { $0.wakers(operation) }
      })
  }
}

extension JointWait.Target {
  fileprivate var description: String {
    switch self {
    case .waitable(let waitable, let operation): waitable._withUnsafeGuaranteedRef { $0.describe(operation) }
    case .timeout(let duration): WaitText.timeout(duration)
    case .deadline: WaitText.deadline
    case .otherwise: WaitText.noCase
    }
  }
}
