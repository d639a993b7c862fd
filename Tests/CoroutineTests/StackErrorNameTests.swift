// Of the library's modules only this one: what a program has to import that names the error.
import Coroutine
import CoroutineTestSupport
import Testing

@Test(.ownThreads) func stackErrorIsNamedWithoutAnotherImport() async throws {
  let impossible = Coroutine(stackSize: .max) { 1 }
  do {
    _ = try await impossible.get()
    Issue.record("there was a stack")
  } catch let error as StackError {
    guard case .impossibleSize(requested: .max, allowed: _) = error else { throw error }
  }
  let failed: Coroutine<Int, any Error> = Coroutine(stackSize: .max) { 1 }
  await #expect(throws: StackError.self) { try await failed.get() }
}

/// Nor does the element's size make a size of it, or the smallest number stand for the default.
@Test(.ownThreads) func noSizeBelowOneIsAStack() async throws {
  for size in [0, -1, .min + 1, .min] {
    let coroutine = Coroutine(stackSize: size) { 1 }
    await #expect(throws: StackError.self) { try await coroutine.get() }
    let generator = ThrowingGenerator<InlineArray<1000, Int>>(stackSize: size) { yield in
      try yield(.init(repeating: 1))
    }
    #expect(throws: StackError.self) { try generator.next() }
  }
  // A size that is too small is rounded up.
  for size in [1, 4096, 16_383] {
    #expect(try await Coroutine(stackSize: size) { 1 }.get() == 1)
  }
}
