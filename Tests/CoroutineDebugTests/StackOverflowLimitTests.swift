import CCoroutine
import Coroutine
import CoroutineDebug
import Foundation
import Synchronization
import Testing

/// Without end, as far as the compiler can tell, and nothing that it could make a loop of.
@inline(never)
private func recurse(_ depth: Int) -> Int {
  guard depth >= 0 else { return 0 }
  return (recurse(depth + 1) &* 3) ^ depth
}

/// What a file in /proc says.
private func content(_ path: String) -> String { (try? String(contentsOfFile: path, encoding: .utf8)) ?? "" }

/// Overflows that are harder to tell: several faults at once.
///
/// Not under sanitizers: they handle the fault themselves, and end the process in another way.
@Suite(.disabled(if: coroutine_sanitizers_active(), "the sanitizers handle the fault themselves"))
struct StackOverflowLimitTests {
  /// What the process said before it died by SIGSEGV.
  private func report(_ result: ExitTest.Result?) -> String {
    String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
  }

  @Test func ofOverflowsOnSeveralThreadsAtOnceOneIsTold() async {
    let result = await #expect(processExitsWith: .signal(SIGSEGV), observing: [\.standardErrorContent]) {
      let pool = ThreadPool(threads: 4)
      let arrived = Count()
      let parsers = (0..<4).map { _ in
        Coroutine(on: pool, name: "parser") { () -> Int in
          // They overflow in the same moment.
          arrived.add()
          while arrived.value < 4 { sched_yield() }
          return recurse(0)
        }
      }
      for parser in parsers { _ = try await parser.value }
    }
    let text = report(result)
    #expect(text.components(separatedBy: "stack overflow in coroutine").count == 2, "\(text)")
    #expect(text.contains("\"parser\" ("))
    #expect(text.contains("recurse(_:) at StackOverflowLimitTests.swift:"))
    #expect(text.contains("in StackOverflowLimitTests.ofOverflowsOnSeveralThreadsAtOnceOneIsTold"))
  }

  @Test func anotherThreadsFaultDoesNotCutTheReportShort() async {
    let result = await #expect(processExitsWith: .signal(SIGSEGV), observing: [\.standardErrorContent]) {
      try await Coroutine {}.value
      let folder = "/proc/self/task/"
      let tasks = try FileManager.default.contentsOfDirectory(atPath: folder).map { "\(folder)\($0)/" }
      var reporter: String?
      // It gives itself its name.
      while reporter == nil { reporter = tasks.first { content($0 + "comm") == "coroutine-crash\n" } }
      let call = try #require(reporter) + "syscall"
      while content(call).hasPrefix("running") { sched_yield() }
      let waiting = content(call)
      try #require(!waiting.isEmpty)
      Thread.detachNewThread {
        // As soon as the report is being made.
        while content(call) == waiting { sched_yield() }
        UnsafeMutablePointer<Int>(bitPattern: 8)!.pointee = 1
      }
      _ = try await Coroutine(name: "parser") { recurse(0) }.value
    }
    let text = report(result)
    #expect(text.contains("stack overflow in coroutine 2 \"parser\" ("), "\(text)")
    #expect(text.contains("in StackOverflowLimitTests.anotherThreadsFaultDoesNotCutTheReportShort"))
  }
}

/// Threads count themselves.
private final class Count: Sendable {
  private let count = Atomic<Int>(0)
  var value: Int { count.load(ordering: .acquiring) }
  func add() { count.add(1, ordering: .releasing) }
}
