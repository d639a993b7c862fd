// SPDX-License-Identifier: Apache-2.0

/// A message came to an actor that has ended, or ended before it got to the message.
public struct ActorStopped: Error, Equatable, CustomStringConvertible {
  /// The actor's name; empty without one.
  public let actor: String

  /// For actors of your own making, and for tests.
  public init(actor: String) {
    self.actor = actor
  }

  public var description: String { "\(describeActor(actor)) has ended: it handles no more messages" }
}

/// The actor that handled a message was started again meanwhile, because of another actor's failure.
public struct ActorRestarted: Error, Equatable, CustomStringConvertible {
  /// The actor's name; empty without one.
  public let actor: String

  /// For actors of your own making, and for tests.
  public init(actor: String) {
    self.actor = actor
  }

  public var description: String { "\(describeActor(actor)) was started again while it handled the message" }
}

/// A message came to an actor whose mailbox was full, or was dropped to make room for another one.
public struct MailboxFull: Error, Equatable, CustomStringConvertible {
  /// The actor's name; empty without one.
  public let actor: String

  /// For actors of your own making, and for tests.
  public init(actor: String) {
    self.actor = actor
  }

  public var description: String { "the mailbox of \(describeActor(actor)) is full: the message was not handled" }
}

/// An asker will get no answer: the last copy of the `Reply` was dropped unused.
public struct ReplyDropped: Error, Equatable, CustomStringConvertible {
  /// For actors of your own making, and for tests.
  public init() {}

  public var description: String {
    "an actor handled a message without an answer: the last copy of its Reply was dropped"
  }
}

/// An ask would close a cycle: the asking actor handles a message, and the asked one waits for an answer of it,
/// perhaps by way of others. Each would have waited for the next one for ever.
public struct AskCycle: Error, Equatable, CustomStringConvertible {
  /// The actors of the cycle: from the one that asked, each followed by the one that it waits for, back to the first.
  public let actors: [String]

  /// For actors of your own making, and for tests.
  public init(actors: [String]) {
    self.actors = actors
  }

  public var description: String {
    if actors.count == 2 {
      return "\(actors[0]) asks itself: it can't answer before it has an answer. Call a function, or use tell"
    }
    return
      "actors ask each other in a cycle: \(actors.joined(separator: " asks ")). None of them can answer: use tell, "
      + "or keep the Reply and answer later"
  }
}

/// For messages.
func describeActor(_ name: String) -> String {
  name.isEmpty ? "an unnamed actor" : "actor \"\(name)\""
}
