// SPDX-License-Identifier: Apache-2.0

/// Waits, in `async` code, until one of several operations can be done, and does that one.
///
/// ```swift
/// let message: Message = try await select {
///   jobs.onReceive { job in .job(job) }
///   onTimeout(.seconds(1)) { try await reconnect(); return .late }
/// }
/// ```
///
/// - Parameter cases: evaluated once, before anything is chosen.
/// - Returns: what the chosen case's handler returns. It runs where the caller runs, and may `await`.
/// - Throws: `CancellationError` if the task is cancelled before a case was chosen; what the chosen case throws.
/// - Precondition: there is a case at least: traps otherwise.
@inlinable
nonisolated(nonsending) public func select<Output, Cases: AsyncSelectCase>(
  @Select.AsyncBuilder<Output> _ cases: () throws -> Cases
) async throws -> Output where Cases.Output == Output {
  try await Select.run(cases())
}

/// Waits, in `async` code, until one of several operations can be done, and does that one. The form for a number of cases
/// that is known at run time only; for none it traps.
///
/// - Throws: as the form with braces.
@inlinable
nonisolated(nonsending) public func select<Case: AsyncSelectCase>(_ cases: [Case]) async throws -> Case.Output {
  try await Select.run(Select.Each(cases))
}

/// Waits, in `async` code, until one of several operations of any kinds can be done, and does that one.
///
/// - Throws: as the form with braces.
@inlinable
nonisolated(nonsending) public func select<Output>(_ cases: [any AsyncSelectCase<Output>]) async throws -> Output {
  try await Select.run(Select.Each(cases.map { Select.AsyncErased($0) }))
}

/// The same with cases of the form for coroutines, which is what they are where a closure makes them that does not `await`:
/// `select(sensors.map { $0.onReceive { … } })`. Their handlers must not suspend.
///
/// - Throws: as the form with braces.
@inlinable
nonisolated(nonsending) public func select<Case: SelectCase>(_ cases: [Case]) async throws -> Case.Output {
  try await Select.run(Select.Each(cases.map { Select.Awaited($0) }))
}

/// The same with cases of the form for coroutines, of any kinds. Their handlers must not suspend.
///
/// - Throws: as the form with braces.
@inlinable
nonisolated(nonsending) public func select<Output>(_ cases: [any SelectCase<Output>]) async throws -> Output {
  try await Select.run(Select.Each(cases.map { Select.Awaited(Select.Erased($0)) }))
}

// MARK: - The first that is ready

/// Waits, in `async` code, until one of several operations can be done, and does that one; of those that can be done at once
/// the first. As in a coroutine.
///
/// - Throws: as `select(_:)`.
@inlinable
nonisolated(nonsending) public func selectBiased<Output, Cases: AsyncSelectCase>(
  @Select.AsyncBuilder<Output> _ cases: () throws -> Cases
) async throws -> Output where Cases.Output == Output {
  try await Select.run(cases(), isBiased: true)
}

/// The form of `selectBiased` in `async` code for a number of cases that is known at run time only.
///
/// - Throws: as `select(_:)`.
@inlinable
nonisolated(nonsending) public func selectBiased<Case: AsyncSelectCase>(_ cases: [Case]) async throws -> Case.Output {
  try await Select.run(Select.Each(cases), isBiased: true)
}

/// The form of `selectBiased` in `async` code for cases of any kinds.
///
/// - Throws: as `select(_:)`.
@inlinable
nonisolated(nonsending) public func selectBiased<Output>(
  _ cases: [any AsyncSelectCase<Output>]
) async throws -> Output {
  try await Select.run(Select.Each(cases.map { Select.AsyncErased($0) }), isBiased: true)
}

/// The same with cases of the form for coroutines, which is what they are where a closure makes them that does not `await`.
/// Their handlers must not suspend.
///
/// - Throws: as `select(_:)`.
@inlinable
nonisolated(nonsending) public func selectBiased<Case: SelectCase>(_ cases: [Case]) async throws -> Case.Output {
  try await Select.run(Select.Each(cases.map { Select.Awaited($0) }), isBiased: true)
}

/// The same with cases of the form for coroutines, of any kinds. Their handlers must not suspend.
///
/// - Throws: as `select(_:)`.
@inlinable
nonisolated(nonsending) public func selectBiased<Output>(_ cases: [any SelectCase<Output>]) async throws -> Output {
  try await Select.run(Select.Each(cases.map { Select.Awaited(Select.Erased($0)) }), isBiased: true)
}

// MARK: - How it runs

extension Select {
  @inlinable
  nonisolated(nonsending) static func run<Cases: AsyncSelectCase>(
    _ cases: Cases, isBiased: Bool = false
  ) async throws -> Cases.Output {
    _ = Cases.seal
    let operations = cases.operations
    let layout = operations.layout
    // On the heap, since a task has no stack to wait on.
    let memory = UnsafeMutableRawPointer.allocate(byteCount: layout.size, alignment: layout.alignment)
    defer { memory.deallocate() }
    guard let index = await choose(operations, memory, isBiased: isBiased) else { throw CancellationError() }
    // Until here: the operations hold nothing themselves.
    cases.keepAlive()
    return try await cases.finish(index, of: operations, memory)
  }

  /// Does one of the operations. Returns which, its node filled; `nil`: the task was cancelled.
  @inlinable
  nonisolated(nonsending) static func choose<Operations: SelectOperations>(
    _ operations: Operations, _ memory: UnsafeMutableRawPointer, isBiased: Bool
  ) async -> Int? {
    let count = operations.count
    require(count > 0, "a select without a case would wait for ever: give it one, or `otherwise`")
    guard !Task.isCancelled else { return nil }
    let table: UnsafeMutablePointer<UInt32>? = count > PollOrder.wordCapacity ? .allocate(capacity: count) : nil
    defer { table?.deallocate() }
    var order = PollOrder(of: count, isBiased ? .none : .unique(forCases: count), table: table)
    let task = WaitingTask()
    if let index = poll(operations, memory, for: .task(.passUnretained(task)), &order) { return index }
    let fallback = fallback(of: operations, memory, order)
    if let fallback, fallback.deadline == WaitDeadline.now {
      return pollTogether(operations, memory, for: .task(.passUnretained(task)), order) ?? fallback.index
    }
    return await wait(task, operations, memory, order, fallback)
  }

  /// - Parameter isolation: the caller's actor, which is not left before the task is in the queues.
  @inlinable
  static func wait<Operations: SelectOperations>(
    _ task: WaitingTask, _ operations: Operations, _ memory: UnsafeMutableRawPointer, _ order: PollOrder,
    _ fallback: Fallback?, isolation: isolated (any Actor)? = #isolation
  ) async -> Int? {
    let deadline = fallback?.deadline ?? WaitDeadline.never
    var outcome = Registration.waits
    await withTaskCancellationHandler {
      _ = isolation  // captured, so that the closure runs there
      await withUnsafeContinuation { (continuation: UnsafeContinuation<Void, Never>) in
        task.continuation = continuation
        let registration = register(task, operations, memory, order, until: deadline)
        // Nothing of the task may be touched any more: it may have gone on, and ended.
        if case .waits = registration { return }
        outcome = registration
        continuation.resume()
      }
    } onCancel: {
      if task.parking.claimEarly(.cancelled).mustWake { task.resume() }
    }
    switch outcome {
    case .done(let index): return index
    case .cancelled: return nil
    case .waits: break
    }
    task.disarm()
    let cause = task.cause
    let chosen = cause == .timedOut ? fallback?.index : cause.selectedIndex
    withdraw(operations, memory, except: chosen)
    return chosen
  }

  @usableFromInline
  enum Registration {
    case done(Int)
    case cancelled
    case waits
  }

  /// The last look, and the way into the queues.
  @inlinable
  static func register<Operations: SelectOperations>(
    _ task: WaitingTask, _ operations: Operations, _ memory: UnsafeMutableRawPointer, _ order: PollOrder,
    until deadline: UInt64
  ) -> Registration {
    withWait(for: operations, memory) { wait in
      let waiter = Waiter.task(.passUnretained(task))
      while true {
        wait.pointee.lockAll()
        guard task.parking.prepareUnlessClaimed() else {
          wait.pointee.unlockAll()
          return .cancelled
        }
        if let (index, attempt) = pollLocked(operations, memory, for: waiter, order) {
          task.parking.abandon()
          wait.pointee.unlockAll()
          attempt.wakeOthers()
          return .done(index)
        }
        if arePrepared(operations, memory) { break }
        task.parking.abandon()
        wait.pointee.unlockAll()
        prepare(operations, memory)
      }
      enqueue(operations, memory, for: waiter, order)
      task.arm(deadline)
      wait.pointee.unlockAll()
      task.parking.markParked()
      return .waits
    }
  }
}
