import Coroutine
import Testing

/// After a hundred thousand operations that came to nothing (ten thousand in debug), of every kind, the runtime has in use
/// what it had before: by its own count, in a process where nothing else runs.
@Suite struct LeakTests {
  /// What each kind of operation leaves behind is asked one by one: a kind that leaks is named.
  @Test func operationsThatCameToNothingLeaveNothingBehind() async {
    await #expect(processExitsWith: .success) {
      let count = amount(100_000, debug: 10_000, sanitized: 2_000)
      let kinds: [(name: String, run: @Sendable (Int) throws -> Void)] = [
        ("cancelled receives", LeakTests.cancelledReceives), ("cancelled sleeps", LeakTests.cancelledSleeps),
        ("never begun", LeakTests.neverBegun), ("timed out", LeakTests.timedOut), ("closed", LeakTests.closed),
        ("dropped promises", LeakTests.droppedPromises), ("abandoned suspensions", LeakTests.abandonedSuspensions),
        ("cancelled selects", LeakTests.cancelledSelects), ("dropped generators", LeakTests.droppedGenerators),
        ("failed scopes", LeakTests.failedScopes),
      ]
      let before = Coroutine.statistics
      for kind in kinds {
        try await Coroutine(name: kind.name) { try kind.run(count) }.get()
        // Whom it did not wait for may be about to end, on another thread; what has leaked stays.
        var looks = 0
        while looks < 1_000_000, Coroutine.statistics != before {
          looks += 1
          await Task.yield()
        }
        let after = Coroutine.statistics
        guard before == after else { fatalError("\(kind.name): \(before) before, \(after) after") }
      }
    }
  }

  /// Stacks become spare, and go with their pools, while somebody counts.
  @Test func nothingIsEverCountedAsLessThanNone() async throws {
    let isOver = Channel<Void>()
    let watcher = Coroutine(on: ThreadPool(threads: 1)) { () -> Bool in
      var least = 0
      while case .empty = isOver.tryReceive() { least = min(least, Coroutine.statistics.stacksInUse) }
      return least == 0
    }
    for _ in 0..<amount(2_000, debug: 500, sanitized: 200) {
      try await Coroutine(on: ThreadPool(threads: 2)) { Coroutine.yield() }.get()
    }
    isOver.close()
    #expect(try await watcher.get())
  }

  /// Many at a time, each in a coroutine that is asked to stop while it waits.
  @Sendable private static func cancelEach(_ count: Int, _ wait: @escaping @Sendable () throws -> Void) throws {
    for _ in 0..<count / 100 {
      let waiting = (0..<100).map { _ in Coroutine { try wait() } }
      Coroutine.yield()
      for coroutine in waiting { coroutine.cancel() }
      for coroutine in waiting { try coroutine.join() }
    }
  }

  @Sendable private static func cancelledReceives(_ count: Int) throws {
    let channel = Channel<Int>()
    try cancelEach(count) { _ = try channel.receive() }
  }

  @Sendable private static func cancelledSleeps(_ count: Int) throws {
    try cancelEach(count) { try Coroutine.sleep(for: .seconds(1_000)) }
  }

  @Sendable private static func cancelledSelects(_ count: Int) throws {
    let (first, second) = (Channel<Int>(), Channel<Int>())
    try cancelEach(count) {
      try select {
        first.onSend(1)
        second.onReceive { _ in }
        onTimeout(.seconds(1_000)) {}
      }
    }
  }

  @Sendable private static func neverBegun(_ count: Int) throws {
    for _ in 0..<count {
      let coroutine = Coroutine {}
      coroutine.cancel()
      try coroutine.join()
    }
  }

  @Sendable private static func timedOut(_ count: Int) throws {
    let channel = Channel<Int>()
    for _ in 0..<count {
      do { _ = try channel.receive(timeout: .nanoseconds(1)) } catch is TimeoutError {}
      do { _ = try channel.receive(timeout: .zero) } catch is TimeoutError {}
    }
  }

  @Sendable private static func closed(_ count: Int) throws {
    for _ in 0..<count / 10 {
      let channel = Channel<Int>(capacity: .buffered(1))
      let waiting = (0..<10).map { number in Coroutine { try channel.send(number) } }
      Coroutine.yield()
      channel.close()
      for coroutine in waiting { try coroutine.join() }
    }
  }

  @Sendable private static func droppedPromises(_ count: Int) throws {
    for _ in 0..<count {
      let promise = Promise<Int> { _ in }
      do { _ = try promise.get() } catch is PromiseAbandoned {}
    }
  }

  @Sendable private static func abandonedSuspensions(_ count: Int) throws {
    for _ in 0..<count {
      do { try withSuspension { (_: Resumption<Void>) in } } catch is SuspensionAbandoned {}
    }
  }

  @Sendable private static func droppedGenerators(_ count: Int) throws {
    for _ in 0..<count {
      let numbers = Generator<Int> { yield in
        for number in 0... { try yield(number) }
      }
      _ = numbers.next()
    }
  }

  @Sendable private static func failedScopes(_ count: Int) throws {
    struct Failure: Error {}
    let never = Channel<Int>()
    for _ in 0..<count / 10 {
      do {
        try withScope { scope in
          for _ in 0..<9 { scope.launch { _ = try never.receive() } }
          scope.launch { throw Failure() }
        }
      } catch is Failure {}
    }
  }
}
