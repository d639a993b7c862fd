// SPDX-License-Identifier: Apache-2.0

/// The latest elements of two sequences, in a coroutine: a pair each time that one of them has a new one.
///
/// ```swift
/// for (size, theme) in combineLatest(sizes.received, themes.received) { redraw(size, theme) }
/// ```
///
/// The first pair comes when both have had an element. Ends when both have ended, or one of them without an element; and when
/// the caller is cancelled. A channel's error just ends it: see `SelectableSequence`.
public func combineLatest<First: SelectableSequence, Second: SelectableSequence>(
  _ first: First, _ second: Second
) -> LatestElements<First, Second> {
  LatestElements(first, second)
}

/// What `combineLatest(_:_:)` makes of two sequences.
public struct LatestElements<First: SelectableSequence, Second: SelectableSequence>: SelectableSequence {
  /// What a wait has come to. For the runtime.
  public enum NextEvent {
    /// Something of the first one.
    case first(First.NextEvent)
    /// Something of the second one.
    case second(Second.NextEvent)
    /// No pair can come any more.
    case end
  }

  private var first: First?
  private var second: Second?
  private var latest: (first: First.Element?, second: Second.Element?) = (nil, nil)

  init(_ first: First, _ second: Second) {
    self.first = first
    self.second = second
  }

  /// The next pair; `nil` at the end, and when the caller is cancelled.
  ///
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "combine asynchronous sequences in async code")
  public mutating func next() -> (First.Element, Second.Element)? { nextBySelecting() }

  /// Waits for both that have not ended. For the runtime.
  @Select.Builder<NextEvent>
  public mutating func makeNextWait() -> some SelectCase<NextEvent> {
    if canHaveMore {
      if let wait = first?.makeNextWait() { Select.Mapped(wait) { NextEvent.first($0) } }
      if let wait = second?.makeNextWait() { Select.Mapped(wait) { NextEvent.second($0) } }
    } else {
      Select.ended(NextEvent.end)
    }
  }

  /// Takes the outcome of a wait. For the runtime.
  public mutating func advance(by event: NextEvent) -> Select.Progress<(First.Element, Second.Element)> {
    switch event {
    case .first(let event):
      switch first?.advance(by: event) {
      case .element(let element): latest.first = element
      case .end:
        first = nil
        return canHaveMore ? .waiting : .end
      case .waiting, nil: return .waiting
      }
    case .second(let event):
      switch second?.advance(by: event) {
      case .element(let element): latest.second = element
      case .end:
        second = nil
        return canHaveMore ? .waiting : .end
      case .waiting, nil: return .waiting
      }
    case .end: return .end
    }
    guard let first = latest.first, let second = latest.second else { return .waiting }
    return .element((first, second))
  }

  /// One that has ended without an element will never be part of a pair.
  private var canHaveMore: Bool {
    (first != nil || second != nil) && (first != nil || latest.first != nil) && (second != nil || latest.second != nil)
  }
}
