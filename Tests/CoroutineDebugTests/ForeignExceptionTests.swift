import CCoroutine
import Coroutine
import CoroutineDebug
import CoroutineTestSupport
import Testing

/// Exceptions of C++ in a program that has libunwind for its backtraces. libunwind has functions of the same names as the
/// unwinder that the compiler's libraries bring, and must not be taken for it.
@Suite(.ownThreads) struct ForeignExceptionTests {
  @Test(.disabled(if: coroutine_sanitizers_active(), "a sanitizer has a function of that name in front of all"))
  func theCompilersUnwinderThrowsThem() throws {
    #expect(try CoroutineDump.capture().coroutines.count >= 0)
    #expect(ForeignException.hasCompilersUnwinder)
  }

  @Test func oneThatLeavesACoroutineTerminates() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      try await Coroutine(on: ThreadPool(threads: 1)) { ForeignException.raise() }.get()
    }
    #expect(lastWords(of: result).contains(ForeignException.lastWords))
  }

  @Test func oneThatLeavesAGeneratorsBodyTerminates() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let generator = Generator<Int> { _ in ForeignException.raise() }
      _ = generator.next()
    }
    #expect(lastWords(of: result).contains(ForeignException.lastWords))
  }

  private func lastWords(of result: ExitTest.Result?) -> String {
    result.map { String(decoding: $0.standardErrorContent, as: UTF8.self) } ?? ""
  }
}
