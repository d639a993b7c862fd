/// What a concurrent object does if its operations happen one after another.
protocol SequentialSpecification: Hashable, SendableMetatype {
  associatedtype Operation: Hashable & Sendable
  associatedtype Outcome: Hashable & Sendable

  /// Applies the operation, if it could end this way now. Returns whether it could.
  mutating func apply(_ operation: Operation, _ outcome: Outcome) -> Bool

  /// Applies an operation whose outcome is not known.
  mutating func applyUnseen(_ operation: Operation)

  /// Whether these operations have to wait, all of them, until another one is begun.
  func mayWait(_ operations: [Operation]) -> Bool
}

extension SequentialSpecification {
  mutating func applyUnseen(_ operation: Operation) {}
  func mayWait(_ operations: [Operation]) -> Bool { true }
}

/// The operations of a run: when each began, when it ended, and how.
// Unchecked: a run has one thread.
final class History<Specification: SequentialSpecification>: @unchecked Sendable {
  struct Entry {
    let operation: Specification.Operation
    let begin: Int
    var end = Int.max
    var outcome: Specification.Outcome?
    var isOver = false
  }

  private(set) var entries: [Entry] = []
  private var now = 0

  private func tick() -> Int {
    now += 1
    return now
  }

  /// Records an operation. `body` performs it. `nil` means that it was given up, and may still happen or not.
  func note(_ operation: Specification.Operation, _ body: () -> Specification.Outcome?) {
    let index = entries.count
    entries.append(Entry(operation: operation, begin: tick()))
    let outcome = body()
    entries[index].isOver = true
    guard let outcome else { return }
    entries[index].outcome = outcome
    entries[index].end = tick()
  }

  private struct Point: Hashable {
    let rest: Set<Int>
    let state: Specification
  }

  /// Whether some order of the operations explains all outcomes. In it, an operation that ended before another one
  /// began comes before that. After Wing and Gong: tries each operation that may come first, and remembers what was
  /// tried.
  ///
  /// - Parameter isEnd: what must hold of the state after them.
  private func isExplained(
    _ operations: Set<Int>, from specification: Specification, to isEnd: (Specification) -> Bool
  ) -> Bool {
    var tried: Set<Point> = []
    func search(_ rest: Set<Int>, _ state: Specification) -> Bool {
      let firstEnd = rest.lazy.map { self.entries[$0].end }.min() ?? .max
      if firstEnd == .max, isEnd(state) { return true }
      guard tried.insert(Point(rest: rest, state: state)).inserted else { return false }
      for index in rest where entries[index].begin < firstEnd {
        var next = state
        if let outcome = entries[index].outcome {
          guard next.apply(entries[index].operation, outcome) else { continue }
        } else {
          next.applyUnseen(entries[index].operation)
        }
        if search(rest.subtracting([index]), next) { return true }
      }
      return false
    }
    return search(operations, specification)
  }

  func isLinearizable(from specification: Specification) -> Bool {
    isExplained(Set(entries.indices), from: specification) { _ in true }
  }

  /// The same of those that are over, if the others have to wait then.
  func isAtRest(from specification: Specification) -> Bool {
    let waiting = entries.filter { !$0.isOver }.map(\.operation)
    return isExplained(Set(entries.indices.filter { entries[$0].isOver }), from: specification) { $0.mayWait(waiting) }
  }

  struct NotLinearizable: Error, CustomStringConvertible {
    let description: String
  }

  func check(from specification: Specification) throws {
    if !isLinearizable(from: specification) { throw failure("no order of these operations explains their outcomes") }
  }

  /// Checks that those that are not over have to wait. Called when no coroutine can go on. The kernel's events come by another
  /// thread, which may be late: `letPass` gives it time.
  func checkRest(from specification: Specification, letPass: () throws -> Void) throws {
    for _ in 0..<300 {
      if isAtRest(from: specification) { return }
      try letPass()
    }
    try check(from: specification)
    throw failure("of these operations one waits that could go on")
  }

  private func failure(_ text: String) -> NotLinearizable {
    let lines = entries.map { "\($0.begin)-\($0.end): \($0.operation) -> \($0.outcome.map { "\($0)" } ?? "?")" }
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
