import Foundation

/// The records of one workload, for people. The ratio comes first: nanoseconds wander from machine to machine.
struct Table {
  private let records: [Record]

  init(_ records: [Record]) {
    self.records = records
  }

  var text: String {
    guard let first = records.first else { return "" }
    // Columns that say nothing about this workload are left out.
    let columns = Self.columns.filter { column in records.contains { column.cell($0) != "" } }
    let rows = [columns.map(\.title)] + records.map { record in columns.map { $0.cell(record) } }
    let widths = columns.indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
    let lines = rows.map { row in
      let cells = row.indices.map { $0 == 0 ? row[$0].padded(to: widths[$0]) : row[$0].padded(before: widths[$0]) }
      return "  " + cells.joined(separator: "  ")
    }
    return (["\(first.workload)"] + lines.map { $0.trimmingSuffix() }).joined(separator: "\n") + "\n"
  }

  private struct Column: Sendable {
    let title: String
    let cell: @Sendable (Record) -> String
  }

  private static let columns = [
    Column(title: "") { $0.backend == nil ? $0.system : "\($0.system) [\($0.backend ?? "")]" },
    Column(title: "ratio") { $0.ratio.map { digits($0.median, 3) } ?? "" },
    Column(title: "quartiles") { $0.ratio.map { spread($0, 3) } ?? "" },
    Column(title: "ns") { $0.times.map { digits($0.median, 2) } ?? $0.missing.map { "missing: \($0)" } ?? "" },
    Column(title: "min") { $0.times.map { digits($0.min, 2) } ?? "" },
    Column(title: "quartiles") { $0.times.map { spread($0, 2) } ?? "" },
    Column(title: "allocations") { $0.allocations.map(count) ?? "" },
    Column(title: "instructions") { $0.instructions.map(count) ?? "" },
    Column(title: "atomic") { $0.locking.map(count) ?? "" },
    Column(title: "bytes") { $0.bytes.map(String.init) ?? "" },
    Column(title: "ratio to") { $0.comparedWith ?? "" },
  ]

  private static func spread(_ values: Distribution, _ places: Int) -> String {
    digits(values.lowerQuartile, places) + "…" + digits(values.upperQuartile, places)
  }

  private static func count(_ value: Double) -> String { digits(value, value == value.rounded() ? 0 : 3) }

  private static func digits(_ value: Double, _ count: Int) -> String {
    String(format: "%.\(value >= 1000 ? min(count, 1) : count)f", value)
  }
}

extension String {
  fileprivate func padded(to width: Int) -> String { self + String(repeating: " ", count: max(0, width - count)) }
  fileprivate func padded(before width: Int) -> String { String(repeating: " ", count: max(0, width - count)) + self }
  fileprivate func trimmingSuffix() -> String { String(reversed().drop { $0 == " " }.reversed()) }
}
