/// What was counted in some files: in one, in a few, in all. Only sums, so that they can be added up in any order.
struct Tally: Sendable {
  var files = 0
  var unreadableFiles = 0
  /// Files that are no text. Their bytes count, lines and words they have none.
  var binaryFiles = 0
  var bytes = 0
  var lines = 0
  var words = 0
  /// How often each word occurs.
  var frequencies: [String: Int] = [:]

  /// Adds what was counted in other files.
  mutating func add(_ other: Tally) {
    files += other.files
    unreadableFiles += other.unreadableFiles
    binaryFiles += other.binaryFiles
    bytes += other.bytes
    lines += other.lines
    words += other.words
    frequencies.merge(other.frequencies, uniquingKeysWith: +)
  }

  /// The most frequent words; among equally frequent ones the order is the alphabet's.
  func topWords(_ count: Int) -> [(word: String, count: Int)] {
    let words = frequencies.map { (word: $0.key, count: $0.value) }
    return Array(words.sorted { ($1.count, $0.word) < ($0.count, $1.word) }.prefix(count))
  }
}
