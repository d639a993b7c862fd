import Glibc

/// Reads what this process writes to its standard error: for tests of the report on a pool whose workers are all blocked, in a
/// process of their own. A report that never comes ends the process after some minutes.
public struct WordsOnStandardError: Sendable {
  private let reader: CInt

  public init(secondsUntilTold seconds: String) {
    setenv("COROUTINE_BLOCKED_SECONDS", seconds, 1)
    var ends: [CInt] = [-1, -1]
    guard pipe(&ends) == 0, dup2(ends[1], STDERR_FILENO) >= 0 else { fatalError("no pipe") }
    close(ends[1])
    reader = ends[0]
    alarm(600)
  }

  /// The next line. Blocks the thread.
  public func next() -> String {
    var line: [UInt8] = []
    var byte: UInt8 = 0
    while read(reader, &byte, 1) == 1, byte != UInt8(ascii: "\n") { line.append(byte) }
    return String(decoding: line, as: UTF8.self)
  }

  /// All lines up to the next one that is empty. Blocks the thread.
  public func nextParagraph() -> String {
    var text = ""
    while true {
      let line = next()
      guard !line.isEmpty else { return text }
      text += line + "\n"
    }
  }
}
