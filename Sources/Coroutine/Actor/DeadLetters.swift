// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// A message that an actor accepted, and that was not handled to the end.
///
/// Its sender learns of it where that is possible: a sender whose message is refused gets an error instead, and an
/// asker gets an error, in addition to this report if the handling failed.
public struct DeadLetter: Sendable {
  /// Why a message was not handled.
  public enum Reason: Sendable {
    /// The actor threw this while it handled the message, or was interrupted in that: `ActorStopped`, `ActorRestarted`.
    case failed(any Error)
    /// The actor ended before it got to the message.
    case stopped
    /// The mailbox was full, and its policy is to drop.
    case overflow
  }

  /// The message; `nil` if it failed and its sender had asked for an answer (`ask`, `send`), which is the error.
  public let message: (any Sendable)?
  /// The actor's name; empty without one.
  public let actor: String
  /// Why it was not handled.
  public let reason: Reason
}

extension DeadLetter: CustomStringConvertible {
  public var description: String {
    let cause =
      switch reason {
      case .failed(let error): "failed: \(error)"
      case .stopped: "was left in the mailbox when the actor ended"
      case .overflow: "was dropped: the mailbox was full"
      }
    return "\(describeActor(actor)): a message \(cause)" + (message.map { " (\($0))" } ?? "")
  }
}

/// What becomes of messages that are not handled.
public enum DeadLetters {
  /// Called for each dead letter, once, on the coroutine or thread that found it, not under a lock: must not block. The
  /// default prints the first few to the standard error, and says when it stops.
  ///
  /// May be set at any time from any thread; applies to those that come after that.
  public static var handler: @Sendable (DeadLetter) -> Void {
    get { current.value.call }
    set { current.value = Handler(call: newValue) }
  }

  @usableFromInline
  static func report(_ letter: DeadLetter) {
    handler(letter)
  }

  private struct Handler: Sendable {
    let call: @Sendable (DeadLetter) -> Void
  }

  private static let current = Replaceable(Handler { DeadLetters.print($0) })
  private static let printed = Atomic<Int>(0)
  private static var limit: Int { 10 }

  private static func print(_ letter: DeadLetter) {
    let number = printed.wrappingAdd(1, ordering: .relaxed).newValue
    guard number <= limit else { return }
    CoroutineErrors.print("dead letter: \(letter)")
    if number == limit {
      CoroutineErrors.print("more dead letters are not printed: set DeadLetters.handler to see them")
    }
  }
}
