// SPDX-License-Identifier: Apache-2.0

/// A value, or an error, that will be delivered: the reading end. Its writing end is a `Promise.Resolver`.
///
/// ```swift
/// let page = Promise<Data> { resolver in
///   let request = fetch(url) { data, error in resolver.settle(with: data, error) }
///   resolver.onCancel { request.stop() }
/// }
/// let text = page.then { String(decoding: $0, as: UTF8.self) }.catch { _ in "(nothing)" }
/// Coroutine { print(try text.get()) }
/// ```
///
/// It is settled once: fulfilled with a value, or rejected with an error; the first settlement wins. Any number of
/// coroutines, tasks and threads may wait for it, and read its state, at any time from anywhere. Copies are the same
/// promise. A promise whose last resolver is gone unused is rejected with `PromiseAbandoned`. An error that is never
/// read is reported once through `CoroutineErrors.unhandled`, when the last copy is gone.
///
/// **Cancelling.** `cancel()` rejects this promise with a `CancellationError` and calls its resolver's `onCancel`
/// handlers, which stop the work. It reaches all promises that are derived from this one (`then`, …), as any rejection
/// does, but never the other way: cancelling a derived promise stops its own closure and does not touch the original,
/// which others may wait for. For the same reason cancelling a coroutine that waits in `get()` ends that wait only. To
/// stop the work too:
///
/// ```swift
/// try withCancellationHandler { try page.get() } onCancel: { page.cancel() }
/// ```
public struct Promise<Value: Sendable>: Sendable {
  @usableFromInline let storage: PromiseStorage<Value>

  @inlinable
  init(storage: PromiseStorage<Value>) {
    self.storage = storage
  }

  /// A promise, and what starts the work that settles it.
  ///
  /// - Parameters:
  ///   - name: for backtraces and messages.
  ///   - start: runs at once, before the initialiser returns, and keeps the resolver for as long as it needs it. An error
  ///     that it throws rejects the promise.
  @inlinable
  public init(name: String = "", _ start: (Resolver) throws -> Void) {
    let (promise, resolver) = Self.makePromise(name: name)
    self = promise
    resolver.run(start)
  }

  /// A promise, and a coroutine on a scheduler that does the work and settles it: it may wait.
  ///
  /// ```swift
  /// let total = Promise<Int>(on: .pool) { resolver in
  ///   resolver.fulfill(try numbers.receive() + numbers.receive())
  /// }
  /// ```
  ///
  /// - Parameters:
  ///   - scheduler: a `DispatchQueue`, `.pool`, one of your own.
  ///   - name: for backtraces and messages.
  ///   - start: runs soon, with a waiter for the promise or without. An error that it throws rejects the promise.
  ///     `cancel()` cancels the coroutine: what it waits for throws.
  public init(
    on scheduler: some Scheduler, name: String = "", _ start: sending ((Resolver) throws -> Void)?
  ) {
    guard let start else { missingFunction() }
    let (promise, resolver) = Self.makePromise(name: name)
    self = promise
    storage.work(on: SchedulerReference(scheduler), name: name) { _ in resolver.run(start) }
  }

  /// A promise that is fulfilled already.
  @inlinable
  public init(value: Value) {
    storage = PromiseStorage(name: "")
    storage.settle(.success(value))
  }

  /// A promise that is rejected already.
  @inlinable
  public init(error: any Error) {
    storage = PromiseStorage(name: "")
    storage.settle(.failure(error))
  }

  /// A promise and its resolver, apart: for work that is started elsewhere.
  ///
  /// ```swift
  /// let (answer, resolver) = Promise.makePromise(of: Int.self)
  /// queue.async { resolver.fulfill(42) }
  /// ```
  ///
  /// - Parameters:
  ///   - type: the value's, where the compiler can't infer it.
  ///   - name: for backtraces and messages.
  @inlinable
  public static func makePromise(
    of type: Value.Type = Value.self, name: String = ""
  ) -> (promise: Promise, resolver: Resolver) {
    let storage = PromiseStorage<Value>(name: name)
    return (Promise(storage: storage), Resolver(owner: ResolverOwner(storage)))
  }

  /// The name it was given; empty without one.
  public var name: String { storage.name }

  /// Rejects the promise with a `CancellationError`, and calls the `onCancel` handlers before the waiters go on.
  /// Callable from any thread. Without effect once it is settled.
  ///
  /// A handler that cancels another promise goes on when the handlers of that one have run, inside of its call. So each
  /// promise of a chain that is cancelled in this way takes a part of the canceller's stack. Some dozens are no matter;
  /// thousands overflow it: there a handler should start a coroutine that cancels the next one.
  ///
  /// - Returns: whether it was still pending.
  @discardableResult
  public func cancel() -> Bool { storage.cancel() }
}

// MARK: - Waiting

extension Promise {
  /// Waits for the settlement and returns the value. Suspends the calling coroutine.
  ///
  /// Any number of coroutines, tasks and threads may wait; they are woken in the order in which they came. Constant time,
  /// no allocation.
  ///
  /// - Throws: what the promise is rejected with; `CancellationError` if it, or the caller, is cancelled: ask
  ///   `isCancelled` which. A cancelled caller leaves the promise as it is.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @inlinable
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func get() throws -> Value {
    try storage.value(after: storage.wait())
  }

  /// Waits for the settlement, but not longer than `timeout`, and returns the value. Suspends the calling coroutine.
  ///
  /// - Parameter timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Throws: `TimeoutError` if it was still pending then, and stays as it is; else what `get()` throws.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @inlinable
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func get(timeout: Duration?) throws -> Value {
    try storage.value(after: storage.wait(until: WaitDeadline.after(timeout)), timeout: timeout)
  }

  /// Waits for the settlement and returns the value. In `async` code.
  ///
  /// At the top level of `main.swift` Swift 6.3 picks the synchronous form even behind `await`: use
  /// `try await promise.result.get()` there.
  ///
  /// - Throws: what the promise is rejected with; `CancellationError` if it, or the caller, is cancelled.
  @inlinable
  nonisolated(nonsending) public func get() async throws -> Value {
    try await storage.value(after: storage.wait())
  }

  /// Waits for the settlement, but not longer than `timeout`, and returns the value. In `async` code.
  ///
  /// - Parameter timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Throws: `TimeoutError` if it was still pending then, and stays as it is; else what `get()` throws.
  @inlinable
  nonisolated(nonsending) public func get(timeout: Duration?) async throws -> Value {
    try await storage.value(after: storage.wait(until: WaitDeadline.after(timeout)), timeout: timeout)
  }

  /// Waits for the settlement, in `async` code. Returns the outcome, as `Task` does; a `CancellationError` if the
  /// caller is cancelled.
  @inlinable
  nonisolated(nonsending) public var result: Result<Value, any Error> {
    get async {
      await storage.wait() == .event ? storage.settledOutcome : .failure(CancellationError())
    }
  }

  /// Waits for the settlement and returns the value. Blocks the calling thread: for plain threads and `main`.
  ///
  /// - Parameters:
  ///   - file: the caller's, for messages.
  ///   - line: the caller's, for messages.
  /// - Throws: what the promise is rejected with.
  /// - Precondition: not called inside a coroutine, whose whole thread it would block: traps otherwise. Nor on the main thread, if the
  ///   promise's work, or a closure that it is derived by, runs on the main queue: it would wait in vain.
  @inlinable
  @available(*, noasync, message: "use 'await get()' in async code")
  public func getBlocking(file: StaticString = #fileID, line: UInt = #line) throws -> Value {
    try storage.value(after: storage.waitBlocking(at: BlockingCall("getBlocking()", file, line)))
  }

  /// Waits for the settlement, but not longer than `timeout`, and returns the value. Blocks the calling thread.
  ///
  /// - Parameters:
  ///   - timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  ///   - file: the caller's, for messages.
  ///   - line: the caller's, for messages.
  /// - Throws: `TimeoutError` if it was still pending then, and stays as it is; else what the promise is rejected with.
  /// - Precondition: not called inside a coroutine, whose whole thread it would block: traps otherwise. Nor on the main thread, if the
  ///   promise's work, or a closure that it is derived by, runs on the main queue: it would wait in vain.
  @inlinable
  @available(*, noasync, message: "use 'await get(timeout:)' in async code")
  public func getBlocking(
    timeout: Duration?, file: StaticString = #fileID, line: UInt = #line
  ) throws -> Value {
    let call = BlockingCall("getBlocking(timeout:)", file, line)
    return try storage.value(
      after: storage.waitBlocking(until: WaitDeadline.after(timeout), at: call), timeout: timeout)
  }
}

// MARK: - Looking

extension Promise {
  /// Whether it is not settled yet.
  public var isPending: Bool { storage.phase == .pending }

  /// Whether it has a value.
  public var isFulfilled: Bool { storage.phase == .fulfilled }

  /// Whether it has an error, a cancellation included.
  public var isRejected: Bool {
    let phase = storage.phase
    return phase == .rejected || phase == .cancelled
  }

  /// Whether it was cancelled: it is rejected with a `CancellationError`.
  public var isCancelled: Bool { storage.phase == .cancelled }

  /// The value, if it is fulfilled by now. Does not wait. Who asks a rejected promise for it does not count as a reader of
  /// the error.
  @inlinable
  public var value: Value? {
    guard storage.hasValue, case .success(let value)? = storage.outcome else { return nil }
    return value
  }

  /// The error, if it is rejected by now. Does not wait. Who gets it has handled it: it needs no report.
  @inlinable
  public var error: (any Error)? {
    if case .failure(let error)? = storage.currentOutcome { error } else { nil }
  }
}

// MARK: - Equality and description: as those of all handles (Handle/Handles.swift)

extension Promise: Hashable, CustomStringConvertible {
  /// Whether both are the same promise. What it was or will be settled with does not count.
  public static func == (left: Promise, right: Promise) -> Bool { left.storage === right.storage }

  public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(storage)) }

  /// The name it was given, and whether it is settled by now.
  public var description: String { "\(storage.describe(.promise)): \(storage.phase)" }
}
