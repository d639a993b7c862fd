// SPDX-License-Identifier: Apache-2.0

import CoroutineTesting

/// Small scenes of two or three threads, in which every access to an atomic word or a lock of the runtime is a point where
/// another thread may go on. In a build without the seam (`scripts/interleavings.sh` has it) it says so and fails.
///
///     CoroutineInterleavings [preemptions] [runs]
///
/// First all interleavings of each scene with at most so many preemptions (1), then so many by chance (1000).
@main
enum Interleavings {
  static func main() {
    #if COROUTINE_INTERLEAVINGS
      let arguments = CommandLine.arguments.dropFirst().compactMap(Int.init)
      let preemptions = arguments.first ?? 1
      let runs = arguments.dropFirst().first ?? 1000
      // A thread that looks at the workers of pools by real time would take part.
      setenv("COROUTINE_BLOCKED_SECONDS", "0", 1)
      for scenario in scenarios
      where CommandLine.arguments.count < 4 || scenario.name.contains(CommandLine.arguments[3]) {
        let begin = ContinuousClock.now
        let count = scenario.isRepeatable ? exploreAll(scenario, preemptions: preemptions, limit: 200_000) : 0
        exploreByChance(scenario, runs)
        print("\(scenario.name): \(count) interleavings, \(runs) by chance, \(ContinuousClock.now - begin)")
      }
      print("\(scenarios.count) passed, 0 failed")
    #else
      print("This build has no seam in its atomics: use scripts/interleavings.sh")
      exit(2)
    #endif
  }
}

#if COROUTINE_INTERLEAVINGS
  import Foundation

  /// How many there were.
  private func exploreAll(_ scenario: Scenario, preemptions: Int, limit: Int) -> Int {
    let source = ExhaustiveSource(.preemptions(atMost: preemptions))
    var count = 0
    repeat {
      run(scenario, source, "preemptions=\(preemptions), number \(count)")
      count += 1
    } while source.advance() && count < limit
    return count
  }

  private func exploreByChance(_ scenario: Scenario, _ runs: Int) {
    for seed in 0..<runs {
      let source: any ScheduleSource =
        seed.isMultiple(of: 2) ? RandomSource(seed: UInt64(seed)) : PrioritySource(seed: UInt64(seed), depth: 3)
      run(scenario, source, "seed \(seed)")
    }
  }

  private func run(_ scenario: Scenario, _ source: any ScheduleSource, _ name: String) {
    func fail(_ text: String) -> Never {
      print("FAILED: \(scenario.name), \(name): \(text)")
      fflush(nil)
      if getenv("STOP") != nil {
        print(getpid())
        fflush(nil)
        pause()
      }
      _exit(1)
    }
    let box = Box()
    let play = scenario.make { box.interleaver?.begin() }
    let interleaver = Interleaver(source, play.bodies, fail: fail)
    box.interleaver = interleaver
    interleaver.run()
    if let problem = play.check() { fail("\(problem); turns of the threads \(interleaver.turns)") }
  }

  // Unchecked: written before the threads begin.
  private final class Box: @unchecked Sendable {
    var interleaver: Interleaver?
  }
#else
  import Foundation
#endif
