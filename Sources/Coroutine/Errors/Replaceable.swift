// SPDX-License-Identifier: Apache-2.0

import Context

/// A value that may be read or replaced at any time, from any thread.
///
/// A handler goes in as a struct's property: as a function it would be wrapped once more each time it passes through here,
/// and programs put back what they have got.
///
/// It lives as long as the process.
// Unchecked: the lock guards the value.
final class Replaceable<Value: Sendable>: @unchecked Sendable {
  private let lock = Lock()
  /// Guarded by the lock.
  private var current: Value

  init(_ value: Value) {
    current = value
    lock.keepFreeInChildren()
  }

  var value: Value {
    get { lock.withLock { current } }
    set {
      // The old one is released after the unlock: what it captured may run code of the user's when it goes.
      var old = newValue
      lock.withLock { swap(&old, &current) }
      withExtendedLifetime(old) {}
    }
  }
}
