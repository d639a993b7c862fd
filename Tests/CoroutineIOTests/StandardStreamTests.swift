import CCoroutineIO
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

  /// As programs have that systemd or Node starts. Others share it, and block.
  @Test func theStandardStreamsMayBeASocket() async {
    await #expect(processExitsWith: .success) {
      var ends: [Int32] = [0, 0]
      guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0 else { exit(2) }
      for number in [STDIN_FILENO, STDOUT_FILENO] where dup2(ends[0], number) != number { exit(3) }
      guard write(ends[1], "hello\n", 6) == 6 else { exit(4) }
      try await Coroutine {
        guard try PipeReader.standardInput().readLine() == "hello" else { exit(5) }
        try PipeWriter.standardOutput().write("answer")
        let full = [UInt8](repeating: 0, count: 10_000_000)
        do {
          try PipeWriter.standardOutput().write(full, timeout: .milliseconds(1))
          exit(6)
        } catch is PartialWrite {}
      }.value
      var answer = [UInt8](repeating: 0, count: 6)
      guard read(ends[1], &answer, 6) == 6, answer == Array("answer".utf8) else { exit(7) }
      guard fcntl(STDIN_FILENO, F_GETFL) & O_NONBLOCK == 0 else { exit(8) }
      exit(0)
    }
  }

  @Test func aStandardOutputWhoseReadersHaveGoneSaysSo() async {
    await #expect(processExitsWith: .success) {
      var folder = Array("/tmp/standard-output-XXXXXX".utf8CString)
      guard mkdtemp(&folder) != nil else { exit(2) }
      let path = String(decoding: folder.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
      let fifo = path + "/fifo"
      guard mkfifo(fifo, 0o600) == 0 else { exit(3) }
      let reader = open(fifo, O_RDONLY | O_NONBLOCK)
      guard dup2(open(fifo, O_WRONLY), STDOUT_FILENO) == STDOUT_FILENO, close(reader) == 0 else { exit(4) }
      var end = EXIT_FAILURE
      do {
        try await Coroutine { try PipeWriter.standardOutput().write("x") }.value
      } catch let error as IOError where error.code == EPIPE {
        end = EXIT_SUCCESS
      }
      unlink(fifo)
      rmdir(path)
      // Nothing else writes there.
      _exit(end)
    }
  }

  /// A file that is opened later would get the number, and what the program prints.
  @Test func aStandardStreamThatIsClosedAtTheStartIsDevNull() async {
    await #expect(processExitsWith: .success) {
      let output = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)
      close(STDIN_FILENO)
      close(STDOUT_FILENO)
      coroutine_io_fill_standard_numbers()
      var (status, null) = (stat(), stat())
      guard stat("/dev/null", &null) == 0 else { exit(2) }
      for number in [STDIN_FILENO, STDOUT_FILENO] {
        guard fstat(number, &status) == 0, status.st_rdev == null.st_rdev else { exit(3) }
      }
      // One that is open stays.
      guard dup2(output, STDOUT_FILENO) == STDOUT_FILENO, fstat(output, &null) == 0 else { exit(4) }
      coroutine_io_fill_standard_numbers()
      guard fstat(STDOUT_FILENO, &status) == 0, status.st_rdev == null.st_rdev, status.st_ino == null.st_ino else {
        exit(5)
      }
    }
  }

  @Test func theStandardErrorIsAStreamToo() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardErrorContent]) {
      try await Coroutine { try PipeWriter.standardError().write("words") }.value
    }
    #expect(standardError(of: result).contains("words"))
  }
}
