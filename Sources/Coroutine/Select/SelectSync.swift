// SPDX-License-Identifier: Apache-2.0

// Semaphores and wait groups as cases of a select. (Conditions are in `SelectCondition.swift`.)

extension Semaphore {
  /// A case of a `select`: takes permits, if that can be done before another case is chosen. Where it is not chosen it has
  /// taken none.
  ///
  /// ```swift
  /// try select {
  ///   slots.onAcquire { defer { slots.release() }; try upload() }
  ///   stop.onReceive { _ in isStopped = true }
  /// }
  /// ```
  ///
  /// - Parameters:
  ///   - count: all at once, or none. Not negative: traps otherwise.
  ///   - handler: has the permits, and releases them. Runs after the choice, on the calling coroutine; may suspend and throw.
  public func onAcquire<Output>(
    _ count: Int = 1, _ handler: @escaping () throws -> Output
  ) -> Select.Case<Select.Permits, Output> {
    Select.Case((self, count)) { _ in try handler() }
  }

  /// A case of a `select` in `async` code: takes permits, if that can be done before another case is chosen. Where it is not
  /// chosen it has taken none.
  ///
  /// - Parameters:
  ///   - count: all at once, or none. Not negative: traps otherwise.
  ///   - handler: has the permits, and releases them. Runs after the choice, where the caller runs.
  public func onAcquire<Output>(
    _ count: Int = 1, _ handler: nonisolated(nonsending) @escaping () async throws -> Output
  ) -> Select.AsyncCase<Select.Permits, Output> {
    Select.AsyncCase((self, count)) { _ in try await handler() }
  }
}

extension WaitGroup {
  /// A case of a `select`: waits until the count is zero.
  ///
  /// - Parameter handler: runs after the choice, on the calling coroutine; may suspend and throw.
  public func onZero<Output>(_ handler: @escaping () throws -> Output) -> Select.Case<Select.GroupZero, Output> {
    Select.Case(self) { _ in try handler() }
  }

  /// A case of a `select` in `async` code: waits until the count is zero.
  ///
  /// - Parameter handler: runs after the choice, where the caller runs.
  public func onZero<Output>(
    _ handler: nonisolated(nonsending) @escaping () async throws -> Output
  ) -> Select.AsyncCase<Select.GroupZero, Output> {
    Select.AsyncCase(self) { _ in try await handler() }
  }
}

extension Select {
  /// What a case waits for that wants a semaphore's permits.
  public struct Permits: SelectOperation {
    private let storage: Unmanaged<SemaphoreStorage>
    private let wanted: Int

    public init(_ source: (semaphore: Semaphore, count: Int)) {
      storage = .passUnretained(source.semaphore.storage)
      wanted = source.count
      source.semaphore.storage.requireNotNegative(source.count)
    }

    public var layout: Layout { Layout(of: SemaphoreNode.self) }

    public var target: Target { Target(.waitable(.fromOpaque(storage.toOpaque()), .permit)) }

    public func attempt(_ node: UnsafeMutableRawPointer, for party: Party) -> Attempt {
      Attempt(storage._withUnsafeGuaranteedRef { $0.attempt(wanted) } ? .done : .wait)
    }

    public func enqueue(_ node: UnsafeMutableRawPointer, for party: Party) {
      let node = node.initializeMemory(
        as: SemaphoreNode.self,
        to: SemaphoreNode(wait: WaitNode(party.waiter, cause: party.cause), count: wanted))
      storage._withUnsafeGuaranteedRef { $0.enqueue(node) }
    }

    public func dequeue(_ node: UnsafeMutableRawPointer) -> Attempt {
      // Those behind it may have been held up by it alone.
      Attempt(
        .wakeAll(storage._withUnsafeGuaranteedRef { $0.withdraw(node.assumingMemoryBound(to: SemaphoreNode.self)) }))
    }

    public func discard(_ node: UnsafeMutableRawPointer) {}

    public func take(_ node: UnsafeMutableRawPointer) {}
  }

  /// What a case waits for that wants a wait group's count to be zero.
  public struct GroupZero: SelectOperation {
    private let storage: Unmanaged<WaitGroupStorage>

    public init(_ source: WaitGroup) { storage = .passUnretained(source.storage) }

    public var layout: Layout { Layout(of: WaitNode.self) }

    public var target: Target { Target(.waitable(.fromOpaque(storage.toOpaque()), .group)) }

    public func attempt(_ node: UnsafeMutableRawPointer, for party: Party) -> Attempt {
      Attempt(storage._withUnsafeGuaranteedRef { $0.isDone } ? .done : .wait)
    }

    public func enqueue(_ node: UnsafeMutableRawPointer, for party: Party) {
      let node = node.initializeMemory(as: WaitNode.self, to: WaitNode(party.waiter, cause: party.cause))
      storage._withUnsafeGuaranteedRef { $0.enqueue(node) }
    }

    public func dequeue(_ node: UnsafeMutableRawPointer) -> Attempt {
      storage._withUnsafeGuaranteedRef { $0.withdraw(node.assumingMemoryBound(to: WaitNode.self)) }
      return Attempt(.done)
    }

    public func discard(_ node: UnsafeMutableRawPointer) {}

    public func take(_ node: UnsafeMutableRawPointer) {}
  }
}
