// SPDX-License-Identifier: Apache-2.0

/// Learns of what others wait for: has a place in a queue like a waiter, but does not stand still meanwhile.
///
/// The queue holds a reference from the moment it enters until it is woken or has left: its waker may come late.
@usableFromInline
// Unchecked: the node is guarded by the lock of the queue that it is in.
package class WaitListener: HiddenFromMirrors, @unchecked Sendable {
  let node = UnsafeMutablePointer<WaitNode>.allocate(capacity: 1)

  init() {
    node.initialize(to: WaitNode(.listener(.passUnretained(self))))
  }

  deinit {
    node.deinitialize(count: 1).deallocate()
  }

  /// It has happened. On the thread that made it happen, not under a lock: must neither wait nor call foreign code.
  @usableFromInline
  func notify() {}

  /// Its node is in a queue now. Under the queue's lock.
  final func enter() {
    _ = Unmanaged.passRetained(self)
  }

  /// Its node was taken out, and no waker will call it.
  final func leave() {
    Unmanaged.passUnretained(self).release()
  }
}
