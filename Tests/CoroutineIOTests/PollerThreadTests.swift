import CoroutineTestSupport
import Glibc
import Testing

@testable import Coroutine
@testable import CoroutineIO

/// The thread that sees to it that the workers of a pool have a monitor.
@Suite(.ownThreads) struct PollerThreadTests {
  /// Events have woken a worker, and the coroutine that it runs wakes another one and computes. Another pool's worker sleeps in
  /// the poller meanwhile.
  @Test func aPoolGetsAMonitorThoughAnothersWorkerPolls() async {
    await #expect(processExitsWith: .success) {
      let (pool, other) = (ThreadPool(threads: 2), ThreadPool(threads: 1))
      let (left, right) = try makePair()
      let (wake, hasRun) = (Channel<Void>(capacity: .buffered(1)), Flag())
      let woken = Coroutine(on: pool) {
        try wake.receive()
        hasRun.set()
      }
      let reader = Coroutine(on: pool) {
        try left.waitUntilReadable()
        // Its worker has left the poller. The other pool's runs this, and goes there.
        let visitor = Coroutine(on: other) {}
        while visitor.state != .finished || !EventPoller.isWorkerAsleep { sched_yield() }
        _ = wake.trySend(())
        while !hasRun.isSet { sched_yield() }
      }
      while woken.state != .suspended || reader.state != .suspended { sched_yield() }
      while !EventPoller.isWorkerAsleep || !EventPoller.isThreadDormant { sched_yield() }
      try right.put([1])
      try await reader.get()
      try await woken.get()
      exit(0)
    }
  }
}
