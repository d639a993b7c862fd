// SPDX-License-Identifier: Apache-2.0

/// The ratios that the thresholds name, from one run: the first table of the report, and `ratios.json`.
///
/// Nothing fails here, and nothing is measured again: these are the results of the run as they are.
struct Ratios {
  let all: [Ratio]

  /// A line of the table.
  struct Ratio: Encodable {
    let threshold: Thresholds.Threshold
    /// The ratios of the rounds, or the single figure. `nil` if it was left out.
    let value: Distribution?
  }

  /// The ratios of those thresholds whose workloads were measured.
  init(_ thresholds: Thresholds, in comparisons: [Comparison]) throws {
    func comparison(_ workload: String, _ cores: Int) -> Comparison? {
      comparisons.first { $0.workload == workload && $0.cores == cores }
    }
    all = try thresholds.all.compactMap { threshold in
      guard let own = comparison(threshold.workload, threshold.cores) else { return nil }
      let value = try threshold.value(in: own) {
        threshold.peerWorkload.flatMap { comparison($0, threshold.cores) }
      }
      return Ratio(threshold: threshold, value: value)
    }
  }

  var table: Table {
    Table(
      titles: Thresholds.Threshold.titles + ["ratio", "quartiles", "target", ""],
      rows: all.map { ratio in
        let text = ratio.threshold.text
        let spread = ratio.value.flatMap { value in
          value.count > 1 ? text(value.lowerQuartile) + "…" + text(value.upperQuartile) : nil
        }
        return ratio.threshold.titles + [
          ratio.value.map { text($0.median) } ?? "", spread ?? "", text(ratio.threshold.target),
          ratio.threshold.verdict(on: ratio.value?.median),
        ]
      })
  }
}

extension Ratios.Ratio {
  private enum CodingKeys: String, CodingKey {
    case workload, cores, system, backend, measure, peer, target, value
    case peerWorkload = "peer_workload"
    case lowerQuartile = "lower_quartile"
    case upperQuartile = "upper_quartile"
  }

  func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(threshold.workload, forKey: .workload)
    try container.encode(threshold.cores, forKey: .cores)
    try container.encode(threshold.system, forKey: .system)
    try container.encode(threshold.backend, forKey: .backend)
    try container.encode(threshold.measure.rawValue, forKey: .measure)
    try container.encode(threshold.peer, forKey: .peer)
    try container.encodeIfPresent(threshold.peerWorkload, forKey: .peerWorkload)
    try container.encode(threshold.target, forKey: .target)
    try container.encode(value?.median, forKey: .value)
    try container.encode(value?.lowerQuartile, forKey: .lowerQuartile)
    try container.encode(value?.upperQuartile, forKey: .upperQuartile)
  }
}
