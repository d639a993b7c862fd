// SPDX-License-Identifier: Apache-2.0

import CoroutineTesting
import Foundation

/// Small scenes of a few threads, in which accesses to the runtime's atomic words and locks are points where another thread may go
/// on. In a build without the seam (`scripts/interleavings.sh` has it) it says so and fails.
///
///     CoroutineInterleavings [preemptions] [runs] [scene]
///
/// First the interleavings of each scene with at most so many preemptions (1), then so many by chance (1000). Of all scenes,
/// or of those whose names contain a text. A failure is a line that begins with `FAILED:`, and the exit code 1.
@main
enum Interleavings {
  static func main() {
    #if COROUTINE_INTERLEAVINGS
      let arguments = CommandLine.arguments
      let preemptions = arguments.dropFirst().first.flatMap { Int($0) } ?? 1
      let runs = arguments.dropFirst(2).first.flatMap { Int($0) } ?? 1000
      let chosen = scenarios.filter { scenario in arguments.dropFirst(3).allSatisfy { scenario.name.contains($0) } }
      // A thread that looks at the workers of pools by real time would take part.
      setenv("COROUTINE_BLOCKED_SECONDS", "0", 1)
      for scenario in chosen {
        var exploration = Exploration(scenario)
        if scenario.isRepeatable { exploration.exploreAll(preemptions: preemptions) }
        exploration.exploreByChance(runs)
        print(exploration.summary)
        fflush(nil)
      }
      print("\(chosen.count) passed, 0 failed")
    #else
      print("This build has no seam in its atomics: use scripts/interleavings.sh")
      exit(2)
    #endif
  }
}

#if COROUTINE_INTERLEAVINGS
  /// What was tried of a scene.
  private struct Exploration {
    private static var limit: Int { 200_000 }

    private let scenario: Scenario
    private let begin = ContinuousClock.now
    private var all = "by chance alone"
    private var runs = 0
    private var accesses = 0
    private var timeouts = 0

    init(_ scenario: Scenario) { self.scenario = scenario }

    mutating func exploreAll(preemptions: Int) {
      let source = ExhaustiveSource(.preemptions(atMost: preemptions))
      var isMore = true
      while isMore, runs < Self.limit {
        run(source, "preemptions=\(preemptions), number \(runs)")
        isMore = source.advance()
      }
      all = isMore ? "the first \(runs)" : "all \(runs)"
    }

    mutating func exploreByChance(_ count: Int) {
      for seed in 0..<UInt64(count) {
        let source: any ScheduleSource =
          seed.isMultiple(of: 2) ? RandomSource(seed: seed) : PrioritySource(seed: seed, depth: 3)
        run(source, "seed \(seed)")
      }
    }

    /// The last number: how often a lock's sleeper went on by the time, in all runs.
    var summary: String {
      "\(scenario.name): \(all), \(runs) in all, \(accesses / max(runs, 1)) accesses each, \(timeouts) late wakes, "
        + "\((ContinuousClock.now - begin).formatted(.units(allowed: [.seconds], fractionalPart: .show(length: 1))))"
    }

    private mutating func run(_ source: any ScheduleSource, _ name: String) {
      let scene = scenario.name
      func fail(_ text: String) -> Never {
        print("FAILED: \(scene), \(name): \(text)")
        fflush(nil)
        // At once: the threads of the run stay where they are.
        _exit(1)
      }
      let box = Box()
      let play = scenario.make { box.interleaver?.begin() }
      let interleaver = Interleaver(source, play.bodies, fail: fail)
      box.interleaver = interleaver
      interleaver.run()
      if let problem = play.check() { fail("\(problem); turns of the threads \(interleaver.turns)") }
      guard interleaver.accesses > 0 else { fail("no access was seen: the runtime was built without the seam") }
      runs += 1
      accesses += interleaver.accesses
      timeouts += interleaver.timeouts
    }

    // Unchecked: written before the threads begin.
    private final class Box: @unchecked Sendable {
      var interleaver: Interleaver?
    }
  }
#endif
