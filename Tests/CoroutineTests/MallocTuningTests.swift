import CCoroutine
import CCoroutineSystem
import Context
import CoroutineTestSupport
import Dispatch
import Glibc
import Synchronization
import Testing

@testable import Coroutine

/// What a pool asks of the C library's `malloc`, which the whole program uses: the program may refuse it.
///
/// How much the library keeps can't be tested here: it also depends on what was freed before.
@Suite(.ownThreads) struct MallocTuningTests {
  @Test func theEnvironmentSaysHowMuchIsKept() async {
    await #expect(processExitsWith: .success) {
      var found: [Int?] = []
      for text in ["0", "65536", "16M"] {
        setenv(MallocTuning.variable, text, 1)
        found.append(MallocTuning.fromEnvironment())
      }
      unsetenv(MallocTuning.variable)
      found.append(MallocTuning.fromEnvironment())
      exit(found == [0, 65536, 16 << 20, nil] ? EXIT_SUCCESS : EXIT_FAILURE)
    }
  }

  @Test func theProgramChoosesBeforeItsFirstPool() async {
    await #expect(processExitsWith: .success) {
      ThreadPool.keepFreedMemory(1 << 20)
      ThreadPool.keepFreedMemory(0)
      // The next one is too late.
      _ = ThreadPool(threads: 1)
      exit(MallocTuning.set(0) ? EXIT_FAILURE : EXIT_SUCCESS)
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

  /// Free memory in the midst of a heap goes back to the kernel, but not where the program wants its `malloc` left alone.
  @Test(.enabled(if: !coroutine_sanitizers_active(), "a sanitizer has a heap of its own"), arguments: [4 << 20, 0])
  func freedMemoryIsGivenBackUnlessTheProgramSaysNo(kept: Int) async {
    await #expect(processExitsWith: .success) { [kept] in
      ThreadPool.keepFreedMemory(kept)
      _ = ThreadPool(threads: 1)
      var blocks = (0...100_000).map { _ in
        let block = malloc(1000)!
        memset(block, 1, 1000)
        return block
      }
      let last = blocks.removeLast()  // so that the heap's end is in use
      for block in blocks { free(block) }
      let before = residentBytes()
      coroutine_system_give_back_freed_memory()
      let given = before - residentBytes()
      free(last)
      exit((kept == 0 ? given < 10_000_000 : given > 90_000_000) ? EXIT_SUCCESS : EXIT_FAILURE)
    }
  }

  /// Each ends before the next one begins, and so they have few stacks: no trimmed stack tells of them.
  @Test(
    .enabled(if: !coroutine_sanitizers_active(), "a sanitizer has a heap of its own"),
    arguments: ["a thread", "two threads", "a view of a pool", "a queue", "the caller"])
  func whatVeryManyHadIsGivenBack(on place: String) async {
    await #expect(processExitsWith: .success) { [place] in
      let before = residentBytes()
      let most: Int
      switch place {
      case "a thread": most = try await launchVeryMany(on: ThreadPool(threads: 1))
      case "two threads":
        let pool = ThreadPool(threads: 2)
        // One of them runs none before all are made.
        let made = Made()
        Coroutine(on: pool) { while !made.value.load(ordering: .relaxed) { sched_yield() } }
        most = try await launchVeryMany(on: pool, made)
      case "a view of a pool": most = try await launchVeryMany(on: ThreadPool(threads: 1).limited(to: 1))
      case "a queue": most = try await launchVeryMany(on: DispatchQueue(label: "of very many"))
      default: most = try launchVeryManyHere()
      }
      guard most - before > 60_000_000 else { exit(EXIT_FAILURE) }
      while CoroutineCore.liveCount > 0 { sched_yield() }  // the last one may have been overtaken
      // The pool's thread waits for ten seconds before it does this.
      for _ in 0..<1000 where residentBytes() - before > 30_000_000 {
        while StackPool.default.decay() {}
        sched_yield()
      }
      exit(residentBytes() - before > 30_000_000 ? EXIT_FAILURE : EXIT_SUCCESS)
    }
  }

  /// A block of a MiB has no mapping of its own any more: the bit for that is in the word before it.
  @Test(.enabled(if: !coroutine_sanitizers_active(), "a sanitizer has a heap of its own"))
  func theMostMayBeKept() async {
    await #expect(processExitsWith: .success) {
      ThreadPool.keepFreedMemory(MallocTuning.most)
      _ = ThreadPool(threads: 1)
      // By its address, with the type that <stdlib.h> declares: of a call that it knows, an optimiser may leave out what reads
      // before the block.
      let allocate = unsafeBitCast(dlsym(nil, "malloc")!, to: (@convention(c) (Int) -> UnsafeMutableRawPointer).self)
      let block = allocate(1 << 20)
      exit((block - 8).load(as: UInt.self) & 2 == 0 ? EXIT_SUCCESS : EXIT_FAILURE)
    }
  }

  @Test func aSizeThatIsNoneEndsTheProgram() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      setenv(MallocTuning.variable, "much", 1)
      _ = ThreadPool(threads: 1)
    }
    let text = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
    #expect(text.contains("COROUTINE_KEPT_MEMORY"))
  }
}

/// Whether all coroutines are made.
private final class Made: Sendable {
  let value = Atomic<Bool>(false)
}

/// What was resident when all were made, and the one made last.
private struct VeryMany: Sendable {
  let most: Int
  let last: Coroutine<Void, Never>
}

private func launchVeryMany(_ launch: () -> Coroutine<Void, Never>) -> VeryMany {
  for _ in 1..<200_000 { _ = launch() }
  let last = launch()
  let atTheEnd = malloc(1000)  // of the heap: in use until the process's end
  precondition(atTheEnd != nil)
  return VeryMany(most: residentBytes(), last: last)
}

/// Makes all before the first of them begins.
private func launchVeryMany(on scheduler: some Scheduler, _ made: Made = Made()) async throws -> Int {
  let many = try await Coroutine(on: scheduler) {
    let many = launchVeryMany { Coroutine(on: scheduler) {} }
    made.value.store(true, ordering: .relaxed)
    return many
  }.get()
  try await many.last.get()
  return many.most
}

/// On the calling thread.
private func launchVeryManyHere() throws -> Int {
  try runUntilComplete {
    let many = launchVeryMany { Coroutine {} }
    try many.last.get()
    return many.most
  }
}
