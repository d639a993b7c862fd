// SPDX-License-Identifier: Apache-2.0

/// The elements of two sequences in pairs, in a coroutine: the first with the first, the second with the second.
///
/// ```swift
/// for (question, answer) in zip(questions.received, answers.received) { check(question, answer) }
/// ```
///
/// It waits for both at once, and keeps the one that has come until the other has. Ends as soon as either has ended, and then
/// without that one; and when the caller is cancelled. (Swift's own `zip`, which takes any two sequences, asks the first one,
/// and then the second.) A channel's error just ends it: see `SelectableSequence`.
///
/// A `for` loop that ends by a cancel loses the one that has come, if the other has not. Kept in a variable and asked once more
/// inside a shield, as `chunks(ofCount:within:)` shows, it waits for the other, and gives both.
public func zip<First: SelectableSequence, Second: SelectableSequence>(
  _ first: First, _ second: Second
) -> ZippedElements<First, Second> {
  ZippedElements(first, second)
}

/// What `zip(_:_:)` makes of two sequences.
public struct ZippedElements<First: SelectableSequence, Second: SelectableSequence>: SelectableSequence {
  /// What a wait has come to. For the runtime.
  public enum NextEvent {
    /// Something of the first one.
    case first(First.NextEvent)
    /// Something of the second one.
    case second(Second.NextEvent)
    /// One of them has ended.
    case end
  }

  private var first: First
  private var second: Second
  /// Never both, between two calls.
  private var pending: (first: First.Element?, second: Second.Element?) = (nil, nil)
  private var isEnded = false

  init(_ first: First, _ second: Second) {
    self.first = first
    self.second = second
  }

  /// The next pair; `nil` at the end, and when the caller is cancelled.
  ///
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "zip asynchronous sequences in async code")
  public mutating func next() -> (First.Element, Second.Element)? { nextBySelecting() }

  /// Waits for those of which there is no element yet. For the runtime.
  @Select.Builder<NextEvent>
  public mutating func makeNextWait() -> some SelectCase<NextEvent> {
    if isEnded {
      Select.ended(NextEvent.end)
    } else {
      if pending.first == nil { Select.Mapped(first.makeNextWait()) { NextEvent.first($0) } }
      if pending.second == nil { Select.Mapped(second.makeNextWait()) { NextEvent.second($0) } }
    }
  }

  /// Takes the outcome of a wait. For the runtime.
  public mutating func advance(by event: NextEvent) -> Select.Progress<(First.Element, Second.Element)> {
    switch event {
    case .first(let event):
      switch first.advance(by: event) {
      case .element(let element): pending.first = element
      case .end: return end()
      case .waiting: return .waiting
      }
    case .second(let event):
      switch second.advance(by: event) {
      case .element(let element): pending.second = element
      case .end: return end()
      case .waiting: return .waiting
      }
    case .end: return .end
    }
    guard let first = pending.first, let second = pending.second else { return .waiting }
    pending = (nil, nil)
    return .element((first, second))
  }

  private mutating func end() -> Select.Progress<(First.Element, Second.Element)> {
    isEnded = true
    pending = (nil, nil)
    return .end
  }
}
