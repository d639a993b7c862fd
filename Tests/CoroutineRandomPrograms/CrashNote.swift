import Glibc
import Synchronization

/// Says which program ran when the process crashes.
enum CrashNote {
  /// The recipe of the program that runs.
  static var recipe: String {
    get { "" }
    set {
      let line = Array("FAILED, a crash: CoroutineRandomPrograms replay \(newValue)\n".utf8)
      line.withUnsafeBytes { bytes in
        let count = min(bytes.count, room)
        note.copyMemory(from: bytes.baseAddress!, byteCount: count)
        length.store(count, ordering: .releasing)
      }
    }
  }

  private static let room = 1024
  // The handler reads it while the program is at its end: the write before that was complete, or is told in part.
  nonisolated(unsafe) private static let note = UnsafeMutableRawPointer.allocate(byteCount: room, alignment: 1)
  private static let length = Atomic<Int>(0)

  private static func write(_ number: CInt) {
    _ = Glibc.write(STDERR_FILENO, note, length.load(ordering: .acquiring))
    signal(number, SIG_DFL)
    raise(number)
  }

  /// From here on.
  static func install() {
    recipe = "none"
    for number in [SIGILL, SIGTRAP, SIGSEGV, SIGBUS, SIGABRT] {
      var action = sigaction()
      action.__sigaction_handler.sa_handler = { CrashNote.write($0) }
      sigaction(number, &action, nil)
    }
  }
}
