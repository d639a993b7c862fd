/// The report for people, in Markdown.
enum MarkdownReport {
  static let introduction = """
    Times are for one operation. *To best peer* is the headline: the median of the ratios to the fastest of what one would
    use instead, taken round by round, with its quartiles. Blue is the runtime, green a backend alone, grey a peer, light
    grey plain code that can't suspend. A bar that does not fit ends in an arrow.


    """

  static func section(_ comparison: Comparison, chart: String) -> String {
    """
    ## \(comparison.heading)

    ![\(comparison.workload)](\(chart))

    \(Table(Record.records(of: comparison)).markdown)

    """
  }
}
