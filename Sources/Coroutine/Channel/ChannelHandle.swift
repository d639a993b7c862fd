// SPDX-License-Identifier: Apache-2.0

// A handle stands for one thing, which its copies are, too: they are equal, one element of a set, one key. Printed, it says
// what messages and dumps call that thing.

extension Channel: Hashable where Element: ~Copyable {
  /// Whether both are the same channel.
  public static func == (left: Channel, right: Channel) -> Bool { left.storage === right.storage }

  public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(storage)) }
}

extension Channel: CustomStringConvertible where Element: ~Copyable {
  /// The name it was given, how full it is, and how many wait: true at one moment during the call.
  public var description: String { storage.description }
}
