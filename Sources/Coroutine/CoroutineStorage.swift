/// A coroutine's value, beside all that does not depend on its type.
@usableFromInline
// Unchecked: the value is written by the coroutine before its end is published under the lock, and constant after that.
final class CoroutineStorage<Success: Sendable, Failure: Error>: CoroutineCore, @unchecked Sendable {
  @exclusivity(unchecked) @usableFromInline var value: Success?

  @inlinable
  init(
    on scheduler: SchedulerReference, name: String, stackSize: Int?,
    body: sending @escaping () throws(Failure) -> Success
  ) {
    super.init(on: scheduler, name: name, stackSize: stackSize) { core in
      unsafeDowncast(core, to: CoroutineStorage.self).value = try body()
    }
  }

  @inlinable
  func get(until deadline: UInt64 = WaitDeadline.never) throws -> Success {
    try waitForEnd(until: deadline)
    return try outcome()
  }

  @inlinable
  nonisolated(nonsending) func get(until deadline: UInt64 = WaitDeadline.never) async throws -> Success {
    try await waitForEnd(until: deadline)
    return try outcome()
  }

  @inlinable
  func getBlocking(until deadline: UInt64 = WaitDeadline.never) throws -> Success {
    try blockUntilEnd(until: deadline)
    return try outcome()
  }

  /// After the end.
  @inlinable
  func outcome() throws -> Success {
    if let failure { throw failure }
    guard let value else { fatalError("\(description) has ended without a result") }
    return value
  }
}
