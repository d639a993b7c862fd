import CoroutineTestSupport
import Testing

@testable import Coroutine

/// The coroutine that does a promise's work, where it does not begin.
@Suite(.ownThreads) struct PromiseWorkTests {
  /// A promise whose work gets no stack.
  private func makePromise(_ name: String) -> Promise<Int> {
    let (promise, resolver) = Promise.makePromise(of: Int.self, name: name)
    promise.storage.work(on: SchedulerReference(ThreadPool.shared), name: name, stackSize: 1 << 50) { _ in
      resolver.fulfill(1)
    }
    return promise
  }

  @Test func workWithoutAStackRejectsItsPromiseByThat() async {
    let promise = makePromise("read")
    await #expect(throws: StackError.self) { try await promise.get() }
  }

  /// By the promise, and not by the coroutine too.
  @Test func aPromiseWithoutAReaderReportsIt() async {
    let log = Log()
    await LostErrors.observe { error, origin in
      guard error is StackError, origin.contains("\"not read\"") else { return false }
      log.add(origin)
      return true
    } during: {
      _ = makePromise("not read")
      while log.all.isEmpty { await Task.yield() }
    }
    #expect(log.all == ["promise \"not read\""])
  }
}
