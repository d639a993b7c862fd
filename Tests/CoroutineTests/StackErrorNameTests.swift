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
