// SPDX-License-Identifier: Apache-2.0

/// A coroutine's value, beside all that does not depend on its type.
///
/// The class has no stored property of a generic type but a function, whose representation is always the same: destroying
/// one means asking the Swift runtime for the type's metadata, at the end of each coroutine.
@usableFromInline
// Unchecked: the value is written by the coroutine before its end is published under the lock, and constant after that.
final class CoroutineStorage<Success: Sendable, Failure: Error>: CoroutineCore, @unchecked Sendable {
  /// What it does, until it begins.
  @exclusivity(unchecked) @usableFromInline var work: (() throws(Failure) -> Success)?

  /// A coroutine that is not scheduled yet. It keeps itself alive: it must be run to its end.
  @inlinable @inline(__always)
  static func create(
    on scheduler: consuming SchedulerReference, name: consuming String, stackSize: Int?,
    body: consuming sending @escaping () throws(Failure) -> Success
  ) -> CoroutineStorage {
    let storage = CoroutineStorage(on: scheduler, name: name, stackSize: stackSize, body: body)
    storage.keepAlive()
    return storage
  }

  @inlinable
  init(
    on scheduler: consuming SchedulerReference, name: consuming String, stackSize: Int?,
    body: consuming sending @escaping () throws(Failure) -> Success
  ) {
    work = body
    // Captures nothing, and so needs no memory.
    super.init(on: scheduler, name: name, stackSize: stackSize) { core in
      // Unchecked: a body gets its own coroutine, which is the one that is made here.
      let storage = unsafeDowncast(core, to: CoroutineStorage<Success, Failure>.self)
      // Taken, so that what it captured is released on the coroutine's stack.
      guard let work = storage.work.take() else { fatalError("\(core.description) runs twice") }
      let value: Success
      do throws(Failure) { value = try work() } catch { throw Self.asItWasThrown(error) }
      if Self.fitsWords {
        withUnsafeMutableBytes(of: &core.valueWords) { $0.storeBytes(of: value, as: Success.self) }
      } else {
        core.outcome = .box(ValueBox(value))
      }
    }
  }

  /// An `any Error` as it is. Generic code that the compiler does not specialise would put it into another one: then an error
  /// that is passed on would not be the same error any more.
  @inlinable @inline(__always)
  static func asItWasThrown(_ error: Failure) -> any Error {
    guard Failure.self == (any Error).self else { return error }
    // It is of this type.
    return withUnsafePointer(to: error) { UnsafeRawPointer($0).load(as: (any Error).self) }
  }

  @usableFromInline
  override func dropBody() {
    super.dropBody()
    work = nil
  }

  deinit {
    // Of one that was held on demand.
    if work != nil { UnbegunBodies.release(work.take()) }
  }

  /// Whether a value needs no memory of its own: a constant in specialised code.
  @inlinable @inline(__always)
  static var fitsWords: Bool {
    _isPOD(Success.self) && MemoryLayout<Success>.size <= MemoryLayout<(UInt, UInt)>.size
      && MemoryLayout<Success>.alignment <= MemoryLayout<UInt>.alignment
  }

  /// - Parameter timeout: `nil`: without a limit.
  @inlinable
  func get(timeout: Duration? = nil) throws -> Success {
    try waitForEnd(until: WaitDeadline.after(timeout)).check(timeout)
    return try outcome()
  }

  @inlinable
  nonisolated(nonsending) func get(timeout: Duration? = nil) async throws -> Success {
    try await waitForEnd(until: WaitDeadline.after(timeout)).check(timeout)
    return try outcome()
  }

  @inlinable
  func getBlocking(timeout: Duration? = nil, at call: BlockingCall) throws -> Success {
    try blockUntilEnd(until: WaitDeadline.after(timeout), at: call, insteadUse: "get()").check(timeout)
    return try outcome()
  }

  /// After the end.
  @inlinable
  func outcome() throws -> Success {
    switch outcome {
    case .words:
      guard Self.fitsWords else { fatalError("\(description) has ended without a result") }
      return withUnsafeBytes(of: valueWords) { $0.loadUnaligned(as: Success.self) }
    case .box(let box):
      // Unchecked: the body, above, makes the only box.
      return unsafeDowncast(box, to: ValueBox<Success>.self).value
    case .failure(let failure):
      throw failure
    }
  }
}

/// A value that is more than two plain words.
@usableFromInline
final class ValueBox<Value: Sendable>: Sendable {
  @usableFromInline let value: Value

  @inlinable
  init(_ value: Value) {
    self.value = value
  }
}
