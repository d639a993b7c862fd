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

  @Test func aRunThatIsLateKillsTheWholeGroup() throws {
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
