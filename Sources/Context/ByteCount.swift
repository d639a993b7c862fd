/// A number of bytes as environment variables give it: `65536`, `256K`, `1M`.
package enum ByteCount {
  /// `nil` if the text is no such number, or too large for an `Int`.
  package static func parse(_ text: String) -> Int? {
    let units: [Character: Int] = ["K": 1 << 10, "M": 1 << 20]
    let unit = text.last.flatMap { units[$0] }
    let digits = unit == nil ? text[...] : text.dropLast()
    guard digits.allSatisfy({ ("0"..."9").contains($0) }), let number = Int(digits) else { return nil }
    let (size, isTooLarge) = number.multipliedReportingOverflow(by: unit ?? 1)
    return isTooLarge ? nil : size
  }
}
