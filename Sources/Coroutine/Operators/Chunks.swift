// SPDX-License-Identifier: Apache-2.0

extension SelectableSequence {
  /// The elements in arrays of `count`, in a coroutine; fewer at the end, or when `duration` has passed since the first one
  /// of an array.
  ///
  /// ```swift
  /// for rows in rows.received.chunks(ofCount: 500, within: .seconds(1)) { try insert(rows) }
  /// ```
  ///
  /// A sequence can't throw: a channel that was closed with an error just ends, as in a loop over `received`. Its `whenClosed`
  /// tells the error.
  ///
  /// - Parameters:
  ///   - count: at least 1: traps.
  ///   - duration: how long one waits for a full array; `nil`: without a limit.
  public func chunks(ofCount count: Int, within duration: Duration? = nil) -> ChunkedElements<Self> {
    require(count > 0, "chunks of \(count) elements would never be full: give it 1 or more")
    return ChunkedElements(self, ofCount: count, within: duration)
  }
}

/// What `SelectableSequence.chunks(ofCount:within:)` makes of a sequence.
public struct ChunkedElements<Base: SelectableSequence>: Sequence, IteratorProtocol {
  private let base: Base
  private let count: Int
  private let duration: Duration?
  private var chunk: [Base.Element] = []
  private var isEnded = false

  init(_ base: Base, ofCount count: Int, within duration: Duration?) {
    self.base = base
    self.count = count
    self.duration = duration
  }

  private enum Step {
    case next(Base.Element?)
    case late
  }

  /// The next array, which is not empty; `nil` at the end, and when the caller is cancelled.
  ///
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "chunk asynchronous sequences in async code")
  public mutating func next() -> [Base.Element]? {
    var deadline: UInt64?
    while !isEnded, chunk.count < count {
      let base = base
      var rest: Duration?
      if !chunk.isEmpty, let duration {
        let now = TimerService.shared.now
        let end = deadline ?? TimerService.shared.deadline(after: duration)
        deadline = end
        rest = .nanoseconds(Int64(clamping: end > now ? end - now : 0))
      }
      let step = try? select {
        base.onNext { Step.next($0) }
        if let rest { onTimeout(rest) { Step.late } }
      }
      switch step {
      case .next(.some(let element)): chunk.append(element)
      case .next(.none): isEnded = true
      case .late: return takeChunk()
      // Cancelled: the elements so far come at the next call, if there is one that is not cancelled.
      case nil: return nil
      }
    }
    return chunk.isEmpty ? nil : takeChunk()
  }

  private mutating func takeChunk() -> [Base.Element] {
    defer { chunk = [] }
    return chunk
  }
}
