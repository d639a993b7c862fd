extension Summary {
  /// The sums, and the most frequent words.
  var report: String {
    let sums = [
      ("files", tally.files), ("binary files among them", tally.binaryFiles), ("bytes", tally.bytes),
      ("lines", tally.lines), ("words", tally.words), ("different words", tally.frequencies.count),
      ("unreadable files", tally.unreadableFiles), ("unreadable directories", obstacles.unreadableDirectories),
      ("symbolic links, not followed", obstacles.links),
    ]
    let words = tally.topWords(10).map { ($0.word, $0.count) }
    return table(sums) + (words.isEmpty ? "" : "\nThe most frequent words:\n" + table(words))
  }
}

/// A table with names on the left and numbers on the right.
private func table(_ rows: [(String, Int)]) -> String {
  rows.map { name, number in
    let space = String(repeating: " ", count: max(2, 48 - name.count - number.grouped.count))
    return "  \(name)\(space)\(number.grouped)\n"
  }.joined()
}

extension Int {
  /// The number in decimal, with commas between the thousands.
  var grouped: String {
    let digits = String(self)
    return digits.enumerated().map { index, digit in
      let isBehindThousands = index > 0 && (digits.count - index).isMultiple(of: 3)
      return isBehindThousands ? ",\(digit)" : "\(digit)"
    }.joined()
  }
}
