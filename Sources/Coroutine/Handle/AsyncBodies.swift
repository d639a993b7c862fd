// SPDX-License-Identifier: Apache-2.0

// A body that awaits is refused in words. Without these forms the compiler says only that a function is not synchronous.
// It takes them for no other body: what is unavailable comes last.

extension Coroutine {
  @available(
    *, unavailable,
    message: "a coroutine's body is not async: wait in it by 'try Coroutine.await { try await … }', or use a Task"
  )
  @discardableResult
  public init(
    on scheduler: some Scheduler = .inherited, name: String = "", stackSize: Int? = nil,
    @_inheritActorContext @_implicitSelfCapture _ body: @Sendable @escaping @isolated(any) () async throws -> Success
  ) where Failure == any Error {
    fatalError("unavailable")
  }
}

extension Coroutine {
  @available(
    *, unavailable,
    message: "a coroutine's body is not async: wait in it by 'try Coroutine.await { try await … }', or use a Task"
  )
  public init(
    on scheduler: some Scheduler = .inherited, start: CoroutineStart, priority: TaskPriority? = nil, name: String = "",
    stackSize: Int? = nil,
    @_inheritActorContext @_implicitSelfCapture _ body: @Sendable @escaping @isolated(any) () async throws -> Success
  ) where Failure == any Error {
    fatalError("unavailable")
  }
}

extension Coroutine {
  @available(
    *, unavailable,
    message: "a coroutine's body is not async: wait in it by 'try Coroutine.await { try await … }', or use a Task"
  )
  @discardableResult
  public init(
    on scheduler: some Scheduler = .inherited, priority: TaskPriority, name: String = "", stackSize: Int? = nil,
    @_inheritActorContext @_implicitSelfCapture _ body: @Sendable @escaping @isolated(any) () async throws -> Success
  ) where Failure == any Error {
    fatalError("unavailable")
  }
}

extension Coroutine {
  @available(
    *, unavailable,
    message: "a coroutine's cleanup is one too and not async: wait in it by 'try Coroutine.await { try await … }'"
  )
  @discardableResult
  public func finally(
    @_inheritActorContext @_implicitSelfCapture _ cleanup: @Sendable @escaping @isolated(any) () async throws -> Void
  ) -> Coroutine {
    fatalError("unavailable")
  }
}

extension Coroutine where Success == Never, Failure == Never {
  @available(
    *, unavailable,
    message: "a coroutine's body is not async: wait in it by 'try Coroutine.await { try await … }', or use a Task"
  )
  @discardableResult
  public static func detached<Value: Sendable>(
    on scheduler: some Scheduler = .inherited, name: String = "", stackSize: Int? = nil,
    _ body: @Sendable @escaping @isolated(any) () async throws -> Value
  ) -> Coroutine<Value, any Error> {
    fatalError("unavailable")
  }

  @available(
    *, unavailable,
    message: "a coroutine's body is not async: wait in it by 'try Coroutine.await { try await … }', or use a Task"
  )
  @discardableResult
  public static func detached<Value: Sendable>(
    on scheduler: some Scheduler = .inherited, priority: TaskPriority, name: String = "", stackSize: Int? = nil,
    _ body: @Sendable @escaping @isolated(any) () async throws -> Value
  ) -> Coroutine<Value, any Error> {
    fatalError("unavailable")
  }

  @available(
    *, unavailable,
    message: "a coroutine's body is not async: wait in it by 'try Coroutine.await { try await … }', or use a Task"
  )
  @discardableResult
  public static func immediate<Value: Sendable>(
    on scheduler: some Scheduler = .inherited, name: String = "", stackSize: Int? = nil,
    _ body: @Sendable @escaping @isolated(any) () async throws -> Value
  ) -> Coroutine<Value, any Error> {
    fatalError("unavailable")
  }

  @available(
    *, unavailable,
    message: "a coroutine's body is not async: wait in it by 'try Coroutine.await { try await … }', or use a Task"
  )
  @discardableResult
  public static func immediate<Value: Sendable>(
    on scheduler: some Scheduler = .inherited, priority: TaskPriority, name: String = "", stackSize: Int? = nil,
    _ body: @Sendable @escaping @isolated(any) () async throws -> Value
  ) -> Coroutine<Value, any Error> {
    fatalError("unavailable")
  }
}

@available(
  *, unavailable,
  message: "a coroutine's body is not async: wait in it by 'try Coroutine.await { try await … }', or use a Task"
)
public func runUntilComplete<Success>(
  name: String = "", stackSize: Int? = nil, _ body: () async throws -> Success
) throws -> Success {
  fatalError("unavailable")
}
