import Coroutine
import CoroutineTestSupport
import Dispatch
import Testing

@Suite(.ownThreads) struct JoiningTests {
  private struct Mine: Error {}
  @TaskLocal static var tag = "none"

  @Test func aDeadlineEndsTheWaitAndNotTheCoroutine() async throws {
    let go = Channel<Int>()
    let coroutine = Coroutine { try go.receive() }
    await #expect(throws: TimeoutError.self) { try await coroutine.get(timeout: .zero) }
    await #expect(throws: TimeoutError.self) { try await coroutine.get(timeout: .milliseconds(1)) }
    let inside = Coroutine { () -> [Bool] in
      [Duration.zero, .milliseconds(1)].map { timeout in
        do {
          _ = try coroutine.get(timeout: timeout)
          return false
        } catch {
          return error is TimeoutError
        }
      }
    }
    #expect(try await inside.get() == [true, true])
    func block(_ timeout: Duration) throws -> Int { try coroutine.getBlocking(timeout: timeout) }
    #expect(throws: TimeoutError.self) { try block(.milliseconds(1)) }
    #expect(throws: TimeoutError.self) { try block(.zero) }
    try await go.send(9)
    #expect(try await coroutine.get(timeout: .seconds(1_000)) == 9)
    #expect(try block(.zero) == 9)
  }

  @Test func aShieldedWaitIsCutShortByNothing() async throws {
    let (log, go) = (Log(), Channel<Int>())
    try await serially {
      let worker = Coroutine { () -> Int in
        let number = (try? withCancellationShield { try go.receive() }) ?? 0
        log.add("works")
        return number
      }
      let waiter = Coroutine { () -> Int? in
        try? withTimeout(.zero) { () -> Int? in
          let number = worker.getShielded()
          log.add("still cancelled: \(Coroutine.isCancelled)")
          return number
        }
      }
      Coroutine.yield()
      waiter.cancel()
      Coroutine.yield()
      log.add("\(waiter.isFinished)")
      try go.send(7)
      log.add("\(waiter.getShielded() as Any) \(worker.getShielded() as Any)")
    }
    #expect(log.all == ["false", "works", "still cancelled: true", "Optional(Optional(7)) Optional(7)"])
  }

  @Test func aShieldedWaitOfATaskIsCutShortByNothing() async throws {
    let go = Channel<Int>()
    let worker = Coroutine { () -> Int in (try? withCancellationShield { try go.receive() }) ?? 0 }
    let task = Task { await worker.getShielded() }
    task.cancel()
    for _ in 0..<10 { await Task.yield() }
    try await go.send(7)
    #expect(await task.value == 7)
    #expect(await worker.getShielded() == 7)
  }

  @Test func aCoroutineThatNeverRanHasNoValue() async throws {
    let values = try await serially { () -> [Int?] in
      let (never, atomic) = (Coroutine { 1 }, Coroutine(start: .atomic) { 2 })
      never.cancel()
      atomic.cancel()
      return [never.getShielded(), atomic.getShielded()]
    }
    #expect(values == [nil, 2])
    let lazy = Coroutine(start: .lazy) { 3 }
    lazy.cancel()
    #expect(await lazy.getShielded() == nil)
  }

  /// What the compiler makes of it: that it compiles is the test.
  @Test func aShieldedWaitNeedsNoTryAnywhere() async {
    let worker = Coroutine { 7 }
    let optional = Coroutine { () -> Int? in nil }
    let synchronous = Coroutine { () -> Int in worker.getShielded() ?? 0 }
    let function: @Sendable (Coroutine<Int, Never>) -> Int? = { $0.getShielded() }
    let called = Coroutine { function(worker) }
    async let concurrently = worker.getShielded()
    #expect(await concurrently == 7)
    #expect(await synchronous.getShielded() == 7)
    #expect(await called.getShielded() == .some(7))
    #expect(await optional.getShielded() == .some(nil))
    let void = Coroutine {}
    await void.getShielded()
    await Coroutine { void.getShielded() }.getShielded()
  }

  @Test func theErrorOfADeadlineSaysHowLongItWas() async throws {
    let time = Duration.milliseconds(1)
    let stopped = Channel<Int>()
    let (hasBegun, resolver) = Promise<Void>.makePromise()
    // It ignores a cancel, unless it has not begun.
    let stubborn = Coroutine {
      withCancellationShield {
        resolver.fulfill(())
        return try? stopped.receive()
      }
    }
    try await hasBegun.get()
    func timeout(of body: () async throws -> Void) async -> TimeoutError? {
      do { try await body() } catch { return error as? TimeoutError }
      return nil
    }
    #expect(await timeout { _ = try await stubborn.get(timeout: time) } == TimeoutError(after: time))
    #expect(await timeout { try await stubborn.join(timeout: time) } == TimeoutError(after: time))
    #expect(await timeout { try await stubborn.cancelAndJoin(timeout: time) } == TimeoutError(after: time))
    func block() throws { _ = try stubborn.getBlocking(timeout: time) }
    #expect(await timeout { try block() } == TimeoutError(after: time))
    let inside = Coroutine { () -> [TimeoutError?] in
      let attempts: [() throws -> Void] = [
        { _ = try stubborn.get(timeout: time) }, { try stubborn.join(timeout: time) },
        { try stubborn.cancelAndJoin(timeout: time) }, { try stubborn.join(timeout: .zero) },
      ]
      return attempts.map { attempt in
        do { try attempt() } catch { return error as? TimeoutError }
        return nil
      }
    }
    #expect(try await inside.get().map(\.?.duration) == [time, time, time, .zero])
    try await stopped.send(1)
    try await stubborn.join(timeout: .seconds(1_000))
    try await Coroutine { try stubborn.join(timeout: .zero) }.get()
  }

  @Test func aThreadJoinsWhateverTheEndIs() async throws {
    let stop = Channel<Int>()
    let failing = Coroutine { () throws -> Int in
      if try stop.receive() == 1 { throw Mine() }
      return 2
    }
    let thread = PlainThread { () -> [TimeoutError?] in
      [Duration.zero, .milliseconds(1)].map { time in
        do { try failing.joinBlocking(timeout: time) } catch { return error as? TimeoutError }
        return nil
      }
    }
    #expect(thread.join().map(\.?.duration) == [.zero, .milliseconds(1)])
    let joiners = [
      PlainThread { Result { try failing.joinBlocking() } },
      PlainThread { Result { try AnyCoroutine(failing).joinBlocking(timeout: nil) } },
    ]
    try await stop.send(1)
    for joiner in joiners { try joiner.join().get() }
    let trap = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      @Sendable func join(_ job: AnyCoroutine) throws { try job.joinBlocking() }
      try await Coroutine { try join(AnyCoroutine(Coroutine {})) }.get()
    }
    #expect(standardError(of: trap).contains("would block its whole thread: use join()"))
  }

  @Test func aWaitWithoutALimitIsSaidByNil() async throws {
    let (promise, resolver) = Promise<Int>.makePromise()
    let limit: Duration? = nil
    let waiter = Coroutine { try promise.get(timeout: limit) + 1 }
    let joiner = Coroutine { () throws -> Int in
      try waiter.join(timeout: limit)
      return try waiter.get(timeout: limit)
    }
    resolver.fulfill(1)
    #expect(try await joiner.get(timeout: limit) == 2)
    try await waiter.cancelAndJoin(timeout: limit)
    #expect(try await promise.get(timeout: limit) == 1)
    #expect(PlainThread { try? waiter.getBlocking(timeout: limit) }.join() == 2)
  }

  @Test func aJoinSeesTheEndWhateverItIs() async throws {
    let failing = Coroutine { throw Mine() }
    try await failing.join()
    #expect(failing.isFinished && failing.state == .finished)
    let never = Channel<Int>()
    let endless = Coroutine { try never.receive() }
    try await Coroutine {
      try endless.cancelAndJoin(reason: Mine())
      try endless.join()
    }.get()
    #expect(endless.isFinished && endless.isCancelled)
  }

  @Test func theResultIsTheValueTheErrorOrTheCallersCancel() async throws {
    let value = await Coroutine { 1 }.result
    #expect(throws: Never.self) { try #expect(value.get() == 1) }
    let failure = await Coroutine { throw Mine() }.result
    #expect(throws: Mine.self) { try failure.get() }
    let never = Channel<Int>()
    let endless = Coroutine { try never.receive() }
    let task = Task { await endless.result }
    task.cancel()
    let cancelled = await task.value
    #expect(throws: CancellationError.self) { try cancelled.get() }
    #expect(!endless.isCancelled)
    endless.cancel()
  }

  @Test func itsStateCanBeAsked() async throws {
    let queue = DispatchQueue(label: "serial")
    let go = Channel<Void>()
    let (before, during) = try await Coroutine(on: queue) { () -> (CoroutineState, CoroutineState) in
      let other = Coroutine { try go.receive() }
      let before = other.state
      Coroutine.yield()
      let during = other.state
      try go.send(())
      try other.get()
      return (before, during)
    }.get()
    #expect(before == .ready && during == .suspended)
    let holder = Guarded<Coroutine<CoroutineState?, Never>?>(nil)
    let own = try await Coroutine(on: queue) { () -> CoroutineState? in
      // Serial: it runs when this one waits, after the handle was kept.
      let coroutine = Coroutine { () -> CoroutineState? in holder.withLock { $0 }?.state }
      holder.withLock { $0 = coroutine }
      return try coroutine.get()
    }.get()
    #expect(own == .running)
  }

  @Test func aDetachedOneInheritsNothing() async throws {
    let queue = DispatchQueue(label: "serial")
    let (tag, isThere) = try await Coroutine(on: queue) { () -> (String, Bool) in
      try JoiningTests.$tag.withValue("mine") {
        try Coroutine.detached { (JoiningTests.tag, queue.isCurrent) }.get()
      }
    }.get()
    #expect(tag == "none" && !isThere)
    // Not awaited, which would raise its priority.
    let priorities = Channel<TaskPriority>()
    Task.detached(priority: .background) {
      Coroutine { try priorities.send(try Coroutine.await { Task.currentPriority }) }
      Coroutine.detached { try priorities.send(try Coroutine.await { Task.currentPriority }) }
    }
    let both = try await [priorities.receive(), priorities.receive()].sorted { $0.rawValue < $1.rawValue }
    #expect(both[0] < .medium && both[1] >= .medium)
  }
}
