// SPDX-License-Identifier: Apache-2.0

// A body that awaits is refused in words: see Handle/AsyncBodies.swift.

extension MessageActor {
  @available(
    *, unavailable,
    message: "an actor's body is a coroutine and not async: wait in it by 'try Coroutine.await { try await … }'"
  )
  public init(
    on scheduler: some Scheduler = .inherited, name: String = "", stackSize: Int? = nil,
    mailbox: MailboxPolicy = .unbounded, supervision: Supervision = Supervision(),
    _ body: @Sendable @escaping @isolated(any) (Mailbox<Message>) async throws -> Void
  ) {
    fatalError("unavailable")
  }
}
