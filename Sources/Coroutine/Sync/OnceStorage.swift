// SPDX-License-Identifier: Apache-2.0

/// What is made once.
@usableFromInline
// Unchecked: the value is written by the only one that makes it, before that is published, and constant after that.
final class OnceStorage<Value: Sendable>: OnceCore, @unchecked Sendable {
  @exclusivity(unchecked) @usableFromInline var value: Value?

  @usableFromInline
  override init(name: String) { super.init(name: name) }

  /// After it has been made.
  @inlinable
  var result: Value {
    guard let value else { fatalError("the value of a Once is missing") }
    return value
  }

  @inlinable
  func succeed(_ value: Value) -> Value {
    self.value = value
    succeed()
    return value
  }
}
