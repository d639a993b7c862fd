// SPDX-License-Identifier: Apache-2.0

/// One quantity, measured several times.
public struct Distribution {
  private let sorted: [Double]

  /// - Parameter values: at least one value.
  public init(_ values: [Double]) {
    precondition(!values.isEmpty, "nothing was measured")
    sorted = values.sorted()
  }

  public var count: Int { sorted.count }
  public var min: Double { sorted[0] }
  public var median: Double { quantile(0.5) }
  public var lowerQuartile: Double { quantile(0.25) }
  public var upperQuartile: Double { quantile(0.75) }
  public var max: Double { sorted[sorted.count - 1] }

  /// Interpolated between the two neighbouring values.
  private func quantile(_ fraction: Double) -> Double {
    let position = fraction * Double(sorted.count - 1)
    let lower = Int(position)
    let upper = Swift.min(lower + 1, sorted.count - 1)
    return sorted[lower] + (sorted[upper] - sorted[lower]) * (position - Double(lower))
  }
}
