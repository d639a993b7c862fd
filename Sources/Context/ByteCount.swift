// SPDX-License-Identifier: Apache-2.0

/// A number of bytes, as people read it and write it.
package struct ByteCount: CustomStringConvertible {
  let bytes: Int

  init(_ bytes: Int) {
    self.bytes = bytes
  }

  /// `262144 bytes (256 KiB)`.
  package var description: String {
    var units = ["KiB", "MiB", "GiB", "TiB"][...]
    guard bytes > 0, bytes & 1023 == 0, var unit = units.popFirst() else { return "\(bytes) bytes" }
    var scaled = bytes >> 10
    while scaled & 1023 == 0, let larger = units.popFirst() {
      scaled >>= 10
      unit = larger
    }
    return "\(bytes) bytes (\(scaled) \(unit))"
  }

  /// As environment variables give it: `65536`, `256K`, `1M`. `nil` if the text is no such number, or too large for an `Int`.
  package static func parse(_ text: String) -> Int? {
    let units: [Character: Int] = ["K": 1 << 10, "M": 1 << 20]
    let unit = text.last.flatMap { units[$0] }
    let digits = unit == nil ? text[...] : text.dropLast()
    guard digits.allSatisfy({ ("0"..."9").contains($0) }), let number = Int(digits) else { return nil }
    let (size, isTooLarge) = number.multipliedReportingOverflow(by: unit ?? 1)
    return isTooLarge ? nil : size
  }
}
