// SPDX-License-Identifier: Apache-2.0

/// A promise that reports its progress.
///
/// ```swift
/// let download = ProgressPromise<Double, Data> { resolver in
///   let request = fetch(url) { received, total in
///     resolver.report(Double(received) / Double(total))
///   } completion: { data in
///     resolver.fulfill(data)
///   }
///   resolver.onCancel { request.stop() }
/// }
/// Coroutine {
///   for fraction in download.progress { print("\(Int(fraction * 100)) %") }     // ends with the promise
///   let data = try download.get()
/// }
/// ```
///
/// The progress is of any type: a fraction, a phase, a number of bytes. It ends when the promise is settled, in
/// whichever way. There may be any number of readers, from its beginning, its middle or its end; each has an iterator
/// of its own, and may stop at any time. The value is that of `promise`, an ordinary promise.
///
/// Inside coroutines `progress` is what to iterate over. In `async` code it is the `ProgressPromise` itself, as an
/// `AsyncSequence`.
public struct ProgressPromise<Progress: Sendable, Value: Sendable>: Sendable {
  let storage: ProgressPromiseStorage<Progress, Value>

  private init(storage: ProgressPromiseStorage<Progress, Value>) {
    self.storage = storage
  }

  /// What a reader that is slower than the reports gets.
  public enum Policy: Sendable {
    /// The newest report: older ones that it missed are gone. The last one before the end is never missed.
    case newest
    /// Every report, in order, from the first one on. All are kept as long as the promise is.
    case all
  }

  /// A promise, and what starts the work that reports and settles it.
  ///
  /// - Parameters:
  ///   - name: for backtraces and messages.
  ///   - policy: what slow readers get.
  ///   - start: runs at once, before the initialiser returns, and keeps the resolver for as long as it needs it. An error
  ///     that it throws rejects the promise.
  public init(name: String = "", keeping policy: Policy = .newest, _ start: (Resolver) throws -> Void) {
    let (promise, resolver) = Self.makePromise(name: name, keeping: policy)
    self = promise
    resolver.run(start)
  }

  /// A promise, and a coroutine on a scheduler that does the work, reports the progress and settles it: it may wait.
  ///
  /// ```swift
  /// let copy = ProgressPromise<Int, Void>(on: .pool) { resolver in
  ///   var count = 0
  ///   for block in blocks.received {
  ///     count += try file.append(block)
  ///     resolver.report(count)
  ///   }
  ///   resolver.fulfill()
  /// }
  /// ```
  ///
  /// - Parameters:
  ///   - scheduler: a `DispatchQueue`, `.pool`, one of your own.
  ///   - name: for backtraces and messages.
  ///   - policy: what slow readers get.
  ///   - start: runs soon, with a waiter for the promise or without. An error that it throws rejects the promise.
  ///     `cancel()` cancels the coroutine: what it waits for throws.
  public init(
    on scheduler: some Scheduler, name: String = "", keeping policy: Policy = .newest,
    _ start: sending ((Resolver) throws -> Void)?
  ) {
    guard let start else { missingFunction() }
    let (promise, resolver) = Self.makePromise(name: name, keeping: policy)
    self = promise
    storage.work(on: SchedulerReference(scheduler), name: name) { _ in resolver.run(start) }
  }

  /// A promise and its resolver, apart: for work that is started elsewhere.
  ///
  /// - Parameters:
  ///   - name: for backtraces and messages.
  ///   - policy: what slow readers get.
  public static func makePromise(
    name: String = "", keeping policy: Policy = .newest
  ) -> (promise: ProgressPromise, resolver: Resolver) {
    let storage = ProgressPromiseStorage<Progress, Value>(name: name, policy: policy)
    return (Self(storage: storage), Resolver(owner: ResolverOwner(storage), storage: storage))
  }

  /// The name it was given; empty without one.
  public var name: String { storage.name }

  /// The promise of the value: to derive others from, to wait for it among others.
  public var promise: Promise<Value> { Promise(storage: storage) }

  /// The newest report; `nil` before the first one. Does not wait.
  public var latestProgress: Progress? { storage.latest }

  /// Cancels the promise: see `Promise.cancel()`. The sequences of its progress end.
  ///
  /// - Returns: whether it was still pending.
  @discardableResult
  public func cancel() -> Bool { storage.cancel() }

  /// Waits for the value: see `Promise.get()`. Suspends the calling coroutine.
  ///
  /// - Throws: what the promise is rejected with; `CancellationError` if it, or the caller, is cancelled.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func get() throws -> Value { try promise.get() }

  /// Waits for the value, in `async` code: see `Promise.get()`.
  ///
  /// - Throws: what the promise is rejected with; `CancellationError` if it, or the caller, is cancelled.
  nonisolated(nonsending) public func get() async throws -> Value { try await promise.get() }

  /// Waits for the value, but not longer than `timeout`: see `Promise.get(timeout:)`. Suspends the calling coroutine.
  ///
  /// - Parameter timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Throws: `TimeoutError`, and what `get()` throws.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func get(timeout: Duration?) throws -> Value { try promise.get(timeout: timeout) }

  /// Waits for the value, but not longer than `timeout`, in `async` code: see `Promise.get(timeout:)`.
  ///
  /// - Parameter timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Throws: `TimeoutError`, and what `get()` throws.
  nonisolated(nonsending) public func get(timeout: Duration?) async throws -> Value {
    try await promise.get(timeout: timeout)
  }

  /// Waits for the value: see `Promise.getBlocking()`. Blocks the calling thread: for plain threads and `main`.
  ///
  /// - Parameters:
  ///   - file: the caller's, for messages.
  ///   - line: the caller's, for messages.
  /// - Throws: what the promise is rejected with.
  /// - Precondition: not called inside a coroutine, whose whole thread it would block: traps otherwise. Nor on the main thread, if the
  ///   promise's work, or a closure that it is derived by, runs on the main queue: it would wait in vain.
  @available(*, noasync, message: "use 'await get()' in async code")
  public func getBlocking(file: StaticString = #fileID, line: UInt = #line) throws -> Value {
    try promise.getBlocking(file: file, line: line)
  }

  /// Waits for the value, but not longer than `timeout`: see `Promise.getBlocking(timeout:)`. Blocks the calling thread.
  ///
  /// - Parameters:
  ///   - timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  ///   - file: the caller's, for messages.
  ///   - line: the caller's, for messages.
  /// - Throws: `TimeoutError`, and what `getBlocking()` throws.
  /// - Precondition: not called inside a coroutine, whose whole thread it would block: traps otherwise. Nor on the main thread, if the
  ///   promise's work, or a closure that it is derived by, runs on the main queue: it would wait in vain.
  @available(*, noasync, message: "use 'await get(timeout:)' in async code")
  public func getBlocking(
    timeout: Duration?, file: StaticString = #fileID, line: UInt = #line
  ) throws -> Value {
    try promise.getBlocking(timeout: timeout, file: file, line: line)
  }

  /// The writing end: reports progress, and settles the promise. Otherwise as `Promise.Resolver`.
  public struct Resolver: Sendable {
    let owner: ResolverOwner<Value>
    let storage: ProgressPromiseStorage<Progress, Value>

    /// Reports the progress. Wakes the waiters for it; never waits itself. Callable from any thread.
    ///
    /// - Returns: whether it was in time: false, and without effect, once the promise is settled.
    @discardableResult
    public func report(_ progress: Progress) -> Bool { storage.report(progress) }

    /// The resolver of the value alone, for what does not report.
    public var resolver: Promise<Value>.Resolver { Promise<Value>.Resolver(owner: owner) }

    /// Gives the promise its value. Whether this was the first settlement.
    @discardableResult
    public func fulfill(_ value: Value) -> Bool { resolver.fulfill(value) }

    /// Gives the promise an error instead of a value. Whether this was the first settlement.
    @discardableResult
    public func reject(_ error: any Error) -> Bool { resolver.reject(error) }

    /// Settles the promise either way. Whether this was the first settlement.
    @discardableResult
    public func settle(with outcome: Result<Value, any Error>) -> Bool { resolver.settle(with: outcome) }

    /// The same, by a result whose errors are of one type.
    @discardableResult @_disfavoredOverload
    public func settle<Failure: Error>(with outcome: Result<Value, Failure>) -> Bool { resolver.settle(with: outcome) }

    /// Settles the promise by what a callback of the form `(value, error)` was called with: see
    /// `Promise.Resolver.settle(with:_:)`. Whether this was the first settlement.
    @discardableResult
    public func settle(with value: Value?, _ error: (any Error)?) -> Bool { resolver.settle(with: value, error) }

    /// Says how to stop the work when the promise is cancelled: see `Promise.Resolver.onCancel(_:)`.
    public func onCancel(_ handler: @escaping @Sendable () -> Void) { resolver.onCancel(handler) }

    /// Whether the promise was cancelled: the work is not needed any more.
    public var isCancelled: Bool { resolver.isCancelled }

    fileprivate func run(_ start: (Resolver) throws -> Void) {
      resolver.run { _ in try start(self) }
    }
  }
}

extension ProgressPromise.Resolver where Value == Void {
  /// Says that it is done. Whether this was the first settlement.
  @discardableResult
  public func fulfill() -> Bool { resolver.fulfill() }

  /// Settles the promise by what a callback was called with that gets an error, or nothing. Whether this was the first
  /// settlement.
  @discardableResult
  public func settle(with error: (any Error)?) -> Bool { resolver.settle(with: error) }
}

// MARK: - Following

extension ProgressPromise {
  /// The reports, as a sequence that ends when the promise is settled. For coroutines: its `next()` suspends.
  @available(*, noasync, message: "iterate over the promise itself, with 'for await', in async code")
  public var progress: Reports { Reports(storage: storage) }

  /// The synchronous view of a promise's progress, for `for … in` inside a coroutine. Each iterator gets the reports anew.
  public struct Reports: Sequence, Sendable {
    let storage: ProgressPromiseStorage<Progress, Value>

    public func makeIterator() -> Iterator { Iterator(storage: storage) }

    public struct Iterator: IteratorProtocol {
      let storage: ProgressPromiseStorage<Progress, Value>
      var cursor = ProgressCursor()

      /// The next report; `nil` once the promise is settled and the last one was returned, and when the caller is
      /// cancelled.
      ///
      /// - Precondition: called inside a coroutine: traps elsewhere.
      @available(*, noasync, message: "iterate over the promise itself, with 'for await', in async code")
      public mutating func next() -> Progress? {
        // A Sequence can't throw: the next suspending call does.
        storage.next(&cursor)
      }
    }
  }
}

extension ProgressPromise: AsyncSequence {
  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(storage: storage) }

  /// `progress`, by the name that any asynchronous sequence has in a coroutine. (The general form would run a task.)
  @available(*, noasync, message: "iterate over the promise itself, with 'for await', in async code")
  public var elements: Reports { progress }

  /// The reports, for `for await`. It ends when the promise is settled, and when the task is cancelled.
  public struct AsyncIterator: AsyncIteratorProtocol {
    let storage: ProgressPromiseStorage<Progress, Value>
    var cursor = ProgressCursor()

    /// The next report; `nil` once the promise is settled and the last one was returned, and when the task is cancelled.
    public mutating func next(isolation actor: isolated (any Actor)?) async -> Progress? {
      await storage.next(&cursor)
    }

    nonisolated(nonsending) public mutating func next() async -> Progress? {
      await storage.next(&cursor)
    }
  }
}

// MARK: - Equality and description: as those of all handles (Handle/Handles.swift)

extension ProgressPromise: Hashable, CustomStringConvertible {
  /// Whether both are the same promise.
  public static func == (left: ProgressPromise, right: ProgressPromise) -> Bool { left.storage === right.storage }

  public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(storage)) }

  /// The name it was given, and whether it is settled by now.
  public var description: String { promise.description }
}
