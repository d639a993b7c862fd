// SPDX-License-Identifier: Apache-2.0

// A channel's two ends apart: one only sends, the other only receives. Each closes the channel when its last copy is
// gone.

extension Channel where Element: ~Copyable {
  /// A channel by its two ends: the one that sends and the one that receives.
  ///
  /// ```swift
  /// let (sender, receiver) = Channel<Page>.makeEnds(capacity: .buffered(16))
  /// for url in urls {
  ///   Coroutine { try sender.send(try fetch(url)) }
  /// }
  /// _ = consume sender
  /// // … and when the last of them has ended, no sender is left: so does the loop.
  /// for page in receiver.received { show(page) }
  /// ```
  ///
  /// Without the `consume` the variable would keep a copy: in a debug build up to the end of the function, so that the loop would
  /// never end. It has to stand in the function, or the closure, in which the variable was made: elsewhere it consumes a copy. A
  /// copy that belongs to an object, or is captured, goes with that. (Of `let ends = …`, a
  /// pair, no half can be consumed.)
  ///
  /// When the last copy of `sender` is gone the channel is closed, as by `close()`. The same happens when the last copy
  /// of the receiver is gone, so that senders stop; what is in the buffer then goes, too.
  ///
  /// - Parameters:
  ///   - capacity: how many elements it keeps for receivers that have not come yet. A negative number traps.
  ///   - name: for backtraces and messages.
  public static func makeEnds(
    capacity: ChannelCapacity = .rendezvous, name: String = ""
  ) -> (sender: ChannelSender<Element>, receiver: ChannelReceiver<Element>) {
    let channel = Channel(capacity: capacity, name: name)
    return (
      ChannelSender(owner: ChannelEndOwner(channel)), ChannelReceiver(owner: ChannelEndOwner(channel, receives: true))
    )
  }
}

/// Closes a channel when the last copy of one of its ends is gone.
@usableFromInline
final class ChannelEndOwner<Element: ~Copyable>: Sendable {
  @usableFromInline let channel: Channel<Element>
  private let receives: Bool

  init(_ channel: Channel<Element>, receives: Bool = false) {
    self.channel = channel
    self.receives = receives
  }

  deinit {
    channel.close()
    // No receiver will take them any more, and the senders may live on: so would what an element holds, such as the way back to
    // its sender, who would wait for ever.
    if receives { channel.storage.dropBuffer() }
  }
}

// MARK: - Sending

/// The end of a channel that sends: `Channel.makeEnds(capacity:name:)`. With its last copy the channel is closed.
///
/// `Channel` documents its members, by the same names.
public struct ChannelSender<Element: ~Copyable>: Sendable {
  @usableFromInline let owner: ChannelEndOwner<Element>
}

extension ChannelSender: Hashable where Element: ~Copyable {
  /// Whether both send to the same channel.
  public static func == (left: ChannelSender, right: ChannelSender) -> Bool {
    left.owner.channel == right.owner.channel
  }

  public func hash(into hasher: inout Hasher) { hasher.combine(owner.channel) }
}

extension ChannelSender where Element: Sendable {
  /// Sends an element: `Channel.send(_:timeout:)`.
  ///
  /// - Throws: `ChannelClosed`, with the element in it; `CancellationError`; `TimeoutError`.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @inlinable
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func send(_ element: Element, timeout: Duration? = nil) throws {
    try owner.channel.send(element, timeout: timeout)
  }

  /// Sends an element, in `async` code: `Channel.send(_:timeout:)`.
  ///
  /// - Throws: `ChannelClosed`, with the element in it; `CancellationError`; `TimeoutError`.
  @inlinable
  nonisolated(nonsending) public func send(_ element: Element, timeout: Duration? = nil) async throws {
    try await owner.channel.send(element, timeout: timeout)
  }

  /// Sends an element from a plain thread: `Channel.sendBlocking(_:timeout:)`.
  ///
  /// - Throws: `ChannelClosed`, with the element in it; `TimeoutError`.
  /// - Precondition: not called inside a coroutine, whose whole thread it would block: traps otherwise.
  @inlinable
  @available(*, noasync, message: "use 'await send(_:)' in async code")
  public func sendBlocking(
    _ element: Element, timeout: Duration? = nil, file: StaticString = #fileID, line: UInt = #line
  ) throws {
    try owner.channel.sendBlocking(element, timeout: timeout, file: file, line: line)
  }
}

extension ChannelSender where Element: ~Copyable {
  /// Sends an element, or gives it back: `Channel.send(orReturn:timeout:)`.
  ///
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @inlinable
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func send(
    orReturn element: consuming sending Element, timeout: Duration? = nil
  ) -> sending SendOutcome<Element> {
    owner.channel.send(orReturn: element, timeout: timeout)
  }

  /// Sends an element, or gives it back, in `async` code: `Channel.send(orReturn:timeout:)`.
  @inlinable
  nonisolated(nonsending) public func send(
    orReturn element: consuming sending Element, timeout: Duration? = nil
  ) async -> sending SendOutcome<Element> {
    await owner.channel.send(orReturn: element, timeout: timeout)
  }

  /// Sends an element if that can be done at once, from everywhere: `Channel.trySend(_:)`.
  @inlinable
  public func trySend(_ element: consuming sending Element) -> sending SendResult<Element> {
    owner.channel.trySend(element)
  }

  /// Lets no more elements in: `Channel.close(throwing:)`.
  @discardableResult
  public func close(throwing error: (any Error)? = nil) -> Bool { owner.channel.close(throwing: error) }

  /// Whether the channel was closed: by an end, or because all receivers are gone.
  public var isClosed: Bool { owner.channel.isClosed }

  /// Calls `handler` when the channel is closed: `Channel.whenClosed(_:)`. By this a sender learns that no receiver is
  /// left.
  public func whenClosed(_ handler: @escaping @Sendable (_ error: (any Error)?) -> Void) {
    owner.channel.whenClosed(handler)
  }

  /// How many wait to receive: `Channel.waitingReceiverCount`.
  public var waitingReceiverCount: Int { owner.channel.waitingReceiverCount }

  /// How many wait to send: `Channel.waitingSenderCount`.
  public var waitingSenderCount: Int { owner.channel.waitingSenderCount }

  /// The channel's name; empty without one.
  public var name: String { owner.channel.name }

  /// How many elements it keeps for receivers that have not come yet.
  public var capacity: ChannelCapacity { owner.channel.capacity }

  /// How many elements are in the buffer: `Channel.count`.
  public var count: Int { owner.channel.count }

  /// Whether there is no room in the buffer: `Channel.isFull`.
  public var isFull: Bool { owner.channel.isFull }
}

// MARK: - Receiving

/// The end of a channel that receives: `Channel.makeEnds(capacity:name:)`. With its last copy the channel is closed, and what is
/// in the buffer goes.
///
/// `Channel` documents its members, by the same names.
public struct ChannelReceiver<Element: ~Copyable>: Sendable {
  @usableFromInline let owner: ChannelEndOwner<Element>
}

extension ChannelReceiver: Hashable where Element: ~Copyable {
  /// Whether both receive from the same channel.
  public static func == (left: ChannelReceiver, right: ChannelReceiver) -> Bool {
    left.owner.channel == right.owner.channel
  }

  public func hash(into hasher: inout Hasher) { hasher.combine(owner.channel) }
}

extension ChannelReceiver {
  /// Takes everything that is there, in one step: `Channel.receiveAll(timeout:onCancel:)`.
  ///
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @inlinable
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func receiveAll(timeout: Duration? = nil) throws -> sending [Element] {
    try owner.channel.receiveAll(timeout: timeout)
  }

  /// Takes everything that is there, in one step, in `async` code: `Channel.receiveAll(timeout:onCancel:)`.
  @inlinable
  nonisolated(nonsending) public func receiveAll(timeout: Duration? = nil) async throws -> sending [Element] {
    try await owner.channel.receiveAll(timeout: timeout)
  }

  /// Takes the next `count` elements: `Channel.receive(count:timeout:onCancel:)`.
  ///
  /// - Precondition: called inside a coroutine, with no negative count: traps otherwise.
  @inlinable
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func receive(count: Int, timeout: Duration? = nil) throws -> sending [Element] {
    try owner.channel.receive(count: count, timeout: timeout)
  }

  /// Takes the next `count` elements, in `async` code: `Channel.receive(count:timeout:onCancel:)`.
  @inlinable
  nonisolated(nonsending) public func receive(
    count: Int, timeout: Duration? = nil
  ) async throws -> sending [Element] {
    try await owner.channel.receive(count: count, timeout: timeout)
  }
}

extension ChannelReceiver where Element: ~Copyable {
  /// Takes the element that was sent first: `Channel.receive(timeout:onCancel:)`.
  ///
  /// - Throws: `ChannelClosed`, or what the channel was closed with; `CancellationError`; `TimeoutError`.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @inlinable
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func receive(timeout: Duration? = nil) throws -> sending Element {
    try owner.channel.receive(timeout: timeout)
  }

  /// Takes the element that was sent first, in `async` code: `Channel.receive(timeout:onCancel:)`.
  ///
  /// - Throws: `ChannelClosed`, or what the channel was closed with; `CancellationError`; `TimeoutError`.
  @inlinable
  nonisolated(nonsending) public func receive(timeout: Duration? = nil) async throws -> sending Element {
    try await owner.channel.receive(timeout: timeout)
  }

  /// Takes the element that was sent first, on a plain thread: `Channel.receiveBlocking(timeout:)`.
  ///
  /// - Throws: `ChannelClosed`, or what the channel was closed with; `TimeoutError`.
  /// - Precondition: not called inside a coroutine, whose whole thread it would block: traps otherwise.
  @inlinable
  @available(*, noasync, message: "use 'await receive()' in async code")
  public func receiveBlocking(
    timeout: Duration? = nil, file: StaticString = #fileID, line: UInt = #line
  ) throws -> sending Element {
    try owner.channel.receiveBlocking(timeout: timeout, file: file, line: line)
  }

  /// Takes the element that was sent first, if there is one, from everywhere: `Channel.tryReceive()`.
  @inlinable
  public func tryReceive() -> sending ReceiveResult<Element> { owner.channel.tryReceive() }

  /// What arrives, for `for … in` inside a coroutine: `Channel.received`.
  @available(*, noasync, message: "use 'for await element in receiver' in async code")
  public var received: Elements { Elements(receiver: self) }

  /// Lets no more elements in: `Channel.close(throwing:)`.
  @discardableResult
  public func close(throwing error: (any Error)? = nil) -> Bool { owner.channel.close(throwing: error) }

  /// Whether the channel was closed: by an end, or because all senders are gone. There may still be something in the
  /// buffer.
  public var isClosed: Bool { owner.channel.isClosed }

  /// Calls `handler` when the channel is closed: `Channel.whenClosed(_:)`. By this a receiver learns the error of a close
  /// also where a loop just ends.
  public func whenClosed(_ handler: @escaping @Sendable (_ error: (any Error)?) -> Void) {
    owner.channel.whenClosed(handler)
  }

  /// How many wait to receive: `Channel.waitingReceiverCount`.
  public var waitingReceiverCount: Int { owner.channel.waitingReceiverCount }

  /// How many wait to send: `Channel.waitingSenderCount`.
  public var waitingSenderCount: Int { owner.channel.waitingSenderCount }

  /// The channel's name; empty without one.
  public var name: String { owner.channel.name }

  /// How many elements it keeps for receivers that have not come yet.
  public var capacity: ChannelCapacity { owner.channel.capacity }

  /// How many elements are in the buffer: `Channel.count`.
  public var count: Int { owner.channel.count }

  /// Whether none are in the buffer: `Channel.isEmpty`.
  public var isEmpty: Bool { owner.channel.isEmpty }

  /// The synchronous view of a receiver: `ChannelReceiver.received`. Holds it as long as the loop runs.
  public struct Elements: Sendable {
    @usableFromInline let receiver: ChannelReceiver

    @usableFromInline
    init(receiver: ChannelReceiver) {
      self.receiver = receiver
    }

    /// The next element; `nil` once the channel is closed and empty, and when the caller is cancelled.
    ///
    /// - Precondition: called inside a coroutine: traps elsewhere.
    @inlinable
    @available(*, noasync, message: "use 'receive()' here")
    public func next() -> sending Element? { receiver.owner.channel.received.next() }
  }
}

extension ChannelReceiver.Elements: Sequence, IteratorProtocol where Element: Copyable {}

/// What arrives, for `async` code, as of a `Channel`.
extension ChannelReceiver: AsyncSequence where Element: Copyable {
  public struct AsyncIterator: AsyncIteratorProtocol {
    /// Held as long as the loop runs.
    let receiver: ChannelReceiver
    var iterator: Channel<Element>.AsyncIterator

    /// The next element; `nil` once the channel is closed and empty, and when the task is cancelled.
    nonisolated(nonsending) public mutating func next() async -> sending Element? {
      await next(isolation: #isolation)
    }

    /// The next element; `nil` once the channel is closed and empty, and when the task is cancelled.
    public mutating func next(isolation actor: isolated (any Actor)?) async -> sending Element? {
      await iterator.next(isolation: actor)
    }
  }

  public func makeAsyncIterator() -> AsyncIterator {
    AsyncIterator(receiver: self, iterator: owner.channel.makeAsyncIterator())
  }

  /// `received`, by the name that any asynchronous sequence has in a coroutine: `Channel.elements`.
  @available(*, noasync, message: "use 'for await element in receiver' in async code")
  public var elements: Elements { received }
}

// MARK: - As values

extension ChannelSender: CustomStringConvertible where Element: ~Copyable {
  /// That of its channel.
  public var description: String { "a sender of \(owner.channel)" }
}

extension ChannelReceiver: CustomStringConvertible where Element: ~Copyable {
  /// That of its channel.
  public var description: String { "a receiver of \(owner.channel)" }
}
