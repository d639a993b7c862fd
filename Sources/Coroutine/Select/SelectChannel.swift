// SPDX-License-Identifier: Apache-2.0

// MARK: - Receiving

extension Channel {
  /// A case of a `select`: receives, if there is an element before another case is chosen.
  ///
  /// On a closed channel that has been emptied it is ready: `select` throws `ChannelClosed`, or what it was closed with, if
  /// it is chosen. Where the end is nothing special, see `onNext(_:)`.
  ///
  /// - Parameter handler: gets the element if this case is chosen. Runs after that, on the calling coroutine, without a
  ///   lock; may suspend and throw.
  @inlinable @inline(__always)
  public func onReceive<Output>(
    _ handler: @escaping (Element) throws -> Output
  ) -> Select.Case<Select.Receive<Element>, Output> {
    Select.Case(self, handler)
  }

  /// A case of a `select` in `async` code: receives, if there is an element before another case is chosen.
  ///
  /// On a closed channel that has been emptied it is ready: `select` throws `ChannelClosed`, or what it was closed with, if
  /// it is chosen. Where the end is nothing special, see `onNext(_:)`.
  ///
  /// - Parameter handler: gets the element if this case is chosen. Runs after that, where the caller runs.
  @inlinable
  public func onReceive<Output>(
    _ handler: nonisolated(nonsending) @escaping (Element) async throws -> Output
  ) -> Select.AsyncCase<Select.Receive<Element>, Output> {
    Select.AsyncCase(self, handler)
  }

  /// A case of a `select`: receives, and takes the channel's end for an event like others.
  ///
  /// - Parameter handler: gets the element, or `nil` once the channel is closed and empty: from then on this case is always
  ///   ready. Runs after the choice, on the calling coroutine, without a lock; may suspend and throw.
  @inlinable @inline(__always)
  public func onNext<Output>(
    _ handler: @escaping (Element?) throws -> Output
  ) -> Select.Case<Select.Next<Element>, Output> {
    Select.Case(self, handler)
  }

  /// A case of a `select` in `async` code: receives, and takes the channel's end for an event like others.
  ///
  /// - Parameter handler: gets the element, or `nil` once the channel is closed and empty: from then on this case is always
  ///   ready. Runs after the choice, where the caller runs.
  @inlinable
  public func onNext<Output>(
    _ handler: nonisolated(nonsending) @escaping (Element?) async throws -> Output
  ) -> Select.AsyncCase<Select.Next<Element>, Output> {
    Select.AsyncCase(self, handler)
  }
}

extension Select {
  /// What a receive case waits for: an element, or `nil` at the end.
  public struct Next<Element>: SelectOperation {
    @usableFromInline let channel: Unmanaged<ChannelStorage<Element>>

    @inlinable @inline(__always)
    public init(_ source: Channel<Element>) { channel = .passUnretained(source.storage) }

    @inlinable @inline(__always)
    public var layout: Layout { Layout(of: ChannelNode<Element>.self) }

    @inlinable @inline(__always)
    public var target: Target { Target(.waitable(.fromOpaque(channel.toOpaque()), .receive)) }

    @inlinable @inline(__always)
    public func attempt(_ node: UnsafeMutableRawPointer, for party: Party) -> Attempt {
      var element: Element?
      let result: Coroutine::Attempt
      switch channel._withUnsafeGuaranteedRef({ $0.machine.receiveNow(&element) }) {
      case .empty: return Attempt(.wait)
      case .received, .closed: result = .done
      case .admitted(let sender): result = .wake(sender)
      }
      _ = ChannelNode.initialize(node, for: party, element: element)
      return Attempt(result)
    }

    @inlinable
    public func enqueue(_ node: UnsafeMutableRawPointer, for party: Party) {
      let node = ChannelNode<Element>.initialize(node, for: party, element: nil)
      channel._withUnsafeGuaranteedRef { $0.machine.enqueueReceiver(node) }
    }

    @inlinable
    public func dequeue(_ node: UnsafeMutableRawPointer) -> Attempt {
      Attempt(channel._withUnsafeGuaranteedRef { $0.machine.withdrawReceiver(ChannelNode.at(node)) })
    }

    @inlinable
    public func discard(_ node: UnsafeMutableRawPointer) { ChannelNode<Element>.at(node).deinitialize(count: 1) }

    @inlinable @inline(__always)
    public func take(_ node: UnsafeMutableRawPointer) -> Element? {
      ChannelNode<Element>.takeElement(node)
    }

    /// Why there is no element.
    @inlinable @inline(never)
    var endingError: any Error { channel._withUnsafeGuaranteedRef { $0.closingError } ?? ChannelClosed<Element>() }
  }

  /// What a receive case waits for that must get an element.
  public struct Receive<Element>: SelectOperation {
    @usableFromInline let next: Next<Element>

    @inlinable @inline(__always)
    public init(_ source: Channel<Element>) { next = Next(source) }

    @inlinable @inline(__always)
    public var layout: Layout { next.layout }

    @inlinable @inline(__always)
    public var target: Target { next.target }

    @inlinable @inline(__always)
    public func attempt(_ node: UnsafeMutableRawPointer, for party: Party) -> Attempt {
      next.attempt(node, for: party)
    }

    @inlinable
    public func enqueue(_ node: UnsafeMutableRawPointer, for party: Party) {
      next.enqueue(node, for: party)
    }

    @inlinable
    public func dequeue(_ node: UnsafeMutableRawPointer) -> Attempt { next.dequeue(node) }

    @inlinable
    public func discard(_ node: UnsafeMutableRawPointer) { next.discard(node) }

    @inlinable @inline(__always)
    public func take(_ node: UnsafeMutableRawPointer) throws -> Element {
      guard let element = next.take(node) else { throw next.endingError }
      return element
    }
  }
}

// MARK: - Sending

extension Channel where Element: Sendable {
  /// A case of a `select`: sends, if a receiver takes the element before another case is chosen. Otherwise the caller
  /// still has the element.
  ///
  /// On a closed channel it is ready: `select` throws `ChannelClosed`, with the element in it, if it is chosen.
  ///
  /// - Parameters:
  ///   - element: what to send. Evaluated before anything is chosen.
  ///   - handler: runs once the element was sent, on the calling coroutine, without a lock; may suspend and throw.
  @inlinable @inline(__always)
  public func onSend<Output>(
    _ element: Element, _ handler: @escaping () throws -> Output = {}
  ) -> Select.Case<Select.Send<Element>, Output> {
    Select.Case((self, element)) { _ in try handler() }
  }

  /// A case of a `select` in `async` code: sends, if a receiver takes the element before another case is chosen.
  /// Otherwise the caller still has the element.
  ///
  /// On a closed channel it is ready: `select` throws `ChannelClosed`, with the element in it, if it is chosen.
  ///
  /// - Parameters:
  ///   - element: what to send. Evaluated before anything is chosen.
  ///   - handler: runs once the element was sent, where the caller runs.
  @inlinable
  public func onSend<Output>(
    _ element: Element, _ handler: nonisolated(nonsending) @escaping () async throws -> Output = {}
  ) -> Select.AsyncCase<Select.Send<Element>, Output> {
    Select.AsyncCase((self, element)) { _ in try await handler() }
  }
}

extension Select {
  /// What a send case waits for.
  public struct Send<Element: Sendable>: SelectOperation {
    @usableFromInline let channel: Unmanaged<ChannelStorage<Element>>
    @usableFromInline let element: Element

    @inlinable @inline(__always)
    public init(_ source: (channel: Channel<Element>, element: Element)) {
      channel = .passUnretained(source.channel.storage)
      element = source.element
    }

    @inlinable @inline(__always)
    public var layout: Layout { Layout(of: ChannelNode<Element>.self) }

    @inlinable @inline(__always)
    public var target: Target { Target(.waitable(.fromOpaque(channel.toOpaque()), .send)) }

    @inlinable @inline(__always)
    public func attempt(_ node: UnsafeMutableRawPointer, for party: Party) -> Attempt {
      // A copy: the reference that is released under the lock, if one is, is never the last one.
      let node = ChannelNode<Element>.initialize(node, for: party, element: element)
      switch channel._withUnsafeGuaranteedRef({ $0.machine.sendNow(&node.pointee.element) }) {
      case .full:
        node.deinitialize(count: 1)
        return Attempt(.wait)
      case .buffered, .closed: return Attempt(.done)
      case .handed(let receiver): return Attempt(.wake(receiver))
      case .replaced:
        node.pointee.replaced = node.pointee.element.take()
        return Attempt(.done)
      }
    }

    @inlinable
    public func enqueue(_ node: UnsafeMutableRawPointer, for party: Party) {
      let node = ChannelNode.initialize(node, for: party, element: element)
      channel._withUnsafeGuaranteedRef { $0.machine.enqueueSender(node) }
    }

    @inlinable
    public func dequeue(_ node: UnsafeMutableRawPointer) -> Attempt {
      Attempt(channel._withUnsafeGuaranteedRef { $0.machine.withdrawSender(ChannelNode.at(node)) })
    }

    @inlinable
    public func discard(_ node: UnsafeMutableRawPointer) { ChannelNode<Element>.at(node).deinitialize(count: 1) }

    @inlinable @inline(__always)
    public func take(_ node: UnsafeMutableRawPointer) throws {
      if let unsent = ChannelNode<Element>.takeElement(node) { throw ChannelClosed(unsent: unsent) }
    }
  }
}

/// A channel's node, from and to raw memory.
extension ChannelNode {
  @inlinable @inline(__always)
  static func initialize(
    _ node: UnsafeMutableRawPointer, for party: Select.Party, element: consuming Element?
  ) -> UnsafeMutablePointer<ChannelNode> {
    node.initializeMemory(
      as: ChannelNode.self, to: ChannelNode(party.waiter, element: element, cause: party.cause))
  }

  @inlinable @inline(__always)
  static func at(_ node: UnsafeMutableRawPointer) -> UnsafeMutablePointer<ChannelNode> {
    node.assumingMemoryBound(to: ChannelNode.self)
  }

  /// What is in the node, which is destroyed. (Not by `move()`: Swift 6.3's optimizer crashes on its result.)
  @inlinable @inline(__always)
  static func takeElement(_ node: UnsafeMutableRawPointer) -> Element? {
    let node = at(node)
    let element = node.pointee.element.take()
    node.deinitialize(count: 1)
    return element
  }
}
