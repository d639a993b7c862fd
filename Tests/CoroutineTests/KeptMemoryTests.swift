import CoroutineTestSupport
import Glibc
import Testing

@testable import Coroutine

/// What a pool asks of the C library's `malloc`, which the whole program uses: the program may refuse it.
///
/// The effect can't be tested here: how much the library keeps also depends on what was freed before.
@Suite(.ownThreads) struct KeptMemoryTests {
  @Test func theEnvironmentSaysHowMuchIsKept() async {
    await #expect(processExitsWith: .success) {
      var found: [Int?] = []
      for text in ["0", "65536", "16M"] {
        setenv(KeptMemory.variable, text, 1)
        found.append(KeptMemory.fromEnvironment())
      }
      unsetenv(KeptMemory.variable)
      found.append(KeptMemory.fromEnvironment())
      exit(found == [0, 65536, 16 << 20, nil] ? EXIT_SUCCESS : EXIT_FAILURE)
    }
  }

  @Test func theProgramChoosesBeforeItsFirstPool() async {
    await #expect(processExitsWith: .success) {
      ThreadPool.keepFreedMemory(1 << 20)
      ThreadPool.keepFreedMemory(0)
      // The next one is too late.
      _ = ThreadPool(threads: 1)
      exit(KeptMemory.set(0) ? EXIT_FAILURE : EXIT_SUCCESS)
    }
  }

  @Test func aChoiceAfterTheFirstPoolEndsTheProgram() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      _ = ThreadPool(threads: 1)
      ThreadPool.keepFreedMemory(0)
    }
    let text = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
    #expect(text.contains("comes too late"))
  }

  @Test func aSizeThatIsNoneEndsTheProgram() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      setenv(KeptMemory.variable, "much", 1)
      _ = ThreadPool(threads: 1)
    }
    let text = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
    #expect(text.contains("COROUTINE_KEPT_MEMORY"))
  }
}
