/// The counts of some files: of one, of a few, of all. Only sums, so that they can be added in any order.
struct Tally: Sendable {
  var files = 0
  var unreadableFiles = 0
  /// Files that are binary. Their bytes count, but they have no lines and no words.
  var binaryFiles = 0
  var bytes = 0
  var lines = 0
  var words = 0
  /// How often each word occurs.
  var frequencies: [String: Int] = [:]

  /// Adds the counts of other files.
  mutating func add(_ other: Tally) {
    files += other.files
    unreadableFiles += other.unreadableFiles
    binaryFiles += other.binaryFiles
    bytes += other.bytes
    lines += other.lines
    words += other.words
    frequencies.merge(other.frequencies, uniquingKeysWith: +)
  }

  /// The most frequent words, equally frequent ones in alphabetical order.
  func topWords(_ count: Int) -> [(word: String, count: Int)] {
    let words = frequencies.map { (word: $0.key, count: $0.value) }
    return Array(words.sorted { ($1.count, $0.word) < ($0.count, $1.word) }.prefix(count))
  }
}
