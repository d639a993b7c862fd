import CCoroutineTests
import CoroutineTestSupport
import Glibc
import Testing

@testable import Coroutine
@testable import CoroutineIO

@Suite(.ownThreads)
struct ChildProcessTests {
  /// Whether the process is neither alive nor a zombie.
  private func isGone(_ process: Int32) -> Bool { kill(process, 0) == -1 && errno == ESRCH }

  @Test func inputGoesInAndOutputComesOut() throws {
    let sent = pattern(1_000_000)
    try runUntilComplete {
      let result = try ChildProcess.run("cat", input: sent)
      #expect(result.end == .exited(0))
      #expect(result.end.isSuccess)
      #expect(result.output == sent)
      #expect(result.error.isEmpty)
    }
  }

  @Test func bothOutputsAndTheStatusAreTold() throws {
    try runUntilComplete {
      let result = try ChildProcess.run("/bin/sh", ["-c", "echo out; echo err >&2; exit 3"])
      #expect(result.end == .exited(3))
      #expect(result.output == bytes("out\n"))
      #expect(result.error == bytes("err\n"))
    }
  }

  @Test func aProgramNeedNotReadItsInput() throws {
    try runUntilComplete {
      let result = try ChildProcess.run("true", input: pattern(1_000_000))
      #expect(result.end.isSuccess)
    }
  }

  @Test func whatCannotBeStartedThrows() throws {
    let error = #expect(throws: IOError.self) { try ChildProcess("/no/such/program") }
    #expect(error == IOError(operation: "spawn", code: ENOENT, subject: "/no/such/program"))
    for (folder, code) in [("/no/such/folder", ENOENT), ("/dev/null", ENOTDIR)] {
      #expect(throws: IOError(operation: "chdir", code: code, subject: folder)) {
        try ChildProcess("true", directory: folder)
      }
    }
  }

  @Test func oneThatIsReapedAtOnceHasNoKnownEnd() throws {
    // As the kernel does it where SIGCHLD is ignored, perhaps before there is a pidfd.
    var process: pid_t = 0
    let arguments = [strdup("true"), nil]
    defer { free(arguments[0]) }
    #expect(posix_spawn(&process, "/bin/true", nil, nil, arguments, [nil]) == 0)
    #expect(waitpid(process, nil, 0) == process)
    let error = #expect(throws: IOError.self) { try ChildStorage(process, "true", ownsGroup: false) }
    #expect(error?.operation == "wait" && error?.code == ECHILD)
  }

  @Test func environmentAndDirectoryAreTheChilds() throws {
    try runUntilComplete {
      let folder = try TemporaryFolder()
      let result = try ChildProcess.run(
        "/bin/sh", ["-c", "echo $GREETING; pwd"], environment: ["GREETING": "hello"], directory: folder.path)
      #expect(result.output == bytes("hello\n\(folder.path)\n"))
    }
  }

  @Test func theChildHasNoOtherDescriptor() throws {
    let leaked = fcntl(2, F_DUPFD, 100)
    defer { close(leaked) }
    try runUntilComplete {
      let result = try ChildProcess.run(
        "/bin/sh", ["-c", "test -e /proc/self/fd/2 && test ! -e /proc/self/fd/\(leaked)"])
      #expect(result.end.isSuccess)
    }
  }

  @Test func aConversationGoesByLines() throws {
    try runUntilComplete {
      let child = try ChildProcess("cat", error: .null)
      for line in ["one", "two"] {
        try child.standardInput.write(line + "\n")
        #expect(try child.standardOutput.readLine() == line)
      }
      child.standardInput.close()
      #expect(try child.standardOutput.readLine() == nil)
      let waits = (0..<3).map { _ in Coroutine { try child.wait() } }
      for wait in waits { #expect(try wait.get() == .exited(0)) }
      // Likewise after the end.
      #expect(try child.wait(timeout: .zero) == .exited(0))
      try child.send(signal: SIGTERM)
    }
  }

  @Test func aTimeoutLetsItGoOnAndASignalEndsIt() throws {
    try runUntilComplete {
      let child = try ChildProcess("sleep", ["1000"], input: .null, output: .null)
      #expect(throws: TimeoutError.self) { try child.wait(timeout: .milliseconds(1)) }
      #expect(throws: TimeoutError.self) { try child.wait(timeout: .zero) }
      try child.send(signal: SIGTERM)
      #expect(try child.wait() == .signalled(SIGTERM))
      #expect(isGone(child.processID))
    }
  }

  /// A process that has ended is readable, though its parent can't have its end before the debugger has.
  @Test func theEndIsWaitedForAsLongAsADebuggerHasIt() throws {
    typealias Trace = @convention(c) (Int, pid_t, UnsafeMutableRawPointer?, UnsafeMutableRawPointer?) -> Int
    // The C library has a function of this name, which takes any number of arguments.
    let trace = unsafeBitCast(dlsym(nil, "ptrace"), to: Trace.self)
    var (began, goesOn): ([CInt], [CInt]) = ([0, 0], [0, 0])
    #expect(pipe(&began) == 0)
    #expect(pipe(&goesOn) == 0)
    let child = try ChildProcess("sleep", ["1000"], input: .null, error: .null)
    let debugger = Child {
      // PTRACE_SEIZE
      var isSeized: UInt8 = trace(0x4206, child.processID, nil, nil) == 0 ? 1 : 0
      write(began[1], &isSeized, 1)
      _ = read(goesOn[0], &isSeized, 1)
      return 0
    }
    var isSeized: UInt8 = 0
    #expect(read(began[0], &isSeized, 1) == 1)
    // A system may allow no debugger.
    let isKept = isSeized == 1
    let release = goesOn[1]
    try runUntilComplete { () throws in
      // The one that no debugger is asked about.
      try child.send(signal: SIGKILL)
      #expect(try child.standardOutput.readLine() == nil)
      if isKept {
        #expect(throws: TimeoutError.self) { try child.wait(timeout: .milliseconds(200)) }
        #expect(throws: TimeoutError.self) {
          try withTimeout(.milliseconds(50)) { try select { child.onEnd { _ in } } }
        }
      }
      #expect(write(release, "x", 1) == 1)
      #expect(try child.wait() == .signalled(SIGKILL))
    }
    #expect(debugger.end == .exited(0))
    for end in began + goesOn { close(end) }
  }

  @Test func aCancelledWaitKillsAndReaps() throws {
    try runUntilComplete {
      let child = try ChildProcess("sleep", ["1000"], input: .null, output: .null)
      let wait = Coroutine { try child.wait() }
      Coroutine.yield()
      wait.cancel()
      #expect(throws: CancellationError.self) { try wait.get() }
      #expect(isGone(child.processID))
      #expect(try child.wait() == .signalled(SIGKILL))
    }
  }

  /// As one that runs as another user, by `sudo`.
  @Test func oneThatMayNotBeKilledIsNotWaitedForByForce() async {
    await #expect(processExitsWith: .success) {
      alarm(60)
      let child = try ChildProcess("cat", output: .null)
      precondition(coroutine_test_refuse_signals(EPERM) == 0)
      try await Coroutine {
        func refusal(_ body: () throws -> Void) -> (any Error)? {
          do { try body() } catch { return error }
          return nil
        }
        let wait = Coroutine { try child.wait() }
        Coroutine.yield()
        wait.cancel()
        precondition(refusal { _ = try wait.get() } is CancellationError)
        let timedOut = refusal { try withTimeout(.milliseconds(20)) { _ = try child.wait() } } as? TimeoutError
        precondition((timedOut?.cause as? IOError)?.operation == "kill")
        // It goes on, and ends by itself.
        child.standardInput.close()
        let end = try child.wait()
        precondition(end.isSuccess)
        let late = refusal { _ = try ChildProcess.run("sleep", ["3"], timeout: .milliseconds(20)) } as? TimeoutError
        precondition((late?.cause as? IOError)?.code == EPERM)
      }.value
    }
  }

  @Test func aRunEndsByTimeoutAndByCancel() throws {
    try runUntilComplete {
      #expect(throws: TimeoutError.self) {
        try ChildProcess.run("sleep", ["1000"], input: pattern(1_000_000), timeout: .milliseconds(20))
      }
      let run = Coroutine { try ChildProcess.run("sleep", ["1000"]) }
      Coroutine.yield()
      run.cancel()
      #expect(throws: CancellationError.self) { try run.get() }
    }
  }

  @Test func theLastCopyKillsAndReaps() throws {
    try runUntilComplete {
      var child: ChildProcess? = try ChildProcess("sleep", ["1000"], input: .null, output: .null)
      let process = try #require(child?.processID)
      #expect(!isGone(process))
      child = nil
      while !isGone(process) { try Coroutine.sleep(for: .milliseconds(1)) }
    }
  }

  /// The coroutine that reaps it gets no stack: a thread does it.
  @Test(arguments: [ChildProcess.Group.inherited, .new])
  func theLastCopyReapsAlsoWithoutAStack(_ group: ChildProcess.Group) throws {
    try runUntilComplete {
      let child = try ChildProcess("sleep", ["1000"], input: .null, output: .null, group: group)
      child.storage.abandon(stackSize: 1 << 50)
      while !isGone(child.processID) { try Coroutine.sleep(for: .milliseconds(1)) }
    }
  }

  @Test(.disabled(if: StackSupply.sanitizersActive, "a sanitizer's locks are not free in a child"))
  func theLastCopyInAForkedProcessKillsNothing() throws {
    try runUntilComplete {
      var child: ChildProcess? = try ChildProcess("cat", output: .null, error: .null)
      let end = Child.end {
        child = nil
        return 0
      }
      #expect(end == .exited(0))
      child?.standardInput.close()
      #expect(try child?.wait() == .exited(0))
    }
  }

  @Test func aStreamThatIsNoPipeTraps() async {
    await #expect(processExitsWith: .failure) { _ = try ChildProcess("true", output: .null).standardOutput }
  }

  @Test func aSelectWaitsForTheEnd() throws {
    try runUntilComplete {
      let child = try ChildProcess("/bin/cat", output: .null)
      let stop = Channel<Void>()
      let first = try select {
        child.onEnd { "\($0)" }
        stop.onNext { _ in "told to stop" }
        otherwise { "runs" }
      }
      #expect(first == "runs")
      let closer = Coroutine { child.standardInput.close() }
      for _ in 1...2 {
        let end = try select {
          child.onEnd { $0 }
          stop.onNext { _ in ChildProcess.End.exited(-1) }
        }
        #expect(end == .exited(0))
      }
      try closer.get()
    }
  }

  @Test func aSelectHoldsTheChild() throws {
    try runUntilComplete {
      let end = try select { try ChildProcess("/bin/sh", ["-c", "exit 3"], group: .new).onEnd { $0 } }
      #expect(end == .exited(3))
    }
  }

  @Test func aCancelledSelectLeavesTheChildAlone() throws {
    try runUntilComplete {
      let child = try ChildProcess("/bin/sleep", ["1000"])
      let waiter = Coroutine { try select { child.onEnd { $0 } } }
      while waiter.state != .suspended { Coroutine.yield() }
      waiter.cancel()
      #expect(throws: CancellationError.self) { try waiter.get() }
      try child.send(signal: SIGTERM)
      #expect(try child.wait() == .signalled(SIGTERM))
    }
  }
}
