// SPDX-License-Identifier: Apache-2.0

// Bodies that await are refused in words: see Handle/AsyncBodies.swift.

extension AsyncGenerator {
  @available(
    *, unavailable,
    message: "a generator's body is a coroutine and not async: wait in it by 'try Coroutine.await { try await … }'"
  )
  public init(
    on scheduler: some Scheduler = .inherited, name: String = "", stackSize: Int? = nil,
    _ body: @Sendable @escaping @isolated(any) (Yield) async throws -> Void
  ) {
    fatalError("unavailable")
  }
}

extension Generator {
  @available(
    *, unavailable,
    message: "a generator's body is not async: inside a coroutine wait in it by 'try Coroutine.await { try await … }'"
  )
  public init(stackSize: Int? = nil, _ body: @escaping (Yield) async throws -> Void) {
    fatalError("unavailable")
  }
}

extension ThrowingGenerator {
  @available(
    *, unavailable,
    message: "a generator's body is not async: inside a coroutine wait in it by 'try Coroutine.await { try await … }'"
  )
  public init(stackSize: Int? = nil, _ body: @escaping (Yield) async throws -> Void) {
    fatalError("unavailable")
  }
}

extension TwoWayGenerator {
  @available(
    *, unavailable,
    message: "a generator's body is not async: inside a coroutine wait in it by 'try Coroutine.await { try await … }'"
  )
  public init(stackSize: Int? = nil, _ body: @escaping (Yield) async throws -> Return) {
    fatalError("unavailable")
  }

  @available(
    *, unavailable,
    message: "a generator's body is not async: inside a coroutine wait in it by 'try Coroutine.await { try await … }'"
  )
  public init(stackSize: Int? = nil, _ body: @escaping (Yield, Input) async throws -> Return) {
    fatalError("unavailable")
  }
}
