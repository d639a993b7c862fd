// SPDX-License-Identifier: Apache-2.0

extension Promise {
  /// The writing end of a promise: settles it, once, from any thread.
  ///
  /// The first settlement wins and returns `true`. A later one returns `false`, changes nothing, and is reported once
  /// through `CoroutineErrors.unhandled` as `SettledTwice`, unless it only lost to a cancellation. Copies are the same
  /// resolver; when the last one is gone without having been used, the promise is rejected with `PromiseAbandoned`.
  public struct Resolver: Sendable {
    @usableFromInline let owner: ResolverOwner<Value>

    @inlinable
    init(owner: ResolverOwner<Value>) {
      self.owner = owner
    }

    /// Gives the promise its value.
    ///
    /// - Returns: whether this was the first settlement.
    @inlinable @discardableResult
    public func fulfill(_ value: Value) -> Bool {
      owner.storage.settleOnce(.success(value))
    }

    /// Gives the promise an error instead of a value. A `CancellationError` makes it a cancelled one.
    ///
    /// - Returns: whether this was the first settlement.
    @inlinable @discardableResult
    public func reject(_ error: any Error) -> Bool {
      owner.storage.settleOnce(.failure(error))
    }

    /// Settles the promise either way.
    ///
    /// - Returns: whether this was the first settlement.
    @inlinable @discardableResult
    public func settle(with outcome: Result<Value, any Error>) -> Bool {
      owner.storage.settleOnce(outcome)
    }

    /// Settles the promise either way, by a result whose errors are of one type.
    ///
    /// - Returns: whether this was the first settlement.
    @inlinable @discardableResult @_disfavoredOverload
    public func settle<Failure: Error>(with outcome: Result<Value, Failure>) -> Bool {
      settle(with: outcome.mapError { $0 as any Error })
    }

    /// Settles the promise by what a callback of the form `(value, error)` was called with: the error, whether or not there
    /// is a value as well; `CallbackWithoutOutcome` if there is neither.
    ///
    /// ```swift
    /// server.fetchUser(id) { user, error in resolver.settle(with: user, error) }
    /// ```
    ///
    /// - Returns: whether this was the first settlement.
    @discardableResult
    public func settle(with value: Value?, _ error: (any Error)?) -> Bool {
      owner.storage.settleOnce(callbackOutcome(value, error))
    }

    /// Says how to stop the work when the promise is cancelled.
    ///
    /// - Parameter handler: runs once, on the thread that cancels, before the waiters for the promise go on; at once if
    ///   it is cancelled already; never if it is settled otherwise. Several run from the last to the first, as `defer`
    ///   blocks do. Must not block. Should not capture the resolver: the handler is kept as long as the promise is
    ///   pending, and with it the resolver, so that the promise is never abandoned.
    public func onCancel(_ handler: @escaping @Sendable () -> Void) {
      owner.storage.onCancel(handler)
    }

    /// Whether the promise was cancelled: the work is not needed any more.
    public var isCancelled: Bool { owner.storage.phase == .cancelled }

    /// Calls the function that starts the work. An error that comes too late for the promise is reported: no caller
    /// gets it.
    @inlinable
    func run(_ start: (Resolver) throws -> Void) {
      do {
        try start(self)
      } catch {
        reject(error)
      }
    }
  }
}

extension Promise.Resolver where Value == Void {
  /// Says that it is done.
  ///
  /// - Returns: whether this was the first settlement.
  @inlinable @discardableResult
  public func fulfill() -> Bool { fulfill(()) }

  /// Settles the promise by what a callback was called with that gets an error, or nothing.
  ///
  /// - Returns: whether this was the first settlement.
  @discardableResult
  public func settle(with error: (any Error)?) -> Bool {
    if let error { reject(error) } else { fulfill() }
  }
}
