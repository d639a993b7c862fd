// SPDX-License-Identifier: Apache-2.0

// The forms for `async` code: the same names and meanings.

extension Channel where Element: Sendable {
  /// Sends an element; suspends the calling task until a receiver takes it, or there is room in the buffer.
  ///
  /// - Parameters:
  ///   - element: what is sent.
  ///   - timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  /// - Throws: `ChannelClosed`, with the element in it, if the channel is closed before the element was taken;
  ///   `CancellationError` if the task is cancelled before that; `TimeoutError` if time is up before that. In none of
  ///   these cases has a receiver got it, nor will one get it.
  @inlinable
  nonisolated(nonsending) public func send(_ element: Element, timeout: Duration? = nil) async throws {
    try await send(element, timeout: timeout, onCancel: {})
  }

  /// Sends `element`; if the caller is cancelled, calls `onCancel` first. Otherwise as `send(_:timeout:)`.
  ///
  /// - Parameters:
  ///   - element: what is sent.
  ///   - timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  ///   - onCancel: runs in the calling task, before the error is thrown, if it was cancelled: the element was not sent.
  /// - Throws: as `send(_:timeout:)`.
  @inlinable
  nonisolated(nonsending) public func send(
    _ element: Element, timeout: Duration? = nil, onCancel: () -> Void
  ) async throws {
    var unsent: Element? = element
    let cause = await storage.send(&unsent, until: WaitDeadline.after(timeout))
    if cause == .event, unsent == nil { return }
    try storage.fail(cause, unsent, timeout, onCancel)
  }
}

extension Channel where Element: ~Copyable {
  /// Sends an element, or gives it back: `send(_:)` for elements that can't be copied, or are not `Sendable`.
  ///
  /// Suspends the calling task until a receiver takes the element, or there is room in the buffer.
  ///
  /// - Parameters:
  ///   - element: what is sent.
  ///   - timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  @inlinable
  nonisolated(nonsending) public func send(
    orReturn element: consuming sending Element, timeout: Duration? = nil
  ) async -> sending SendOutcome<Element> {
    var unsent: Element? = consume element
    let cause = await storage.send(&unsent, until: WaitDeadline.after(timeout))
    return storage.outcome(cause, unsent)
  }

  /// Takes the element that was sent first; suspends the calling task until there is one.
  ///
  /// - Parameters:
  ///   - timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  ///   - onCancel: runs in the calling task, before the error is thrown, if it was cancelled.
  /// - Throws: `ChannelClosed`, or what the channel was closed with, if it is closed and everything that was sent has been
  ///   received; `CancellationError` if the task is cancelled; `TimeoutError` if time is up. In none of these cases has it
  ///   taken an element.
  @inlinable
  nonisolated(nonsending) public func receive(
    timeout: Duration? = nil, onCancel: () -> Void = {}
  ) async throws -> sending Element {
    var element: Element?
    let cause = await storage.receive(&element, until: WaitDeadline.after(timeout))
    guard let element = element.take() else { throw storage.failure(cause, timeout, onCancel) }
    return element
  }
}

/// What arrives, for `async` code.
///
/// ```swift
/// for await job in jobs { await job.run() }
/// ```
///
/// Ends when the channel is closed and empty. As with `AsyncStream`, it also ends when the task is cancelled, without
/// taking an element, and the next operation that may suspend throws. Several may be in use at once; each element goes to
/// one of them. Leaving the loop early leaves the rest in the channel.
extension Channel: AsyncSequence where Element: Copyable {
  public struct AsyncIterator: AsyncIteratorProtocol {
    @usableFromInline let storage: ChannelStorage<Element>

    @inlinable
    init(storage: ChannelStorage<Element>) {
      self.storage = storage
    }

    /// The next element; `nil` once the channel is closed and empty, and when the task is cancelled.
    @inlinable
    nonisolated(nonsending) public mutating func next() async -> sending Element? {
      await next(isolation: #isolation)
    }

    /// The next element; `nil` once the channel is closed and empty, and when the task is cancelled.
    @inlinable
    public mutating func next(isolation actor: isolated (any Actor)?) async -> sending Element? {
      var element: Element?
      _ = await storage.receive(&element, until: WaitDeadline.never)
      return element
    }
  }

  @inlinable
  public func makeAsyncIterator() -> AsyncIterator {
    AsyncIterator(storage: storage)
  }

  /// `received`, by the name that any asynchronous sequence has in a coroutine. (The general form would run a task.)
  @available(*, noasync, message: "use 'for await element in channel' in async code")
  public var elements: ReceivedElements<Element> { received }
}
