// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import Context

/// A list of all objects of a kind that does not keep them alive. For those that come and go seldom.
///
/// The list itself lives as long as the process.
///
/// A linked list in memory of its own, for readers of another process: each entry begins with the address of the next one,
/// and that of the object.
final class WeakList<Object: AnyObject>: Sendable {
  private struct Entry {
    var next: UnsafeMutablePointer<Entry>?
    let address: UnsafeMutableRawPointer
    weak var object: Object?
  }

  private let lock = Lock()
  /// What lies there. Guarded by the lock; the address is constant.
  nonisolated(unsafe) private let first = UnsafeMutablePointer<UnsafeMutablePointer<Entry>?>.allocate(capacity: 1)

  init() {
    first.initialize(to: nil)
    lock.keepFreeInChildren()
  }

  /// Where the address of the first entry lies.
  var address: UInt { UInt(bitPattern: first) }

  func add(_ object: Object) {
    let entry = UnsafeMutablePointer<Entry>.allocate(capacity: 1)
    let address = Unmanaged.passUnretained(object).toOpaque()
    lock.withLock {
      // From its `deinit` on, only the object itself knows the memory that Swift allocates for weak references, and not
      // as an address. In a program that ends meanwhile it would be reported as a leak.
      coroutine_sanitizer_begin_kept()
      // Complete before it can be found: a process may be stopped anywhere.
      entry.initialize(to: Entry(next: first.pointee, address: address, object: object))
      coroutine_sanitizer_end_kept()
      first.pointee = entry
    }
  }

  /// By the object's `deinit`.
  func remove(_ object: Object) {
    let address = Unmanaged.passUnretained(object).toOpaque()
    let removed: UnsafeMutablePointer<Entry>? = lock.withLock {
      var link = first
      while let entry = link.pointee {
        if entry.pointee.address == address {
          link.pointee = entry.pointee.next
          return entry
        }
        // An entry begins with the address of the next one.
        link = UnsafeMutableRawPointer(entry).assumingMemoryBound(to: UnsafeMutablePointer<Entry>?.self)
      }
      return nil
    }
    removed?.deinitialize(count: 1).deallocate()
  }

  /// Those that are alive.
  var all: [Object] {
    lock.withLock {
      var objects: [Object] = []
      var next = first.pointee
      while let entry = next {
        if let object = entry.pointee.object { objects.append(object) }
        next = entry.pointee.next
      }
      return objects
    }
  }
}
