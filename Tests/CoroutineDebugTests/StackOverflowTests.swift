import CCoroutine
import Coroutine
import CoroutineDebug
import CoroutineTestSupport
import Dispatch
import Foundation
import Testing

/// Recurses without end, as far as the compiler can tell, in a way that it can't turn into a loop.
@inline(never)
private func recurse(_ depth: Int) -> Int {
  guard depth >= 0 else { return 0 }
  return (recurse(depth + 1) &* 3) ^ depth
}

/// Not under sanitizers: they handle the fault themselves, and end the process in another way.
@Suite(.ownThreads, .disabled(if: coroutine_sanitizers_active(), "the sanitizers handle the fault themselves"))
struct StackOverflowTests {
  /// What the process wrote before it died by SIGSEGV.
  private func report(_ result: ExitTest.Result?) -> String {
    String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
  }

  @Test func anOverflowIsToldByNameAndEndsTheProcessAsUsual() async {
    let result = await #expect(processExitsWith: .signal(SIGSEGV), observing: [\.standardErrorContent]) {
      _ = try await Coroutine(name: "parser", stackSize: 128 << 10) { recurse(0) }.value
    }
    let text = report(result)
    #expect(text.contains("stack overflow in coroutine 1 \"parser\" ("))
    #expect(text.contains("recurse(_:) at StackOverflowTests.swift:"))
    #expect(text.contains("in StackOverflowTests.anOverflowIsToldByName"))
  }

  @Test func aNameDoesNotReachTheTerminal() async {
    let result = await #expect(processExitsWith: .signal(SIGSEGV), observing: [\.standardErrorContent]) {
      _ = try await Coroutine(name: "a\u{1b}[2J\nb", stackSize: 128 << 10) { recurse(0) }.value
    }
    #expect(report(result).contains(#"stack overflow in coroutine 1 "a\u{1b}[2J\u{a}b" ("#))
  }

  @Test func anOverflowOnADispatchThreadIsToldToo() async {
    let result = await #expect(processExitsWith: .signal(SIGSEGV), observing: [\.standardErrorContent]) {
      _ = try await Coroutine(on: DispatchQueue(label: "q"), name: "queued") { recurse(0) }.value
    }
    #expect(report(result).contains("stack overflow in coroutine 1 \"queued\" ("))
  }

  @Test func anOverflowOfAGeneratorNamesItsConsumer() async {
    let result = await #expect(processExitsWith: .signal(SIGSEGV), observing: [\.standardErrorContent]) {
      let consumer = Coroutine(name: "consumer") {
        let numbers = Generator<Int> { yield in try yield(recurse(0)) }
        return numbers.next() ?? 0
      }
      _ = try await consumer.value
    }
    #expect(report(result).contains("stack overflow in a generator of coroutine 1 \"consumer\" ("))
  }

  /// Swift's crash report halts all threads by that signal, and names those that it could not halt.
  @Test func theReportersThreadDoesNotBlockSIGPROF() async {
    await #expect(processExitsWith: .success) {
      try await Coroutine {}.value
      let folder = "/proc/self/task/"
      let tasks = try FileManager.default.contentsOfDirectory(atPath: folder).map { "\(folder)\($0)/" }
      var reporter: String?
      // The thread names itself.
      while reporter == nil {
        reporter = tasks.first { (try? String(contentsOfFile: $0 + "comm", encoding: .utf8)) == "coroutine-crash\n" }
      }
      let status = try String(contentsOfFile: #require(reporter) + "status", encoding: .utf8)
      let blocked = try #require(status.split(separator: "\n").first { $0.hasPrefix("SigBlk:") }?.dropFirst(8))
      #expect(try #require(UInt64(blocked, radix: 16)) & 1 << UInt64(SIGPROF - 1) == 0)
    }
  }

  /// Swift's own needs faults of its own while it runs.
  @Test func theHandlerBeforeBlocksWhatItAskedFor() async {
    await #expect(processExitsWith: .exitCode(7)) {
      var action = sigaction()
      action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER
      sigaddset(&action.sa_mask, SIGUSR1)
      action.__sigaction_handler.sa_sigaction = { _, _, _ in
        var blocked = sigset_t()
        pthread_sigmask(SIG_BLOCK, nil, &blocked)
        _exit(sigismember(&blocked, SIGSEGV) == 0 && sigismember(&blocked, SIGUSR1) == 1 ? 7 : 8)
      }
      sigaction(SIGSEGV, &action, nil)
      _ = try await Coroutine(stackSize: 128 << 10) { recurse(0) }.value
    }
  }

  @Test func aStrayPointerIsNoOverflow() async {
    let result = await #expect(processExitsWith: .signal(SIGSEGV), observing: [\.standardErrorContent]) {
      try await Coroutine { UnsafeMutablePointer<Int>(bitPattern: 8)!.pointee = 1 }.value
    }
    #expect(!report(result).contains("stack overflow"))
  }
}
