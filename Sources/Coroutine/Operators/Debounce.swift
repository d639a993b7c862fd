// SPDX-License-Identifier: Apache-2.0

extension SelectableSequence {
  /// The elements that are followed by quiet, in a coroutine: one that is followed by another within `duration` is dropped.
  ///
  /// ```swift
  /// for text in input.received.debounce(for: .milliseconds(300)) { search(text) }
  /// ```
  ///
  /// The last element comes at the end, at once. A sequence can't throw: a channel that was closed with an error just ends, as in
  /// a loop over `received`. Its `whenClosed` tells the error.
  public func debounce(for duration: Duration) -> DebouncedElements<Self> {
    DebouncedElements(self, for: duration)
  }
}

/// What `SelectableSequence.debounce(for:)` makes of a sequence.
public struct DebouncedElements<Base: SelectableSequence>: Sequence, IteratorProtocol {
  private let base: Base
  private let duration: Duration
  private var pending: Base.Element?
  private var isEnded = false

  init(_ base: Base, for duration: Duration) {
    self.base = base
    self.duration = duration
  }

  private enum Step {
    case next(Base.Element?)
    case quiet
  }

  /// The next element that is followed by quiet; `nil` at the end, and when the caller is cancelled.
  ///
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "debounce asynchronous sequences in async code")
  public mutating func next() -> Base.Element? {
    while !isEnded {
      let (base, duration, isPending) = (base, duration, pending != nil)
      let step = try? select {
        base.onNext { Step.next($0) }
        if isPending { onTimeout(duration) { Step.quiet } }
      }
      switch step {
      case .next(.some(let element)): pending = element
      case .next(.none): isEnded = true
      case .quiet: return pending.take()
      // Cancelled: the pending element comes at the next call, if there is one that is not cancelled.
      case nil: return nil
      }
    }
    return pending.take()
  }
}
