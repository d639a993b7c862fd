/// Counts the lines and words of a text that comes in pieces.
///
/// A word is a run of letters, digits and underscores that does not begin with a digit. Bytes outside of ASCII count as
/// letters, so that words of other languages stay whole. Upper and lower case are the same, within ASCII.
struct WordCounter {
  private(set) var lines = 0
  private(set) var words = 0
  private(set) var frequencies: [String: Int] = [:]

  /// The word that the text ends with so far: it may go on in the next piece.
  private var word: [UInt8] = []

  /// Takes the next piece of the text.
  mutating func add(_ piece: Span<UInt8>) {
    let letters = Self.letters.span
    for index in piece.indices {
      let byte = piece[index]
      let letter = letters[Int(byte)]
      if letter != 0 {
        word.append(letter)
      } else {
        if !word.isEmpty { endWord() }
        if byte == UInt8(ascii: "\n") { lines += 1 }
      }
    }
  }

  /// Ends the text.
  mutating func finish() {
    if !word.isEmpty { endWord() }
  }

  private mutating func endWord() {
    defer { word.removeAll(keepingCapacity: true) }
    guard word[0] > UInt8(ascii: "9") else { return }  // a number
    words += 1
    frequencies[String(decoding: word, as: UTF8.self), default: 0] += 1
  }

  /// For each byte its letter in a word, in lower case; 0 if it separates words.
  private static let letters: [UInt8] = (0...255).map { (byte: UInt8) in
    switch byte {
    case UInt8(ascii: "A")...UInt8(ascii: "Z"): byte + 32
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"): byte
    case 0x80...0xff: byte
    default: 0
    }
  }
}
