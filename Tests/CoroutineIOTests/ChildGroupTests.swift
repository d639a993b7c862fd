import CCoroutineIO
import CoroutineIO
import CoroutineTestSupport
import Glibc
import Testing

@testable import Coroutine

/// Groups of processes: what a child has started itself.
///
/// A grandchild is known to have ended when the pipe gets to its end that it had open: it need not have been reaped by then.
@Suite(.ownThreads)
struct ChildGroupTests {
  private let withGrandchild = ["-c", "sleep 1000 & echo started; wait"]
  /// Ends at once, and leaves a process in its group that sends lines back until its input ends.
  private let leavingAnEcho = ["-c", "exec 3<&0; cat <&3 & echo started"]
  private let patience = Duration.seconds(60)

  private func isGone(_ process: Int32) -> Bool { kill(process, 0) == -1 && errno == ESRCH }

  @Test func aCancelledWaitKillsTheWholeGroup() throws {
    try runUntilComplete {
      let child = try ChildProcess("/bin/sh", withGrandchild, input: .null, error: .null, group: .new)
      #expect(try child.standardOutput.readLine() == "started")
      #expect(getpgid(child.processID) == child.processID)
      let wait = Coroutine { try child.wait() }
      Coroutine.yield()
      wait.cancel()
      #expect(throws: CancellationError.self) { try wait.get() }
      #expect(try child.standardOutput.readLine(timeout: patience) == nil)
      #expect(try child.wait() == .signalled(SIGKILL))
    }
  }

  @Test func theLastCopyKillsTheWholeGroup() throws {
    try runUntilComplete {
      var child: ChildProcess? = try ChildProcess(
        "/bin/sh", withGrandchild, input: .null, error: .null, group: .newSession)
      let process = try #require(child?.processID)
      let output = try #require(child?.standardOutput)
      #expect(try output.readLine() == "started")
      #expect(getsid(process) == process)
      child = nil
      #expect(try output.readLine(timeout: patience) == nil)
      while !isGone(process) { try Coroutine.sleep(for: .milliseconds(1)) }
    }
  }

  /// A process to which SIGKILL was sent answers no more, so the answer proves that none was.
  private func expectEcho(_ input: PipeWriter, _ output: PipeReader) throws {
    try input.write("still here\n")
    #expect(try output.readLine(timeout: patience) == "still here")
  }

  @Test func aCancelledWaitForTheEndedLeavesTheirGroup() throws {
    try runUntilComplete {
      let child = try ChildProcess("/bin/sh", leavingAnEcho, error: .null, group: .new)
      #expect(try child.standardOutput.readLine() == "started")
      #expect(try child.wait() == .exited(0))
      let wait = Coroutine(start: .atomic) {
        while !Coroutine.isCancelled { Coroutine.yield() }
        return try child.wait()
      }
      wait.cancel()
      #expect(throws: CancellationError.self) { try wait.get() }
      try expectEcho(child.standardInput, child.standardOutput)
      child.standardInput.close()
      #expect(try child.standardOutput.readLine(timeout: patience) == nil)
    }
  }

  @Test func whatOtherCodeReapsIsNotSignalled() throws {
    try runUntilComplete {
      var child: ChildProcess? = try ChildProcess("/bin/sh", leavingAnEcho, error: .null, group: .new)
      let process = try #require(child?.processID)
      let (input, output) = (try #require(child?.standardInput), try #require(child?.standardOutput))
      #expect(try output.readLine() == "started")
      // As a library does that waits for any child. From now on the group stands for one that is another's.
      #expect(waitpid(process, nil, 0) == process)
      let error = #expect(throws: IOError.self) { try child?.send(signal: SIGKILL, toGroup: true) }
      #expect(error?.code == ECHILD)
      #expect(throws: IOError.self) { try child?.wait() }
      #expect(throws: IOError.self) { try child?.terminate(grace: .zero) }
      do {
        let wait = Coroutine(start: .atomic) { [child] in
          while !Coroutine.isCancelled { Coroutine.yield() }
          return try child?.wait()
        }
        wait.cancel()
        #expect(throws: IOError.self) { try wait.get() }
      }
      try expectEcho(input, output)
      child = nil
      try expectEcho(input, output)
      input.close()
      #expect(try output.readLine(timeout: patience) == nil)
    }
  }

  @Test func aNumberThatIsNoGroupsThrows() throws {
    let folder = try TemporaryFolder()
    let path = folder.path + "/output"
    for number: Int32 in [0, -1, .min] {
      let error = #expect(throws: IOError.self) {
        try ChildProcess("true", output: .file(path), group: .existing(number))
      }
      #expect(error?.code == EINVAL)
      #expect(error?.description.contains("group \(number)") == true)
    }
    // Refused before a file is emptied.
    #expect(access(path, F_OK) == -1)
  }

  /// Whatever it is late for: a child that runs, and outputs that only a grandchild holds.
  @Test(arguments: ["sleep 1000 & echo started; wait", "sleep 1000 & echo started"])
  func aRunPastItsTimeoutKillsTheWholeGroup(script: String) throws {
    try runUntilComplete {
      // Until there was time enough for the grandchild to begin.
      var (timeout, hasBegun) = (Duration.milliseconds(20), false)
      while !hasBegun {
        var ends: [Int32] = [-1, -1]
        #expect(coroutine_io_blocking_pipe(&ends) == 0)
        let reader = try PipeReader(adopting: ends[0])
        #expect(throws: TimeoutError.self) {
          defer { close(ends[1]) }
          _ = try ChildProcess.run(
            "/bin/sh", ["-c", script], output: .descriptor(ends[1]), group: .new, timeout: timeout)
        }
        hasBegun = try reader.readLine(timeout: patience) == "started"
        if hasBegun { #expect(try reader.readLine(timeout: patience) == nil) }
        timeout *= 2
      }
    }
  }

  @Test func aCancelledRunKillsTheWholeGroup() throws {
    try runUntilComplete {
      var ends: [Int32] = [-1, -1]
      #expect(coroutine_io_blocking_pipe(&ends) == 0)
      let reader = try PipeReader(adopting: ends[0])
      let run = Coroutine { [end = ends[1]] in
        try ChildProcess.run("/bin/sh", withGrandchild, output: .descriptor(end), group: .new)
      }
      #expect(try reader.readLine(timeout: patience) == "started")
      close(ends[1])
      run.cancel()
      #expect(throws: CancellationError.self) { try run.get() }
      #expect(try reader.readLine(timeout: patience) == nil)
    }
  }

  @Test func aGroupIsSignalledWhenItsFirstHasEnded() throws {
    try runUntilComplete {
      var child: ChildProcess? = try ChildProcess(
        "/bin/sh", ["-c", "sleep 1000 & echo started"], input: .null, error: .null, group: .new)
      let process = try #require(child?.processID)
      let output = try #require(child?.standardOutput)
      #expect(try output.readLine() == "started")
      #expect(try child?.wait() == .exited(0))
      #expect(try child?.wait() == .exited(0))
      // Its number can't be another's as long as its group may be signalled.
      #expect(!isGone(process))
      try child?.send(signal: SIGTERM, toGroup: true)
      #expect(try output.readLine(timeout: patience) == nil)
      try child?.send(signal: SIGTERM, toGroup: true)
      child = nil
      #expect(isGone(process))
    }
  }

  @Test func childrenShareAGroup() throws {
    try runUntilComplete {
      let first = try ChildProcess("sleep", ["1000"], input: .null, output: .null, group: .new)
      let second = try ChildProcess("sleep", ["1000"], input: .null, output: .null, group: .existing(first.processID))
      #expect(getpgid(second.processID) == first.processID)
      try first.send(signal: SIGTERM, toGroup: true)
      #expect(try first.wait() == .signalled(SIGTERM))
      #expect(try second.wait() == .signalled(SIGTERM))
      let third = try ChildProcess("true", input: .null, output: .null)
      #expect(getpgid(third.processID) == getpgrp())
      #expect(try third.wait().isSuccess)
    }
  }

  @Test func terminationIsAskedForAndThenForced() throws {
    try runUntilComplete {
      let willing = try ChildProcess("sleep", ["1000"], input: .null, output: .null)
      #expect(try willing.terminate(grace: patience) == .signalled(SIGTERM))
      #expect(try willing.terminate(grace: patience) == .signalled(SIGTERM))
      let unwilling = try ChildProcess(
        "/bin/sh", ["-c", "trap '' TERM; echo ready; sleep 1000; echo more"], input: .null, error: .null, group: .new)
      #expect(try unwilling.standardOutput.readLine() == "ready")
      #expect(try unwilling.terminate(grace: .milliseconds(1)) == .signalled(SIGKILL))
      #expect(try unwilling.standardOutput.readLine(timeout: patience) == nil)
    }
  }

  @Test func aGroupThatIsAnothersIsNotSignalled() async {
    await #expect(processExitsWith: .failure) {
      try ChildProcess("true", output: .null).send(signal: SIGTERM, toGroup: true)
    }
  }
}
