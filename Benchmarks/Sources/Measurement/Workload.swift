/// Subjects that do the same work, measured in turn.
public struct Workload {
  /// What they do, with the unit of the figures: "switch, one way".
  public let name: String
  /// On how many processors it is measured: each number is a comparison of its own.
  public let cores: [Int]
  public let extent: Extent
  public let subjects: [Subject]
  /// The builds of the runtime that are measured, where all of them at once would take too much memory. `nil`: all.
  public let backends: [String]?

  public init(
    _ name: String, cores: [Int] = [1], extent: Extent = .calibrated, backends: [String]? = nil, subjects: [Subject]
  ) {
    self.name = name
    self.cores = cores
    self.extent = extent
    self.backends = backends
    self.subjects = subjects
  }

  /// The same with some of the subjects.
  func with(_ subjects: [Subject]) -> Workload {
    Workload(name, cores: cores, extent: extent, backends: backends, subjects: subjects)
  }
}

/// How much of a workload one run does, and how many runs there are, in the quick form (none: left to the full one) and in
/// the full one.
public enum Extent: Sendable {
  /// As many operations as take some milliseconds, found out for each subject.
  case calibrated
  /// Always so many, for work that is one large piece, after two runs of `warmUp`. A run's time is divided by `units`.
  case fixed(operations: Int, units: Int, warmUp: Int, quick: Int, full: Int)
  /// The same for each operation, and each run in a process of its own: only there does its memory say what the work takes,
  /// and its time what it takes for the first time.
  case fixedInNewProcess(operations: Int, quick: Int, full: Int)
}

extension Extent {
  /// Whether the operations are so small that counting them takes no time to speak of.
  var isCalibrated: Bool {
    if case .calibrated = self { true } else { false }
  }
}

/// How much is measured.
public struct Effort: Sendable {
  /// How often each subject runs.
  let rounds: Int
  /// How often at least, where all of them together take longer than `patience`.
  let fewestRounds: Int
  let patience: Duration
  /// What one run should take at least.
  let nanoseconds: Double
  let isFull: Bool

  public static let quick = Effort(
    rounds: 11, fewestRounds: 5, patience: .seconds(5), nanoseconds: 5e6, isFull: false)
  public static let full = Effort(
    rounds: 61, fewestRounds: 61, patience: .seconds(0), nanoseconds: 15e6, isFull: true)

  func rounds(of extent: Extent) -> Int {
    switch extent {
    case .calibrated: rounds
    case .fixed(_, _, _, let quick, let full), .fixedInNewProcess(_, let quick, let full): isFull ? full : quick
    }
  }
}
