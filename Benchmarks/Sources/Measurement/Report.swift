import Foundation

/// All that one run of the benchmarks finds out: printed as it comes, written at the end.
public struct Report {
  public let machine: Machine
  private let programs: Programs
  private let effort: Effort
  private var comparisons: [Comparison] = []
  private var leftOut: [LeftOut] = []
  /// What the subjects had promised and did not keep, for people. Empty if all went well.
  public private(set) var brokenPromises: [String] = []

  /// A report on what is measured on `machine`.
  public init(_ effort: Effort, _ programs: Programs, on machine: Machine) {
    self.effort = effort
    self.programs = programs
    self.machine = machine
  }

  /// Measures a workload, on each number of processors that it is for, and prints the tables.
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

  /// Notes that there are no figures of a workload, or of some backends in it.
  private mutating func leaveOut(_ workload: Workload, _ cores: Int, _ reason: String, of backends: [String]? = nil) {
    let left = LeftOut(workload: workload.name, cores: cores, backends: backends, reason: reason)
    leftOut.append(left)
    say(left.text + "\n")
  }

  /// Prints a line now, also where the output goes to a file: a run takes minutes.
  private func say(_ text: String) {
    FileHandle.standardOutput.write(Data((text + "\n").utf8))
  }

  /// Writes `latest.json`, the records, and `machine.json`, where they were taken and what was left out; `report.md` and
  /// its charts, the same for people.
  public func write(to folder: URL) throws {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    let charts = folder.appendingPathComponent("charts")
    try FileManager.default.createDirectory(at: charts, withIntermediateDirectories: true)
    let records = comparisons.flatMap { Record.records(of: $0) }
    try encoder.encode(records).write(to: folder.appendingPathComponent("latest.json"))
    let circumstances = Circumstances(machine: machine, leftOut: leftOut)
    try encoder.encode(circumstances).write(to: folder.appendingPathComponent("machine.json"))
    var text = "# Benchmarks\n\n" + machine.description.split(separator: "\n").map { "    \($0)\n" }.joined() + "\n"
    text += MarkdownReport.introduction
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
  /// Those that were not. `nil`: nothing was.
  let backends: [String]?
  let reason: String

  /// For people.
  var text: String {
    let which = backends.map { ", \($0.joined(separator: ", "))" } ?? ""
    return "\(workload), on \(cores == 1 ? "one core" : "\(cores) cores")\(which): LEFT OUT, \(reason)"
  }
}

/// The content of `machine.json`: the machine's keys, and `leftOut`.
private struct Circumstances: Encodable {
  let machine: Machine
  let leftOut: [LeftOut]

  private enum CodingKeys: CodingKey {
    case leftOut
  }

  func encode(to encoder: any Encoder) throws {
    try machine.encode(to: encoder)
    var container = encoder.container(keyedBy: CodingKeys.self)
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
