// SPDX-License-Identifier: Apache-2.0

extension Coroutine {
  /// A case of a `select`: waits for the coroutine's end, and gets what it returned.
  ///
  /// If it threw, `select` throws its error, should this case be chosen. If this case is not chosen, the select does
  /// not count as a reader of the coroutine's outcome.
  ///
  /// - Parameter handler: gets the value. Runs after the choice, on the calling coroutine; may suspend and throw.
  @inlinable @inline(__always)
  public func onValue<Output>(
    _ handler: @escaping (Success) throws -> Output
  ) -> Select.Case<Select.End<Success, Failure>, Output> {
    Select.Case(self) { try handler($0.get()) }
  }

  /// A case of a `select` in `async` code: waits for the coroutine's end, and gets what it returned.
  ///
  /// If it threw, `select` throws its error, should this case be chosen. If this case is not chosen, the select does
  /// not count as a reader of the coroutine's outcome.
  ///
  /// - Parameter handler: gets the value. Runs after the choice, where the caller runs.
  @inlinable
  public func onValue<Output>(
    _ handler: nonisolated(nonsending) @escaping (Success) async throws -> Output
  ) -> Select.AsyncCase<Select.End<Success, Failure>, Output> {
    Select.AsyncCase(self) { try await handler($0.get()) }
  }

  /// A case of a `select`: waits for the coroutine's end, however it ends.
  ///
  /// - Parameter handler: gets its value or its error. Runs after the choice, on the calling coroutine; may suspend and
  ///   throw.
  @inlinable @inline(__always)
  public func onEnd<Output>(
    _ handler: @escaping (Result<Success, any Error>) throws -> Output
  ) -> Select.Case<Select.End<Success, Failure>, Output> {
    Select.Case(self, handler)
  }

  /// A case of a `select` in `async` code: waits for the coroutine's end, however it ends.
  ///
  /// - Parameter handler: gets its value or its error. Runs after the choice, where the caller runs.
  @inlinable
  public func onEnd<Output>(
    _ handler: nonisolated(nonsending) @escaping (Result<Success, any Error>) async throws -> Output
  ) -> Select.AsyncCase<Select.End<Success, Failure>, Output> {
    Select.AsyncCase(self, handler)
  }
}

extension Select {
  /// What a case waits for that wants a coroutine's end.
  public struct End<Success: Sendable, Failure: Error>: SelectOperation {
    @usableFromInline let coroutine: Unmanaged<CoroutineStorage<Success, Failure>>

    @inlinable @inline(__always)
    public init(_ source: Coroutine<Success, Failure>) {
      coroutine = .passUnretained(source.storage)
      if source.storage.isHeldOnDemand { source.storage.startHeld() }
    }

    @inlinable @inline(__always)
    public var layout: Layout { Layout(of: WaitNode.self) }

    @inlinable @inline(__always)
    public var target: Target { Target(.waitable(.fromOpaque(coroutine.toOpaque()), .join)) }

    @inlinable @inline(__always)
    public func attempt(_ node: UnsafeMutableRawPointer, for party: Party) -> Attempt {
      Attempt(coroutine._withUnsafeGuaranteedRef { $0.completion.isFinished } ? .done : .wait)
    }

    @inlinable
    public func enqueue(_ node: UnsafeMutableRawPointer, for party: Party) {
      if case .coroutine(let core) = party.waiter {
        require(
          core.toOpaque() != coroutine.toOpaque(), "a coroutine selects on its own end, which can't come: leave it out")
      }
      let waitNode = node.initializeMemory(as: WaitNode.self, to: WaitNode(party.waiter, cause: party.cause))
      coroutine._withUnsafeGuaranteedRef { $0.completion.enqueue(waitNode) }
    }

    @inlinable
    public func dequeue(_ node: UnsafeMutableRawPointer) -> Attempt {
      coroutine._withUnsafeGuaranteedRef { _ = $0.completion.withdraw(node.assumingMemoryBound(to: WaitNode.self)) }
      return Attempt(.done)
    }

    @inlinable
    public func discard(_ node: UnsafeMutableRawPointer) {}

    @inlinable @inline(__always)
    public func take(_ node: UnsafeMutableRawPointer) -> Result<Success, any Error> {
      // Trivial memory, and not initialised if the end was there at once.
      let storage = coroutine.takeUnretainedValue()
      storage.resultIsTaken()
      return Result { try storage.outcome() }
    }
  }
}
