// SPDX-License-Identifier: Apache-2.0

/// What is to be decided in a run.
package enum Decision {
  /// Which of those that are ready has the next turn: in the order in which they became ready; the last may be the time.
  case turn
  /// The same, where the first is the one that has the turn, and could go on.
  case preemption
  /// Which case a select looks at first.
  case selectCase
}

/// Where the decisions of a run come from. One for each run.
package protocol ScheduleSource: AnyObject {
  /// One of `count` possibilities, at least two.
  ///
  /// - Parameter numbers: the coroutines that may be chosen; of a decision about them.
  func choose(_ decision: Decision, of count: Int, _ numbers: () -> [Int]) -> Int

  /// A coroutine lets others run first, by itself.
  func didYield(_ number: Int)
}

extension ScheduleSource {
  package func didYield(_ number: Int) {}
}

/// The first possibility, always: turns in the order in which coroutines became ready, as in a pool of one thread.
package final class OrdinarySource: ScheduleSource {
  package func choose(_ decision: Decision, of count: Int, _ numbers: () -> [Int]) -> Int { 0 }
}

/// A schedule that is known.
package final class ReplaySource: ScheduleSource {
  private let choices: [Int: Int]
  private var position = 0
  /// Whether it asked for a possibility that there was not: it is one of another body.
  private(set) var isForeign = false

  package init(_ choices: [Int: Int]) { self.choices = choices }

  package func choose(_ decision: Decision, of count: Int, _ numbers: () -> [Int]) -> Int {
    let choice = choices[position] ?? 0
    position += 1
    if choice >= count { isForeign = true }
    return min(choice, count - 1)
  }
}

/// Chance.
package final class RandomSource: ScheduleSource {
  private var random: SplitMix

  package init(seed: UInt64) { random = SplitMix(seed: seed) }

  package func choose(_ decision: Decision, of count: Int, _ numbers: () -> [Int]) -> Int { random.next(below: count) }
}

/// Priorities that change a few times: see `ExplorationStrategy.pct`.
package final class PrioritySource: ScheduleSource {
  private var random: SplitMix
  /// By coroutine; the time is one, with the number -1. Those that come later get theirs when they are first seen.
  private var priorities: [Int: Int] = [:]
  /// At which of its decisions the highest becomes the lowest.
  private var changes: Set<Int> = []
  private var decisions = 0
  /// Below all that were given by chance, and each below the one before.
  private var lowest = 0
  /// How often the time went on since a coroutine had a turn.
  private var stepsOfTime = 0

  /// How many decisions the run will take is not known, nor may it come from other runs: a seed is one run. So all orders of
  /// magnitude up to a thousand are alike.
  package init(seed: UInt64, depth: Int) {
    random = SplitMix(seed: seed)
    for _ in 1..<min(max(1, depth), Self.mostDepth) { changes.insert(random.next(below: 1 << random.next(below: 11))) }
  }

  package func choose(_ decision: Decision, of count: Int, _ numbers: () -> [Int]) -> Int {
    guard decision != .selectCase else { return random.next(below: count) }
    let numbers = numbers()
    for number in numbers where priorities[number] == nil { priorities[number] = 1 + random.next(below: 1 << 30) }
    func highest() -> Int { numbers.indices.max { priorities[numbers[$0]]! < priorities[numbers[$1]]! }! }
    if changes.contains(decisions) { lower(numbers[highest()]) }
    decisions += 1
    var choice = highest()
    // The others that could have gone on may wait for ever: beside a ticker, and where each timeout lets a waiter try again.
    if numbers[choice] == Self.time {
      stepsOfTime += 1
    } else if numbers.allSatisfy({ $0 == numbers[choice] || $0 == Self.time }) {
      stepsOfTime = 0
    }
    // With a ticker it always can go on.
    if stepsOfTime == Self.stepLimit {
      lower(Self.time)
      stepsOfTime = 0
      choice = highest()
    }
    return choice
  }

  /// As many decisions as there are to choose from: a higher one would only take longer to choose the same ones.
  private static let mostDepth = 1024
  private static let time = -1
  private static let stepLimit = 100

  // One that yields in a loop would be the only one to run.
  package func didYield(_ number: Int) { lower(number) }

  private func lower(_ number: Int) {
    lowest -= 1
    priorities[number] = lowest
  }
}

/// All schedules, one after another: depth first. One object for all runs.
package final class ExhaustiveSource: ScheduleSource {
  private struct Step {
    var choice: Int
    let count: Int
  }

  private let maximum: Int?
  /// The decisions of the present run so far, and, behind `position`, those that it has to begin with.
  private var path: [Step] = []
  private var position = 0
  private var preemptions = 0

  package init(_ bound: ExhaustiveBound) {
    maximum = if case .preemptions(let maximum) = bound { maximum } else { nil }
  }

  package func choose(_ decision: Decision, of count: Int, _ numbers: () -> [Int]) -> Int {
    if position == path.count {
      // One more preemption would be too many: there is nothing to choose.
      let isBound = decision == .preemption && maximum.map { preemptions >= $0 } ?? false
      path.append(Step(choice: 0, count: isBound ? 1 : count))
    }
    // Of a body that depends on chance, and has fewer possibilities here than at the last run.
    let choice = min(path[position].choice, count - 1)
    position += 1
    if decision == .preemption, choice > 0 { preemptions += 1 }
    return choice
  }

  /// Goes on to the next run; false: there is none.
  package func advance() -> Bool {
    // A run that ended earlier than the one before would have left something behind: the same body takes the same way.
    path.removeSubrange(position...)
    while let last = path.popLast() {
      guard last.choice + 1 < last.count else { continue }
      path.append(Step(choice: last.choice + 1, count: last.count))
      position = 0
      preemptions = 0
      return true
    }
    return false
  }
}

/// Vigna's SplitMix64: every seed is as good as any other.
package struct SplitMix: RandomNumberGenerator, Sendable {
  private var state: UInt64

  package init(seed: UInt64) { state = seed }

  package mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var word = state
    word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
    word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
    return word ^ (word >> 31)
  }

  package mutating func next(below bound: Int) -> Int { Int(next().multipliedFullWidth(by: UInt64(bound)).high) }
}
