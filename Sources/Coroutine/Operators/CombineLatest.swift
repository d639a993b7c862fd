// SPDX-License-Identifier: Apache-2.0

/// The latest elements of two sequences, in a coroutine: a pair each time that one of them has a new one.
///
/// ```swift
/// for (size, theme) in combineLatest(sizes.received, themes.received) { redraw(size, theme) }
/// ```
///
/// The first pair comes when both have had an element. Ends when both have ended, or one of them without an element; and when
/// the caller is cancelled. A sequence can't throw: a channel that was closed with an error just ends, as in a loop over
/// `received`. Its `whenClosed` tells the error.
public func combineLatest<First: SelectableSequence, Second: SelectableSequence>(
  _ first: First, _ second: Second
) -> LatestElements<First, Second> {
  LatestElements(first, second)
}

/// What `combineLatest(_:_:)` makes of two sequences.
public struct LatestElements<First: SelectableSequence, Second: SelectableSequence>: Sequence, IteratorProtocol {
  private var first: First?
  private var second: Second?
  private var latest: (first: First.Element?, second: Second.Element?) = (nil, nil)

  init(_ first: First, _ second: Second) {
    self.first = first
    self.second = second
  }

  private enum Step {
    case first(First.Element?)
    case second(Second.Element?)
  }

  /// The next pair; `nil` at the end, and when the caller is cancelled.
  ///
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "combine asynchronous sequences in async code")
  public mutating func next() -> (First.Element, Second.Element)? {
    while canHaveMore {
      let (first, second) = (first, second)
      let step = try? select {
        if let first { first.onNext { Step.first($0) } }
        if let second { second.onNext { Step.second($0) } }
      }
      switch step {
      case .first(.some(let element)): latest.first = element
      case .second(.some(let element)): latest.second = element
      case .first(.none):
        self.first = nil
        continue
      case .second(.none):
        self.second = nil
        continue
      case nil: return nil
      }
      if let first = latest.first, let second = latest.second { return (first, second) }
    }
    return nil
  }

  /// One that has ended without an element will never be part of a pair.
  private var canHaveMore: Bool {
    (first != nil || second != nil) && (first != nil || latest.first != nil) && (second != nil || latest.second != nil)
  }
}
