// SPDX-License-Identifier: Apache-2.0

// A handle stands for one thing, which its copies are, too: they are equal, one element of a set, one key. Printed, it says
// what messages and dumps call that thing.

extension Coroutine: Hashable, Identifiable, CustomStringConvertible {
  /// Whether both are the same coroutine.
  public static func == (left: Coroutine, right: Coroutine) -> Bool { left.storage === right.storage }

  public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(storage)) }

  /// Its number, and the name it was given.
  public var description: String { storage.description }
}
