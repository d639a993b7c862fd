import Context
import Coroutine
import CoroutineTesting

/// How a run is made again: the arguments behind `replay`.
struct Recipe: Sendable, CustomStringConvertible {
  enum Place: String, Sendable {
    /// By schedules that come from seeds, on one thread.
    case seeded
    /// On threads.
    case pool
  }

  var place: Place
  var seed: UInt64
  /// The operations that are left out.
  var without: Set<Int> = []
  /// As `ScheduleFailure` shows it; `nil`: several are tried.
  var schedule: String?

  init(_ place: Place, _ seed: UInt64) { (self.place, self.seed) = (place, seed) }

  /// - Returns: `nil` if the words are none.
  init?(_ words: some Collection<String>) {
    guard let first = words.first, let place = Place(rawValue: first),
      let second = words.dropFirst().first, let seed = UInt64(second)
    else { return nil }
    self.init(place, seed)
    for word in words.dropFirst(2) {
      let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
      switch parts.first {
      case "without" where parts.count == 2:
        let numbers = parts[1].split(separator: ",").map { Int($0) }
        guard !numbers.contains(nil) else { return nil }
        without = Set(numbers.compactMap(\.self))
      case "schedule" where parts.count == 2: schedule = parts[1]
      default: return nil
      }
    }
  }

  var description: String {
    var words = [place.rawValue, "\(seed)"]
    if !without.isEmpty { words.append("without=" + without.sorted().map { "\($0)" }.joined(separator: ",")) }
    if let schedule { words.append("\"schedule=\(schedule)\"") }
    return words.joined(separator: " ")
  }

  var program: Program { Program(seed: seed, without: without) }

  // MARK: Running it

  /// How many schedules a program is run by, and how often on the pool.
  static let repeats = 10

  /// - Returns: how many runs there were.
  /// - Throws: what went wrong: `ScheduleFailure`, or `ModelViolation` on the pool.
  @discardableResult
  func run(_ defect: Defect? = nil, repeats: Int = Recipe.repeats, shrinks: Bool = true) throws -> Int {
    let (program, seed) = (program, seed)
    CrashNote.recipe = description
    LostErrors.keep()
    switch place {
    case .seeded:
      let body = { try ProgramRun.perform(program, seed: seed, defect, patience: .virtual) }
      if let schedule {
        try CoroutineTesting.replay(schedule, body)
        return 1
      }
      let options = ExplorationOptions(
        time: seed.isMultiple(of: 2) ? .whenIdle : .anytime, shrinks: shrinks, isExpected: LostErrors.isExpected)
      return try explore(seeds: 0..<repeats, options: options, body).schedules
    case .pool:
      for _ in 0..<repeats {
        try Coroutine(on: Self.pool) {
          try ProgramRun.perform(program, seed: seed, defect, patience: .real)
        }.getBlocking()
        if let error = LostErrors.take() { throw error }
      }
      return repeats
    }
  }

  private static let pool = ThreadPool(threads: 4)

  // MARK: Making it shorter

  /// A recipe that fails, too, with fewer operations, and what it fails by.
  func shrunk(_ defect: Defect? = nil) -> (recipe: Recipe, error: any Error)? {
    var best = self
    best.schedule = nil
    var budget = 200
    func fails(_ candidate: Recipe) -> Bool {
      guard budget > 0 else { return false }
      budget -= 1
      return (try? candidate.run(defect, repeats: 4 * Self.repeats, shrinks: false)) == nil
    }
    guard fails(best) else { return nil }
    var size = program.length / 2
    while size > 0, budget > 0 {
      for start in stride(from: 0, to: program.length, by: size) {
        var candidate = best
        candidate.without.formUnion(start..<start + size)
        if candidate.without != best.without, fails(candidate) { best = candidate }
      }
      size /= 2
    }
    do { try best.run(defect, repeats: 10 * Self.repeats) } catch {
      best.schedule = (error as? ScheduleFailure)?.schedule
      return (best, error)
    }
    return nil
  }
}

/// Errors that no caller gets, on the pool. Runs by seeds have their own.
enum LostErrors {
  private static let lock = Lock()
  nonisolated(unsafe) private static var first: (any Error)?  // guarded by `lock`

  /// From here on.
  static func keep() {
    CoroutineErrors.unhandled = { error, _ in if !isExpected(error) { note(error) } }
  }

  @Sendable static func isExpected(_ error: any Error) -> Bool { error is Thrown || error is SettledTwice }

  private static func note(_ error: any Error) { lock.withLock { first = first ?? error } }

  /// The first one since the last time.
  static func take() -> (any Error)? { lock.withLock { first.take() } }
}
