// SPDX-License-Identifier: Apache-2.0

// Closures of a promise that await are refused in words: see Handle/AsyncBodies.swift.

extension Promise {
  @available(
    *, unavailable,
    message: "a promise's closures are coroutines and not async: wait in them by 'try Coroutine.await { try await … }'"
  )
  @discardableResult
  public func then<NewValue: Sendable>(
    on scheduler: some Scheduler = .inherited,
    _ transform: @Sendable @escaping @isolated(any) (Value) async throws -> NewValue
  ) -> Promise<NewValue> {
    fatalError("unavailable")
  }

  @available(
    *, unavailable,
    message: "a promise's closures are coroutines and not async: wait in them by 'try Coroutine.await { try await … }'"
  )
  @discardableResult
  public func `catch`<NewValue: Sendable>(
    on scheduler: some Scheduler = .inherited,
    _ recover: @Sendable @escaping @isolated(any) (any Error) async throws -> NewValue
  ) -> Promise<NewValue> {
    fatalError("unavailable")
  }

  @available(
    *, unavailable,
    message: "a promise's closures are coroutines and not async: wait in them by 'try Coroutine.await { try await … }'"
  )
  @discardableResult
  public func finally(
    on scheduler: some Scheduler = .inherited, _ cleanup: @Sendable @escaping @isolated(any) () async throws -> Void
  ) -> Promise {
    fatalError("unavailable")
  }
}
