import CCoroutine
import CoroutineTestSupport
import Foundation
import Testing

/// Programs with known faults are all found, and healthy look-alikes are not reported. `CoroutineDeadlockPrograms`
/// runs them, in a process of its own.
///
/// Not under ThreadSanitizer: it has a thread that wakes up again and again, so that nothing ever stands still.
@Suite(.ownThreads, .enabled(if: !coroutine_sanitizers_active()), .timeLimit(.minutes(5))) struct DeadlockSuiteTests {
  @Test(arguments: [
    "faulty", "healthy", "aio", "ring", "orphan", "child", "parent", "late-handler", "late-child",
    "lock-sleeper",
  ])
  func faultsAreFoundAndLookAlikesAreNot(_ which: String) async throws {
    let (ended, output) = await Self.play(which, .success)
    #expect(ended, "\(output)")
  }

  @Test func aMainThreadThatWaitsForItsOwnQueueTrapsByName() async throws {
    let (ended, output) = await Self.play("main-queue", .failure)
    #expect(ended, "\(output)")
    #expect(output.contains("receiveBlocking(timeout:) at CoroutineDeadlockPrograms/SingleLooks.swift:"))
    #expect(output.contains("it would wait for ever"))
  }

  /// Runs the programs that `which` names. Returns whether the process ended as it should, and what it wrote.
  private static func play(_ which: String, _ ending: ExitTest.Condition) async -> (ended: Bool, output: String) {
    let output = FileManager.default.temporaryDirectory.appendingPathComponent("deadlocks-\(getpid())-\(which)")
    defer { try? FileManager.default.removeItem(at: output) }
    let program = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
      .deletingLastPathComponent().appendingPathComponent("CoroutineDeadlockPrograms").path
    // The new process executes that program. Foundation's `Process` would wait for it on a thread that other tests
    // need.
    let result = await #expect(processExitsWith: ending) {
      [program = program as String, which = which as String, output = output.path as String] in
      let file = open(output, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
      _ = (dup2(file, STDOUT_FILENO), dup2(file, STDERR_FILENO))
      // Signals that this thread blocks would stay blocked in the new program.
      var none = sigset_t()
      sigemptyset(&none)
      pthread_sigmask(SIG_SETMASK, &none, nil)
      var arguments = [strdup(program), strdup(which), nil]
      execv(program, &arguments)
      exit(EXIT_FAILURE)
    }
    return (result != nil, (try? String(contentsOf: output, encoding: .utf8)) ?? "it could not be started")
  }
}
