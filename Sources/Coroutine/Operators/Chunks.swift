// SPDX-License-Identifier: Apache-2.0

extension SelectableSequence {
  /// The elements in arrays of `count`, in a coroutine; fewer at the end, or when `duration` has passed since the first one
  /// of an array.
  ///
  /// ```swift
  /// for rows in rows.received.chunks(ofCount: 500, within: .seconds(1)) { try insert(rows) }
  /// ```
  ///
  /// A channel's error just ends it: see `SelectableSequence`.
  ///
  /// A `for` loop that ends by a cancel takes the operator with it, and so loses the array that is not full. One that is to lose
  /// nothing has the operator in a variable, and asks it once more inside a shield. It waits there as it always does: until the
  /// array is full, its time is over, or the sequence ends.
  ///
  /// ```swift
  /// var chunks = rows.received.chunks(ofCount: 500, within: .seconds(1))
  /// while let rows = chunks.next() { try insert(rows) }
  /// try withCancellationShield {
  ///   if let rows = chunks.next() { try insert(rows) }
  /// }
  /// ```
  ///
  /// - Parameters:
  ///   - count: at least 1: traps otherwise.
  ///   - duration: how long one waits for a full array, from when its first element is taken, up to a few elements that are there
  ///     at once; zero or less: as long as there are elements at once; `nil`: without a limit.
  public func chunks(ofCount count: Int, within duration: Duration? = nil) -> ChunkedElements<Self> {
    require(count > 0, "chunks of \(count) elements would never be full: give it 1 or more")
    return ChunkedElements(self, ofCount: count, within: duration)
  }
}

/// What `SelectableSequence.chunks(ofCount:within:)` makes of a sequence.
public struct ChunkedElements<Base: SelectableSequence>: SelectableSequence {
  /// What a wait has come to. For the runtime.
  public enum NextEvent {
    /// Something of the sequence.
    case next(Base.NextEvent)
    /// The time for a full array is up.
    case late
    /// It has ended.
    case end
  }

  private var base: Base
  private let count: Int
  private let duration: Duration?
  private var chunk: [Base.Element] = []
  /// Of the chunk, if it has an element.
  private var deadline: OperatorDeadline?
  private var isEnded = false

  init(_ base: Base, ofCount count: Int, within duration: Duration?) {
    self.base = base
    self.count = count
    self.duration = duration
  }

  /// The next array, which is not empty; `nil` at the end, and when the caller is cancelled.
  ///
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "chunk asynchronous sequences in async code")
  public mutating func next() -> [Base.Element]? { nextBySelecting() }

  /// Waits for an element, and for the end of its time. For the runtime.
  @Select.Builder<NextEvent>
  public mutating func makeNextWait() -> some SelectCase<NextEvent> {
    if isEnded {
      Select.ended(NextEvent.end)
    } else {
      Select.Mapped(base.makeNextWait()) { NextEvent.next($0) }
      if let late = deadline?.makeCase(NextEvent.late) { late }
    }
  }

  /// Takes the outcome of a wait. For the runtime.
  public mutating func advance(by event: NextEvent) -> Select.Progress<[Base.Element]> {
    switch event {
    case .next(let event):
      switch base.advance(by: event) {
      case .element(let element):
        // No time at all stands for what is there at once. Any other time ends the array, however much is there.
        if let duration, duration <= .zero { deadline?.giveWay() }
        chunk.append(element)
        if chunk.count == count { return .element(takeChunk()) }
        if chunk.count == 1 { deadline = duration.map { OperatorDeadline(after: $0) } }
        return .waiting
      case .end:
        isEnded = true
        return chunk.isEmpty ? .end : .element(takeChunk())
      case .waiting:
        deadline?.giveWayForAStep()
        return .waiting
      }
    case .late: return .element(takeChunk())
    case .end: return .end
    }
  }

  private mutating func takeChunk() -> [Base.Element] {
    defer { (chunk, deadline) = ([], nil) }
    return chunk
  }
}
