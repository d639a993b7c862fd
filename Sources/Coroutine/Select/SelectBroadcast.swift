// SPDX-License-Identifier: Apache-2.0

extension BroadcastChannel {
  /// A case of a `select`: sends an element to all, if no receiver is too far behind before another case is chosen. Otherwise
  /// the caller still has the element, and no receiver gets it.
  ///
  /// On a closed channel it is ready: `select` throws `ChannelClosed`, with the element in it, if it is chosen.
  ///
  /// - Parameters:
  ///   - element: what to send. Evaluated before anything is chosen.
  ///   - handler: runs once the element was sent, on the calling coroutine; may suspend and throw.
  public func onSend<Output>(
    _ element: Element, _ handler: @escaping () throws -> Output = {}
  ) -> Select.Case<Select.BroadcastSend<Element>, Output> {
    Select.Case((self, element)) { _ in try handler() }
  }

  /// A case of a `select` in `async` code: sends an element to all, if no receiver is too far behind before another case is
  /// chosen. Otherwise the caller still has the element, and no receiver gets it.
  ///
  /// On a closed channel it is ready: `select` throws `ChannelClosed`, with the element in it, if it is chosen.
  ///
  /// - Parameters:
  ///   - element: what to send. Evaluated before anything is chosen.
  ///   - handler: runs once the element was sent, where the caller runs.
  public func onSend<Output>(
    _ element: Element, _ handler: nonisolated(nonsending) @escaping () async throws -> Output = {}
  ) -> Select.AsyncCase<Select.BroadcastSend<Element>, Output> {
    Select.AsyncCase((self, element)) { _ in try await handler() }
  }
}

extension BroadcastSubscription {
  /// A case of a `select`: receives, if there is an element before another case is chosen.
  ///
  /// When it is closed and all was received it is ready: `select` throws `ChannelClosed`, or what it was closed with, if it
  /// is chosen. Where the end is nothing special, see `onNext(_:)`.
  ///
  /// - Parameter handler: gets the element. Runs after the choice, on the calling coroutine; may suspend and throw.
  public func onReceive<Output>(
    _ handler: @escaping (Element) throws -> Output
  ) -> Select.Case<Select.BroadcastNext<Element>, Output> {
    onNext { [owner] element in
      guard let element else { throw owner.storage.failure(.event, nil) }
      return try handler(element)
    }
  }

  /// A case of a `select` in `async` code: receives, if there is an element before another case is chosen.
  ///
  /// When it is closed and all was received it is ready: `select` throws `ChannelClosed`, or what it was closed with, if it
  /// is chosen. Where the end is nothing special, see `onNext(_:)`.
  ///
  /// - Parameter handler: gets the element. Runs after the choice, where the caller runs.
  public func onReceive<Output>(
    _ handler: nonisolated(nonsending) @escaping (Element) async throws -> Output
  ) -> Select.AsyncCase<Select.BroadcastNext<Element>, Output> {
    // Without a capture list: see the async `CoroutineMutex.onLock`.
    onNext { element in
      guard let element else { throw owner.storage.failure(.event, nil) }
      return try await handler(element)
    }
  }

  /// A case of a `select`: receives, and takes the end for an event like others.
  ///
  /// - Parameter handler: gets the element, or `nil` once it is closed and all was received: from then on this case is
  ///   always ready. Runs after the choice, on the calling coroutine; may suspend and throw.
  public func onNext<Output>(
    _ handler: @escaping (Element?) throws -> Output
  ) -> Select.Case<Select.BroadcastNext<Element>, Output> {
    Select.Case(self, handler)
  }

  /// A case of a `select` in `async` code: receives, and takes the end for an event like others.
  ///
  /// - Parameter handler: gets the element, or `nil` once it is closed and all was received: from then on this case is
  ///   always ready. Runs after the choice, where the caller runs.
  public func onNext<Output>(
    _ handler: nonisolated(nonsending) @escaping (Element?) async throws -> Output
  ) -> Select.AsyncCase<Select.BroadcastNext<Element>, Output> {
    Select.AsyncCase(self, handler)
  }
}

extension Select {
  /// What a case waits for that receives from a subscription: an element, or `nil` at the end.
  public struct BroadcastNext<Element: Sendable>: SelectOperation {
    private typealias Node = BroadcastNode<Element>

    private let storage: Unmanaged<BroadcastStorage<Element>>
    private let reader: Unmanaged<BroadcastReader<Element>>

    public init(_ source: BroadcastSubscription<Element>) {
      storage = .passUnretained(source.owner.storage)
      reader = .passUnretained(source.owner.reader)
    }

    public var layout: Layout { Layout(of: Node.self) }

    public var target: Target { Target(.waitable(.fromOpaque(storage.toOpaque()), .receive)) }

    public func attempt(_ node: UnsafeMutableRawPointer, for party: Party) -> Attempt {
      let node = initialize(node, for: party)
      let attempt = reader._withUnsafeGuaranteedRef { reader in
        storage._withUnsafeGuaranteedRef { $0.attempt(node, for: reader) }
      }
      // Nothing is in it: that it goes under the lock runs no code.
      if case .wait = attempt { node.deinitialize(count: 1) }
      return Attempt(attempt)
    }

    public func enqueue(_ node: UnsafeMutableRawPointer, for party: Party) {
      let node = initialize(node, for: party)
      reader._withUnsafeGuaranteedRef { reader in
        storage._withUnsafeGuaranteedRef { $0.enqueue(node, for: reader) }
      }
    }

    public func dequeue(_ node: UnsafeMutableRawPointer) -> Attempt {
      reader._withUnsafeGuaranteedRef { reader in
        storage._withUnsafeGuaranteedRef { $0.withdrawReceiver(node.assumingMemoryBound(to: Node.self), of: reader) }
      }
      return Attempt(.done)
    }

    public func discard(_ node: UnsafeMutableRawPointer) {
      node.assumingMemoryBound(to: Node.self).deinitialize(count: 1)
    }

    public func take(_ node: UnsafeMutableRawPointer) -> Element? {
      let node = node.assumingMemoryBound(to: Node.self)
      let element = node.pointee.element
      node.deinitialize(count: 1)
      return element
    }

    private func initialize(_ node: UnsafeMutableRawPointer, for party: Party) -> UnsafeMutablePointer<Node> {
      node.initializeMemory(as: Node.self, to: Node(party.waiter, element: nil, cause: party.cause))
    }
  }
}

extension Select {
  /// What a case waits for that sends to many.
  public struct BroadcastSend<Element: Sendable>: SelectOperation {
    private typealias Node = BroadcastNode<Element>

    private let storage: Unmanaged<BroadcastStorage<Element>>
    private let element: Element

    public init(_ source: (channel: BroadcastChannel<Element>, element: Element)) {
      storage = .passUnretained(source.channel.storage)
      element = source.element
    }

    public var layout: Layout { Layout(of: Node.self) }

    public var target: Target { Target(.waitable(.fromOpaque(storage.toOpaque()), .send)) }

    public func attempt(_ node: UnsafeMutableRawPointer, for party: Party) -> Attempt {
      let node = initialize(node, for: party)
      let attempt = storage._withUnsafeGuaranteedRef { $0.attemptToSend(node) }
      // A copy is in it: the reference that is released under the lock, if one is, is never the last one.
      if case .wait = attempt { node.deinitialize(count: 1) }
      return Attempt(attempt)
    }

    public func enqueue(_ node: UnsafeMutableRawPointer, for party: Party) {
      let node = initialize(node, for: party)
      storage._withUnsafeGuaranteedRef { $0.enqueueSender(node) }
    }

    public func dequeue(_ node: UnsafeMutableRawPointer) -> Attempt {
      storage._withUnsafeGuaranteedRef { $0.withdrawSender(node.assumingMemoryBound(to: Node.self)) }
      return Attempt(.done)
    }

    public func discard(_ node: UnsafeMutableRawPointer) {
      node.assumingMemoryBound(to: Node.self).deinitialize(count: 1)
    }

    public func take(_ node: UnsafeMutableRawPointer) throws {
      let node = node.assumingMemoryBound(to: Node.self)
      let unsent = node.pointee.element
      node.deinitialize(count: 1)
      if let unsent { throw ChannelClosed(unsent: unsent) }
    }

    private func initialize(_ node: UnsafeMutableRawPointer, for party: Party) -> UnsafeMutablePointer<Node> {
      node.initializeMemory(as: Node.self, to: Node(party.waiter, element: element, cause: party.cause))
    }
  }
}
