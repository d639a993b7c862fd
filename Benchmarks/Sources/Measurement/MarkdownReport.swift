// SPDX-License-Identifier: Apache-2.0

/// The report for people, in Markdown.
enum MarkdownReport {
  static let introduction = """
    Times are for one operation. *To best peer* is the headline: the median of the ratios to the fastest of what one would
    use instead, taken round by round, with its quartiles. Blue is the runtime, green a backend alone, grey a peer, light
    grey plain code that can't suspend. A bar that does not fit ends in an arrow.


    """

  /// The ratios that the thresholds name.
  static func ratios(_ ratios: Ratios) -> String {
    """
    ## The ratios that are held

    Each system beside the one that it is meant to beat, which need not be the fastest: the median of the ratios of all
    rounds, with its quartiles, and what is aimed at. In bytes where it says so.

    \(ratios.table.markdown)

    """
  }

  /// What has no figures, and why. Empty if everything has.
  static func leftOut(_ all: [LeftOut]) -> String {
    all.isEmpty ? "" : "## Left out\n\n" + all.map { "- \($0.text)\n" }.joined() + "\n"
  }

  static func section(_ comparison: Comparison, chart: String) -> String {
    """
    ## \(comparison.heading)

    ![\(comparison.workload)](\(chart))

    \(Table(Record.records(of: comparison)).markdown)

    """
  }
}
