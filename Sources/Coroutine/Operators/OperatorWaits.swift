// SPDX-License-Identifier: Apache-2.0

// What the waits of operators are made of, beside the waits of their operands.

extension Select {
  /// Cases whose outcome becomes a part of another one: those of an operand, in the wait of its operator.
  struct Mapped<Base: SelectCase, Output>: SelectCase {
    private let base: Base
    private let transform: (Base.Output) -> Output

    init(_ base: Base, _ transform: @escaping (Base.Output) -> Output) {
      self.base = base
      self.transform = transform
    }

    var operations: Base.Operations { base.operations }

    static var seal: Seal<Self> {
      _ = Base.seal
      return Seal()
    }

    func keepAlive() { base.keepAlive() }

    func finish(_ index: Int, of operations: Base.Operations, _ memory: UnsafeMutableRawPointer) throws -> Output {
      transform(try base.finish(index, of: operations, memory))
    }
  }

  /// A time that comes, or what is ready at once.
  struct Due: SelectFallback {
    private let deadline: UInt64
    private let isReady: Bool

    init(_ source: (deadline: UInt64, isReady: Bool)) { (deadline, isReady) = source }

    var target: Target { Target(.deadline(deadline)) }

    func attempt(_ node: UnsafeMutableRawPointer, for party: Party) -> Attempt { Attempt(isReady ? .done : .wait) }
  }

  /// What an operator waits for that has ended: nothing, so that an operator around it learns of that at once.
  static func ended<Event>(_ event: Event) -> Case<Due, Event> { Case((WaitDeadline.now, true)) { event } }
}

extension Select.Builder {
  /// The cases of an operand.
  static func buildExpression<Base: SelectCase>(_ cases: Select.Mapped<Base, Output>) -> Select.Mapped<Base, Output> {
    cases
  }
}

/// When an operator has to give what it has kept back.
struct OperatorDeadline {
  private let deadline: UInt64
  /// Whether a wait has begun behind it, in which the operand has got nothing since.
  private var wasDue = false
  /// How far the operand has come since its last element.
  private var steps: UInt8 = 0

  init(after duration: Duration) { deadline = TimerService.shared.deadline(after: duration) }

  /// Whether it has passed.
  var isOver: Bool { deadline <= TimerService.shared.now }

  /// Whether it had passed before the wait began that has just ended: what the operand has made in that has come behind it. (In
  /// a wait that began before, what came first was chosen, however late this is looked at.)
  var wasOver: Bool { wasDue }

  /// A case of the operator's wait.
  ///
  /// What the operand has at once goes before it, since a limit of zero stands for that. If other operands of an operator around
  /// this one are always ready, it must be chosen all the same: from its second wait behind the deadline on it is as ready
  /// as they are.
  mutating func makeCase<Event>(_ event: Event) -> Select.Case<Select.Due, Event> {
    let isDue = isOver
    defer { wasDue = isDue }
    return Select.Case((deadline, isDue && wasDue)) { event }
  }

  /// The operand has made an element.
  mutating func giveWay() { (wasDue, steps) = (false, 0) }

  /// The operand has come further, without an element: it has a half of a pair, or has left one out.
  mutating func giveWayForAStep() {
    guard steps < Self.stepLimit else { return }
    steps += 1
    wasDue = false
  }

  /// An operand that leaves elements out may come further for ever.
  private static let stepLimit: UInt8 = 64
}
