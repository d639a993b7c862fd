import Foundation

/// All that one run of the benchmarks finds out: printed as it comes, written at the end.
public struct Report {
  public let machine: Machine
  private let programs: Programs
  private let effort: Effort
  private var comparisons: [Comparison] = []
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
      say("\(workload.name): in the full form only, see --full\n")
      return
    }
    for cores in workload.cores {
      guard cores <= machine.cores else {
        say("\(workload.name), on \(cores) cores: MISSING, the process has \(machine.cores)\n")
        continue
      }
      let (comparison, broken) = try programs.compare(workload, cores: cores, effort)
      brokenPromises += broken
      comparisons.append(comparison)
      say(comparison.heading + "\n" + Table(Record.records(of: comparison)).text)
    }
  }

  /// Prints a line now, also where the output goes to a file: a run takes minutes.
  private func say(_ text: String) {
    FileHandle.standardOutput.write(Data((text + "\n").utf8))
  }

  /// Writes `latest.json`, the records, and `machine.json`, where they were taken; `report.md` and its charts, the same
  /// for people.
  public func write(to folder: URL) throws {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    let charts = folder.appendingPathComponent("charts")
    try FileManager.default.createDirectory(at: charts, withIntermediateDirectories: true)
    let records = comparisons.flatMap { Record.records(of: $0) }
    try encoder.encode(records).write(to: folder.appendingPathComponent("latest.json"))
    try encoder.encode(machine).write(to: folder.appendingPathComponent("machine.json"))
    var text = "# Benchmarks\n\n" + machine.description.split(separator: "\n").map { "    \($0)\n" }.joined() + "\n"
    text += MarkdownReport.introduction
    for (number, comparison) in comparisons.enumerated() {
      let chart = String(format: "%02d.svg", number + 1)
      try Data(Chart(comparison).svg.utf8).write(to: charts.appendingPathComponent(chart))
      text += MarkdownReport.section(comparison, chart: "charts/\(chart)")
    }
    try Data(text.utf8).write(to: folder.appendingPathComponent("report.md"))
  }
}

extension Comparison {
  /// "yield, one turn, on one core: 1 is Go, runtime.Gosched".
  var heading: String {
    let name = "\(workload), on \(cores == 1 ? "one core" : "\(cores) cores")"
    return bestPeer.map { "\(name): 1 is \($0.title)" } ?? name
  }
}
