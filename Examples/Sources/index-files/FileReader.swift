import CoroutineIO

/// Reads files and counts what is in them, a piece at a time.
///
/// The disk is waited for on threads that are there for this: the coroutine is suspended meanwhile, and its own thread
/// counts the words of another file. A small file takes two such waits, for the open and for the one read that gets it
/// all.
enum FileReader {
  private static var pieceSize: Int { 64 << 10 }

  /// The counts of the file at `path`, or one unreadable file.
  static func tally(_ path: String) throws -> Tally {
    do {
      return try tally(File(opening: path))
    } catch is IOError {
      return Tally(unreadableFiles: 1)
    }
  }

  private static func tally(_ file: File) throws -> Tally {
    var bytes = 0
    var text = WordCounter()
    while true {
      let piece = try file.read(upTo: pieceSize, at: Int64(bytes))
      if bytes == 0 && isBinary(piece) { return Tally(files: 1, binaryFiles: 1, bytes: Int(try file.size())) }
      bytes += piece.count
      text.add(piece.span)
      if piece.count < pieceSize { break }  // the file ends here
    }
    text.finish()
    return Tally(files: 1, bytes: bytes, lines: text.lines, words: text.words, frequencies: text.frequencies)
  }

  /// Whether a file that begins with `piece` is binary: as for `git`, if its first 8 KiB have a zero byte.
  private static func isBinary(_ piece: [UInt8]) -> Bool {
    piece.prefix(8 << 10).contains(0)
  }
}
