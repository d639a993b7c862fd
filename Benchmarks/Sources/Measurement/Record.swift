/// What was found out about one system under one workload: a row of the table, an element of `latest.json`.
public struct Record: Encodable {
  public var workload: String
  public var system: String
  /// The context backend, where one is involved.
  public var backend: String?
  /// How many processors the process had.
  public var cores: Int
  /// Nanoseconds for each operation.
  public var times: Distribution?
  /// Bytes for each unit of the workload, where memory was measured.
  public var bytes: Int?
  /// How often it was measured.
  public var runs: Int
  /// Blocks allocated for each operation, where they were counted.
  public var allocations: Double?
  /// Instructions of each operation, and those of them that change memory atomically, where they were counted.
  public var instructions: Double?
  public var locking: Double?
  /// The system whose time is 1 in `ratio`.
  public var comparedWith: String?
  /// The ratios of all rounds.
  public var ratio: Distribution?
  /// Why there are no figures.
  public var missing: String?

  /// Figures that were not taken by `Report.measure`.
  public init(
    workload: String, system: String, backend: String?, cores: Int, times: Distribution? = nil, bytes: Int? = nil,
    runs: Int
  ) {
    self.workload = workload
    self.system = system
    self.backend = backend
    self.cores = cores
    self.times = times
    self.bytes = bytes
    self.runs = runs
  }

  init(_ measured: Measured, workload: String, cores: Int) {
    self.init(
      workload: workload, system: measured.subject.system, backend: measured.subject.backend, cores: cores,
      times: measured.times, runs: measured.times.count)
    allocations = measured.allocations
    instructions = measured.path?.instructions
    locking = measured.path?.locking
    ratio = measured.ratio
    comparedWith = ratio == nil ? nil : measured.subject.comparedWith
  }

  init(workload: String, missing system: String, reason: String, cores: Int) {
    self.init(workload: workload, system: system, backend: nil, cores: cores, runs: 0)
    missing = reason
  }

  private enum CodingKeys: String, CodingKey {
    case workload, system, backend, cores, runs, bytes, allocations, instructions, missing
    case median = "median_ns"
    case min = "min_ns"
    case lowerQuartile = "lower_quartile_ns"
    case upperQuartile = "upper_quartile_ns"
    case locking = "atomic_changes"
    case comparedWith = "compared_with"
    case ratio
    case ratioLowerQuartile = "ratio_lower_quartile"
    case ratioUpperQuartile = "ratio_upper_quartile"
  }

  /// Some keys are always there, as `null` where there is no value; the others only where they say something.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(workload, forKey: .workload)
    try container.encode(system, forKey: .system)
    try container.encode(backend, forKey: .backend)
    try container.encode(cores, forKey: .cores)
    try container.encode(times?.median, forKey: .median)
    try container.encode(times?.min, forKey: .min)
    try container.encode(runs, forKey: .runs)
    try container.encode(bytes, forKey: .bytes)
    try container.encodeIfPresent(times?.lowerQuartile, forKey: .lowerQuartile)
    try container.encodeIfPresent(times?.upperQuartile, forKey: .upperQuartile)
    try container.encodeIfPresent(allocations, forKey: .allocations)
    try container.encodeIfPresent(instructions, forKey: .instructions)
    try container.encodeIfPresent(locking, forKey: .locking)
    try container.encodeIfPresent(comparedWith, forKey: .comparedWith)
    try container.encodeIfPresent(ratio?.median, forKey: .ratio)
    try container.encodeIfPresent(ratio?.lowerQuartile, forKey: .ratioLowerQuartile)
    try container.encodeIfPresent(ratio?.upperQuartile, forKey: .ratioUpperQuartile)
    try container.encodeIfPresent(missing, forKey: .missing)
  }
}
