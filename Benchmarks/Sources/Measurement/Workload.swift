// SPDX-License-Identifier: Apache-2.0

/// Subjects that do the same work, measured in turn.
public struct Workload {
  /// What the subjects do, with the unit of the figures: "switch, one way".
  public let name: String
  /// The numbers of processors to measure on. Each is a comparison of its own.
  public let cores: [Int]
  public let extent: Extent
  public let subjects: [Subject]
  /// The builds of the runtime that are measured, if all of them together would take too much memory. `nil`: all.
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

  /// The same workload with some of the subjects.
  func with(_ subjects: [Subject]) -> Workload {
    Workload(name, cores: cores, extent: extent, backends: backends, subjects: subjects)
  }
}

/// How many operations one run has, and how many runs there are in the quick form and in the full one. 0: not in that
/// form.
public enum Extent: Sendable {
  /// As many operations as take some milliseconds, determined for each subject.
  case calibrated
  /// Always that many, for work that is one large piece, after two runs of `warmUp`. A run's time is divided by
  /// `units`.
  case fixed(operations: Int, units: Int, warmUp: Int, quick: Int, full: Int)
  /// The same per operation, with each run in a process of its own. Only there is the process's memory that of the
  /// work, and the time that of doing it for the first time.
  case fixedInNewProcess(operations: Int, quick: Int, full: Int)
}

extension Extent {
  /// Whether the operations are so small that counting them is quick.
  var isCalibrated: Bool {
    if case .calibrated = self { true } else { false }
  }
}

/// How much is measured.
public struct Effort: Sendable {
  /// How often each subject runs.
  let rounds: Int
  /// The least number of rounds, if all of them together take longer than `patience`.
  let fewestRounds: Int
  let patience: Duration
  /// The least time of one run.
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
