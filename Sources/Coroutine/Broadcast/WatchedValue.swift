// SPDX-License-Identifier: Apache-2.0

/// A value that is watched: a watcher waits for its changes, and sees the newest. Kotlin's `StateFlow`, tokio's
/// `watch`.
///
/// ```swift
/// let state = WatchedValue(ConnectionState.idle, name: "connection")
/// Coroutine {
///   for state in state.changes().received { show(state) }      // the present one first
/// }
/// state.value = .connecting
/// try state.wait { $0 == .connected }
/// ```
///
/// A watcher never holds up a writer: a slow watcher sees the newest value, and not those in between. The value may be
/// read and changed from any thread. Copies are the same value.
public struct WatchedValue<Value: Sendable>: Sendable {
  private let storage: BroadcastStorage<Value>

  /// A value to be watched.
  ///
  /// - Parameters:
  ///   - value: the first one.
  ///   - name: for backtraces and messages.
  public init(_ value: Value, name: String = "") {
    // A broadcast of the newest element, which later subscribers get too.
    storage = BroadcastStorage(
      BroadcastStateMachine(limit: 1, replay: 1, dropsOldest: true), name: name, isValue: true)
    _ = storage.sendNow(value)
  }

  /// The name it was given; empty without one.
  public var name: String { storage.name }

  /// The value now. Each assignment is a change, also that of an equal value; after `close()` it has no effect. (`+=` is a look and
  /// then an assignment, between which another may come: see `update(_:)`.)
  public var value: Value {
    get { newest.element }
    nonmutating set { _ = storage.sendNow(newValue) }
  }

  /// Whether it was closed: the value stays as it is.
  public var isClosed: Bool { storage.isClosed }

  /// How many subscriptions to its changes there are, at this moment: that of each waiter too. From any thread.
  public var subscriptionCount: Int { storage.readerCount }

  /// Changes the value by what it is now, so that no change of another is lost.
  ///
  /// ```swift
  /// let number = next.update { $0 += 1; return $0 }
  /// ```
  ///
  /// - Parameter change: runs at once, without a lock, and again on the newer value if another was faster meanwhile. So
  ///   it should only compute. After `close()` it runs, and changes nothing.
  /// - Returns: what `change` returns.
  /// - Throws: what `change` throws: the value is as it was.
  @discardableResult
  public func update<Result, Failure: Error>(
    _ change: (inout Value) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    while true {
      var (value, number) = newest
      let result = try change(&value)
      if case .full = storage.sendNow(value, ifNewest: number) { continue }
      return result
    }
  }

  private var newest: (element: Value, number: UInt64) {
    guard let newest = storage.newest else { fatalError("a watched value has none") }
    return newest
  }

  /// The value now, and then the newest one after each change. From any thread.
  public func changes() -> BroadcastSubscription<Value> { BroadcastSubscription(of: storage) }

  /// Suspends the calling coroutine until the value matches: not at all if it does. A value that was there for a moment
  /// only may not be seen.
  ///
  /// - Parameters:
  ///   - timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  ///   - isWanted: runs on the caller, without a lock.
  /// - Returns: the value that matches.
  /// - Throws: `CancellationError`, `TimeoutError` if the caller is cancelled or time is up; `ChannelClosed`, or what it was
  ///   closed with, if it is closed; what `isWanted` throws.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @discardableResult
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func wait(timeout: Duration? = nil, until isWanted: (Value) throws -> Bool) throws -> Value {
    let (owner, deadline) = (changes().owner, WaitDeadline.after(timeout))
    while true {
      var value: Value?
      let cause = storage.receive(&value, for: owner.reader, until: deadline, "WatchedValue.wait(until:)")
      guard let value else { throw storage.failure(cause, timeout) }
      if try isWanted(value) { return value }
    }
  }

  /// Suspends the calling task until the value matches: as in a coroutine, also in what it throws.
  @discardableResult
  nonisolated(nonsending) public func wait(
    timeout: Duration? = nil, until isWanted: (Value) throws -> Bool
  ) async throws -> Value {
    let (owner, deadline) = (changes().owner, WaitDeadline.after(timeout))
    while true {
      var value: Value?
      let cause = await storage.receive(&value, for: owner.reader, until: deadline)
      guard let value else { throw storage.failure(cause, timeout) }
      if try isWanted(value) { return value }
    }
  }

  /// No more changes: the watchers get the newest value, if they have not seen it, and then the end. Callable from any
  /// thread, any number of times.
  ///
  /// - Parameter error: what `receive()` and `wait(timeout:until:)` throw then in place of `ChannelClosed`.
  /// - Returns: whether this call closed it.
  @discardableResult
  public func close(throwing error: (any Error)? = nil) -> Bool { storage.close(throwing: error) }
}

extension WatchedValue: CustomStringConvertible {
  /// The name it was given, and how many watch: true at one moment during the call.
  public var description: String { storage.description }
}
