// SPDX-License-Identifier: Apache-2.0

extension SelectableSequence {
  /// The elements that are followed by quiet, in a coroutine: one that is followed by another within `duration` is dropped.
  /// The time counts from when an element is taken: a consumer that is slow takes late. One that was elsewhere for that long,
  /// such as with another operand of a `merge`, gets the element that was kept back, though another one has come since.
  ///
  /// ```swift
  /// for text in input.received.debounce(for: .milliseconds(300)) { search(text) }
  /// ```
  ///
  /// The last element comes at the end, at once. With no time at all, zero or less, each element comes.
  /// A channel's error just ends it: see `SelectableSequence`.
  ///
  /// A `for` loop that ends by a cancel loses the element that is not followed by quiet yet. `chunks(ofCount:within:)` shows the
  /// form that does not.
  public func debounce(for duration: Duration) -> DebouncedElements<Self> {
    DebouncedElements(self, for: duration)
  }
}

/// What `SelectableSequence.debounce(for:)` makes of a sequence.
public struct DebouncedElements<Base: SelectableSequence>: SelectableSequence {
  /// What a wait has come to. For the runtime.
  public enum NextEvent {
    /// Something of the sequence.
    case next(Base.NextEvent)
    /// It was quiet for long enough.
    case quiet
    /// It has ended.
    case end
  }

  private var base: Base
  private let duration: Duration
  private var pending: Base.Element?
  /// Of the pending element.
  private var deadline: OperatorDeadline?
  private var isEnded = false

  init(_ base: Base, for duration: Duration) {
    self.base = base
    self.duration = duration
  }

  /// The next element that is followed by quiet; `nil` at the end, and when the caller is cancelled.
  ///
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "debounce asynchronous sequences in async code")
  public mutating func next() -> Base.Element? { nextBySelecting() }

  /// Waits for an element, and for quiet behind the one that has come. For the runtime.
  @Select.Builder<NextEvent>
  public mutating func makeNextWait() -> some SelectCase<NextEvent> {
    if isEnded {
      Select.ended(NextEvent.end)
    } else {
      Select.Mapped(base.makeNextWait()) { NextEvent.next($0) }
      if let quiet = deadline?.makeCase(NextEvent.quiet) { quiet }
    }
  }

  /// Takes the outcome of a wait. For the runtime.
  public mutating func advance(by event: NextEvent) -> Select.Progress<Base.Element> {
    switch event {
    case .next(let event):
      switch base.advance(by: event) {
      case .element(let element):
        guard duration > .zero else { return .element(element) }
        // It was quiet behind the pending one, and the consumer was elsewhere, such as with another operand of a merge.
        let quiet = deadline?.wasOver == true ? pending : nil
        pending = element
        deadline = OperatorDeadline(after: duration)
        return quiet.map { .element($0) } ?? .waiting
      case .end:
        isEnded = true
        return takePending()
      case .waiting:
        deadline?.giveWayForAStep()
        return .waiting
      }
    case .quiet: return takePending()
    case .end: return .end
    }
  }

  private mutating func takePending() -> Select.Progress<Base.Element> {
    deadline = nil
    return pending.take().map { .element($0) } ?? .end
  }
}
