// SPDX-License-Identifier: Apache-2.0

// The cases of a channel's ends: those of the channel. Each handler holds its end as long as the select waits.

extension ChannelReceiver {
  /// A case of a `select`: `Channel.onReceive(_:)`.
  @inlinable @inline(__always)
  public func onReceive<Output>(
    _ handler: @escaping (Element) throws -> Output
  ) -> Select.Case<Select.Receive<Element>, Output> {
    Select.Case(owner.channel) { element in try withExtendedLifetime(owner) { try handler(element) } }
  }

  /// A case of a `select` in `async` code: `Channel.onReceive(_:)`.
  @inlinable
  public func onReceive<Output>(
    _ handler: nonisolated(nonsending) @escaping (Element) async throws -> Output
  ) -> Select.AsyncCase<Select.Receive<Element>, Output> {
    Select.AsyncCase(owner.channel) { element in
      defer { withExtendedLifetime(owner) {} }
      return try await handler(element)
    }
  }

  /// A case of a `select`: `Channel.onNext(_:)`.
  @inlinable @inline(__always)
  public func onNext<Output>(
    _ handler: @escaping (Element?) throws -> Output
  ) -> Select.Case<Select.Next<Element>, Output> {
    Select.Case(owner.channel) { element in try withExtendedLifetime(owner) { try handler(element) } }
  }

  /// A case of a `select` in `async` code: `Channel.onNext(_:)`.
  @inlinable
  public func onNext<Output>(
    _ handler: nonisolated(nonsending) @escaping (Element?) async throws -> Output
  ) -> Select.AsyncCase<Select.Next<Element>, Output> {
    Select.AsyncCase(owner.channel) { element in
      defer { withExtendedLifetime(owner) {} }
      return try await handler(element)
    }
  }
}

extension ChannelSender where Element: Sendable {
  /// A case of a `select`: `Channel.onSend(_:_:)`.
  @inlinable @inline(__always)
  public func onSend<Output>(
    _ element: Element, _ handler: @escaping () throws -> Output = {}
  ) -> Select.Case<Select.Send<Element>, Output> {
    Select.Case((owner.channel, element)) { _ in try withExtendedLifetime(owner) { try handler() } }
  }

  /// A case of a `select` in `async` code: `Channel.onSend(_:_:)`.
  @inlinable
  public func onSend<Output>(
    _ element: Element, _ handler: nonisolated(nonsending) @escaping () async throws -> Output = {}
  ) -> Select.AsyncCase<Select.Send<Element>, Output> {
    Select.AsyncCase((owner.channel, element)) { _ in
      defer { withExtendedLifetime(owner) {} }
      return try await handler()
    }
  }
}
