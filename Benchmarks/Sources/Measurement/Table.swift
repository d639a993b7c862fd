// SPDX-License-Identifier: Apache-2.0

import Foundation

/// The records of one comparison, for people. The ratio comes first, as nanoseconds differ from machine to machine.
struct Table {
  let titles: [String]
  let rows: [[String]]

  init(titles: [String], rows: [[String]]) {
    self.titles = titles
    self.rows = rows
  }

  init(_ records: [Record]) {
    // Columns without a value for this workload are left out.
    let columns = Self.columns.filter { column in records.contains { column.cell($0) != "" } }
    // Some entries are compared with one of the runtime's, not with the best peer.
    let isAmongUs = records.contains { $0.entry.comparedWith != nil }
    titles = columns.map { isAmongUs && $0.title == Self.ratio ? "ratio" : $0.title }
    rows = records.map { record in columns.map { $0.cell(record) } }
  }

  /// The table in columns of equal width.
  var text: String {
    let rows = [titles] + rows
    let widths = titles.indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
    let lines = rows.map { row in
      let cells = row.indices.map { $0 == 0 ? row[$0].padded(to: widths[$0]) : row[$0].padded(before: widths[$0]) }
      return "  " + cells.joined(separator: "  ")
    }
    return lines.map { $0.trimmingSuffix() + "\n" }.joined()
  }

  var markdown: String {
    func line(_ cells: [String]) -> String { "| " + cells.joined(separator: " | ") + " |\n" }
    let ruler = line(titles.indices.map { $0 == 0 ? "---" : "---:" })
    return line(titles) + ruler + rows.map { line($0) }.joined()
  }

  private struct Column: Sendable {
    let title: String
    let cell: @Sendable (Record) -> String
  }

  private static let ratio = "to best peer"
  private static let columns = [
    Column(title: "") { $0.entry.title },
    Column(title: ratio) { $0.ratio.map { digits($0.median, 3) } ?? "" },
    Column(title: "quartiles") {
      $0.ratio.map { digits($0.lowerQuartile, 3) + "…" + digits($0.upperQuartile, 3) } ?? ""
    },
    Column(title: "median") { $0.times.map { time($0.median) } ?? $0.entry.missing ?? "" },
    Column(title: "min") { $0.times.map { time($0.min) } ?? "" },
    Column(title: "quartiles") { $0.times.map { time($0.lowerQuartile) + "…" + time($0.upperQuartile) } ?? "" },
    Column(title: "allocations") { $0.entry.allocations.map(count) ?? "" },
    Column(title: "instructions") { $0.entry.path.map { count($0.instructions) } ?? "" },
    Column(title: "atomic") { $0.entry.path.map { count($0.locking) } ?? "" },
    Column(title: "bytes") { $0.entry.bytes.map { digits($0, 0) } ?? "" },
  ]

  private static func count(_ value: Double) -> String { digits(value, value == value.rounded() ? 0 : 3) }

  /// A time in a unit that fits it.
  static func time(_ nanoseconds: Double) -> String {
    switch nanoseconds {
    case ..<1e3: digits(nanoseconds, 2) + " ns"
    case ..<1e6: digits(nanoseconds / 1e3, 2) + " us"
    case ..<1e9: digits(nanoseconds / 1e6, 2) + " ms"
    default: digits(nanoseconds / 1e9, 2) + " s"
    }
  }

  static func digits(_ value: Double, _ count: Int) -> String {
    String(format: "%.\(value >= 100 ? min(count, 1) : count)f", value)
  }
}

extension String {
  fileprivate func padded(to width: Int) -> String { self + String(repeating: " ", count: max(0, width - count)) }
  fileprivate func padded(before width: Int) -> String { String(repeating: " ", count: max(0, width - count)) + self }
  fileprivate func trimmingSuffix() -> String { String(reversed().drop { $0 == " " }.reversed()) }
}
