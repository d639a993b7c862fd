import CCoroutine
import CoroutineTestSupport
import Foundation
import Testing

/// Programs whose system calls are refused, one after the other: docs/faults.md has what comes of each.
/// `CoroutineFaultPrograms` runs them, in processes of their own.
@Suite(
  .ownThreads, .timeLimit(.minutes(30)),
  .disabled(if: coroutine_sanitizers_active(), "a sanitizer's own calls would be refused, too"))
struct FaultTests {
  @Test(arguments: [
    ["mmap", "sigaltstack"], ["mmap-stacks", "membarrier"], ["mprotect", "munmap"], ["clone", "futex"],
    ["madvise", "madvise-unknown", "pipe", "pidfd_open", "socket", "signals"],
    ["epoll_create", "epoll_ctl", "epoll_wait", "eventfd", "eventfd-write", "eventfd-read", "accept"],
  ])
  func aRefusedCallIsSurvivedOrTold(_ faults: [String]) async throws {
    let answer = await TestProgram.run("CoroutineFaultPrograms", ["possible"], .success).output
    guard answer == "possible\n" else {
      // No run of CI may pass without having refused a call.
      if ProcessInfo.processInfo.environment["CI"] == "true" {
        Issue.record("CI=true, and \(answer)")
        return
      }
      try Test.cancel("\(answer)")
    }
    let (ended, output) = await TestProgram.run("CoroutineFaultPrograms", ["quick"] + faults, .success)
    #expect(ended, "\(output)")
  }
}
