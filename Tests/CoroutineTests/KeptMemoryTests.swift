import CCoroutine
import CoroutineTestSupport
import Glibc
import Testing

@testable import Coroutine

/// What a pool tells the C library, whose `malloc` is the whole program's.
@Suite(.ownThreads, .disabled(if: coroutine_sanitizers_active(), "the sanitizers have a malloc of their own"))
struct KeptMemoryTests {
  @Test func freedMemoryIsKept() async {
    await #expect(processExitsWith: .success) {
      exit(bytesKept(chosen: nil) >= 2 << 20 ? EXIT_SUCCESS : EXIT_FAILURE)
    }
  }

  /// What the library keeps by itself depends on what the program has freed before: so this asks for the choice alone.
  @Test func aProgramMayLeaveItToTheLibrary() async {
    await #expect(processExitsWith: .success) {
      var found: [Int?] = []
      for text in ["0", "65536", "16M"] {
        setenv("COROUTINE_KEPT_MEMORY", text, 1)
        found.append(KeptMemory.fromEnvironment())
      }
      unsetenv("COROUTINE_KEPT_MEMORY")
      found.append(KeptMemory.fromEnvironment())
      exit(found == [0, 65536, 16 << 20, nil] ? EXIT_SUCCESS : EXIT_FAILURE)
    }
  }

  @Test func aSizeThatIsNoneEndsTheProgram() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      _ = bytesKept(chosen: "much")
    }
    let text = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
    #expect(text.contains("COROUTINE_KEPT_MEMORY"))
  }
}

/// How much memory a heap of the C library has at its end when 3 MiB in small blocks were freed there.
private func bytesKept(chosen: String?) -> Int {
  if let chosen { setenv("COROUTINE_KEPT_MEMORY", chosen, 1) } else { unsetenv("COROUTINE_KEPT_MEMORY") }
  _ = ThreadPool(threads: 1)
  // One thread from its first block to its last: each may have a heap of its own.
  return PlainThread {
    let blocks = (0..<3072).map { _ in malloc(1024) }
    let before = heapKept()
    for block in blocks { free(block) }
    return heapKept() - before
  }.join()
}
