import CoroutineTestSupport
import Glibc
import Synchronization
import Testing

@testable import Coroutine

/// Threads that should not be blocked: the report names where they were.
@Suite(.ownThreads, .timeLimit(.minutes(30))) struct BlockedThreadTests {
  private static let file = "CoroutineSchedulerTests/BlockedThreadTests.swift"

  /// Calls `told` on a thread of its own once `text` has been written to the standard error.
  private static func onceTold(_ text: String, _ told: @escaping @Sendable () -> Void) {
    var ends: [CInt] = [0, 0]
    precondition(pipe(&ends) == 0)
    let (reader, errors) = (ends[0], dup(STDERR_FILENO))
    dup2(ends[1], STDERR_FILENO)
    _ = PlainThread {
      var written = ""
      var bytes = [UInt8](repeating: 0, count: 4096)
      while true {
        let count = read(reader, &bytes, bytes.count)
        guard count > 0 else { return }
        write(errors, bytes, count)
        let wasTold = written.contains(text)
        written += String(decoding: bytes[..<count], as: UTF8.self)
        if !wasTold, written.contains(text) { told() }
      }
    }
  }

  /// It sleeps by the kernel's clock, and so not until a time of another clock.
  @Test func aThreadWaitsAsLongInATestWithATimeOfItsOwn() throws {
    let service = TimerService(startingAt: 0)
    let channel = Channel<Int>()
    let hasEnded = Holder(Atomic<Bool>(false))
    let waiter = PlainThread {
      defer { hasEnded.value.store(true, ordering: .relaxed) }
      return service.withVirtualTime { try? channel.receiveBlocking(timeout: .seconds(600)) }
    }
    while !hasEnded.value.load(ordering: .relaxed), channel.waitingReceiverCount == 0 { sched_yield() }
    #expect(channel.trySend(7).isSent)
    #expect(waiter.join() == 7)
    #expect(throws: TimeoutError.self) {
      try service.withVirtualTime { try channel.receiveBlocking(timeout: .milliseconds(1)) }
    }
  }

  private static func count(_ text: String, in result: ExitTest.Result?) -> Int {
    standardError(of: result).components(separatedBy: text).count - 1
  }

  @Test func aBlockedThreadOfTheCooperativePoolIsToldOnceWithItsPlace() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardErrorContent]) {
      await Task.detached {
        @Sendable func block() {
          let (promise, _) = Promise<Int>.makePromise()
          _ = try? promise.getBlocking(timeout: .zero)  // blocks nothing
          _ = try? Channel<Int>().receiveBlocking(timeout: .milliseconds(1))
          _ = try? promise.getBlocking(timeout: .milliseconds(1))
        }
        block()
      }.value
    }
    #expect(Self.count("blocks a thread of Swift's cooperative pool", in: result) == 1)
    #expect(standardError(of: result).contains("receiveBlocking(timeout:) at \(Self.file):"))
  }

  @Test func aCooperativeThreadThatSleepsInRunUntilCompleteIsTold() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardErrorContent]) {
      await Task.detached {
        @Sendable func run(_ body: () throws -> Void) { try? runUntilComplete { try body() } }
        run { Coroutine.yield() }  // sleeps never
        run { try Coroutine.sleep(for: .milliseconds(1)) }
        run { try Coroutine.sleep(for: .milliseconds(1)) }
      }.value
    }
    #expect(Self.count("blocks a thread of Swift's cooperative pool", in: result) == 1)
    #expect(standardError(of: result).contains("runUntilComplete at \(Self.file):"))
  }

  @Test func otherBlockedThreadsAreNotTold() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardErrorContent]) {
      let blocked = PlainThread { _ = try? Channel<Int>().receiveBlocking(timeout: .milliseconds(1)) }
      blocked.join()
      await MainActor.run {
        @MainActor func block() { _ = try? Channel<Int>().receiveBlocking(timeout: .milliseconds(1)) }
        block()
      }
    }
    #expect(Self.count(" blocks ", in: result) == 0)
  }

  @Test func theMainThreadThatKeepsItsQueuesCoroutinesWaitingIsTold() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardErrorContent]) {
      await MainActor.run {
        @MainActor func block() {
          let elements = Channel<Int>()
          Coroutine(on: .main) { try elements.send(1) }  // can't begin
          Self.onceTold("blocks the main thread") { _ = elements.trySend(2) }
          precondition((try? elements.receiveBlocking()) == 2)
        }
        block()
      }
    }
    #expect(standardError(of: result).contains("receiveBlocking(timeout:) at \(Self.file):"))
    #expect(Self.count("blocks the main thread", in: result) == 1)
  }

  /// The first look finds that none waits for the thread.
  @Test func soItIsWhereTheyBecomeReadyLater() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardErrorContent]) {
      let elements = Channel<Int>()
      let begun = Channel<Void>()
      Coroutine(on: .main) {
        try begun.send(())
        try Coroutine.sleep(for: .seconds(2))
        try elements.send(1)
      }
      _ = try? await begun.receive()
      await MainActor.run {
        @MainActor func block() {
          Self.onceTold("blocks the main thread") { _ = elements.trySend(2) }
          // So that it fails in place of being blocked for ever.
          _ = PlainThread {
            sleep(60)
            return elements.trySend(3)
          }
          precondition((try? elements.receiveBlocking()) == 2)
        }
        block()
      }
    }
    #expect(Self.count("blocks the main thread", in: result) == 1)
  }
}
