import Glibc

/// Reads files, one after another, and counts what is in them. One buffer serves all.
///
/// It blocks its thread while the disk works. For files that is the better choice: most come from the page cache,
/// faster than a second thread could be asked. A coroutine that waits for a network would use `withSuspension`.
struct FileReader {
  private var buffer = [UInt8](repeating: 0, count: 64 << 10)

  /// The counts of the file at `path`, or one unreadable file.
  mutating func tally(_ path: String) -> Tally {
    let unreadable = Tally(unreadableFiles: 1)
    let file = open(path, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { return unreadable }
    defer { close(file) }

    var bytes = 0
    var text = WordCounter()
    while true {
      let count = buffer.withUnsafeMutableBytes { read(file, $0.baseAddress, $0.count) }
      guard count >= 0 else { return unreadable }
      guard count > 0 else { break }
      let piece = buffer.span.extracting(first: count)
      if bytes == 0 && Self.isBinary(piece) {
        var status = stat()
        guard fstat(file, &status) == 0 else { return unreadable }
        return Tally(files: 1, binaryFiles: 1, bytes: Int(status.st_size))
      }
      bytes += count
      text.add(piece)
    }
    text.finish()
    return Tally(files: 1, bytes: bytes, lines: text.lines, words: text.words, frequencies: text.frequencies)
  }

  /// Whether a file that begins with `piece` is binary: as for `git`, if its first 8 KiB have a zero byte.
  private static func isBinary(_ piece: Span<UInt8>) -> Bool {
    piece.indices.prefix(8 << 10).contains { piece[$0] == 0 }
  }
}
