import CoroutineTestSupport
import Dispatch
import Glibc
import Testing

@testable import Coroutine

/// Handlers that the timers' thread must not wait for: on how many threads, and that none waits for another.
@Suite(.ownThreads) struct HandlerThreadsTests {
  @Test func oneThreadTakesAllThatGetsOn() {
    var machine = HandlerThreadsStateMachine()
    #expect(machine.append({}) == (true, false))
    #expect(machine.append({}) == (false, true))
    #expect(machine.look(knowing: nil) == (2, false))
    #expect(machine.append({}) == (false, false))
    _ = machine.next()
    _ = machine.next()
    // The third one has come since.
    #expect(machine.look(knowing: 2) == (3, false))
    _ = machine.next()
    #expect(machine.look(knowing: 3) == (nil, false))
    #expect(machine.next() == nil)
    // From the beginning.
    #expect(machine.append({}) == (true, false))
  }

  @Test func oneThatHasToWaitGetsAnotherThread() {
    var machine = HandlerThreadsStateMachine()
    for _ in 0..<3 { _ = machine.append({}) }
    _ = machine.next()
    #expect(machine.look(knowing: nil) == (3, false))
    // Others go on, but slowly.
    _ = machine.next()
    #expect(machine.look(knowing: 3) == (3, true))
    _ = machine.next()
    #expect(machine.look(knowing: 3) == (nil, false))
    // Both threads are at work: one more is looked at again.
    #expect(machine.append({}) == (false, true))
    _ = machine.next()
    // One of them ends, and there is the other.
    #expect(machine.next() == nil)
    #expect(machine.append({}) == (false, false))
    _ = machine.next()
    #expect(machine.next() == nil)
    #expect(machine.append({}) == (true, false))
  }

  /// The first handlers block until the last one has run. The time begins when the handler is there: a coroutine that finds its
  /// time over before that runs the handler itself, and then these would block the pool.
  @Test func noHandlerWaitsForOneThatBlocks() async throws {
    let blocking = 8
    let (begun, gate) = (WaitGroup(count: blocking), DispatchSemaphore(value: 0))
    let never = Channel<Int>()
    let waiting = (0..<blocking).map { _ in
      Coroutine(on: .pool) {
        try withTimeout(.seconds(3600)) { deadline in
          let deadline = deadline.handle
          try withCancellationHandler {
            deadline.move(after: .milliseconds(1))
            _ = try never.receive()
          } onCancel: {
            begun.done()
            gate.wait()
          }
        }
      }
    }
    try await begun.wait()
    let last = Coroutine(on: .pool) {
      try withTimeout(.seconds(3600)) { deadline in
        let deadline = deadline.handle
        try withCancellationHandler {
          deadline.move(after: .milliseconds(1))
          _ = try never.receive()
        } onCancel: {
          for _ in 0..<blocking { gate.signal() }
        }
      }
    }
    for coroutine in waiting + [last] { await #expect(throws: TimeoutError.self) { try await coroutine.get() } }
  }

  @Test func manyDeadlinesAtOnceTakeFewThreads() async throws {
    let count = 500
    let threads = Log()
    let never = Channel<Int>()
    let deadline = ContinuousClock.now + .milliseconds(20)
    let waiting = (0..<count).map { _ in
      Coroutine(on: .pool) {
        try withTimeout(until: deadline, clock: .continuous) {
          try withCancellationHandler {
            _ = try never.receive()
          } onCancel: {
            threads.add("\(pthread_self())")
          }
        }
      }
    }
    for coroutine in waiting { await #expect(throws: TimeoutError.self) { try await coroutine.get() } }
    #expect(threads.all.count == count)
    // A slow machine may take one more each two milliseconds.
    let most = count / 10 + Int((ContinuousClock.now - deadline) / .milliseconds(2))
    #expect(Set(threads.all).count < most)
  }
}
