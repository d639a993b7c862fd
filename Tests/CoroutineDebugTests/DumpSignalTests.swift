import Coroutine
import CoroutineDebug
import CoroutineTestSupport
import Dispatch
import Foundation
import Testing

@inline(never)
private func awaitSignal(_ channel: Channel<Int>) throws -> Int {
  try channel.receive() + 1
}

@Suite(.ownThreads) struct DumpSignalTests {
  @Test func aSignalWritesADumpWhileEveryThreadIsBusy() async {
    await #expect(processExitsWith: .success) {
      let path = "/tmp/coroutine-dump-test-\(getpid())"
      let channel = Channel<Int>(name: "signalled")
      Coroutine.immediate(name: "waiting") { try awaitSignal(channel) }
      try CoroutineDump.onSignal(SIGUSR1, to: .file(path))
      let busy = ThreadPool(threads: 2)
      for _ in 0..<2 { Coroutine(on: busy, name: "busy") { while true { sched_yield() } } }
      kill(getpid(), SIGUSR1)
      // The dump is written in one piece, which ends with the last frame of the last group.
      while true {
        let text = ((try? String(contentsOfFile: path, encoding: .utf8)) ?? "").withoutTimes
        if text.contains("\"waiting\": suspended, receive on channel \"signalled\" (1 receiver)")
          && text.contains("awaitSignal(_:) at DumpSignalTests.swift")
        {
          break
        }
        usleep(1000)
      }
      unlink(path)
      leave()
    }
  }

  @Test func aDumpFollowsNoSymbolicLink() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardErrorContent]) {
      let path = "/tmp/coroutine-dump-test-\(getpid())"
      defer {
        unlink(path)
        unlink(path + ".link")
      }
      symlink(path + ".other", path + ".link")
      try CoroutineDump.onSignal(SIGUSR1, to: .file(path + ".link"))
      try CoroutineDump.onSignal(SIGUSR2, to: .file(path))
      // Dumps are made in the order of the signals, and `raise` sends both to this thread, one at a time. The thread
      // may block them.
      var signals = sigset_t()
      sigfillset(&signals)
      pthread_sigmask(SIG_UNBLOCK, &signals, nil)
      raise(SIGUSR1)
      raise(SIGUSR2)
      while access(path, F_OK) != 0 { usleep(1000) }
      #expect(access(path + ".other", F_OK) != 0)
    }
    let text = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
    #expect(text.contains(".link, a symbolic link, which is not followed"), "\(text)")
  }

  @Test func aSignalInAChildIsNoneOfTheParent() async {
    await #expect(processExitsWith: .success) {
      let path = "/tmp/coroutine-dump-test-\(getpid())"
      try CoroutineDump.onSignal(SIGUSR1, to: .file(path + "-child"))
      try CoroutineDump.onSignal(SIGUSR2, to: .file(path))
      let child = ForkedProcess {
        kill(getpid(), SIGUSR1)
        _exit(0)
      }
      var info = siginfo_t()
      #expect(waitid(P_PID, id_t(child.id), &info, WEXITED | WNOWAIT) == 0)
      // Dumps are made in the order of the signals.
      kill(getpid(), SIGUSR2)
      while access(path, F_OK) != 0 { usleep(1000) }
      #expect(access(path + "-child", F_OK) != 0)
      unlink(path)
      leave()
    }
  }

  @Test func aDumpIntoAPipeWithoutAReaderDoesNotEndTheProcess() async {
    await #expect(processExitsWith: .success) {
      var (broken, errors): ([CInt], [CInt]) = ([0, 0], [0, 0])
      #expect(pipe(&broken) == 0 && pipe(&errors) == 0)
      close(broken[0])
      // This is one of Dispatch's threads. These block all signals, and the threads that they create inherit that.
      var signals = sigset_t()
      sigemptyset(&signals)
      sigaddset(&signals, SIGPIPE)
      pthread_sigmask(SIG_UNBLOCK, &signals, nil)
      signal(SIGPIPE, SIG_DFL)
      try CoroutineDump.onSignal(SIGUSR1, to: .descriptor(broken[1]))
      dup2(errors[1], 2)
      kill(getpid(), SIGUSR1)
      var text = [UInt8](repeating: 0, count: 200)
      let count = read(errors[0], &text, text.count)
      leave(String(decoding: text.prefix(count), as: UTF8.self).contains("write: Broken pipe") ? 0 : 1)
    }
  }

  @Test func aSignalThatCantBeHandledIsRefused() {
    let problem = #expect(throws: CoroutineDumpError.self) { try CoroutineDump.onSignal(SIGKILL) }
    #expect(problem?.code == EINVAL)
  }
}
