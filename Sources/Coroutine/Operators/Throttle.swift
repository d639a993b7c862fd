// SPDX-License-Identifier: Apache-2.0

extension SelectableSequence {
  /// No more than one element in each `duration`, in a coroutine: the first at once, and then, as soon as the time is over, the
  /// latest of those that have come meanwhile.
  ///
  /// ```swift
  /// for position in mouse.received.throttle(for: .milliseconds(16)) { draw(position) }
  /// ```
  ///
  /// The others are dropped. What was kept back at the end comes at once. A channel's error just ends it: see
  /// `SelectableSequence`.
  ///
  /// A `for` loop that ends by a cancel loses the element that is kept back. `chunks(ofCount:within:)` shows the form that does
  /// not.
  ///
  /// - Parameters:
  ///   - duration: the time between two elements, at least.
  ///   - latest: whether the latest of several is kept; `false`: the first.
  public func throttle(for duration: Duration, latest: Bool = true) -> ThrottledElements<Self> {
    ThrottledElements(self, for: duration, latest: latest)
  }
}

/// What `SelectableSequence.throttle(for:latest:)` makes of a sequence.
public struct ThrottledElements<Base: SelectableSequence>: SelectableSequence {
  /// What a wait has come to. For the runtime.
  public enum NextEvent {
    /// Something of the sequence.
    case next(Base.NextEvent)
    /// The time since the last element is over.
    case due
    /// It has ended.
    case end
  }

  private var base: Base
  private let duration: Duration
  private let latest: Bool
  private var pending: Base.Element?
  /// When the next element may be given; none if it may at once.
  private var deadline: OperatorDeadline?
  private var isEnded = false

  init(_ base: Base, for duration: Duration, latest: Bool) {
    self.base = base
    self.duration = duration
    self.latest = latest
  }

  /// The next element, not before its time; `nil` at the end, and when the caller is cancelled.
  ///
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "throttle asynchronous sequences in async code")
  public mutating func next() -> Base.Element? { nextBySelecting() }

  /// Waits for an element, and for the time of the one that is kept back. For the runtime.
  @Select.Builder<NextEvent>
  public mutating func makeNextWait() -> some SelectCase<NextEvent> {
    if isEnded {
      Select.ended(NextEvent.end)
    } else {
      Select.Mapped(base.makeNextWait()) { NextEvent.next($0) }
      if pending != nil, let due = deadline?.makeCase(NextEvent.due) { due }
    }
  }

  /// Takes the outcome of a wait. For the runtime.
  public mutating func advance(by event: NextEvent) -> Select.Progress<Base.Element> {
    switch event {
    case .next(let event):
      switch base.advance(by: event) {
      case .element(let element):
        if !latest, pending != nil, deadline?.wasOver == true {
          // It has come behind the time of the one that is kept back, and is the first of the next one.
          defer { pending = element }
          return givePending()
        }
        if latest || pending == nil { pending = element }
        return deadline?.isOver == false ? .waiting : givePending()
      case .end:
        isEnded = true
        return givePending()
      case .waiting:
        deadline?.giveWayForAStep()
        return .waiting
      }
    case .due: return givePending()
    case .end: return .end
    }
  }

  private mutating func givePending() -> Select.Progress<Base.Element> {
    guard let element = pending.take() else { return .end }
    deadline = OperatorDeadline(after: duration)
    return .element(element)
  }
}
