import CoroutineIO
import CoroutineTestSupport
import Glibc
import Testing

@testable import Coroutine

/// The process's own standard streams.
@Suite(.ownThreads) struct StandardStreamTests {
  @Test(.disabled(if: StackSupply.sanitizersActive, "a sanitizer's locks are not free in a child"))
  func aChildWritesToAStandardOutputThatIsAFile() async {
    await #expect(processExitsWith: .success) {
      // Then the process has a poller, which a child can't use.
      _ = try makePair()
      var path = Array("/tmp/standard-output-XXXXXX".utf8CString)
      let file = mkstemp(&path)
      guard file >= 0, unlink(path) == 0, dup2(file, STDOUT_FILENO) == STDOUT_FILENO else { exit(2) }
      let end = Child.end {
        runInChild {
          try PipeWriter.standardOutput().write("child")
          return 0
        }
      }
      guard end == .exited(0), lseek(file, 0, SEEK_END) == 5 else { exit(3) }
      exit(0)
    }
  }
}
