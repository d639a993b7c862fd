// SPDX-License-Identifier: Apache-2.0

extension Promise {
  /// A case of a `select`: waits until the promise is settled, and gets its value.
  ///
  /// If it was rejected or cancelled, `select` throws its error, should this case be chosen. If this case is not
  /// chosen, the select does not count as a reader of the promise's outcome.
  ///
  /// - Parameter handler: gets the value. Runs after the choice, on the calling coroutine; may suspend and throw.
  @inlinable @inline(__always)
  public func onValue<Output>(
    _ handler: @escaping (Value) throws -> Output
  ) -> Select.Case<Select.Settlement<Value>, Output> {
    Select.Case(self) { try handler($0.get()) }
  }

  /// A case of a `select` in `async` code: waits until the promise is settled, and gets its value.
  ///
  /// If it was rejected or cancelled, `select` throws its error, should this case be chosen. If this case is not
  /// chosen, the select does not count as a reader of the promise's outcome.
  ///
  /// - Parameter handler: gets the value. Runs after the choice, where the caller runs.
  @inlinable
  public func onValue<Output>(
    _ handler: nonisolated(nonsending) @escaping (Value) async throws -> Output
  ) -> Select.AsyncCase<Select.Settlement<Value>, Output> {
    Select.AsyncCase(self) { try await handler($0.get()) }
  }

  /// A case of a `select`: waits until the promise is settled, however it is.
  ///
  /// - Parameter handler: gets its value or its error. Runs after the choice, on the calling coroutine; may suspend and
  ///   throw.
  @inlinable @inline(__always)
  public func onEnd<Output>(
    _ handler: @escaping (Result<Value, any Error>) throws -> Output
  ) -> Select.Case<Select.Settlement<Value>, Output> {
    Select.Case(self, handler)
  }

  /// A case of a `select` in `async` code: waits until the promise is settled, however it is.
  ///
  /// - Parameter handler: gets its value or its error. Runs after the choice, where the caller runs.
  @inlinable
  public func onEnd<Output>(
    _ handler: nonisolated(nonsending) @escaping (Result<Value, any Error>) async throws -> Output
  ) -> Select.AsyncCase<Select.Settlement<Value>, Output> {
    Select.AsyncCase(self, handler)
  }
}

extension Select {
  /// What a case waits for that wants a promise's outcome.
  public struct Settlement<Value: Sendable>: SelectOperation {
    @usableFromInline let promise: Unmanaged<PromiseStorage<Value>>

    @inlinable @inline(__always)
    public init(_ source: Promise<Value>) { promise = .passUnretained(source.storage) }

    @inlinable @inline(__always)
    public var layout: Layout { Layout(of: WaitNode.self) }

    @inlinable @inline(__always)
    public var target: Target { Target(.waitable(.fromOpaque(promise.toOpaque()), .promise)) }

    @inlinable @inline(__always)
    public func attempt(_ node: UnsafeMutableRawPointer, for party: Party) -> Attempt {
      Attempt(promise._withUnsafeGuaranteedRef { $0.isSettledNow } ? .done : .wait)
    }

    @inlinable
    public func enqueue(_ node: UnsafeMutableRawPointer, for party: Party) {
      let waitNode = node.initializeMemory(as: WaitNode.self, to: WaitNode(party.waiter, cause: party.cause))
      promise._withUnsafeGuaranteedRef { $0.enqueue(waitNode) }
    }

    @inlinable
    public func dequeue(_ node: UnsafeMutableRawPointer) -> Attempt {
      promise._withUnsafeGuaranteedRef { $0.withdraw(node.assumingMemoryBound(to: WaitNode.self)) }
      return Attempt(.done)
    }

    @inlinable
    public func discard(_ node: UnsafeMutableRawPointer) {}

    @inlinable @inline(__always)
    public func take(_ node: UnsafeMutableRawPointer) -> Result<Value, any Error> {
      // Trivial memory, and not initialised if the outcome was there at once.
      let storage = promise.takeUnretainedValue()
      _ = storage.isSettledForObserver()
      return storage.settledOutcome
    }
  }
}
