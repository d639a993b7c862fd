// SPDX-License-Identifier: Apache-2.0

// A handle stands for one thing, which its copies are, too: they are equal, one element of a set, one key. Printed, it says
// what messages and dumps call that thing.

extension Promise: Hashable, CustomStringConvertible {
  /// Whether both are the same promise. What it was or will be settled with does not count.
  public static func == (left: Promise, right: Promise) -> Bool { left.storage === right.storage }

  public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(storage)) }

  /// The name it was given, and whether it is settled by now.
  public var description: String { "\(storage.describe(.promise)): \(storage.phase)" }
}
