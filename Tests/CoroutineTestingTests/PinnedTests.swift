import Coroutine
import CoroutineTestSupport
import CoroutineTesting
import Testing

/// Coroutines that keep the one thread of their run while they wait.
@Suite(.ownThreads) struct PinnedTests {
  @Test func itsWaitsEndAsThoseOfOthers() throws {
    try runTest(waitPinned)
    try explore(seeds: 0..<4, waitPinned)
  }

  private func waitPinned() throws {
    let never = Channel<Int>()
    try withThreadPinned { try Coroutine.sleep(for: .seconds(100)) }
    let ending = outcome { try withThreadPinned { _ = try never.receive(timeout: .seconds(10)) } }
    guard ending == "timed out", TestClock().now.offset == .seconds(110) else { throw LostUpdate() }
    // By tasks of the run, and by other threads.
    let awaited = try withThreadPinned {
      try Coroutine.await {
        try await TestClock().sleep(for: .seconds(5))
        return TestClock().now.offset
      }
    }
    let blocked = try withThreadPinned { try blocking { 7 } }
    let outsiders = try withThreadPinned { try Coroutine(on: .pool) { 8 }.get() }
    guard awaited == .seconds(115), blocked == 7, outsiders == 8 else { throw LostUpdate() }
    // One that began at once keeps the thread of the other, below, too.
    let inner = Coroutine.immediate { try withThreadPinned { try Coroutine.sleep(for: .seconds(1)) } }
    guard inner.isFinished, TestClock().now.offset == .seconds(116) else { throw LostUpdate() }
  }

  /// Also if it could go on since: what it had waited for holds up the time no more.
  @Test func anotherCoroutineHasNoTurnMeanwhile() throws {
    let order = Log<String>()
    let gate = Gate()
    try runTest {
      let other = Coroutine {
        order.add("begins")
        let number = try blocking {
          gate.pass()
          return 7
        }
        order.add("goes on with \(number)")
      }
      Coroutine.yield()
      let late = Coroutine { order.add("late") }
      gate.open()
      try withThreadPinned {
        try Coroutine.sleep(for: .seconds(1))
        order.add("pinned")
      }
      try other.get()
      try late.get()
    }
    #expect(order.all.prefix(2) == ["begins", "pinned"])
    #expect(Set(order.all.suffix(2)) == ["goes on with 7", "late"])
  }

  @Test func oneThatWaitsForAnotherCoroutineIsNamed() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      try await runTest(upTo: .milliseconds(10)) {
        let channel = Channel<Int>(name: "requests")
        Coroutine { try channel.send(1) }
        _ = try withThreadPinned { try channel.receive() }
      }
    }
    let text = standardError(of: result)
    #expect(text.contains(#""body" waits in vain inside withThreadPinned (receive on channel "requests""#), "\(text)")
    #expect(text.contains("on a run's one thread nothing else runs"), "\(text)")
  }
}
