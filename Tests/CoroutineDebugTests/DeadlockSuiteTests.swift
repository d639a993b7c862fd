import CCoroutine
import CoroutineTestSupport
import Testing

/// Programs with known faults are all found, and healthy look-alikes are not reported. `CoroutineDeadlockPrograms`
/// runs them, in a process of its own.
///
/// Not under ThreadSanitizer: it has a thread that wakes up again and again, so that nothing ever stands still.
@Suite(.ownThreads, .enabled(if: !coroutine_sanitizers_active()), .timeLimit(.minutes(30))) struct DeadlockSuiteTests {
  @Test(arguments: [
    "faulty", "healthy", "aio", "ring", "orphan", "child", "parent", "late-handler", "late-child",
    "lock-sleeper", "main-thread",
  ])
  func faultsAreFoundAndLookAlikesAreNot(_ which: String) async throws {
    let (ended, output) = await TestProgram.run("CoroutineDeadlockPrograms", [which], .success)
    #expect(ended, "\(output)")
  }

  @Test func aMainThreadThatWaitsForItsOwnQueueTrapsByName() async throws {
    let (ended, output) = await TestProgram.run("CoroutineDeadlockPrograms", ["main-queue"], .failure)
    #expect(ended, "\(output)")
    #expect(output.contains("receiveBlocking(timeout:) at CoroutineDeadlockPrograms/SingleLooks.swift:"))
    #expect(output.contains("it would wait for ever"))
  }
}
