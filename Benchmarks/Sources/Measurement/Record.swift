// SPDX-License-Identifier: Apache-2.0

/// The results of one system under one workload: a row of the table, an element of `latest.json`.
public struct Record: Encodable {
  let workload: String
  let cores: Int
  let entry: Comparison.Entry
  /// Nanoseconds for each operation.
  let times: Distribution?
  /// The system whose time is 1 in `ratio`, the best peer or one of the runtime's, and the ratios of all rounds.
  let comparedWith: String?
  let ratio: Distribution?

  /// The rows of a comparison.
  static func records(of comparison: Comparison) -> [Record] {
    comparison.entries.map { entry in
      let reference = comparison.reference(of: entry)
      let ratio = reference.flatMap { comparison.ratio(of: entry, to: $0) }
      return Record(
        workload: comparison.workload, cores: comparison.cores, entry: entry, times: entry.distribution,
        comparedWith: ratio == nil ? nil : reference?.title, ratio: ratio)
    }
  }

  private enum CodingKeys: String, CodingKey {
    case workload, system, backend, cores, runs, bytes, role, allocations, instructions, missing
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

  /// Some keys are always there, as `null` where there is no value. The others are there only with a value.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(workload, forKey: .workload)
    try container.encode(entry.system, forKey: .system)
    try container.encode(entry.backend, forKey: .backend)
    try container.encode(cores, forKey: .cores)
    try container.encode(times?.median, forKey: .median)
    try container.encode(times?.min, forKey: .min)
    try container.encode(entry.times.count, forKey: .runs)
    try container.encode(entry.bytes.map { Int($0.rounded()) }, forKey: .bytes)
    try container.encode(entry.role.rawValue, forKey: .role)
    try container.encodeIfPresent(times?.lowerQuartile, forKey: .lowerQuartile)
    try container.encodeIfPresent(times?.upperQuartile, forKey: .upperQuartile)
    try container.encodeIfPresent(entry.allocations, forKey: .allocations)
    try container.encodeIfPresent(entry.path?.instructions, forKey: .instructions)
    try container.encodeIfPresent(entry.path?.locking, forKey: .locking)
    try container.encodeIfPresent(comparedWith, forKey: .comparedWith)
    try container.encodeIfPresent(ratio?.median, forKey: .ratio)
    try container.encodeIfPresent(ratio?.lowerQuartile, forKey: .ratioLowerQuartile)
    try container.encodeIfPresent(ratio?.upperQuartile, forKey: .ratioUpperQuartile)
    try container.encodeIfPresent(entry.missing, forKey: .missing)
  }
}
