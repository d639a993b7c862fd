// SPDX-License-Identifier: Apache-2.0

import CoroutineLibc
import Synchronization

/// Runs work that blocks its thread (reading a file, a query, `sleep`) on a thread of its own, so that the pool's
/// threads go on with other coroutines. Suspends the calling coroutine until the work is done.
///
/// ```swift
/// let text = try blocking { try String(contentsOfFile: path, encoding: .utf8) }
/// ```
///
/// On a plain thread, where no coroutine is kept waiting, it simply calls `work`.
///
/// - Parameters:
///   - pool: whose thread runs it.
///   - work: runs once, outside of every coroutine and task: it must not suspend. Has none of the caller's task-local values.
/// - Returns: what `work` returns.
/// - Throws: what `work` throws; `CancellationError` if the coroutine is cancelled before `work` is done. Work that has
///   not begun by then never does; work that has begun runs to its end, and its result is dropped. `ThreadRefused` if
///   the system refuses a thread and the pool has none; if it has others, the work waits for one of them.
@_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
public func blocking<Value: Sendable>(
  on pool: BlockingPool = .shared, _ work: sending (() throws -> Value)?
) throws -> Value {
  guard let given = work else { missingFunction() }
  guard Coroutine.isInside else { return try given() }
  try Coroutine.checkCancellation()
  let order = BlockingOrder(given)
  return try awaitResumption(as: .blocking) { (resume: Resumption<Value>) in
    order.submit(to: pool, resume)
  } onCancel: {
    order.withdraw(from: pool)
  }
}

@available(
  *, unavailable,
  message: "work that blocks is not async: in a coroutine use 'try Coroutine.await { try await … }' in its place"
)
public func blocking<Value: Sendable>(
  on pool: BlockingPool = .shared, _ work: @Sendable @escaping @isolated(any) () async throws -> Value
) throws -> Value {
  fatalError("unavailable")
}

/// The same with work that returns something which is not `Sendable`, such as the `Any` of a parser or the attributes of a file:
/// it must be new, or nothing else that the work leaves behind may refer to it. The caller then has it alone.
///
/// ```swift
/// let object = try blocking { try JSONSerialization.jsonObject(with: Data(contentsOf: url)) }
/// ```
@_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
public func blocking<Value>(
  on pool: BlockingPool = .shared, _ work: sending (() throws -> sending Value)?
) throws -> sending Value {
  guard let given = work else { missingFunction() }
  return try blocking(on: pool) { HandedOver(try given()) }.value
}

/// The system refuses a thread for work that blocks, and the pool has no other.
public struct ThreadRefused: Error, Hashable, CustomStringConvertible {
  /// The system's number of the reason, such as `EAGAIN`.
  public let code: CInt

  public var description: String {
    "a thread of a BlockingPool could not be started: \(String(cString: strerror(code)))"
  }
}

/// Runs work that blocks its thread on a thread of its own, while the calling task is suspended. In `async` code.
///
/// As the synchronous form: a cancelled task goes on at once, with `CancellationError`.
public func blocking<Value: Sendable>(
  on pool: BlockingPool = .shared, _ work: sending (() throws -> Value)?
) async throws -> Value {
  guard let given = work else { missingFunction() }
  try Task.checkCancellation()
  let order = BlockingOrder(given)
  let suspension = SuspensionStorage<Value>()
  order.submit(to: pool, Resumption(suspension))
  guard let outcome = await suspension.wait() else {
    order.withdraw(from: pool)
    throw CancellationError()
  }
  return try outcome.get()
}

/// The same with work that returns something which is not `Sendable`: see the synchronous form.
public func blocking<Value>(
  on pool: BlockingPool = .shared, _ work: sending (() throws -> sending Value)?
) async throws -> sending Value {
  guard let given = work else { missingFunction() }
  return try await blocking(on: pool) { HandedOver(try given()) }.value
}

/// What the work has made, on its way to the caller.
// Unchecked: the work's thread has made it, and has let go of it when the caller gets it: `sending` says so.
private struct HandedOver<Value>: @unchecked Sendable {
  nonisolated(unsafe) let value: Value

  init(_ value: Value) { self.value = value }
}

/// Work that a caller waits for.
// Unchecked: `resume` is written before the pool knows the order. `work` belongs to the thread that has taken it, by `isTaken`.
private final class BlockingOrder<Value: Sendable>: BlockingWork, @unchecked Sendable {
  private var work: (() throws -> Value)?
  private let isTaken = Atomic<Bool>(false)
  private var resume: Resumption<Value>?

  init(_ work: sending @escaping () throws -> Value) {
    self.work = work
  }

  func submit(to pool: BlockingPool, _ resume: Resumption<Value>) {
    resume.owner.storage.awaitsThread.store(true, ordering: .relaxed)
    self.resume = resume
    pool.submit(self)
  }

  func perform(_ refusal: ThreadRefused?) {
    var work = take()
    guard work != nil, let resume else { return }
    resume.owner.storage.awaitsThread.store(false, ordering: .relaxed)
    let result = Result<Value, any Error> {
      if let refusal { throw refusal }
      return try work!()
    }
    // Before the caller goes on: what it captured is in use no more, such as the number of a file that the caller closes next.
    work = nil
    resume(with: result)
  }

  var isWanted: Bool { !isTaken.load(ordering: .relaxed) }

  /// Its caller waits no more: what has not begun never does, and what it would have used is let go of now. Until a thread
  /// is free that may be long.
  func withdraw(from pool: BlockingPool) {
    if take() != nil { pool.withdraw() }
  }

  /// For the pool's thread or the caller, the first of them.
  private func take() -> (() throws -> Value)? {
    isTaken.exchange(true, ordering: .acquiringAndReleasing) ? nil : work.take()
  }
}
