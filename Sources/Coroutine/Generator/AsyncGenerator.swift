// SPDX-License-Identifier: Apache-2.0

/// A generator whose body runs somewhere else: as a coroutine of its own, while its consumer is suspended.
///
/// ```swift
/// let messages = AsyncGenerator<Message>(on: DispatchQueue(label: "database")) { yield in
///   while let message = try database.queryNextUnread() { try yield(message) }
/// }
/// for try await message in messages.prefix(10) { show(message) }          // in async code
/// while let message = try messages.next() { show(message) }               // in a coroutine
/// ```
///
/// The body does not run before the first `next`, and goes on when a consumer asks for the next element: it is never
/// ahead, so that it computes nothing in vain. It is a coroutine like any other, on the given scheduler: it may
/// suspend, receive from channels, sleep. Its task-local values are those of the first consumer.
///
/// Copies share one position. Several consumers may ask at once, from any threads; each element goes to one of them,
/// the one that waits longest.
///
/// When the last copy goes, or after `cancel()`, the body's coroutine is cancelled: its pending `yield` throws
/// `GeneratorCancelled`, also inside of a shield, any other wait of it `CancellationError`, and it unwinds on its scheduler. A
/// consumer that is cancelled while it waits gets `CancellationError`, and takes no element with it.
///
/// To unwind takes a turn of that scheduler. At the end of a program, or of a `runUntilComplete`, call `cancel()` and wait for the end by
/// `join()`: else the body's `defer` blocks may not run.
public struct AsyncGenerator<Element: Sendable>: AsyncSequence, Sendable {
  @usableFromInline let owner: AsyncGeneratorOwner<Element>

  /// A generator whose body runs on the scheduler of the coroutine that makes it or, made elsewhere, on the pool.
  ///
  /// - Parameters:
  ///   - name: of the body's coroutine, for backtraces and messages.
  ///   - stackSize: usable bytes, rounded up to pages and to 64 KiB; `nil` for the default (256 KiB).
  ///   - body: yields. Its error comes out of `next()`; where no consumer asks any more, it is reported through
  ///     `CoroutineErrors.unhandled` when the last copy goes.
  public init(name: String = "", stackSize: Int? = nil, _ body: sending ((Yield) throws -> Void)?) {
    guard let body else { missingFunction() }
    owner = AsyncGeneratorOwner(
      AsyncGeneratorStorage(on: .inherited, name: name, stackSize: stackSize, body: body))
  }

  /// A generator whose body runs on a scheduler: a `DispatchQueue`, `.pool`, one of your own.
  ///
  /// The other parameters are those of `init(name:stackSize:_:)`.
  public init(
    on scheduler: some Scheduler, name: String = "", stackSize: Int? = nil,
    _ body: sending ((Yield) throws -> Void)?
  ) {
    guard let body else { missingFunction() }
    owner = AsyncGeneratorOwner(
      AsyncGeneratorStorage(on: SchedulerReference(scheduler), name: name, stackSize: stackSize, body: body))
  }

  /// Lets the body go on to its next `yield`, and returns that element; `nil` at the end, and from then on. Suspends the
  /// calling coroutine meanwhile.
  ///
  /// - Throws: what the body throws, or `StackError` if there is no memory for its stack: once, `nil` follows.
  ///   `CancellationError` if the caller is cancelled before there is an element.
  /// - Precondition: called inside a coroutine, and not inside the body, which would wait for itself: traps elsewhere.
  @inlinable
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func next() throws -> Element? {
    try owner.storage.next()
  }

  /// Lets the body go on to its next `yield`, and returns that element; `nil` at the end, and from then on.
  ///
  /// - Throws: what the body throws, or `StackError` if there is no memory for its stack: once, `nil` follows.
  ///   `CancellationError` if the task is cancelled before there is an element.
  @inlinable
  nonisolated(nonsending) public func next() async throws -> Element? {
    try await owner.storage.next()
  }

  /// The next elements, `count` of them or as many as there are. The generator can go on behind them. Suspends the calling
  /// coroutine.
  ///
  /// - Parameter count: not negative: traps otherwise.
  /// - Throws: what `next()` throws. The elements before that are lost.
  /// - Precondition: as that of `next()`.
  @inlinable
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func take(_ count: Int) throws -> [Element] {
    requireCount(count)
    var elements: [Element] = []
    while elements.count < count, let element = try next() { elements.append(element) }
    return elements
  }

  /// The next elements, `count` of them or as many as there are. The generator can go on behind them.
  ///
  /// - Parameter count: not negative: traps otherwise.
  /// - Throws: what `next()` throws. The elements before that are lost.
  @inlinable
  nonisolated(nonsending) public func take(_ count: Int) async throws -> [Element] {
    requireCount(count)
    var elements: [Element] = []
    while elements.count < count, let element = try await next() { elements.append(element) }
    return elements
  }

  /// The generator itself, for `for try await`: it has one position for all consumers.
  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(generator: self) }

  /// Takes the elements for `for try await`.
  public struct AsyncIterator: AsyncIteratorProtocol {
    @usableFromInline let generator: AsyncGenerator

    @inlinable
    init(generator: AsyncGenerator) {
      self.generator = generator
    }

    /// As `AsyncGenerator.next()`.
    @inlinable
    nonisolated(nonsending) public mutating func next() async throws -> Element? {
      try await next(isolation: #isolation)
    }

    /// As `AsyncGenerator.next()`, without leaving the actor where the loop is.
    @inlinable
    public mutating func next(isolation actor: isolated (any Actor)?) async throws -> Element? {
      try await generator.next()
    }
  }

  /// Ends the sequence: waiting consumers get `nil`, and the body unwinds on its scheduler. Callable from any thread.
  public func cancel() { owner.storage.cancel() }

  /// Waits until the body has ended, as it does some time after a `cancel()`: what it had open is closed then, and what it
  /// captured is released. At once if it never began. Suspends the calling coroutine.
  ///
  /// - Throws: `CancellationError` if the caller is cancelled while it waits.
  /// - Precondition: called inside a coroutine, and not inside the body: traps elsewhere.
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func join() throws { try owner.storage.join() }

  /// Waits until the body has ended, as it does some time after a `cancel()`: what it had open is closed then, and what it
  /// captured is released. At once if it never began.
  ///
  /// - Throws: `CancellationError` if the task is cancelled while it waits.
  nonisolated(nonsending) public func join() async throws { try await owner.storage.join() }

  /// What the body yields with. Valid inside the body only.
  public struct Yield: Sendable {
    @usableFromInline let storage: AsyncGeneratorStorage<Element>

    /// Hands an element to the consumer that asked for one, and suspends until a consumer asks for the next.
    ///
    /// - Throws: `GeneratorCancelled` when no consumer wants another element: let it pass, so that the body ends.
    ///   `CancellationError` inside a timeout, or another part of the body that is cancelled alone: an element that no
    ///   consumer has taken by then is taken back.
    /// - Precondition: called on the body's coroutine: traps elsewhere.
    @inlinable
    @available(*, noasync, message: "a generator's body is a coroutine, not async code")
    public func callAsFunction(_ element: Element) throws {
      try storage.yield(element)
    }
  }
}

// MARK: - Yielding what others do

// Each element passes through the body: those of a chain of asynchronous generators through each one's.
extension AsyncGenerator.Yield {
  /// Yields what another generator does, until that ends. Its body runs here, on this one's coroutine, and ends with this
  /// one.
  ///
  /// - Throws: what the other's body throws (which then is not reported), and what a single `yield` does.
  @available(*, noasync, message: "a generator's body is a coroutine, not async code")
  public func callAsFunction(from other: Generator<Element>) throws {
    try yield(from: other.storage)
  }

  /// Yields what another generator does, until that ends. As `callAsFunction(from:)` of a `Generator`.
  ///
  /// - Throws: what the other's body throws, and what a single `yield` does.
  @available(*, noasync, message: "a generator's body is a coroutine, not async code")
  public func callAsFunction(from other: ThrowingGenerator<Element>) throws {
    try yield(from: other.storage)
  }

  /// Yields what another generator does, until that ends, and returns what its body returns.
  ///
  /// - Throws: what the other's body throws, and what a single `yield` does.
  @available(*, noasync, message: "a generator's body is a coroutine, not async code") @discardableResult
  public func callAsFunction<Return>(from other: TwoWayGenerator<Void, Element, Return>) throws -> Return {
    try yield(from: other.storage)
    return try other.storage.outcome()
  }

  /// Yields the elements of another asynchronous generator, until that ends. Its body goes on where it runs; another
  /// holder of it may go on with it when this one ends.
  ///
  /// - Throws: what the other's body throws, and what a single `yield` does; `CancellationError` as its `next()`.
  @available(*, noasync, message: "a generator's body is a coroutine, not async code")
  public func callAsFunction(from other: AsyncGenerator<Element>) throws {
    while let element = try other.next() { try self(element) }
  }

  /// Yields the elements of a sequence, one by one.
  ///
  /// - Throws: what a single `yield` does.
  @available(*, noasync, message: "a generator's body is a coroutine, not async code")
  public func callAsFunction(from elements: some Sequence<Element>) throws {
    for element in elements { try self(element) }
  }

  private func yield(from other: GeneratorStorage<Element>) throws {
    other.throwsErrorsOn = true
    do {
      while let element = other.next() { try self(element) }
    } catch {
      other.cancel()
      throw error
    }
    if let failure = other.takeFailure() { throw failure }
  }
}

/// What the copies of one `AsyncGenerator` share: when it goes, no consumer can ask any more.
@usableFromInline
final class AsyncGeneratorOwner<Element: Sendable>: Sendable {
  @usableFromInline let storage: AsyncGeneratorStorage<Element>

  init(_ storage: AsyncGeneratorStorage<Element>) {
    self.storage = storage
  }

  deinit { storage.cancel() }
}

extension AsyncGenerator: CustomStringConvertible {
  /// The name it was given.
  public var description: String { owner.storage.label }
}
