import CCoroutine
import CoroutineDebug
import CoroutineInspection
import CoroutineTestSupport
import Foundation
import Testing

/// All dumps of one program say the same: those that it makes itself, on request or at a signal, and those that
/// another process makes of it or of its core file. They also agree with `Tests/Expected/dump.txt` with each backend,
/// so the backends agree frame by frame.
@Suite(.ownThreads, .enabled(if: ForkedProcess.canBeInspected, "no process may look at another one here"))
struct DumpAgreementTests {
  @Test func allDumpsOfOneProgramAgree() throws {
    let program = try DumpedProgram()
    let signalled = try program.dumpsBySignals()
    expectEqual(program.text, signalled.text, "by itself, by a signal")
    expectEqual(program.json.withoutProcess, signalled.json.withoutProcess, "by itself, by a signal")
    try expect(program, .running(program.id), "from outside")
    // Sanitizers reserve more memory than fits in a file.
    if !coroutine_sanitizers_active() {
      let core = try CoreFile(of: program.id)
      try expect(program, .core(core.path, executable: DumpedProgram.executable), "of a core file")
    }
    withExtendedLifetime(program) {}
  }

  /// Optimised code has other frames. With sanitizers the running coroutine's frames are missing.
  @Test(.disabled(if: coroutine_sanitizers_active() || !isDebug))
  func dumpsOfAllBackendsSayWhatIsExpected() throws {
    let path = URL(filePath: #filePath).appending(path: "../../Expected/dump.txt").standardized
    let expected = try String(contentsOf: path, encoding: .utf8)
    expectEqual(expected, try DumpedProgram().text.withoutAddresses, "expected, found")
  }

  private func expect(_ program: DumpedProgram, _ process: InspectedProcess, _ how: Comment) throws {
    var options = CoroutineDump.Options()
    options.tree = true
    expectEqual(program.text, try written(of: process, options), "by itself, \(how)")
    expectEqual(
      program.json.withoutProcess, try written(of: process, .init(format: .json)).withoutProcess, "by itself, \(how)")
  }

  /// Compares long texts. A failure shows the first line that differs.
  private func expectEqual(_ first: String, _ second: String, _ which: Comment) {
    let (first, second) = (first.split(separator: "\n"), second.split(separator: "\n"))
    let place = zip(first, second).prefix { $0 == $1 || $0.timeless == $1.timeless }.count
    #expect(first.dropFirst(place).first == second.dropFirst(place).first, which)
  }
}

private let isDebug = _isDebugAssertConfiguration()

private func written(of process: InspectedProcess, _ options: CoroutineDump.Options) throws -> String {
  var path = Array("/tmp/coroutine-dump-XXXXXX".utf8CString)
  let file = mkstemp(&path)
  unlink(path)
  defer { close(file) }
  try CoroutineDump.write(of: process, to: file, options: options)
  let size = Int(lseek(file, 0, SEEK_END))
  return String(unsafeUninitializedCapacity: size) { max(0, pread(file, $0.baseAddress, size, 0)) }
}

extension Substring {
  /// The line without times, which core files do not have.
  fileprivate var timeless: String {
    String(self).replacing(/(suspended|running|not begun) for [^,]*/) { String($0.1) }
      .replacing(/, [^,]* left$/, with: "")
      .replacing(/,"(duration|timeLeft)":[0-9.e-]*/, with: "")
  }
}

extension String {
  /// The JSON without the process's number and the time of the dump.
  fileprivate var withoutProcess: String {
    firstRange(of: "\"coroutines\":").map { String(self[$0.lowerBound...]) } ?? self
  }

  /// The text without what differs between builds: addresses, and how much of a stack is in use.
  fileprivate var withoutAddresses: String {
    replacing(/0x[0-9a-f]+/, with: "0x…").replacing(/[0-9.]+ of 256 KiB/, with: "… of 256 KiB")
  }
}
