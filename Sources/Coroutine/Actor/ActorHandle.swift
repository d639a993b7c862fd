// SPDX-License-Identifier: Apache-2.0

// A handle stands for one thing, which its copies are, too: they are equal, one element of a set, one key. Printed, it says
// what messages and dumps call that thing.

extension MessageActor: Hashable, CustomStringConvertible {
  /// Whether both are the same actor.
  public static func == (left: MessageActor, right: MessageActor) -> Bool { left.storage === right.storage }

  public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(storage)) }

  /// The name it was given, and how it has ended, if it has by now.
  public var description: String { describeActor(name) + (end.map { ": \($0)" } ?? "") }
}
