// SPDX-License-Identifier: Apache-2.0

import Foundation

/// What the runtime must keep beside its peers. Read from a file of the repository.
public struct Thresholds {
  let all: [Threshold]

  /// One line of the file.
  struct Threshold: Decodable {
    let workload: String
    let cores: Int
    /// The system whose figures are compared.
    let system: String
    let backend: String
    let measure: Measure
    /// The peer whose time is 1. None for bytes.
    let peer: String?
    /// The workload in which the peer is measured, if it is not the same one: the same system with less to do.
    let peerWorkload: String?
    /// A larger value fails. It is the value that is reached, with room for a machine that has other work.
    let atMost: Double
    /// The value that is aimed at.
    let target: Double

    enum Measure: String, Decodable {
      case time, bytes
    }

    private enum CodingKeys: String, CodingKey {
      case workload, cores, system, backend, measure, peer, target
      case peerWorkload = "peer_workload"
      case atMost = "at_most"
    }
  }

  public init(from file: URL) throws {
    all = try JSONDecoder().decode([Threshold].self, from: Data(contentsOf: file))
  }

  /// Seconds to wait before a failed measurement is repeated. A machine is slow for a while, but a slower change is
  /// slow each time.
  private static let pauses: [UInt32] = [0, 5, 15, 30]

  /// Measures what the thresholds name, and nothing else, and prints the results. Failed measurements are repeated
  /// when all others are done, four times at most.
  ///
  /// - Returns: the thresholds that were not kept, for people. Empty if all were. A missing peer is printed, and no
  ///   failure.
  /// - Throws: `Failure` if the file names something that does not exist.
  public func check(_ suite: [Workload], _ programs: Programs, _ effort: Effort) throws -> [String] {
    var measured = Measured(suite: suite, programs: programs, effort: effort, thresholds: self)
    for pause in Self.pauses {
      let failing = Set(try all.filter { try !measured.keeps($0) }.map(\.place))
      if failing.isEmpty { break }
      sleep(pause)
      for place in failing { try measured.measureAgain(place) }
    }
    var problems: [String] = []
    var rows: [[String]] = []
    for threshold in all {
      let value = try measured.value(of: threshold)
      let times = value == nil ? "" : "\(measured.count(of: threshold))"
      rows.append(
        threshold.titles + [
          value.map(threshold.text) ?? "", threshold.text(threshold.atMost), threshold.text(threshold.target), times,
          threshold.verdict(on: value, threshold.atMost),
        ])
      if let value, value > threshold.atMost {
        problems.append(
          "\(threshold.workload): \(threshold.system) needs \(threshold.text(value)) "
            + "of \(threshold.peer ?? "memory"), at most \(threshold.text(threshold.atMost)) is allowed")
      }
    }
    let titles = Threshold.titles + ["measured", "at most", "target", "times", ""]
    let counted = try measured.countTheRest()
    let compared = rows.count { $0[$0.count - 2] != "" }
    let summary =
      "\n\(compared) of \(all.count) thresholds compared; the others lack a peer or a processor.\n"
      + "Promises to do without allocations, calls and locks: \(counted) counted beside these.\n"
    FileHandle.standardOutput.write(Data((Table(titles: titles, rows: rows).text + summary).utf8))
    return problems + measured.brokenPromises
  }
}

extension Thresholds.Threshold {
  /// The workload and the number of cores with which it is measured.
  fileprivate var place: Thresholds.Measured.Place { .init(workload: workload, cores: cores) }

  /// Whether the process may use enough processors.
  fileprivate var isPossible: Bool { cores <= Processors.given.count }

  /// A figure in the unit of the threshold's kind.
  func text(_ value: Double) -> String { Table.digits(value, measure == .time ? 3 : 0) }

  /// The titles of the first columns of tables.
  static var titles: [String] { ["workload, cores", "system", "beside"] }
  var titles: [String] {
    ["\(workload), on \(cores)", "\(system) [\(backend)]", peerWorkload ?? peer ?? "bytes"]
  }

  /// The value, the target and, if it can fail, the limit, in words.
  func verdict(on value: Double?, _ atMost: Double = .infinity) -> String {
    switch value {
    case nil where !isPossible: "left out, one processor"
    case nil: "missing"
    case let value? where value > atMost: "FAILS"
    case let value? where value > target: atMost.isFinite ? "kept" : "falls short"
    default: "target reached"
    }
  }

  /// The threshold's value in one comparison: the ratios of all rounds, or the ratio of two medians, or a number of
  /// bytes. `nil` if a program is missing.
  ///
  /// - Parameter others: makes the comparison of `peerWorkload`, if there is one.
  func value(in comparison: Comparison, _ others: () throws -> Comparison?) throws -> Distribution? {
    let own = try entry(system, backend, in: comparison)
    guard measure == .time else { return own.bytes.map { Distribution([$0]) } }
    guard let peer else { throw Failure("\(workload): a ratio needs a peer") }
    guard peerWorkload != nil else {
      let reference = try? entry(peer, backend, in: comparison)
      return comparison.ratio(of: own, to: try reference ?? entry(peer, nil, in: comparison))
    }
    guard let others = try others(), let time = own.distribution,
      let otherTime = try entry(peer, backend, in: others).distribution
    else {
      return nil
    }
    return Distribution([time.median / otherTime.median])
  }

  private func entry(_ system: String, _ backend: String?, in comparison: Comparison) throws -> Comparison.Entry {
    let found = comparison.entries.first { $0.system == system && (backend == nil || $0.backend == backend) }
    guard let found else { throw Failure("the thresholds name \(system), which is not in \(comparison.workload)") }
    return found
  }
}

extension Thresholds {
  /// The comparisons that were made so far, of the subjects that the thresholds name. Each workload was measured
  /// until all its thresholds were kept.
  fileprivate struct Measured {
    let suite: [Workload]
    let programs: Programs
    let effort: Effort
    let thresholds: Thresholds
    private(set) var brokenPromises: [String] = []
    private var comparisons: [Place: [Comparison]] = [:]

    struct Place: Hashable {
      let workload: String
      let cores: Int
    }

    init(suite: [Workload], programs: Programs, effort: Effort, thresholds: Thresholds) {
      self.suite = suite
      self.programs = programs
      self.effort = effort
      self.thresholds = thresholds
    }

    /// The least value so far, which is compared with `atMost`. `nil` if a program is missing, or a processor.
    mutating func value(of threshold: Threshold) throws -> Double? {
      guard threshold.isPossible else { return nil }
      return try comparisons(at: threshold.place).compactMap { try value(of: threshold, in: $0) }.min()
    }

    mutating func keeps(_ threshold: Threshold) throws -> Bool {
      guard let value = try value(of: threshold) else { return true }
      return value <= threshold.atMost
    }

    private mutating func value(of threshold: Threshold, in comparison: Comparison) throws -> Double? {
      try threshold.value(in: comparison) {
        try threshold.peerWorkload.map { try comparisons(at: Place(workload: $0, cores: threshold.cores))[0] }
      }?.median
    }

    /// How often the threshold's workload was measured.
    func count(of threshold: Threshold) -> Int { comparisons[threshold.place]?.count ?? 0 }

    mutating func measureAgain(_ place: Place) throws {
      comparisons[place, default: []].append(try measure(place))
    }

    /// Counts what all other subjects promise, as far as that is quick.
    ///
    /// - Returns: how many subjects were counted.
    mutating func countTheRest() throws -> Int {
      var counted = 0
      for workload in suite where workload.extent.isCalibrated && workload.cores.contains(1) {
        let subjects = workload.subjects.filter { !$0.promises.isEmpty && $0.granularity <= 10_000 && $0.process == "" }
        let known = comparisons[Place(workload: workload.name, cores: 1)]?.first?.entries.map(\.title) ?? []
        let (count, broken) = try programs.count(workload.with(subjects), without: Set(known))
        counted += count
        brokenPromises += broken
      }
      return counted
    }

    /// Returns at least one comparison.
    private mutating func comparisons(at place: Place) throws -> [Comparison] {
      if let known = comparisons[place] { return known }
      comparisons[place] = [try measure(place)]
      return comparisons[place] ?? []
    }

    private mutating func measure(_ place: Place) throws -> Comparison {
      guard let workload = suite.first(where: { $0.name == place.workload && $0.cores.contains(place.cores) }) else {
        throw Failure("the thresholds name \(place.workload) on \(place.cores), which there is not")
      }
      let here = thresholds.all.filter { [$0.workload, $0.peerWorkload].contains(place.workload) }
      let systems = Set(here.flatMap { [$0.system, $0.peer ?? $0.system] })
      let asked = workload.with(workload.subjects.filter { systems.contains($0.system) })
      let backends = Programs.backends.filter { backend in here.contains { $0.backend == backend } }
      let (comparison, broken) = try programs.compare(
        asked, cores: place.cores, effort, backends: backends, onlyPromised: true)
      brokenPromises += broken
      return comparison
    }
  }
}
