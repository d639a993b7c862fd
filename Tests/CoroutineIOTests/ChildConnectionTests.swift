import CCoroutineIO
import CoroutineTestSupport
import Glibc
import Testing

@testable import Coroutine
@testable import CoroutineIO

/// What the standard streams of a child are connected to.
@Suite(.ownThreads)
struct ChildConnectionTests {
  private let twoLines = ["-c", "echo out; echo err >&2"]

  @Test func outputsGoToFiles() throws {
    try runUntilComplete {
      let folder = try TemporaryFolder()
      let path = folder.path + "/log"
      let run = { (output: ChildProcess.Connection) in
        let result = try ChildProcess.run("/bin/sh", twoLines, output: output, error: .sameAsOutput)
        #expect(result.end.isSuccess && result.output.isEmpty && result.error.isEmpty)
        return try File.contents(of: path)
      }
      #expect(try run(.file(path)) == bytes("out\nerr\n"))
      #expect(try run(.appending(to: path)) == bytes("out\nerr\nout\nerr\n"))
      #expect(try run(.file(path)) == bytes("out\nerr\n"))
      let errors = folder.path + "/errors"
      let result = try ChildProcess.run("/bin/sh", twoLines, error: .appending(to: errors))
      #expect(result.output == bytes("out\n"))
      #expect(try File.contents(of: errors) == bytes("err\n"))
    }
  }

  @Test func bothOutputsComeThroughOnePipe() throws {
    try runUntilComplete {
      let result = try ChildProcess.run(
        "/bin/sh", ["-c", "echo 1; echo 2 >&2; echo 3; echo 4 >&2"], error: .sameAsOutput)
      #expect(result.output == bytes("1\n2\n3\n4\n"))
      #expect(result.error.isEmpty)
    }
  }

  @Test func whatThisProcessHasAdoptedIsInherited() async {
    await #expect(processExitsWith: .success) {
      var ends: [Int32] = [0, 0]
      guard pipe(&ends) == 0, write(ends[1], "hello", 5) == 5 else { exit(2) }
      close(ends[1])
      dup2(ends[0], 0)
      let adopted = try PipeReader(adopting: 0)
      let (output, end) = try await Coroutine {
        let child = try ChildProcess("cat", input: .inherited, output: .pipe)
        return (try child.standardOutput.read(), try child.wait())
      }.value
      precondition(output == Array("hello".utf8) && end.isSuccess)
      withExtendedLifetime(adopted) {}
    }
  }

  @Test func filesAndDevicesAreRead() throws {
    try runUntilComplete {
      let folder = try TemporaryFolder()
      let path = folder.path + "/numbers"
      try File.replace(path, with: bytes("2\n1\n"))
      let sort = try ChildProcess("sort", input: .file(path), error: .null)
      #expect(try sort.standardOutput.readToEnd(limit: 100) == bytes("1\n2\n"))
      let zeros = try ChildProcess("head", ["-c", "3"], input: .file("/dev/zero"), error: .null)
      #expect(try zeros.standardOutput.readToEnd(limit: 100) == [0, 0, 0])
      let full = try ChildProcess("/bin/sh", ["-c", "echo x"], input: .null, output: .file("/dev/full"), error: .null)
      #expect(try !full.wait().isSuccess)
    }
  }

  @Test func childrenAreConnectedByDescriptors() throws {
    try runUntilComplete {
      var ends: [Int32] = [-1, -1]
      #expect(coroutine_io_blocking_pipe(&ends) == 0)
      let source = try ChildProcess("/bin/sh", ["-c", "echo b; echo a"], input: .null, output: .descriptor(ends[1]))
      let sort = try ChildProcess("sort", input: .descriptor(ends[0]), error: .null)
      // They are the caller's still. Without this close the reader would never get the end.
      #expect(close(ends[0]) == 0 && close(ends[1]) == 0)
      #expect(try sort.standardOutput.readToEnd(limit: 100) == bytes("a\nb\n"))
      #expect(try source.wait().isSuccess && sort.wait().isSuccess)
    }
  }

  @Test func whatCannotBeOpenedThrows() throws {
    let path = "/no/such/folder/file"
    for (output, input) in [(ChildProcess.Connection.file(path), .null), (.null, ChildProcess.Connection.file(path))] {
      let error = #expect(throws: IOError.self) { try ChildProcess("true", input: input, output: output) }
      #expect(error == IOError(operation: "open", code: ENOENT, subject: path))
    }
    let closed = #expect(throws: IOError.self) { try ChildProcess("true", input: .descriptor(1_000_000)) }
    #expect(closed?.code == EBADF)
    let zero = #expect(throws: IOError.self) { try ChildProcess("true", output: .file("/tmp/a\0b")) }
    #expect(zero?.code == EINVAL)
  }

  @Test func whatStandsForAnotherStreamTraps() async {
    await #expect(processExitsWith: .failure) { _ = try ChildProcess("true", output: .sameAsOutput) }
    await #expect(processExitsWith: .failure) { _ = try ChildProcess("true", input: .appending(to: "/dev/null")) }
  }

  @Test func theEnvironmentIsReadByBytes() {
    let entries = ["A=first", "A=second", "B=\u{301}x", "C=a=b", "D=", "no sign"]
    let environment = withCStrings(entries) { ChildProcess.environment(in: $0) }
    #expect(environment == ["A": "first", "B": "\u{301}x", "C": "a=b", "D": ""])
    #expect(ChildProcess.environment(in: nil).isEmpty)
  }

  @Test func theEnvironmentIsAddedTo() throws {
    try runUntilComplete {
      let environment = ChildProcess.currentEnvironment
      #expect(environment["PATH"] == getenv("PATH").map { String(cString: $0) })
      let result = try ChildProcess.run(
        "/bin/sh", ["-c", "echo $GREETING; echo $PATH"],
        environment: environment.merging(["GREETING": "a=b"]) { _, new in new })
      #expect(result.output == bytes("a=b\n\(environment["PATH"] ?? "")\n"))
    }
  }
}
