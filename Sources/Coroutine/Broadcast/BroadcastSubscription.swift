// SPDX-License-Identifier: Apache-2.0

/// One receiver of a broadcast, or of a watched value: `BroadcastChannel.subscribe()`, `WatchedValue.changes()`.
///
/// In a coroutine it is received from by `receive()` and by `for element in subscription.received`; in `async` code it
/// is an `AsyncSequence`; it is a case of a `select` too. It ends when the last copy of it is gone. Copies are the same
/// receiver: each element goes to one of the waiters at the copies.
public struct BroadcastSubscription<Element: Sendable>: Sendable {
  let owner: SubscriptionOwner<Element>

  init(of storage: BroadcastStorage<Element>) {
    owner = SubscriptionOwner(of: storage)
  }

  /// How many elements it has missed until now, because it was too slow: with `.dropOldest`. From any thread.
  public var missedCount: Int { owner.storage.missedCount(of: owner.reader) }

  /// How many elements wait for it, which `receive()` takes without waiting. It may have changed by the time the caller looks at
  /// it. From any thread.
  public var count: Int { owner.storage.count(of: owner.reader) }

  /// Whether no element waits for it.
  public var isEmpty: Bool { count == 0 }

  /// Whether what it has subscribed to is closed. Elements may still wait for it. From any thread.
  public var isClosed: Bool { owner.storage.isClosed }

  /// Takes the next element; suspends the calling coroutine until there is one.
  ///
  /// - Parameter timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Throws: `ChannelClosed`, or what it was closed with, if it is closed and all was received; `CancellationError`,
  ///   `TimeoutError` if the caller is cancelled or time is up. In none of these cases has it taken an element.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func receive(timeout: Duration? = nil) throws -> Element {
    var element: Element?
    let cause = owner.storage.receive(
      &element, for: owner.reader, until: WaitDeadline.after(timeout), "BroadcastSubscription.receive()")
    guard let element else { throw owner.storage.failure(cause, timeout) }
    return element
  }

  /// Takes the next element, in `async` code; suspends the calling task until there is one.
  ///
  /// - Parameter timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Throws: `ChannelClosed`, or what it was closed with, if it is closed and all was received; `CancellationError`,
  ///   `TimeoutError` if the task is cancelled or time is up. In none of these cases has it taken an element.
  nonisolated(nonsending) public func receive(timeout: Duration? = nil) async throws -> Element {
    var element: Element?
    let cause = await owner.storage.receive(&element, for: owner.reader, until: WaitDeadline.after(timeout))
    guard let element else { throw owner.storage.failure(cause, timeout) }
    return element
  }

  /// Takes the next element, if there is one. Callable from everywhere, as `Channel.tryReceive()`.
  public func tryReceive() -> ReceiveResult<Element> {
    switch owner.storage.tryReceive(for: owner.reader) {
    case .received(let element): .received(element)
    case .closed: .closed
    case .empty: .empty
    }
  }

  /// What arrives, for `for … in` inside a coroutine. Ends when it is closed and all was received, and when the caller is
  /// cancelled: the next operation that may suspend throws then.
  @available(*, noasync, message: "use 'for await element in subscription' in async code")
  public var received: Elements { Elements(subscription: self) }

  /// The synchronous view of a subscription: `BroadcastSubscription.received`.
  public struct Elements: Sequence, IteratorProtocol, Sendable {
    let subscription: BroadcastSubscription

    /// The next element; `nil` once it is closed and all was received, and when the caller is cancelled.
    ///
    /// - Precondition: called inside a coroutine: traps elsewhere.
    @available(*, noasync, message: "use 'receive()' here")
    public func next() -> Element? {
      var element: Element?
      _ = subscription.owner.storage.receive(
        &element, for: subscription.owner.reader, until: WaitDeadline.never, "BroadcastSubscription.received.next()")
      return element
    }
  }
}

/// What arrives, for `async` code. Ends when it is closed and all was received, and when the task is cancelled.
extension BroadcastSubscription: AsyncSequence {
  public struct AsyncIterator: AsyncIteratorProtocol {
    let subscription: BroadcastSubscription

    /// The next element; `nil` once it is closed and all was received, and when the task is cancelled.
    nonisolated(nonsending) public mutating func next() async -> Element? {
      await next(isolation: #isolation)
    }

    /// The next element; `nil` once it is closed and all was received, and when the task is cancelled.
    public mutating func next(isolation actor: isolated (any Actor)?) async -> Element? {
      var element: Element?
      let owner = subscription.owner
      _ = await owner.storage.receive(&element, for: owner.reader, until: WaitDeadline.never)
      return element
    }
  }

  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(subscription: self) }

  /// `received`, by the name that any asynchronous sequence has in a coroutine. (The general form would run a task.)
  @available(*, noasync, message: "use 'for await element in subscription' in async code")
  public var elements: Elements { received }
}

extension BroadcastSubscription: CustomStringConvertible {
  /// That of what it has subscribed to.
  public var description: String { "a subscription of \(owner.storage.description)" }
}

/// Takes a reader out of its broadcast when the last copy of its subscription is gone. A receiver that waits holds it.
final class SubscriptionOwner<Element: Sendable>: Sendable {
  let storage: BroadcastStorage<Element>
  let reader: BroadcastReader<Element>

  init(of storage: BroadcastStorage<Element>) {
    self.storage = storage
    reader = storage.subscribe()
  }

  deinit { storage.unsubscribe(reader) }
}
