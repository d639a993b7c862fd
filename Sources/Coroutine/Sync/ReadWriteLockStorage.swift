// SPDX-License-Identifier: Apache-2.0

/// A read-write lock and its value.
@usableFromInline
// Unchecked: only the writer changes the value, while there are no readers.
final class ReadWriteLockStorage<Value: ~Copyable & Sendable>: ReadWriteLockCore, @unchecked Sendable {
  /// In raw memory, as a mutex's.
  @usableFromInline let value: UnsafeMutablePointer<Value>

  @usableFromInline
  init(_ value: consuming Value, name: String) {
    self.value = .allocate(capacity: 1)
    self.value.initialize(to: value)
    super.init(name: name)
  }

  deinit {
    value.deinitialize(count: 1)
    value.deallocate()
  }
}
