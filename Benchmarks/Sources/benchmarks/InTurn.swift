import Coroutine
import Measurement

extension Workload {
  /// Many generators that are all suspended in the middle of their bodies, each asked for one element in turn: what a
  /// step costs when neither stacks nor blocks are in the nearest cache. One operation is one element.
  static func inTurn() -> Workload {
    Workload(
      "generators in turn, Int, one step",
      missing: Yardstick.missing,
      subjects: Yardstick.subjects
        + [1, 1_000, 60_000].map { count in
          let generators = Generators(count)
          return Subject(
            "\(count)", backend: Coroutine.backendName, comparedWith: Yardstick.name, promises: .noAllocation,
            granularity: count, expecting: { $0 / count }, loop: { generators.rounds($0 / count) })
        })
  }
}

/// Generators that count, with the number of elements that each has yielded so far.
private final class Generators {
  private let generators: [Generator<Int>]
  private var yielded = 0

  init(_ count: Int) {
    // 64 KiB each, of which the first pages are used.
    generators = (0..<count).map { _ in
      Generator<Int>(stackSize: 64 << 10) { yield in
        for number in 0..<Int.max { try yield(number) }
      }
    }
  }

  /// Asks each generator for an element, so many times; returns the number of rounds in which all of them said the same
  /// number, the right one.
  func rounds(_ count: Int) -> Int {
    var right = 0
    for _ in 0..<count {
      if sumOfOneRound(generators) == yielded * generators.count { right += 1 }
      yielded += 1
    }
    return right
  }
}

@inline(never)
private func sumOfOneRound(_ generators: [Generator<Int>]) -> Int {
  var sum = 0
  for generator in generators { sum &+= generator.next() ?? 0 }
  return sum
}
