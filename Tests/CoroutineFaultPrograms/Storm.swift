import CCoroutineFaults

/// Threads of a program that a storm of signals must reach.
struct StormyThreads: Sendable {
  static let first = Self(name: "", count: 1)
  /// The first one, where it makes no system call that lasts.
  static let running = Self(name: "", count: 1, sleeps: false)
  static let pool = Self(name: "coroutine-pool", count: 2)
  static let timer = Self(name: "coroutine-timer", count: 1)
  static let blocking = Self(name: "coroutine-block", count: 2)

  private let name: String
  /// How many of them, at least.
  private let count: Int
  fileprivate private(set) var sleeps = true

  private var counted: coroutine_storm_count {
    var counted = coroutine_storm_count()
    precondition(coroutine_storm_count(name, &counted))
    return counted
  }

  /// Whether enough of them got a signal.
  var wereReached: Bool { counted.threads >= count }

  /// Whether a system call of theirs was ended by a signal.
  var wereInterrupted: Bool { counted.interruptions > 0 }

  var description: String {
    let thread = name.isEmpty ? "the first thread" : "\(counted.threads) threads \(name)"
    return "\(thread): \(counted.arrivals) signals, \(counted.interruptions) calls ended"
  }
}

/// A program in a storm of signals, which is over in a moment: so it runs again and again until the storm has reached its
/// threads.
struct Storm {
  /// The signals that each thread was sent: so many at least, and so many at most before the program has failed.
  private static var rounds: ClosedRange<Int> { 200...10_000 }

  let program: FaultProgram

  /// Returns what has come of it.
  func run() throws -> String {
    var runs = 0
    repeat {
      try program.body()
      runs += 1
      guard hasReachedThreads || coroutine_storm_round_count() < Self.rounds.upperBound else {
        throw FaultProgram.Wrong(description: "the storm has not reached its threads: \(text(runs))")
      }
    } while coroutine_storm_round_count() < Self.rounds.lowerBound || !hasReachedThreads
    return text(runs)
  }

  /// All of its kinds, and one of them in a call. (Where there is one processor, the first thread may never be found in one.)
  private var hasReachedThreads: Bool {
    let sleeping = program.threads.filter(\.sleeps)
    return program.threads.allSatisfy(\.wereReached)
      && (sleeping.isEmpty || sleeping.contains(where: \.wereInterrupted))
  }

  private func text(_ runs: Int) -> String {
    "\(coroutine_storm_round_count()) signals to each thread in \(runs) runs; "
      + program.threads.map(\.description).joined(separator: "; ")
  }
}
