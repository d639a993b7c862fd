// SPDX-License-Identifier: Apache-2.0

/// How many messages wait in an actor's mailbox, and what happens to one more.
public struct MailboxPolicy: Sendable {
  /// What happens when a message comes to a mailbox that is full.
  public enum Overflow: Sendable {
    /// The sender waits until there is room: back-pressure. (`MessageActor.send`, which never waits, fails with `MailboxFull`.)
    case suspend
    /// The message is thrown away, as a dead letter. Its sender gets no error, unless it asked: then `MailboxFull`.
    case dropNewest
    /// The message that waits longest is thrown away instead, as a dead letter; its asker gets `MailboxFull`.
    case dropOldest
    /// The sender gets `MailboxFull`.
    case fail
  }

  let capacity: Int
  let overflow: Overflow

  /// No limit: the default.
  public static var unbounded: MailboxPolicy { MailboxPolicy(capacity: .max, overflow: .suspend) }

  /// At most `capacity` messages, the one that is being handled not counted.
  ///
  /// - Precondition: `capacity` is at least 1: traps otherwise.
  public static func bounded(_ capacity: Int, _ overflow: Overflow = .suspend) -> MailboxPolicy {
    require(capacity > 0, "a mailbox can't have a capacity of \(capacity): use 1 or more, or .unbounded")
    return MailboxPolicy(capacity: capacity, overflow: overflow)
  }
}
