// SPDX-License-Identifier: Apache-2.0

import Foundation

/// The results of one run of the benchmarks: printed as they come, written at the end.
public struct Report {
  public let machine: Machine
  private let programs: Programs
  private let effort: Effort
  private let thresholds: Thresholds
  private let start = ContinuousClock.now
  private var comparisons: [Comparison] = []
  private var leftOut: [LeftOut] = []
  /// The promises that subjects have broken, for people. Empty if all were kept.
  public private(set) var brokenPromises: [String] = []

  /// A report on measurements on `machine`, with the ratios that `thresholds` names at its head.
  public init(_ effort: Effort, _ programs: Programs, _ thresholds: Thresholds, on machine: Machine) {
    self.effort = effort
    self.programs = programs
    self.thresholds = thresholds
    self.machine = machine
  }

  /// Measures a workload on each of its numbers of processors, and prints the tables.
  public mutating func measure(_ workload: Workload) throws {
    guard effort.rounds(of: workload.extent) > 0 else {
      for cores in workload.cores { leaveOut(workload, cores, "in the full form only, see --full") }
      return
    }
    for cores in workload.cores {
      guard cores <= machine.cores else {
        leaveOut(workload, cores, "the process has \(machine.cores) of the machine's processors")
        continue
      }
      if let few = workload.backends {
        let others = Programs.backends.filter { !few.contains($0) }
        leaveOut(workload, cores, "it takes too much memory on all backends at once", of: others)
      }
      let (comparison, broken) = try programs.compare(workload, cores: cores, effort)
      brokenPromises += broken
      comparisons.append(comparison)
      say(comparison.heading + "\n" + Table(Record.records(of: comparison)).text)
    }
  }

  /// Records that there are no figures for a workload, or for some backends in it.
  private mutating func leaveOut(_ workload: Workload, _ cores: Int, _ reason: String, of backends: [String]? = nil) {
    let left = LeftOut(workload: workload.name, cores: cores, backends: backends, reason: reason)
    leftOut.append(left)
    say(left.text + "\n")
  }

  /// Prints a line at once, even if the output goes to a file: a run takes minutes.
  private func say(_ text: String) {
    FileHandle.standardOutput.write(Data((text + "\n").utf8))
  }

  /// Prints those ratios of the thresholds that were measured.
  public func sayRatios() throws {
    let ratios = try Ratios(thresholds, in: comparisons)
    if !ratios.all.isEmpty { say(ratios.table.text) }
  }

  /// Writes the files for programs: `latest.json` with the records, `ratios.json` with the ratios of the thresholds,
  /// and `machine.json` with the machine and what was left out. Writes `report.md` and its charts, the same for
  /// people.
  public func write(to folder: URL) throws {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    let charts = folder.appendingPathComponent("charts")
    try FileManager.default.createDirectory(at: charts, withIntermediateDirectories: true)
    let records = comparisons.flatMap { Record.records(of: $0) }
    try encoder.encode(records).write(to: folder.appendingPathComponent("latest.json"))
    let ratios = try Ratios(thresholds, in: comparisons)
    try encoder.encode(ratios.all).write(to: folder.appendingPathComponent("ratios.json"))
    let seconds = Int((.now - start) / .seconds(1))
    let form = effort.isFull ? "full" : "quick"
    let circumstances = Circumstances(machine: machine, form: form, seconds: seconds, leftOut: leftOut)
    try encoder.encode(circumstances).write(to: folder.appendingPathComponent("machine.json"))
    let head = machine.description + "\nthe \(form) form, in \(seconds / 60) minutes and \(seconds % 60) seconds"
    var text = "# Benchmarks\n\n" + head.split(separator: "\n").map { "    \($0)\n" }.joined() + "\n"
    text += MarkdownReport.introduction
    text += MarkdownReport.ratios(ratios)
    text += MarkdownReport.leftOut(leftOut)
    for (number, comparison) in comparisons.enumerated() {
      let chart = String(format: "%02d.svg", number + 1)
      try Data(Chart(comparison).svg.utf8).write(to: charts.appendingPathComponent(chart))
      text += MarkdownReport.section(comparison, chart: "charts/\(chart)")
    }
    try Data(text.utf8).write(to: folder.appendingPathComponent("report.md"))
  }
}

/// A workload that was not measured, or not with all backends, and why.
struct LeftOut: Encodable {
  let workload: String
  let cores: Int
  /// The backends that were not measured. `nil`: none was.
  let backends: [String]?
  let reason: String

  /// The text for people.
  var text: String {
    let which = backends.map { ", \($0.joined(separator: ", "))" } ?? ""
    return "\(workload), on \(cores == 1 ? "one core" : "\(cores) cores")\(which): LEFT OUT, \(reason)"
  }
}

/// The content of `machine.json`: the machine's keys, how much was measured, how long that took, and `leftOut`.
private struct Circumstances: Encodable {
  let machine: Machine
  let form: String
  let seconds: Int
  let leftOut: [LeftOut]

  private enum CodingKeys: CodingKey {
    case form, seconds, leftOut
  }

  func encode(to encoder: any Encoder) throws {
    try machine.encode(to: encoder)
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(form, forKey: .form)
    try container.encode(seconds, forKey: .seconds)
    try container.encode(leftOut, forKey: .leftOut)
  }
}

extension Comparison {
  /// "yield, one turn, on one core: 1 is Go, runtime.Gosched".
  var heading: String {
    let name = "\(workload), on \(cores == 1 ? "one core" : "\(cores) cores")"
    return bestPeer.map { "\(name): 1 is \($0.title)" } ?? name
  }
}
