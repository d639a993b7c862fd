import CCoroutine
import Foundation
import Testing

/// Programs with known faults are all found, and their healthy look-alikes are not reported: `Tests/DeadlockPrograms` plays
/// them, in a process in which there is nobody else.
///
/// ThreadSanitizer has a thread that wakes up again and again: with it nothing ever stands still.
@Suite(.enabled(if: !coroutine_sanitizers_active())) struct DeadlockSuiteTests {
  @Test(arguments: ["faulty", "healthy", "aio", "ring", "orphan", "parent"])
  func faultsAreFoundAndLookAlikesAreNot(_ which: String) throws {
    let program = Process()
    program.executableURL = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
      .deletingLastPathComponent().appendingPathComponent("DeadlockPrograms")
    program.arguments = [which]
    let output = Pipe()
    program.standardOutput = output
    program.standardError = output
    try program.run()
    let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    program.waitUntilExit()
    #expect(program.terminationStatus == 0 && program.terminationReason == .exit, "\(text)")
  }
}
