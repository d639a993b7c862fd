import Foundation
import Testing

/// The programs beside the tests' own, each run in a process of its own.
enum TestProgram {
  /// Runs one. Returns whether the process ended as it should, and what it wrote.
  static func run(
    _ name: String, _ arguments: [String], _ ending: ExitTest.Condition
  ) async -> (ended: Bool, output: String) {
    // One for each run: cases of one test run the same program at the same time.
    let output = FileManager.default.temporaryDirectory.appendingPathComponent("\(name)-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: output) }
    let program = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
      .deletingLastPathComponent().appendingPathComponent(name).path
    // The new process executes that program. Foundation's `Process` would wait for it on a thread that other tests
    // need.
    let result = await #expect(processExitsWith: ending) {
      [program = program as String, words = arguments as [String], output = output.path as String] in
      let file = open(output, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
      _ = (dup2(file, STDOUT_FILENO), dup2(file, STDERR_FILENO))
      // Signals that this thread blocks would stay blocked in the new program.
      var none = sigset_t()
      sigemptyset(&none)
      pthread_sigmask(SIG_SETMASK, &none, nil)
      var arguments = [strdup(program)] + words.map { strdup($0) } + [nil]
      execv(program, &arguments)
      exit(EXIT_FAILURE)
    }
    return (result != nil, (try? String(contentsOf: output, encoding: .utf8)) ?? "it could not be started")
  }
}
