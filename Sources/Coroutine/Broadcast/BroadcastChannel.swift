// SPDX-License-Identifier: Apache-2.0

/// A channel with many receivers, each of which gets every element: Kotlin's `SharedFlow`, tokio's `broadcast`.
///
/// ```swift
/// let prices = BroadcastChannel<Price>(capacity: 64, onOverflow: .dropOldest, name: "prices")
/// for client in clients {
///   let updates = prices.subscribe()
///   Coroutine { for price in updates.received { try client.send(price) } }
/// }
/// Coroutine { for price in feed.received { try prices.send(price) } }
/// ```
///
/// - **Receivers.** Each calls `subscribe()`, and gets the last `replay` elements and then all that are sent from then
///   on. Elements that are sent while there is no subscription are lost, except for the replay.
/// - **Slow ones.** A receiver may be `capacity` elements behind. Then the sender waits for it, or, with `.dropOldest`,
///   it misses the oldest of those, and learns how many (`BroadcastSubscription.missedCount`): a receiver that does not
///   keep up holds up no other one.
/// - **The end.** `close()` lets no more elements in; what was sent is still received.
///
/// Elements are shared by the receivers, and so they are `Sendable`. Sending takes time proportional to the number of
/// subscriptions, receiving constant time. Copies are the same channel. A subscription keeps it alive, not the other
/// way round.
public struct BroadcastChannel<Element: Sendable>: Sendable {
  let storage: BroadcastStorage<Element>

  /// What happens when an element is sent while the slowest receiver is `capacity` elements behind.
  public enum Overflow: Sendable {
    /// The sender waits for it.
    case suspendSender
    /// It misses the oldest element that it has not received.
    case dropOldest
  }

  /// An open channel.
  ///
  /// - Parameters:
  ///   - capacity: how many elements a receiver may be behind. At least 1: traps otherwise.
  ///   - replay: how many of the last elements a new subscription gets. Not negative, nor more than `capacity`: traps
  ///     otherwise.
  ///   - overflow: what happens when a receiver is that far behind.
  ///   - name: for backtraces and messages.
  public init(
    capacity: Int = 16, replay: Int = 0, onOverflow overflow: Overflow = .suspendSender, name: String = ""
  ) {
    require(capacity > 0, "a broadcast can't have a capacity of \(capacity): give it 1 or more")
    require(
      0...capacity ~= replay,
      "a broadcast can't replay \(replay) elements with a capacity of \(capacity): no more than that")
    let machine = BroadcastStateMachine<Element>(
      limit: capacity, replay: replay, dropsOldest: overflow == .dropOldest)
    storage = BroadcastStorage(machine, name: name, isValue: false)
  }

  /// The name it was given; empty without one.
  public var name: String { storage.name }

  /// How many subscriptions there are, at this moment. From any thread.
  public var subscriptionCount: Int { storage.readerCount }

  /// Whether it was closed.
  public var isClosed: Bool { storage.isClosed }

  /// One more receiver: of the last `replay` elements, and of all that is sent from now on. From any thread.
  ///
  /// As long as it is held and not received from, it is a slow receiver.
  public func subscribe() -> BroadcastSubscription<Element> { BroadcastSubscription(of: storage) }

  /// Sends an element to all; suspends the calling coroutine as long as a receiver is too far behind.
  ///
  /// - Parameters:
  ///   - element: what is sent.
  ///   - timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Throws: `ChannelClosed`, with the element in it, if it is closed before the element was sent; `CancellationError`,
  ///   `TimeoutError` if the caller is cancelled or time is up before that. Then no receiver has got it.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func send(_ element: Element, timeout: Duration? = nil) throws {
    var unsent: Element? = element
    try check(storage.send(&unsent, until: WaitDeadline.after(timeout)), unsent, timeout)
  }

  /// Sends an element to all, in `async` code; suspends the calling task as long as a receiver is too far behind.
  ///
  /// - Parameters:
  ///   - element: what is sent.
  ///   - timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Throws: `ChannelClosed`, with the element in it, if it is closed before the element was sent; `CancellationError`,
  ///   `TimeoutError` if the task is cancelled or time is up before that. Then no receiver has got it.
  nonisolated(nonsending) public func send(_ element: Element, timeout: Duration? = nil) async throws {
    var unsent: Element? = element
    try check(await storage.send(&unsent, until: WaitDeadline.after(timeout)), unsent, timeout)
  }

  private func check(_ cause: WakeCause, _ unsent: Element?, _ timeout: Duration?) throws {
    guard cause != .event || unsent != nil else { return }
    if cause == .event, let unsent { throw ChannelClosed(unsent: unsent) }
    throw storage.failure(cause, timeout)
  }

  /// Sends an element to all if no receiver is too far behind. Callable from everywhere, as `Channel.trySend(_:)`.
  public func trySend(_ element: Element) -> SendResult<Element> {
    switch storage.sendNow(element) {
    case .sent: .sent
    case .closed: .closed(element)
    case .full: .full(element)
    }
  }

  /// Lets no more elements in. Elements that were sent are still received; after that receivers learn that no more will
  /// come. Waiting senders get their elements back. Callable from any thread, any number of times.
  ///
  /// - Parameter error: what `receive()` throws then in place of `ChannelClosed`; loops just end. The first call counts.
  /// - Returns: whether this call closed it.
  @discardableResult
  public func close(throwing error: (any Error)? = nil) -> Bool { storage.close(throwing: error) }
}

extension BroadcastChannel: CustomStringConvertible {
  /// The name it was given, how far the slowest receiver is behind, how many there are: true at one moment during the call.
  public var description: String { storage.description }
}
