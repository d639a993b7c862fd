// SPDX-License-Identifier: Apache-2.0

/// The elements of two sequences, in a coroutine, as they come.
///
/// ```swift
/// for event in merge(keys.received, clicks.received) { handle(event) }
/// ```
///
/// An element is taken only when the consumer asks for it. Ends when both have ended, and when the caller is cancelled.
/// Of two that are there at once each is as likely to come first. A sequence can't throw: a channel that was closed with an
/// error just ends, as in a loop over `received`. Its `whenClosed` tells the error.
public func merge<First: SelectableSequence, Second: SelectableSequence>(
  _ first: First, _ second: Second
) -> MergedElements<First, Second> where First.Element == Second.Element {
  MergedElements(first, second)
}

/// The elements of several sequences of one kind, in a coroutine, as they come: `merge(_:_:)` for a number of them that is
/// known at run time only. Here too an error that a channel was closed with is not told.
public func merge<Base: SelectableSequence>(_ sequences: [Base]) -> MergedSequences<Base> {
  MergedSequences(sequences)
}

/// What `merge(_:_:)` makes of two sequences.
public struct MergedElements<First: SelectableSequence, Second: SelectableSequence>: Sequence, IteratorProtocol
where First.Element == Second.Element {
  private var first: First?
  private var second: Second?

  init(_ first: First, _ second: Second) {
    self.first = first
    self.second = second
  }

  private enum Step {
    case first(First.Element?)
    case second(First.Element?)
  }

  /// The next element of either; `nil` once both have ended, and when the caller is cancelled.
  ///
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "merge asynchronous sequences in async code")
  public mutating func next() -> First.Element? {
    while first != nil || second != nil {
      let (first, second) = (first, second)
      let step = try? select {
        if let first { first.onNext { Step.first($0) } }
        if let second { second.onNext { Step.second($0) } }
      }
      switch step {
      case .first(.some(let element)), .second(.some(let element)): return element
      case .first(.none): self.first = nil
      case .second(.none): self.second = nil
      case nil: return nil
      }
    }
    return nil
  }
}

/// What `merge(_:)` makes of several sequences.
public struct MergedSequences<Base: SelectableSequence>: Sequence, IteratorProtocol {
  private var bases: [Base]

  init(_ bases: [Base]) {
    self.bases = bases
  }

  /// The next element of any; `nil` once all have ended, and when the caller is cancelled.
  ///
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "merge asynchronous sequences in async code")
  public mutating func next() -> Base.Element? {
    while !bases.isEmpty {
      let cases = bases.enumerated().map { index, base in base.onNext { (index, $0) } }
      guard let (index, element) = try? select(cases) else { return nil }
      if let element { return element }
      bases.remove(at: index)
    }
    return nil
  }
}
