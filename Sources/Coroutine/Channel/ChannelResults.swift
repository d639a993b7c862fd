// SPDX-License-Identifier: Apache-2.0

/// The outcome of a send that does not wait: `trySend(_:)`.
///
/// An element that was not sent comes back in it. As noncopyable as the element is.
public enum SendResult<Element: ~Copyable>: ~Copyable {
  /// A receiver has it, or it is in the buffer.
  case sent
  /// The channel is closed: no receiver will get it.
  case closed(Element)
  /// The buffer is full, or, for a rendezvous, no receiver waits: try again, or wait with `send(_:)`.
  case full(Element)

  /// Whether it was sent. For callers that have no use for the element otherwise.
  @inlinable
  public var isSent: Bool {
    switch self {
    case .sent: true
    case .closed: false
    case .full: false
    }
  }

  /// The element, if it was not sent.
  @inlinable
  public consuming func unsent() -> Element? {
    switch consume self {
    case .sent: nil
    case .closed(let element): element
    case .full(let element): element
    }
  }
}

extension SendResult: Copyable where Element: Copyable {}
extension SendResult: Sendable where Element: Sendable & ~Copyable {}
extension SendResult: Equatable where Element: Equatable {
  // Written out: what the compiler derives is not specialised in other modules.
  @inlinable
  public static func == (left: SendResult, right: SendResult) -> Bool {
    switch (left, right) {
    case (.sent, .sent): true
    case (.closed(let left), .closed(let right)): left == right
    case (.full(let left), .full(let right)): left == right
    default: false
    }
  }
}

/// The outcome of a send that may wait, for elements that an error can't carry: `send(orReturn:)`.
///
/// An element that was not sent comes back in it. As noncopyable as the element is.
public enum SendOutcome<Element: ~Copyable>: ~Copyable {
  /// A receiver has it, or it is in the buffer.
  case sent
  /// The channel is closed: no receiver will get it.
  case closed(Element)
  /// The caller was cancelled while it waited, or before.
  case cancelled(Element)
  /// Time was up.
  case timedOut(Element)

  /// Whether it was sent. For callers that have no use for the element otherwise.
  @inlinable
  public var isSent: Bool {
    switch self {
    case .sent: true
    case .closed: false
    case .cancelled: false
    case .timedOut: false
    }
  }

  /// The element, if it was not sent.
  @inlinable
  public consuming func unsent() -> Element? {
    switch consume self {
    case .sent: nil
    case .closed(let element): element
    case .cancelled(let element): element
    case .timedOut(let element): element
    }
  }
}

extension SendOutcome: Copyable where Element: Copyable {}
extension SendOutcome: Sendable where Element: Sendable & ~Copyable {}
extension SendOutcome: Equatable where Element: Equatable {
  // Written out: what the compiler derives is not specialised in other modules.
  @inlinable
  public static func == (left: SendOutcome, right: SendOutcome) -> Bool {
    switch (left, right) {
    case (.sent, .sent): true
    case (.closed(let left), .closed(let right)): left == right
    case (.cancelled(let left), .cancelled(let right)): left == right
    case (.timedOut(let left), .timedOut(let right)): left == right
    default: false
    }
  }
}

/// The outcome of a receive that does not wait: `tryReceive()`.
public enum ReceiveResult<Element: ~Copyable>: ~Copyable {
  /// An element.
  case received(Element)
  /// There is none now: try again, or wait with `receive()`.
  case empty
  /// There is none, and none will come: the channel is closed.
  case closed
}

extension ReceiveResult: Copyable where Element: Copyable {}
extension ReceiveResult: Sendable where Element: Sendable & ~Copyable {}
extension ReceiveResult: Equatable where Element: Equatable {
  // Written out: what the compiler derives is not specialised in other modules.
  @inlinable
  public static func == (left: ReceiveResult, right: ReceiveResult) -> Bool {
    switch (left, right) {
    case (.empty, .empty), (.closed, .closed): true
    case (.received(let left), .received(let right)): left == right
    default: false
    }
  }
}

/// A channel's operation came too late: it is closed.
public struct ChannelClosed<Element: ~Copyable>: Error, CustomStringConvertible {
  /// In a box, so that receivers of elements that are no part of an error get the same one.
  @usableFromInline let box: UnsentElement?

  @usableFromInline
  init(_ box: UnsentElement? = nil) {
    self.box = box
  }

  public var description: String {
    box == nil
      ? "the channel is closed, and everything that was sent has been received"
      : "the channel is closed: no receiver will get the element (it is in this error's 'unsent')"
  }
}

extension ChannelClosed where Element: Sendable {
  @usableFromInline
  init(unsent: Element) {
    self.init(UnsentElementBox(unsent))
  }

  /// The element that could not be sent; `nil` for a receive.
  public var unsent: Element? {
    (box as? UnsentElementBox<Element>)?.element
  }
}

/// The element in an error, whatever its type.
@usableFromInline
// Unchecked: nothing in it changes, nor does its only subclass.
class UnsentElement: @unchecked Sendable {}

// Unchecked: its element is constant, and sendable.
private final class UnsentElementBox<Element: Sendable>: UnsentElement, @unchecked Sendable {
  let element: Element

  init(_ element: Element) {
    self.element = element
  }
}
