// SPDX-License-Identifier: Apache-2.0

/// Learns of what others wait for: has a place in a queue like a waiter, but does not stand still meanwhile.
///
/// The queue holds a reference from the moment it enters until it is woken or has left: its waker may come late.
@usableFromInline
// Unchecked: the node is guarded by the lock of the queue that it is in.
package class WaitListener: HiddenFromMirrors, @unchecked Sendable {
  private let place = UnsafeMutablePointer<Place>.allocate(capacity: 1)

  /// Its place in a queue.
  private struct Place: WaitingNode {
    var wait: WaitNode
    /// Where only the queue keeps a listener, the one reference to it lies in the payload of an enum, which sets bits of it for the
    /// case. LeakSanitizer does not recognise that as a pointer. This is a plain copy, which it does recognise.
    let listener: Unmanaged<WaitListener>
  }

  var node: UnsafeMutablePointer<WaitNode> { place.waitNode }

  init() {
    let own = Unmanaged.passUnretained(self)
    place.initialize(to: Place(wait: WaitNode(.listener(own)), listener: own))
  }

  deinit {
    place.deinitialize(count: 1).deallocate()
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
