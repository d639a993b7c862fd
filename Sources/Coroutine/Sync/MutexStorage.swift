// SPDX-License-Identifier: Apache-2.0

/// A mutex and its value.
@usableFromInline
// Unchecked: the value is used by the holder alone.
final class MutexStorage<Value: ~Copyable>: MutexCore, @unchecked Sendable {
  /// In raw memory: a stored property that is passed `inout` to a body that suspends would be an access in progress,
  /// and another holder's access would be a conflict.
  @usableFromInline let value: UnsafeMutablePointer<Value>

  @usableFromInline
  init(_ value: consuming sending Value, name: String) {
    self.value = .allocate(capacity: 1)
    self.value.initialize(to: value)
    super.init(name: name)
  }

  deinit {
    value.deinitialize(count: 1)
    value.deallocate()
  }

  /// By the holder.
  @inlinable
  func exchange(_ newValue: consuming sending Value) -> sending Value {
    // Only this object had it: no part of it goes out by `withLock`.
    nonisolated(unsafe) let former = value.move()
    value.initialize(to: newValue)
    return former
  }
}
