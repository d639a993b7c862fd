import Foundation

/// All that one run of the benchmarks finds out: printed as it comes, written at the end.
public struct Report {
  public let machine: Machine
  private let effort: Effort
  private var records: [Record] = []
  /// What the subjects had promised and did not keep, for people. Empty if all went well.
  public private(set) var brokenPromises: [String] = []

  /// A report on what is measured on `machine`, whose description is printed.
  public init(_ effort: Effort, on machine: Machine) {
    self.effort = effort
    self.machine = machine
    say(machine.description + "\n")
  }

  /// Measures a workload and prints its table.
  public mutating func measure(_ workload: Workload) {
    let measured = workload.measured(effort)
    for one in measured {
      brokenPromises += one.broken.map { "\(workload.name): \(one.subject.system) \($0)" }
    }
    add(
      measured.map { Record($0, workload: workload.name, cores: machine.cores) }
        + workload.missing.map {
          Record(workload: workload.name, missing: $0.system, reason: $0.reason, cores: machine.cores)
        })
  }

  /// Adds the records of one workload that were measured in another way, and prints their table.
  public mutating func add(_ records: [Record]) {
    self.records += records
    say(Table(records).text)
  }

  /// Prints a line now, also where the output goes to a file: a run takes minutes.
  private func say(_ text: String) {
    FileHandle.standardOutput.write(Data((text + "\n").utf8))
  }

  /// Writes `latest.json`, the records, and `machine.json`, where they were taken.
  public func write(to folder: URL) throws {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    try encoder.encode(records).write(to: folder.appendingPathComponent("latest.json"))
    try encoder.encode(machine).write(to: folder.appendingPathComponent("machine.json"))
  }
}
