// SPDX-License-Identifier: Apache-2.0

// Channels' operations with a deadline by a clock: selects of two cases, of which the channel's is looked at first. So
// what can be done at once is done, whatever the clock says. Here, and not beside the others, since they are selects.

extension Channel where Element: Sendable {
  /// Takes the element that was sent first; suspends the calling coroutine until there is one, or until an instant of a clock.
  ///
  /// - Parameters:
  ///   - instant: one that has passed: takes what is there at once.
  ///   - clock: whose time it is.
  /// - Throws: as `receive(timeout:onCancel:)`; `TimeoutError` at that instant.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func receive<C: Clock>(until instant: C.Instant, clock: C) throws -> Element where C.Duration == Duration {
    try selectBiased {
      onReceive { $0 }
      onTimeout(until: instant, clock: clock) { throw TimeoutError() }
    }
  }

  /// Takes the element that was sent first; suspends the calling task until there is one, or until an instant of a clock.
  ///
  /// - Parameters:
  ///   - instant: one that has passed: takes what is there at once.
  ///   - clock: whose time it is.
  /// - Throws: as `receive(timeout:onCancel:)`; `TimeoutError` at that instant.
  nonisolated(nonsending) public func receive<C: Clock>(
    until instant: C.Instant, clock: C
  ) async throws -> Element where C.Duration == Duration {
    try await selectBiased {
      onReceive { $0 }
      onTimeout(until: instant, clock: clock) { throw TimeoutError() }
    }
  }

  /// Sends an element; suspends the calling coroutine until a receiver takes it, or there is room in the buffer, or until an
  /// instant of a clock.
  ///
  /// - Parameters:
  ///   - element: what is sent.
  ///   - instant: one that has passed: sends if that can be done at once.
  ///   - clock: whose time it is.
  /// - Throws: as `send(_:timeout:)`; `TimeoutError` at that instant.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func send<C: Clock>(
    _ element: Element, until instant: C.Instant, clock: C
  ) throws where C.Duration == Duration {
    try selectBiased {
      onSend(element)
      onTimeout(until: instant, clock: clock) { throw TimeoutError() }
    }
  }

  /// Sends an element; suspends the calling task until a receiver takes it, or there is room in the buffer, or until an
  /// instant of a clock.
  ///
  /// - Parameters:
  ///   - element: what is sent.
  ///   - instant: one that has passed: sends if that can be done at once.
  ///   - clock: whose time it is.
  /// - Throws: as `send(_:timeout:)`; `TimeoutError` at that instant.
  nonisolated(nonsending) public func send<C: Clock>(
    _ element: Element, until instant: C.Instant, clock: C
  ) async throws where C.Duration == Duration {
    try await selectBiased {
      onSend(element)
      onTimeout(until: instant, clock: clock) { throw TimeoutError() }
    }
  }
}

extension ChannelReceiver where Element: Sendable {
  /// Takes the element that was sent first: `Channel.receive(until:clock:)`, which says what it throws.
  ///
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func receive<C: Clock>(until instant: C.Instant, clock: C) throws -> Element where C.Duration == Duration {
    try withExtendedLifetime(owner) { try owner.channel.receive(until: instant, clock: clock) }
  }

  /// Takes the element that was sent first, in `async` code: `Channel.receive(until:clock:)`.
  nonisolated(nonsending) public func receive<C: Clock>(
    until instant: C.Instant, clock: C
  ) async throws -> Element where C.Duration == Duration {
    defer { withExtendedLifetime(owner) {} }
    return try await owner.channel.receive(until: instant, clock: clock)
  }
}

extension ChannelSender where Element: Sendable {
  /// Sends an element: `Channel.send(_:until:clock:)`, which says what it throws.
  ///
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
  public func send<C: Clock>(
    _ element: Element, until instant: C.Instant, clock: C
  ) throws where C.Duration == Duration {
    try withExtendedLifetime(owner) { try owner.channel.send(element, until: instant, clock: clock) }
  }

  /// Sends an element, in `async` code: `Channel.send(_:until:clock:)`.
  nonisolated(nonsending) public func send<C: Clock>(
    _ element: Element, until instant: C.Instant, clock: C
  ) async throws where C.Duration == Duration {
    defer { withExtendedLifetime(owner) {} }
    try await owner.channel.send(element, until: instant, clock: clock)
  }
}
