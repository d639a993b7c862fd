// SPDX-License-Identifier: Apache-2.0

import Context
import Coroutine
import Measurement

extension Workload {
  /// Many generators that are all suspended in the middle of their bodies, each asked for one element in turn: what a
  /// step costs when neither stacks nor blocks are in the nearest cache. One operation is one element.
  ///
  /// 60,000 generators fill twenty megabytes of the last cache, which the other programs have used in between. So one
  /// run has many rounds, and the first one, which brings them back, counts little.
  static func inTurn() -> [Workload] {
    [(1, 1), (1_000, 1), (60_000, 10)].map { count, atOnce in
      let granularity = count * atOnce
      let rounds = { (operations: Int) in operations / count }
      let generators = Lazy { Generators(count) }
      return Workload(
        count == 1 ? "one generator, one step" : "\(count) generators in turn, one step",
        subjects: [
          Subject(
            "Generator", backend: Coroutine.backendName, role: .runtime, promises: .noAllocation,
            granularity: granularity, expecting: rounds, loop: { generators.value.rounds($0 / count) })
        ] + Backends.subjects(Contexts(count: count, atOnce: atOnce)) + [
          .peer("boost::coroutines2", .boostContext, granularity: granularity, expecting: rounds),
          .peer("boost::context::fiber", .boostContext, granularity: granularity, expecting: rounds),
          .peer("C++20 generators", .cxx, granularity: granularity, expecting: rounds),
          Yardstick.subject(.plain),
        ])
    }
  }
}

/// Bare contexts in turn.
private struct Contexts: SubjectsOfBackend {
  let count: Int
  let atOnce: Int

  func subjects<Backend: MeasuredBackend>(_ backend: Backend.Type, _ promises: Promises) -> [Subject] {
    let contexts = Lazy {
      let stacks = try StackPool.shared(stackSize: 64 << 10)
      return try (0..<count).map { _ in try Partner<Backend>(Backend.countingEntry, on: stacks) }
    }
    var yielded = 0
    let loop = { (operations: Int) in
      (0..<operations / count).reduce(0) { right, _ in
        defer { yielded += 1 }
        return sumOfRound(contexts.value) == yielded * count ? right + 1 : right
      }
    }
    return [
      Subject(
        "bare context", backend: Backend.name, role: .backend, promises: .noAllocation, granularity: count * atOnce,
        expecting: { $0 / count }, loop: loop)
    ]
  }
}

/// Generators that count, and the number of elements that each has yielded so far.
private final class Generators {
  private let generators: [Generator<Int>]
  private var yielded = 0

  init(_ count: Int) {
    // 64 KiB each, of which only the first pages are used.
    generators = (0..<count).map { _ in
      Generator<Int>(stackSize: 64 << 10) { yield in
        for number in 0..<Int.max { try yield(number) }
      }
    }
  }

  /// Asks each generator for an element, `count` times. Returns the number of rounds in which all gave the same,
  /// right number.
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
