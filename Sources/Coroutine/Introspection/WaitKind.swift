// SPDX-License-Identifier: Apache-2.0

import Context

/// The classes that coroutines wait at, by number: the order is that of `coroutine_debug_layout.kinds`.
package enum WaitKind: Int, CaseIterable, Sendable {
  case coroutine, channel, promise, batch, generator, scope, suspension, barrier, group, mutex, readWriteLock, once
  case semaphore, condition, actor, reply, readiness, broadcast

  /// Stands for a field that a kind does not have.
  package static var noField: UInt64 { .max }
}

/// A class that coroutines wait at, which says itself what readers of another process's memory may know of it. (What it
/// shows in its own process, `Waitable.describe` and `wakers` say.)
///
/// Any specialisation of a generic class may answer: the fields lie at the same place in all of them, in front of
/// everything whose size depends on a parameter.
package protocol ShownWaitable: AnyObject {
  static var waitKind: WaitKind { get }
  /// Where its name lies, and then the other fields that its text needs; `WaitKind.noField` for those that it does not
  /// have. `nil` without reflection metadata.
  static var waitFields: [UInt64]? { get }
}

extension ShownWaitable {
  /// Where its stored properties of these names lie.
  package static func fieldOffsets(_ names: String?...) -> [UInt64]? {
    var offsets: [UInt64] = []
    for name in names {
      guard let name else {
        offsets.append(WaitKind.noField)
        continue
      }
      guard let offset = fieldOffset(name, in: Self.self) else { return nil }
      offsets.append(UInt64(offset))
    }
    return offsets
  }
}
