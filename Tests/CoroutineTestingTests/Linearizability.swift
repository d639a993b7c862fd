/// What a concurrent object does if its operations happen one after another.
protocol SequentialSpecification: Hashable, SendableMetatype {
  associatedtype Operation: Hashable & Sendable
  associatedtype Outcome: Hashable & Sendable

  /// What it may be after the operation. Empty: that could not end this way now.
  func states(after operation: Operation, _ outcome: Outcome) -> [Self]

  /// The same of an operation that threw `CancellationError` to a worker that had been cancelled.
  func states(afterCancelled operation: Operation) -> [Self]

  /// What it may be after the first step of an operation that takes two: it has had an effect, and waits for its outcome, which
  /// is the second step. Empty: that is not possible now, or it does all at once.
  func states(afterEffectOf operation: Operation) -> [Self]

  /// Whether these operations have to wait, all of them, until another one is begun; and those that have done their first step,
  /// which are not among them.
  ///
  /// Without a default: a specification that lets all wait finds no lost wake.
  func mayWait(_ operations: [Operation]) -> Bool
}

extension SequentialSpecification {
  func states(afterCancelled operation: Operation) -> [Self] { [self] }
  func states(afterEffectOf operation: Operation) -> [Self] { [] }
}

/// One whose state follows from what an operation returned.
protocol DeterministicSpecification: SequentialSpecification {
  /// Applies the operation, if it could end this way now. Returns whether it could.
  mutating func apply(_ operation: Operation, _ outcome: Outcome) -> Bool
}

extension DeterministicSpecification {
  func states(after operation: Operation, _ outcome: Outcome) -> [Self] {
    var next = self
    return next.apply(operation, outcome) ? [next] : []
  }
}

/// A coroutine that performs operations.
// Unchecked: a run has one thread.
final class Worker: @unchecked Sendable {
  /// Set before it is cancelled. The test's own word for it, and not the runtime's.
  var isCancelled = false
}

/// The operations of a run: when each began, when it ended, and how.
// Unchecked: a run has one thread.
final class History<Specification: SequentialSpecification>: @unchecked Sendable {
  enum End {
    case returned(Specification.Outcome)
    /// Its worker was cancelled.
    case cancelled
    /// Threw what no specification allows.
    case failed(String)
  }

  struct Entry {
    let operation: Specification.Operation
    let worker: Worker?
    let begin: Int
    var end = Int.max
    /// `nil`: it is not over.
    var how: End?
  }

  private(set) var entries: [Entry] = []
  private var now = 0

  private func tick() -> Int {
    now += 1
    return now
  }

  /// An operation begins. Returns its number.
  func begin(_ operation: Specification.Operation, by worker: Worker? = nil) -> Int {
    entries.append(Entry(operation: operation, worker: worker, begin: tick()))
    return entries.count - 1
  }

  func end(_ index: Int, _ how: End) {
    entries[index].how = how
    entries[index].end = tick()
  }

  /// Records an operation. `body` performs it. Only a worker that was cancelled may be told so; all else that is thrown is no
  /// outcome of any specification.
  func note(
    _ operation: Specification.Operation, by worker: Worker? = nil, _ body: () throws -> Specification.Outcome
  ) {
    let index = begin(operation, by: worker)
    do {
      let outcome = try body()
      end(index, .returned(outcome))
    } catch is CancellationError where worker?.isCancelled == true {
      end(index, .cancelled)
    } catch {
      end(index, .failed("\(error)"))
    }
  }

  /// Operations, a bit for each.
  private typealias Some = UInt64

  private struct Point: Hashable {
    let rest: Some
    /// Those of them that have done their first step.
    let halfDone: Some
    let state: Specification
  }

  /// What the specification may be after an operation, as that ended.
  private func states(after entry: Entry, from state: Specification) -> [Specification] {
    switch entry.how {
    case .returned(let outcome): state.states(after: entry.operation, outcome)
    case .cancelled: state.states(afterCancelled: entry.operation)
    case .failed, nil: []
    }
  }

  /// Whether some order of the operations explains all outcomes. In it, an operation that ended before another one
  /// began comes before that. After Wing and Gong: tries each operation that may come first, and remembers what was
  /// tried.
  ///
  /// - Parameter isEnd: what must hold of the state after them, and of those that are not over and have had no effect.
  private func isExplained(
    from specification: Specification, to isEnd: (Specification, [Specification.Operation]) -> Bool
  ) -> Bool {
    precondition(entries.count < Some.bitWidth)
    // Numbers beside the entries: in a debug build each look at a generic one takes long.
    let (begins, ends) = (entries.map(\.begin), entries.map(\.end))
    var tried: Set<Point> = []
    func search(_ rest: Some, _ halfDone: Some, _ state: Specification) -> Bool {
      var firstEnd = Int.max
      var left = rest
      while left != 0 {
        firstEnd = min(firstEnd, ends[left.trailingZeroBitCount])
        left &= left - 1
      }
      if firstEnd == .max {
        let waiting = entries.indices.filter { (rest & ~halfDone) >> $0 & 1 == 1 }
        if isEnd(state, waiting.map { entries[$0].operation }) { return true }
      }
      guard tried.insert(Point(rest: rest, halfDone: halfDone, state: state)).inserted else { return false }
      left = rest
      while left != 0 {
        let index = left.trailingZeroBitCount
        let bit: Some = 1 << index
        left &= ~bit
        // They are in the order in which they began.
        guard begins[index] < firstEnd else { break }
        for next in states(after: entries[index], from: state) where search(rest & ~bit, halfDone & ~bit, next) {
          return true
        }
        guard halfDone & bit == 0 else { continue }
        for next in state.states(afterEffectOf: entries[index].operation) where search(rest, halfDone | bit, next) {
          return true
        }
      }
      return false
    }
    return search((1 << entries.count) - 1, 0, specification)
  }

  func isLinearizable(from specification: Specification) -> Bool {
    isExplained(from: specification) { _, _ in true }
  }

  /// The same of those that are over, if the others have to wait then. A worker that was cancelled does not wait any more.
  func isAtRest(from specification: Specification) -> Bool {
    !entries.contains { $0.how == nil && $0.worker?.isCancelled == true }
      && isExplained(from: specification) { $0.mayWait($1) }
  }

  struct NotLinearizable: Error, CustomStringConvertible {
    let description: String
  }

  func check(from specification: Specification) throws {
    if !isLinearizable(from: specification) { throw failure("no order of these operations explains their outcomes") }
  }

  /// Checks that those that are not over have to wait. Called when no coroutine can go on. The kernel's events come by another
  /// thread, which may be late: `letPass` gives it time, so many times.
  func checkRest(from specification: Specification, letPass: () throws -> Void, times: Int) throws {
    for _ in 0..<times {
      if isAtRest(from: specification) { return }
      try letPass()
    }
    if isAtRest(from: specification) { return }
    try check(from: specification)
    throw failure("of these operations one waits that could go on")
  }

  private func failure(_ text: String) -> NotLinearizable {
    let lines = entries.map { entry in
      let end = entry.how.map { "\(entry.end): \(entry.operation) -> \($0)" } ?? "...: \(entry.operation)"
      return "\(entry.begin)-\(end)"
    }
    return NotLinearizable(description: text + ":\n" + lines.joined(separator: "\n"))
  }
}

/// Random numbers for programs of operations: the same for the same seed.
struct ProgramRandom {
  private var state: UInt64

  init(_ seed: Int) { state = UInt64(seed) &* 0x9E37_79B9_7F4A_7C15 &+ 1 }

  mutating func below(_ bound: Int) -> Int {
    state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
    return Int((state >> 33) % UInt64(bound))
  }

  mutating func list<Element>(of count: Int, _ make: (inout ProgramRandom) -> Element) -> [Element] {
    (0..<count).map { _ in make(&self) }
  }
}
