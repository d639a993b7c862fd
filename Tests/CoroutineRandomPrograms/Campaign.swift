import Coroutine
import CoroutineTesting
import Glibc
import Synchronization

/// Many programs, and what is said of those that fail.
struct Campaign {
  private(set) var programs = 0
  private(set) var schedules = 0
  private(set) var poolRuns = 0
  private(set) var failures = 0

  /// Runs a program, and prints a failure, in one line that repeats it, and what follows from it.
  mutating func run(_ recipe: Recipe, repeats: Int = Recipe.repeats) {
    programs += 1
    do {
      let runs = try recipe.run(repeats: repeats)
      if recipe.place == .pool { poolRuns += runs } else { schedules += runs }
    } catch {
      failures += 1
      // On threads, what takes its whole patience to be found takes too long to be tried again and again.
      let shorter = recipe.place == .seeded && recipe.schedule == nil ? recipe.shrunk() : nil
      Self.report(shorter?.recipe ?? recipe, shorter?.error ?? error)
    }
  }

  private static func report(_ recipe: Recipe, _ error: any Error) {
    print("FAILED: CoroutineRandomPrograms replay \(recipe)")
    for line in "\(error)".split(separator: "\n") + recipe.program.lines.map({ $0[...] }) { print("  \(line)") }
    fflush(nil)
  }

  var summary: String {
    "\(programs) programs: \(schedules) seeded schedules and \(poolRuns) runs on threads, \(failures) failures"
  }

  // MARK: Kinds of campaigns

  /// The kept programs, and those of some seeds: always the same.
  mutating func runKept(_ seeds: Range<UInt64>) {
    for recipe in Corpus.recipes { run(recipe) }
    for seed in seeds {
      run(Recipe(.seeded, seed))
      run(Recipe(.pool, seed), repeats: 2)
    }
  }

  /// New programs, until the time is up.
  mutating func run(for duration: Duration, from first: UInt64) {
    let start = ContinuousClock.now
    var seed = first
    var latest = start
    repeat {
      run(Recipe(.seeded, seed))
      run(Recipe(.pool, seed), repeats: 5)
      seed += 1
      if ContinuousClock.now - latest > .seconds(30) {
        latest = .now
        print("seeds \(first)..<\(seed), \(summary)")
        fflush(nil)
      }
    } while ContinuousClock.now - start < duration
    print("seeds \(first)..<\(seed)")
  }

  /// Puts each defect in, which some program must find.
  ///
  /// - Returns: whether all were found.
  static func findDefects(_ seeds: Range<UInt64>, shows: Bool) -> Bool {
    var isRight = true
    for defect in Defect.allCases {
      var found: (recipe: Recipe, error: any Error)?
      for seed in seeds where found == nil {
        let recipe = Recipe(.seeded, seed)
        do { try recipe.run(defect, shrinks: false) } catch {
          if "\(error)".contains(defect.finding) { found = (recipe, error) }
        }
      }
      guard let (recipe, error) = found else {
        print("FAILED: \(defect) was not found by the seeds \(seeds)")
        isRight = false
        continue
      }
      print("\(defect): seed \(recipe.seed)")
      guard shows else { continue }
      let shorter = recipe.shrunk(defect)
      print("  \(shorter?.recipe ?? recipe)")
      for line in "\(shorter?.error ?? error)".split(separator: "\n") { print("  \(line)") }
      for line in (shorter?.recipe ?? recipe).program.lines { print("  \(line)") }
    }
    return isRight
  }
}
