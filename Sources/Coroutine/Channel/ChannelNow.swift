// SPDX-License-Identifier: Apache-2.0

// The forms that never suspend: at once, or blocking a thread.

extension Channel where Element: ~Copyable {
  /// Sends an element if that can be done at once. Callable from everywhere: any thread, coroutine, task, callback; but not
  /// from a signal handler, since the code that it has interrupted may hold the channel's lock.
  ///
  /// ```swift
  /// switch events.trySend(event) {
  /// case .sent: break
  /// case .full(let event): dropped.append(event)
  /// case .closed: unsubscribe()
  /// }
  /// ```
  ///
  /// - Returns: `.sent` if a waiting receiver has got it, or the buffer had room; the element otherwise.
  @inlinable
  public func trySend(_ element: consuming sending Element) -> sending SendResult<Element> {
    var unsent: Element? = consume element
    let isClosed = storage.trySend(&unsent)
    guard let element = unsent.take() else { return .sent }
    return isClosed ? .closed(element) : .full(element)
  }

  /// Takes the element that was sent first, if there is one: from the buffer, or of a sender that waits. Callable from
  /// everywhere, as `trySend(_:)`.
  ///
  /// ```swift
  /// while case .received(let event) = events.tryReceive() { handle(event) }
  /// ```
  ///
  /// - Returns: the element; `.empty` if there is none yet, `.closed` if there will be none.
  @inlinable
  public func tryReceive() -> sending ReceiveResult<Element> {
    var element: Element?
    let isClosed = storage.tryReceive(&element)
    guard let element = element.take() else { return isClosed ? .closed : .empty }
    return .received(element)
  }

  /// Takes the element that was sent first; blocks the calling thread until there is one.
  ///
  /// For plain threads, such as `main`, but not for elements that coroutines on the main queue send: the main thread
  /// runs those. If they wait for it meanwhile, the standard error says so after a second or later, once, with `file` and
  /// `line`; with no other thread in the process, it traps.
  ///
  /// - Parameters:
  ///   - timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  ///   - file: the caller's, for messages.
  ///   - line: the caller's, for messages.
  /// - Throws: `ChannelClosed`, or what the channel was closed with, if everything that was sent has been received;
  ///   `TimeoutError` if time is up.
  /// - Precondition: not called inside a coroutine, whose whole thread it would block: traps otherwise.
  @inlinable
  @available(*, noasync, message: "use 'await receive()' in async code")
  public func receiveBlocking(
    timeout: Duration? = nil, file: StaticString = #fileID, line: UInt = #line
  ) throws -> sending Element {
    let call = BlockingCall("receiveBlocking(timeout:)", file, line)
    call.requireNoCoroutine(insteadUse: "receive()")
    var element: Element?
    let cause = storage.receiveBlocking(&element, until: WaitDeadline.after(timeout), at: call)
    guard let element = element.take() else { throw storage.failure(cause, timeout) }
    return element
  }
}

extension Channel where Element: Sendable {
  /// Sends an element; blocks the calling thread until a receiver takes it, or there is room in the buffer.
  ///
  /// For plain threads, such as `main`.
  ///
  /// - Parameters:
  ///   - element: what is sent.
  ///   - timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  ///   - file: the caller's, for messages.
  ///   - line: the caller's, for messages.
  /// - Throws: `ChannelClosed`, with the element in it, if the channel is closed before the element was taken;
  ///   `TimeoutError` if time is up before that. In neither case has a receiver got it, nor will one get it.
  /// - Precondition: not called inside a coroutine, whose whole thread it would block: traps otherwise.
  @inlinable
  @available(*, noasync, message: "use 'await send(_:)' in async code")
  public func sendBlocking(
    _ element: Element, timeout: Duration? = nil, file: StaticString = #fileID, line: UInt = #line
  ) throws {
    let call = BlockingCall("sendBlocking(_:timeout:)", file, line)
    call.requireNoCoroutine(insteadUse: "send(_:)")
    var unsent: Element? = element
    let cause = storage.sendBlocking(&unsent, until: WaitDeadline.after(timeout), at: call)
    if cause == .event, unsent == nil { return }
    try storage.fail(cause, unsent, timeout)
  }
}

extension Channel where Element: ~Copyable {
  /// Sends an element, or gives it back: `sendBlocking(_:)` for elements that can't be copied, or are not `Sendable`.
  ///
  /// - Parameters:
  ///   - element: what is sent.
  ///   - timeout: how long to wait at most; zero or less: does not wait; `nil`: without a limit.
  ///   - file: the caller's, for messages.
  ///   - line: the caller's, for messages.
  /// - Precondition: not called inside a coroutine, whose whole thread it would block: traps otherwise.
  @inlinable
  @available(*, noasync, message: "use 'await send(orReturn:)' in async code")
  public func sendBlocking(
    orReturn element: consuming sending Element, timeout: Duration? = nil, file: StaticString = #fileID,
    line: UInt = #line
  ) -> sending SendOutcome<Element> {
    let call = BlockingCall("sendBlocking(orReturn:timeout:)", file, line)
    call.requireNoCoroutine(insteadUse: "send(orReturn:)")
    var unsent: Element? = consume element
    let cause = storage.sendBlocking(&unsent, until: WaitDeadline.after(timeout), at: call)
    return storage.outcome(cause, unsent)
  }
}
