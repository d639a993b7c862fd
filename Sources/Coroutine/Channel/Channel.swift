/// A rendezvous between coroutines: a sender waits until a receiver takes its element, and the other way round.
///
/// ```swift
/// let jobs = Channel<URL>(name: "jobs")
/// for _ in 1...4 {
///   Coroutine { for url in jobs.received { process(url) } }
/// }
/// Coroutine {
///   for url in urls { try jobs.send(url) }
///   jobs.close()
/// }
/// ```
///
/// Whoever waits longest is served first, senders and receivers alike. An element that was sent is received once, or
/// comes back to its sender in the error. Copies are the same channel. Any number of coroutines and `async` tasks, on any
/// threads, may use it at once; each operation takes constant time, and allocates nothing in a coroutine.
///
/// At the top level of `main.swift` Swift 6.3 picks the synchronous forms even behind `await`: call them in a function.
public struct Channel<Element: Sendable>: Sendable {
  @usableFromInline let storage: ChannelStorage<Element>

  /// A channel without a buffer.
  ///
  /// - Parameter name: for backtraces and messages.
  public init(name: String = "") {
    storage = ChannelStorage(name: name)
  }

  /// The name it was given; empty without one.
  public var name: String { storage.name }

  /// Hands `element` to a receiver; suspends the calling coroutine until one takes it.
  ///
  /// - Throws: `ChannelClosed`, with the element in it, if the channel is closed before anybody took it;
  ///   `CancellationError` if the caller is cancelled before that: nobody has received it, nor will.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @inlinable
  @_disfavoredOverload @available(*, noasync, message: "use 'await' here")
  public func send(_ element: Element) throws {
    try storage.send(element)
  }

  /// Hands `element` to a receiver, from `async` code.
  ///
  /// - Throws: `ChannelClosed`, with the element in it, if the channel is closed before anybody took it;
  ///   `CancellationError` if the caller is cancelled before that: nobody has received it, nor will.
  @inlinable
  nonisolated(nonsending) public func send(_ element: Element) async throws {
    try await storage.send(element)
  }

  /// Takes the element of the sender that waits longest; suspends the calling coroutine until there is one.
  ///
  /// - Throws: `ChannelClosed` if the channel is closed and no sender waits; `CancellationError` if the caller is cancelled.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @inlinable
  @_disfavoredOverload @available(*, noasync, message: "use 'await' here")
  public func receive() throws -> Element {
    guard let element = try storage.receive() else { throw ChannelClosed<Element>() }
    return element
  }

  /// Takes the element of the sender that waits longest, in `async` code.
  ///
  /// - Throws: `ChannelClosed` if the channel is closed and no sender waits; `CancellationError` if the caller is cancelled.
  @inlinable
  nonisolated(nonsending) public func receive() async throws -> Element {
    guard let element = try await storage.receive() else { throw ChannelClosed<Element>() }
    return element
  }

  /// Ends it: receivers that wait, and all that come later, learn that nothing will come any more; senders that wait get
  /// their elements back. Closing again changes nothing. Callable from any thread.
  public func close() {
    storage.close()
  }

  /// Whether it was closed.
  public var isClosed: Bool { storage.isClosed }

  /// What arrives, as a sequence that ends when the channel is closed. For coroutines: its `next()` suspends.
  ///
  /// Several may be in use at once; each element goes to one of them.
  @available(*, noasync, message: "use 'receive()' in async code")
  public var received: Received { Received(storage: storage) }

  /// The synchronous view of a channel, for `for … in` inside a coroutine.
  public struct Received: Sequence, IteratorProtocol, Sendable {
    @usableFromInline let storage: ChannelStorage<Element>

    /// The next element; `nil` once the channel is closed, and when the caller is cancelled.
    @inlinable
    @available(*, noasync, message: "use 'receive()' here")
    public mutating func next() -> Element? {
      // A Sequence can't throw: the next suspending call does.
      try? storage.receive()
    }
  }
}

/// A channel's operation came too late: it is closed.
public struct ChannelClosed<Element: Sendable>: Error, CustomStringConvertible {
  /// The element that could not be sent; `nil` for a receive.
  public let unsent: Element?

  @inlinable
  init(unsent: Element? = nil) {
    self.unsent = unsent
  }

  public var description: String {
    unsent == nil
      ? "the channel is closed, and everything that was sent has been received"
      : "the channel is closed: nobody will receive the element (it is in this error's 'unsent')"
  }
}
