// SPDX-License-Identifier: Apache-2.0

extension Condition where Value: ~Copyable {
  /// Gives the mutex back, suspends the calling coroutine until the condition is signalled or one of the cases can be done, and
  /// takes the mutex again.
  ///
  /// ```swift
  /// /// The next job; none when it is asked to stop, or nothing has come for a minute.
  /// let job = try queue.withLock { jobs -> Job? in
  ///   while jobs.isEmpty {
  ///     let isOver = try notEmpty.wait(&jobs, orSelect: {
  ///       stop.onNext { _ in true }
  ///       onTimeout(.seconds(60)) { true }
  ///     })
  ///     if isOver == true { return nil }
  ///   }
  ///   return jobs.removeFirst()
  /// }
  /// ```
  ///
  /// As `wait(_:timeout:)`, and as `select(_:)`: of the signal and the cases one is chosen, and the others have no effect. A
  /// signal that is not taken goes to the next waiter. The mutex is given back in any case, also if a case can be done at once.
  ///
  /// - Parameters:
  ///   - value: what the closure of `withLock` was given; on return it has the changes of the others.
  ///   - cases: evaluated once, before the mutex is given back. A handler runs with the mutex held again, but not with the
  ///     value.
  /// - Returns: what the chosen case's handler returns; `nil` if it was the signal.
  /// - Throws: as `select(_:)`. The mutex is held then too.
  /// - Precondition: called inside a coroutine that holds the mutex: traps elsewhere. No case takes that mutex:
  ///   traps, since it would be held twice.
  @_disfavoredOverload @available(*, noasync, message: "wait for a condition together with other things in coroutines")
  public func wait<Output, Cases: SelectCase>(
    _ value: inout sending Value, @Select.Builder<Output> orSelect cases: () throws -> Cases
  ) throws -> Output? where Cases.Output == Output {
    let cases = try cases()
    _ = Cases.seal
    let core = CoroutineCore.running(for: "Condition.wait")
    storage.requireHeld(by: core)
    // A parameter stays where it is as long as the function runs. As a number, which no result can depend on.
    let address = withUnsafeMutablePointer(to: &value) { UInt(bitPattern: $0) }
    var node = ConditionNode(wait: WaitNode(.coroutine(.passUnretained(core)), cause: Select.Signal.cause))
    return try withUnsafeMutablePointer(to: &node) { node in
      let operations = Select.Pair(Select.Signal((storage, node)), cases.operations)
      let (signal, others) = (operations.first, operations.second)
      let layout = operations.layout
      return try withUnsafeTemporaryAllocation(byteCount: max(layout.size, 1), alignment: layout.alignment) { memory in
        // Not empty: it has an address.
        let memory = memory.baseAddress!
        exchangeValue(at: address)
        let chosen = storage.wait(core, node) {
          Select.choose(operations, operations.count, memory, for: .passUnretained(core), isBiased: false)
        }
        exchangeValue(at: address)
        guard let chosen else { throw CancellationError() }
        // Until here: the operations hold nothing themselves.
        cases.keepAlive()
        guard chosen >= signal.count else { return nil }
        let rest = memory + signal.layout.offset(of: others.layout)
        return try cases.finish(chosen - signal.count, of: others, rest)
      }
    }
  }

  private func exchangeValue(at address: UInt) {
    if let pointer = UnsafeMutablePointer<Value>(bitPattern: address) { exchangeValue(pointer) }
  }
}

extension Condition where Value == Void {
  /// Gives the mutex back, suspends the calling coroutine until the condition is signalled or one of the cases can be done, and
  /// takes the mutex again.
  ///
  /// As the form with a value.
  @_disfavoredOverload @available(*, noasync, message: "wait for a condition together with other things in coroutines")
  public func wait<Output, Cases: SelectCase>(
    @Select.Builder<Output> orSelect cases: () throws -> Cases
  ) throws -> Output? where Cases.Output == Output {
    var nothing: Void
    return try wait(&nothing, orSelect: cases)
  }
}

extension Select {
  /// What the first case of `Condition.wait(_:orSelect:)` waits for: the condition's signal. The node is the waiter's, which
  /// has registered it while it held the mutex.
  struct Signal: SelectOperation {
    private let storage: Unmanaged<ConditionStorage>
    private let own: UnsafeMutablePointer<ConditionNode>

    init(_ source: (condition: ConditionStorage, node: UnsafeMutablePointer<ConditionNode>)) {
      storage = .passUnretained(source.condition)
      own = source.node
    }

    /// That of a wait which ends by it.
    static var cause: WakeCause { .selected(0) }

    var layout: Layout { Layout(size: 0, alignment: 1) }

    var target: Target { Target(.waitable(.fromOpaque(storage.toOpaque()), .condition)) }

    func attempt(_ node: UnsafeMutableRawPointer, for party: Party) -> Attempt {
      Attempt(storage._withUnsafeGuaranteedRef { $0.isSignalled(own) } ? .done : .wait)
    }

    func enqueue(_ node: UnsafeMutableRawPointer, for party: Party) {
      storage._withUnsafeGuaranteedRef { $0.enqueue(own) }
    }

    func dequeue(_ node: UnsafeMutableRawPointer) -> Attempt {
      Attempt(storage._withUnsafeGuaranteedRef { $0.withdraw(own) })
    }

    func discard(_ node: UnsafeMutableRawPointer) {}

    func take(_ node: UnsafeMutableRawPointer) {}
  }
}
