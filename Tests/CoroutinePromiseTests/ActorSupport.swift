import CoroutineTestSupport
import Synchronization
import Testing

@testable import Coroutine

/// Carries what the compiler would not let another coroutine have.
struct UncheckedMailbox<Message: Sendable>: @unchecked Sendable {
  let mailbox: Mailbox<Message>
}

extension ActorCore {
  /// Whether the actor waits for a message.
  var isIdle: Bool { coroutine.parking.word.load(ordering: .relaxed) == Parking.parkedIdle }
}

/// The dead letters of one actor, by its name, for tests that run side by side. The process has one handler, which
/// they share.
enum SharedDeadLetters {
  private static let listeners = Guarded<[String: @Sendable (DeadLetter) -> Void]>([:])

  private static let installed: Void = {
    let before = DeadLetters.handler
    DeadLetters.handler = { letter in
      if let listener = listeners.withLock({ $0[letter.actor] }) { listener(letter) } else { before(letter) }
    }
  }()

  /// Shows `listener` each dead letter of the actors named `name`, while `body` runs.
  static func observe<Result>(
    _ name: String, isolation: isolated (any Actor)? = #isolation,
    _ listener: @escaping @Sendable (DeadLetter) -> Void, during body: () async throws -> Result
  ) async rethrows -> Result {
    _ = installed
    listeners.withLock { $0[name] = listener }
    defer { listeners.withLock { $0[name] = nil } }
    return try await body()
  }
}
