// SPDX-License-Identifier: Apache-2.0

extension CoroutineMutex {
  /// A case of a `select`: takes the mutex, if that can be done before another case is chosen. Where it is not chosen it has
  /// not taken it.
  ///
  /// - Parameter handler: runs with the value, after the choice, on the calling coroutine; may suspend and throw. Afterwards
  ///   the mutex is free.
  /// - Precondition: the caller does not hold the mutex already: traps otherwise.
  public func onLock<Output>(
    _ handler: @escaping (inout sending Value) throws -> Output
  ) -> Select.Case<Select.Locking, Output> {
    Select.Case(Select.Locking.Source(core: storage)) { [storage] _ in
      let holder = storage.holder
      defer { storage.release(holder) }
      return try handler(&storage.value.pointee)
    }
  }

  /// A case of a `select` in `async` code: takes the mutex, if that can be done before another case is chosen. Where it is not
  /// chosen it has not taken it.
  ///
  /// - Parameter handler: runs with the value, after the choice, where the caller runs. Afterwards the mutex is free.
  /// - Precondition: the calling task does not hold the mutex already: traps otherwise.
  public func onLock<Output>(
    _ handler: nonisolated(nonsending) @escaping (inout sending Value) async throws -> Output
  ) -> Select.AsyncCase<Select.Locking, Output> {
    // Without a capture list: Swift 6.3 takes an async closure that has one for a closure of no actor, and runs it elsewhere.
    Select.AsyncCase(Select.Locking.Source(core: storage)) { _ in
      let holder = storage.holder
      defer { storage.release(holder) }
      return try await handler(&storage.value.pointee)
    }
  }
}

extension Select {
  /// What a case waits for that wants a mutex.
  public struct Locking: SelectOperation {
    private let core: Unmanaged<MutexCore>

    /// A mutex, whatever it guards.
    public struct Source: Sendable {
      let core: MutexCore
    }

    public init(_ source: Source) { core = .passUnretained(source.core) }

    public var layout: Layout { Layout(of: MutexNode.self) }

    public var target: Target { Target(.waitable(.fromOpaque(core.toOpaque()), .lock)) }

    public func attempt(_ node: UnsafeMutableRawPointer, for party: Party) -> Attempt {
      let (holder, block, frame) = Self.holder(for: party)
      return Attempt(core._withUnsafeGuaranteedRef { $0.tryAcquireMarking(holder, block, frame) } ? .done : .wait)
    }

    public func enqueue(_ node: UnsafeMutableRawPointer, for party: Party) {
      let (holder, block, frame) = Self.holder(for: party)
      let node = node.initializeMemory(
        as: MutexNode.self,
        to: MutexNode(
          wait: WaitNode(party.waiter, cause: party.cause), holder: holder, block: block, frame: frame))
      core._withUnsafeGuaranteedRef { $0.enqueue(node) }
    }

    public func dequeue(_ node: UnsafeMutableRawPointer) -> Attempt {
      core._withUnsafeGuaranteedRef { $0.withdraw(node.assumingMemoryBound(to: MutexNode.self)) }
      return Attempt(.done)
    }

    public func discard(_ node: UnsafeMutableRawPointer) {}

    public func take(_ node: UnsafeMutableRawPointer) {}

    /// A coroutine's handler runs on the stack on which it waits here.
    private static func holder(for party: Party) -> (LockHolder, HolderBlock, HolderFrame) {
      guard case .coroutine(let core) = party.waiter else { return (.current, .none, .none) }
      return core._withUnsafeGuaranteedRef { (LockHolder($0), HolderBlock($0), .here.notingAccess(of: $0)) }
    }
  }
}
