// SPDX-License-Identifier: Apache-2.0

extension Coroutine where Success == Never, Failure == Never {
  /// Runs `async` code and suspends the calling coroutine until that has ended.
  ///
  /// ```swift
  /// let (data, _) = try Coroutine.await { try await URLSession.shared.data(from: url) }
  /// ```
  ///
  /// The code runs in a task of its own, on the executor that the closure is isolated to, with the coroutine's task-local
  /// values and priority. When the coroutine is cancelled the task is
  /// too; it is waited for in any case, so that nothing of it is left when this returns. Allocates a task.
  ///
  /// - Returns: what `operation` returns.
  /// - Throws: what `operation` throws; `CancellationError` where the coroutine was cancelled before, whatever `operation`
  ///   threw then (URLSession an error of its own). If that was a timeout, its `TimeoutError` has the other as its `cause`.
  /// - Precondition: called inside a coroutine: traps elsewhere. Code of the main actor is not awaited by other code of it inside an
  ///   access to a variable, such as a mutating call on an object's property, or the borrow of one that can't be copied: it could
  ///   use the variable at the same time. Traps, also where it does not.
  @_disfavoredOverload @available(*, noasync, message: "this is async code: await it as it is")
  public static func `await`<Value: Sendable>(
    _ operation: sending @escaping @isolated(any) () async throws -> Value
  ) throws -> Value {
    let core = CoroutineCore.running(for: "Coroutine.await")
    core.requireNoSharedAccess(awaiting: isolation(of: operation))
    let task = Task(executorPreference: core.taskExecutor, priority: core.priority, operation: operation)
    do {
      return try withCancellationHandler {
        try withCancellationShield { try task.get() }
      } onCancel: {
        cancelOnThisThread { task.cancel() }
      }
    } catch {
      // Not `core`: a generator's body may have been moved.
      guard !(error is CancellationError), let core = CoroutineCore.current, core.isInterrupted else { throw error }
      core.noteCause(error)
      throw CancellationError()
    }
  }
}

/// A function of its own: where the closure is a `sending` parameter Swift 6.3 crashes on `isolation`.
private func isolation<Value>(of operation: @isolated(any) () async throws -> Value) -> (any Actor)? {
  operation.isolation
}

extension Task {
  /// Waits for the task's end and returns its value. Suspends the calling coroutine.
  ///
  /// Cancelling the coroutine ends the wait; the task goes on. Allocates a task that waits on the coroutine's behalf.
  ///
  /// - Throws: what the task threw; `CancellationError` if the coroutine is cancelled while it waits.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @_disfavoredOverload @available(*, noasync, message: "use 'await value' in async code")
  public func get() throws -> Success {
    let core = CoroutineCore.running(for: "Task.get()")
    return try awaitResumption(as: .async) { resume in
      Task<Void, Never>(executorPreference: core.taskExecutor, priority: core.priority) {
        switch await result {
        case .success(let value): resume.returning(value)
        case .failure(let error): resume.throwing(error)
        }
      }
    }
  }
}
