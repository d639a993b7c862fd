// A handle stands for one thing, which its copies are, too: they are equal, one element of a set, one key. Printed, it says
// what messages and dumps call that thing.

extension Coroutine: Hashable, Identifiable, CustomStringConvertible {
  /// Whether both are the same coroutine.
  public static func == (left: Coroutine, right: Coroutine) -> Bool { left.storage === right.storage }

  public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(storage)) }

  /// Its number, and the name it was given.
  public var description: String { storage.description }
}

extension Channel: Hashable where Element: ~Copyable {
  /// Whether both are the same channel.
  public static func == (left: Channel, right: Channel) -> Bool { left.storage === right.storage }

  public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(storage)) }
}

extension Channel: CustomStringConvertible where Element: ~Copyable {
  /// The name it was given, how full it is, and how many wait: true at one moment during the call.
  public var description: String { storage.description }
}

extension Promise: Hashable, CustomStringConvertible {
  /// Whether both are the same promise. What it was or will be settled with does not count.
  public static func == (left: Promise, right: Promise) -> Bool { left.storage === right.storage }

  public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(storage)) }

  /// The name it was given, and whether it is settled by now.
  public var description: String { "\(storage.describe(.promise)): \(storage.phase)" }
}

extension MessageActor: Hashable, CustomStringConvertible {
  /// Whether both are the same actor.
  public static func == (left: MessageActor, right: MessageActor) -> Bool { left.storage === right.storage }

  public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(storage)) }

  /// The name it was given, and how it has ended, if it has by now.
  public var description: String { describeActor(name) + (end.map { ": \($0)" } ?? "") }
}
