// SPDX-License-Identifier: Apache-2.0

/// A queue between coroutines, `async` code and threads: what a sender sends, one receiver gets, once.
///
/// ```swift
/// let jobs = Channel<URL>(capacity: .buffered(64), name: "jobs")
/// for _ in 1...4 {
///   Coroutine { for url in jobs.received { process(url) } }
/// }
/// Coroutine {
///   for url in urls { try jobs.send(url) }
///   jobs.close()
/// }
/// ```
///
/// - **Capacity.** Without a buffer a sender waits for its receiver; with one only while it is full. See
///   `ChannelCapacity`.
/// - **Order.** Elements of one sender are received in the order in which it sent them. The longest waiter is served
///   first, among senders and among receivers: when a receiver makes room in a full buffer, the element of the oldest
///   waiting sender enters it, at the end.
/// - **Nothing is lost.** An element is received once, or is in the buffer, or comes back to its sender: when the
///   channel is closed, the caller is cancelled, or time is up before a receiver has taken it.
/// - **Three kinds of callers.** `send` and `receive` suspend a coroutine; their `async` forms suspend a task;
///   `sendBlocking` and `receiveBlocking` block a thread. `trySend` and `tryReceive` never wait, and may be called anywhere,
///   in callbacks of C libraries too. All of them may be at work on one channel at once.
/// - **Elements** need not be `Sendable`, since they are handed over (`sending`), nor copyable. They may be optional:
///   `nil` does not stand for the end. Forms that put elements into an error or an `Array` need them to be so: they say
///   it.
///
/// Copies are the same channel. When the last one is gone, so is what is in the buffer. A sender or receiver that waits
/// at a channel keeps it alive.
///
/// Every operation takes constant time unless stated otherwise, and in a coroutine it allocates only the buffer.
///
/// At the top level of `main.swift` Swift 6.3 picks the synchronous forms even behind `await`: call them in a function.
public struct Channel<Element: ~Copyable>: Sendable {
  @usableFromInline let storage: ChannelStorage<Element>

  /// An open channel.
  ///
  /// - Parameters:
  ///   - capacity: how many elements it keeps for receivers that have not come yet.
  ///   - name: for backtraces and messages.
  /// - Precondition: a capacity is not negative, and that of `newest` at least 1: traps otherwise.
  public init(capacity: ChannelCapacity = .rendezvous, name: String = "") {
    switch capacity {
    case .buffered(let count):
      require(count >= 0, "a channel can't have a capacity of \(count): use .rendezvous, or .buffered of 0 or more")
    case .newest(let count):
      require(count > 0, "a channel can't keep the newest \(count) elements: use .newest of 1 or more")
    case .rendezvous, .unbounded, .conflated: break
    }
    storage = ChannelStorage(name: name, capacity: capacity)
  }

  init(storage: ChannelStorage<Element>) {
    self.storage = storage
  }
}

// MARK: - Sending

extension Channel where Element: Sendable {
  /// Sends an element; suspends the calling coroutine until a receiver takes it, or there is room in the buffer.
  ///
  /// - Parameters:
  ///   - element: what is sent.
  ///   - timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Throws: `ChannelClosed`, with the element in it, if the channel is closed before the element was taken;
  ///   `CancellationError` if the caller is cancelled before that; `TimeoutError` if time is up before that. In none of
  ///   these cases has a receiver got it, nor will one get it.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @inlinable
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func send(_ element: Element, timeout: Duration? = nil) throws {
    try storage.send(element, timeout: timeout, onCancel: {})
  }

  /// Sends `element`; if the caller is cancelled, calls `onCancel` first. Otherwise as `send(_:timeout:)`.
  ///
  /// - Parameters:
  ///   - element: what is sent.
  ///   - timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  ///   - onCancel: runs on the caller, before the error is thrown, if it was cancelled: the element was not sent.
  /// - Throws: as `send(_:timeout:)`.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  // Not by a default of the parameter: a closure behind `send` would be taken for this, and not for the element.
  @inlinable
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func send(_ element: Element, timeout: Duration? = nil, onCancel: () -> Void) throws {
    try storage.send(element, timeout: timeout, onCancel: onCancel)
  }
}

extension Channel where Element: ~Copyable {
  /// Sends an element, or gives it back: `send(_:)` for elements that can't be copied, or are not `Sendable`.
  ///
  /// ```swift
  /// if let connection = connections.send(orReturn: connection).unsent() { connection.end() }
  /// ```
  ///
  /// Suspends the calling coroutine until a receiver takes the element, or there is room in the buffer.
  ///
  /// - Parameters:
  ///   - element: what is sent.
  ///   - timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @inlinable
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func send(
    orReturn element: consuming sending Element, timeout: Duration? = nil
  ) -> sending SendOutcome<Element> {
    var unsent: Element? = consume element
    let cause = storage.send(&unsent, until: WaitDeadline.after(timeout))
    return storage.outcome(cause, unsent)
  }
}

// MARK: - Receiving

extension Channel where Element: ~Copyable {
  /// Takes the element that was sent first; suspends the calling coroutine until there is one.
  ///
  /// - Parameters:
  ///   - timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  ///   - onCancel: runs on the caller, before the error is thrown, if it was cancelled.
  /// - Throws: `ChannelClosed`, or what the channel was closed with, if it is closed and everything that was sent has been
  ///   received; `CancellationError` if the caller is cancelled; `TimeoutError` if time is up. In none of these cases has
  ///   it taken an element.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @inlinable
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func receive(timeout: Duration? = nil, onCancel: () -> Void = {}) throws -> sending Element {
    try storage.receive(timeout: timeout, onCancel: onCancel)
  }

  /// The elements as they come, as a sequence that ends when the channel is closed and empty. For coroutines: its
  /// `next()` suspends.
  ///
  /// ```swift
  /// for job in jobs.received { try job.run() }
  /// ```
  ///
  /// A `Sequence` can't throw: it also ends when the caller is cancelled, and the next operation that may suspend throws.
  /// Several may be in use at once; each element goes to one of them. Leaving the loop early leaves the rest in the
  /// channel. `filter` and `map` of a `Sequence` take all of it first: say `received.lazy.filter { … }`.
  @available(*, noasync, message: "use 'for await element in channel' in async code")
  public var received: ReceivedElements<Element> { ReceivedElements(storage: storage) }
}

// MARK: - Closing

extension Channel where Element: ~Copyable {
  /// Lets no more elements in. What is in the buffer is still received. After that all receivers, waiting and later
  /// ones, learn that no element will come any more. Waiting senders get their elements back, as do all later ones.
  /// Callable from any thread, any number of times; linear in the number of waiters.
  ///
  /// - Parameter error: what `receive()` throws then in place of `ChannelClosed`; loops just end. The first call counts.
  /// - Returns: whether this call closed it: `false` if it was closed already.
  @discardableResult
  public func close(throwing error: (any Error)? = nil) -> Bool {
    storage.close(throwing: error)
  }

  /// Calls `handler` when the channel is closed, once, with the error that it was closed with; at once if it is closed.
  ///
  /// ```swift
  /// frames.whenClosed { _ in camera.stop() }
  /// ```
  ///
  /// The channel keeps the handler until then. So a handler that captures an end of the channel (`makeEnds(capacity:name:)`)
  /// keeps that end: it is never the last one that goes.
  ///
  /// - Parameter handler: runs on the thread that closes the channel, or on the caller's; must not block, nor suspend.
  public func whenClosed(_ handler: @escaping @Sendable (_ error: (any Error)?) -> Void) {
    storage.whenClosed(handler)
  }
}

// MARK: - Iterating

/// The synchronous view of a channel, for `for … in` inside a coroutine: `Channel.received`.
///
/// Elements that can't be copied are not for `for`: `while let element = connections.received.next() { … }`.
public struct ReceivedElements<Element: ~Copyable>: Sendable {
  @usableFromInline let storage: ChannelStorage<Element>

  @inlinable
  init(storage: ChannelStorage<Element>) {
    self.storage = storage
  }

  /// The next element; `nil` once the channel is closed and empty, and when the caller is cancelled.
  ///
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @inlinable
  @available(*, noasync, message: "use 'receive()' here")
  public func next() -> sending Element? {
    storage.next()
  }
}

extension ReceivedElements: Sequence, IteratorProtocol where Element: Copyable {}

// MARK: - Equality and description: as those of all handles (Handle/Handles.swift)

extension Channel: Hashable where Element: ~Copyable {
  /// Whether both are the same channel.
  public static func == (left: Channel, right: Channel) -> Bool { left.storage === right.storage }

  public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(storage)) }
}

extension Channel: CustomStringConvertible where Element: ~Copyable {
  /// The name it was given, how full it is, and how many wait: true at one moment during the call.
  public var description: String { storage.description }
}
