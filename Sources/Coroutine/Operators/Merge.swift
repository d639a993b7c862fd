// SPDX-License-Identifier: Apache-2.0

/// The elements of two sequences, in a coroutine, as they come.
///
/// ```swift
/// for event in merge(keys.received, clicks.received) { handle(event) }
/// ```
///
/// An element is taken only when the consumer asks for it. Ends when both have ended, and when the caller is cancelled.
/// Of two that are there at once each is as likely to come first. A channel's error just ends its part: see
/// `SelectableSequence`.
public func merge<First: SelectableSequence, Second: SelectableSequence>(
  _ first: First, _ second: Second
) -> MergedElements<First, Second> where First.Element == Second.Element {
  MergedElements(first, second)
}

/// The elements of several sequences of one kind, in a coroutine, as they come: `merge(_:_:)` for a number of them that is
/// known at run time only. Here too an error that a channel was closed with is dropped. Each element takes time and memory in
/// proportion to the number of sequences.
public func merge<Base: SelectableSequence>(_ sequences: [Base]) -> MergedSequences<Base> {
  MergedSequences(sequences)
}

/// What `merge(_:_:)` makes of two sequences.
public struct MergedElements<First: SelectableSequence, Second: SelectableSequence>: SelectableSequence
where First.Element == Second.Element {
  /// What a wait has come to. For the runtime.
  public enum NextEvent {
    /// Something of the first one.
    case first(First.NextEvent)
    /// Something of the second one.
    case second(Second.NextEvent)
    /// Both have ended.
    case end
  }

  private var first: First?
  private var second: Second?

  init(_ first: First, _ second: Second) {
    self.first = first
    self.second = second
  }

  /// The next element of either; `nil` once both have ended, and when the caller is cancelled.
  ///
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "merge asynchronous sequences in async code")
  public mutating func next() -> First.Element? { nextBySelecting() }

  /// Waits for both that have not ended. For the runtime.
  @Select.Builder<NextEvent>
  public mutating func makeNextWait() -> some SelectCase<NextEvent> {
    if let wait = first?.makeNextWait() { Select.Mapped(wait) { NextEvent.first($0) } }
    if let wait = second?.makeNextWait() { Select.Mapped(wait) { NextEvent.second($0) } }
    if first == nil, second == nil { Select.ended(NextEvent.end) }
  }

  /// Takes the outcome of a wait. For the runtime.
  public mutating func advance(by event: NextEvent) -> Select.Progress<First.Element> {
    switch event {
    case .first(let event):
      guard let progress = first?.advance(by: event) else { return .waiting }
      guard case .end = progress else { return progress }
      first = nil
    case .second(let event):
      guard let progress = second?.advance(by: event) else { return .waiting }
      guard case .end = progress else { return progress }
      second = nil
    case .end: return .end
    }
    return first == nil && second == nil ? .end : .waiting
  }
}

/// What `merge(_:)` makes of several sequences.
public struct MergedSequences<Base: SelectableSequence>: SelectableSequence {
  /// What a wait has come to. For the runtime.
  public enum NextEvent {
    /// Something of the one at that index of those that are left.
    case next(Int, Base.NextEvent)
    /// All have ended.
    case end
  }

  private var bases: [Base]

  init(_ bases: [Base]) {
    self.bases = bases
  }

  /// The next element of any; `nil` once all have ended, and when the caller is cancelled.
  ///
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "merge asynchronous sequences in async code")
  public mutating func next() -> Base.Element? { nextBySelecting() }

  /// Waits for all that have not ended. For the runtime.
  @Select.Builder<NextEvent>
  public mutating func makeNextWait() -> some SelectCase<NextEvent> {
    for index in bases.indices { Select.Mapped(bases[index].makeNextWait()) { NextEvent.next(index, $0) } }
    if bases.isEmpty { Select.ended(NextEvent.end) }
  }

  /// Takes the outcome of a wait. For the runtime.
  public mutating func advance(by event: NextEvent) -> Select.Progress<Base.Element> {
    guard case .next(let index, let event) = event else { return .end }
    let progress = bases[index].advance(by: event)
    guard case .end = progress else { return progress }
    bases.remove(at: index)
    return bases.isEmpty ? .end : .waiting
  }
}
