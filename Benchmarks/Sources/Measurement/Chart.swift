// SPDX-License-Identifier: Apache-2.0

/// The medians of one comparison as horizontal bars, with the quartiles as whiskers.
struct Chart {
  private let bars: [Bar]
  private let missing: [(title: String, reason: String)]
  /// The time of a bar of full width, in nanoseconds.
  private let limit: Double
  /// Where the bars begin: to the right of the longest title.
  private let left: Double
  private let heading: String

  private struct Bar {
    let title: String
    let role: Role
    let times: Distribution
  }

  init(_ comparison: Comparison) {
    heading = comparison.heading
    left = Double(comparison.entries.map(\.title.count).max() ?? 0) * 6.5 + 16
    bars = comparison.entries.compactMap { entry in
      entry.distribution.map { Bar(title: entry.title, role: entry.role, times: $0) }
    }
    // "missing: …", "in the full form only, …": here the reason is enough. The table says more.
    missing = comparison.entries.filter { $0.times.isEmpty }.map { entry in
      (entry.title, String((entry.missing ?? "missing").prefix { $0 != ":" && $0 != "," }))
    }
    // One that is far slower than all others would leave nothing to see of the rest.
    let ours = bars.filter { $0.role == .runtime || $0.role == .backend }.map(\.times.median).min() ?? 0
    let longest = bars.map(\.times.upperQuartile).max() ?? 1
    limit = Swift.min(longest, Swift.max(ours, comparison.bestPeer?.distribution?.median ?? 0) * 12)
  }

  private static let (width, right, height) = (420.0, 110.0, 22.0)

  var svg: String {
    let total = left + Self.width + Self.right
    let size = Double(bars.count + missing.count) * Self.height + 8
    var text = """
      <svg xmlns="http://www.w3.org/2000/svg" width="\(total)" height="\(size)" viewBox="0 0 \(total) \(size)" \
      font-family="sans-serif" font-size="12">
      <title>\(Self.escaped(heading))</title>
      <rect width="100%" height="100%" fill="#ffffff"/>

      """
    for (index, bar) in bars.enumerated() { text += row(bar, top: Double(index) * Self.height + 4) }
    for (index, (title, reason)) in missing.enumerated() {
      text += label(title, top: Double(bars.count + index) * Self.height + 4)
      text += note(reason, at: left, top: Double(bars.count + index) * Self.height + 4)
    }
    return text + "</svg>\n"
  }

  private func row(_ bar: Bar, top: Double) -> String {
    let isCut = bar.times.median > limit
    let end = position(bar.times.median)
    var text = label(bar.title, top: top)
    text += """
      <rect x="\(left)" y="\(top + 3)" width="\(end - left)" height="\(Self.height - 6)" \
      fill="\(Self.color(bar.role))"/>

      """
    if isCut {
      text += """
        <path d="M \(end) \(top + 3) l 8 \((Self.height - 6) / 2) l -8 \((Self.height - 6) / 2) z" \
        fill="\(Self.color(bar.role))"/>

        """
    } else {
      let (lower, upper, middle) = (
        position(bar.times.lowerQuartile), position(bar.times.upperQuartile), top + Self.height / 2
      )
      text += "<path d=\"M \(lower) \(middle) H \(upper)\" stroke=\"#222222\" stroke-width=\"1.5\"/>\n"
    }
    let labelled = isCut ? end + 8 : Swift.max(end, position(bar.times.upperQuartile))
    return text + note(Table.time(bar.times.median), at: labelled, top: top)
  }

  private func position(_ nanoseconds: Double) -> Double {
    let fraction = limit > 0 ? Swift.min(1, nanoseconds / limit) : 0
    return left + (fraction * Self.width * 10).rounded() / 10
  }

  private func label(_ title: String, top: Double) -> String {
    let baseline = top + Self.height / 2 + 4
    return "<text x=\"\(left - 8)\" y=\"\(baseline)\" text-anchor=\"end\">\(Self.escaped(title))</text>\n"
  }

  private func note(_ text: String, at x: Double, top: Double) -> String {
    "<text x=\"\(x + 6)\" y=\"\(top + Self.height / 2 + 4)\" fill=\"#444444\">\(text)</text>\n"
  }

  private static func color(_ role: Role) -> String {
    switch role {
    case .runtime: "#2f6fdb"
    case .backend: "#3a9a6d"
    case .peer: "#8c8c8c"
    case .plain: "#cfcfcf"
    }
  }

  private static func escaped(_ text: String) -> String {
    var escaped = ""
    for character in text {
      switch character {
      case "&": escaped += "&amp;"
      case "<": escaped += "&lt;"
      case ">": escaped += "&gt;"
      default: escaped.append(character)
      }
    }
    return escaped
  }
}
