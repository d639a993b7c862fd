import Coroutine
import CoroutineTestSupport
import Dispatch
import Testing

@Suite(.ownThreads) struct CancellationTests {
  /// Swift keeps a lock of the thread's while it runs a task's handlers.
  @Test func aHandlerThatSuspendsInsideATasksCancelIsTold() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let (isWaiting, never) = (Channel<Void>(), Channel<Void>())
      let task = Task {
        try await withScope { scope in
          scope.launch {
            try withCancellationHandler {
              try isWaiting.send(())
              try never.receive()
            } onCancel: {
              try? never.receive()
            }
          }
        }
      }
      try await isWaiting.receive()
      try await Coroutine { task.cancel() }.value
    }
    #expect(standardError(of: result).contains("in a handler that a task's cancel runs"))
  }

  /// A timeout by a clock of the user's cancels a task that sleeps, and the clock's handler runs inside that.
  @Test func aClocksHandlerThatSuspendsInsideACancelIsTold() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let (isAsleep, never) = (Channel<Void>(), Channel<Void>())
      let clock = ClockWithHandler(isAsleep) { try? never.receive() }
      try await Coroutine {
        try withTimeout(until: clock.now.advanced(by: .seconds(3600)), clock: clock) { try isAsleep.receive() }
      }.value
    }
    #expect(standardError(of: result).contains("in a handler that a task's cancel runs"))
  }

  /// The same around `async` code, where a coroutine cancels the caller's task.
  @Test func theHandlerOfACancelledAsyncTimeoutThatSuspendsIsTold() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let (isWaiting, never) = (Channel<Void>(), Channel<Void>())
      let task = Task {
        try await withTimeout(.seconds(3600)) { _ in
          try await withTaskCancellationHandler {
            try await isWaiting.send(())
            try await never.receive()
          } onCancel: {
            try? never.receive()
          }
        }
      }
      try await isWaiting.receive()
      try await Coroutine { task.cancel() }.value
    }
    #expect(standardError(of: result).contains("in a handler that a task's cancel runs"))
  }

  @Test func aPinnedHandlerMayWaitInsideATasksCancel() async throws {
    let (isWaiting, answers) = (Channel<Void>(), Channel<Int>())
    let answer = Promise<Int>.makePromise()
    let task = Task {
      try await withScope { scope in
        scope.launch {
          try withCancellationHandler {
            try isWaiting.send(())
            try Coroutine.sleep(for: .seconds(3600))
          } onCancel: {
            withThreadPinned { if let value = try? answers.receive() { answer.resolver.fulfill(value) } }
          }
        }
      }
    }
    try await isWaiting.receive()
    let canceller = Coroutine { task.cancel() }
    try await answers.send(42)
    try await canceller.value
    #expect(try await answer.promise.get() == 42)
    _ = try? await task.value
  }

  private struct Reason: Error, Equatable {}

  /// A coroutine on a queue of its own that is suspended in `wait`.
  private func waiting<Value: Sendable>(
    _ log: Log = Log(), in wait: @escaping @Sendable () throws -> Value
  ) async throws -> Coroutine<Value, any Error> {
    let queue = DispatchQueue(label: "serial")
    let coroutine = Coroutine(on: queue) { () throws -> Value in
      defer { log.add("unwound") }
      return try wait()
    }
    // Serial, first in, first out: once this coroutine has run, the other one waits.
    try await Coroutine(on: queue) {}.get()
    return coroutine
  }

  /// (Instead of `#expect(throws:)`, which inside closures crashes the compiler of Swift 6.3.)
  private func isCancelled(_ body: () throws -> Void) -> Bool {
    do {
      try body()
      return false
    } catch {
      return error is CancellationError
    }
  }

  @Test func inTheCodeOfATaskItIsTheTasks() async throws {
    /// What coroutines and tasks both call.
    @Sendable func isStopped() -> Bool {
      do { try Coroutine.checkCancellation() } catch { return Coroutine.isCancelled }
      return Coroutine.isCancelled || Coroutine.cancellationReason != nil
    }
    let task = Task {
      while !Task.isCancelled { await Task.yield() }
      return (isStopped(), Coroutine.cancellationReason is CancellationError)
    }
    #expect(!isStopped())
    task.cancel()
    #expect(await task.value == (true, true))
    let inside = try await Coroutine {
      Coroutine.current?.cancel()
      return try withCancellationShield { try Coroutine.await { isStopped() } }
    }.get()
    #expect(!inside, "the task that a shielded coroutine waits for is not cancelled")
  }

  @Test func aBlockedReceiveIsWokenAndThrows() async throws {
    let log = Log()
    let channel = Channel<Int>()
    let receiver = try await waiting(log) { try channel.receive() }
    #expect(!receiver.isFinished)
    receiver.cancel()
    await #expect(throws: CancellationError.self) { try await receiver.get() }
    #expect(log.all == ["unwound"])
    // The cancelled sender has left the queue: the next sender meets the next receiver.
    let next = Coroutine { try channel.receive() }
    try await channel.send(7)
    #expect(try await next.get() == 7)
  }

  @Test func aCancelledSendersElementIsNeverReceived() async throws {
    let channel = Channel<Int>()
    let sender = try await waiting { try channel.send(1) }
    sender.cancel()
    await #expect(throws: CancellationError.self) { try await sender.get() }
    let other = Coroutine { try channel.send(2) }
    #expect(try await channel.receive() == 2)
    try await other.get()
  }

  @Test func aBlockedJoinAndAWithSuspensionThrow() async throws {
    let gate = Channel<Void>()
    let endless = Coroutine { try gate.receive() }
    let joiner = try await waiting { try endless.get() }
    joiner.cancel()
    await #expect(throws: CancellationError.self) { try await joiner.get() }
    #expect(!endless.isCancelled && !endless.isFinished)

    let log = Log()
    let kept = Guarded<[Resumption<Int>]>([])
    let suspended = try await waiting(log) {
      try withSuspension { resume in
        kept.withLock { $0.append(resume) }
      } onCancel: {
        log.add("stopped")
      }
    }
    suspended.cancel()
    await #expect(throws: CancellationError.self) { try await suspended.get() }
    #expect(log.all == ["stopped", "unwound"])
    #expect(kept.withLock { $0[0].returning(1) } == false, "no waiter gets this value")

    endless.cancel()
    await #expect(throws: CancellationError.self) { try await endless.get() }
  }

  @Test func anOperationThatIsEnteredAfterTheCancelThrowsAtOnce() async throws {
    let log = Log()
    let channel = Channel<Int>()
    let go = Channel<Void>()
    let kept = Guarded<Resumption<Void>?>(nil)
    let coroutine = try await waiting { [self] in
      try withCancellationShield { try go.receive() }
      let receive = isCancelled { _ = try channel.receive() }
      let send = isCancelled { try channel.send(1) }
      let check = isCancelled { try Coroutine.checkCancellation() }
      let suspend = isCancelled { try withSuspension { (resume: Resumption<Void>) in kept.withLock { $0 = resume } } }
      log.add("\(receive) \(send) \(check) \(suspend)")
    }
    coroutine.cancel()
    coroutine.cancel()
    try await go.send(())
    try await coroutine.get()
    #expect(log.all == ["true true true true"])
  }

  @Test func oneThatIsCancelledBeforeItBeganNeverRuns() async throws {
    let queue = DispatchQueue(label: "serial")
    let log = Log()
    let reason = Coroutine(on: queue) { [self] in
      let unborn = Coroutine { log.add("ran") }
      unborn.cancel(reason: Reason())
      #expect(unborn.isCancelled)
      #expect(isCancelled { try unborn.get() })
      #expect(unborn.isFinished)
    }
    try await reason.get()
    #expect(log.all == [])
  }

  @Test func theFirstReasonCountsAndIsSeenInside() async throws {
    let channel = Channel<Int>()
    let coroutine = try await waiting { () -> Bool in
      #expect(Coroutine.cancellationReason == nil && !Coroutine.isCancelled)
      _ = try? channel.receive()
      #expect(Coroutine.isCancelled)
      return Coroutine.cancellationReason is Reason
    }
    coroutine.cancel(reason: Reason())
    coroutine.cancel()
    #expect(try await coroutine.get())
    #expect(coroutine.isCancelled)
    #expect(Coroutine.cancellationReason == nil && !Coroutine.isCancelled, "outside of coroutines")
  }

  @Test func cancellingWhatHasFinishedHasNoEffect() async throws {
    let coroutine = Coroutine { 1 }
    #expect(try await coroutine.get() == 1)
    coroutine.cancel()
    #expect(!coroutine.isCancelled)
    #expect(try await coroutine.get() == 1)
  }

  @Test func aShieldLetsCleanupWaitAndEndsWithTheCancellationInForce() async throws {
    let log = Log()
    let (never, cleanup) = (Channel<Int>(), Channel<Int>())
    let coroutine = try await waiting(log) {
      defer {
        withCancellationShield {
          #expect(!Coroutine.isCancelled)
          log.add("cleanup got \((try? cleanup.receive()) ?? -1)")
        }
        #expect(Coroutine.isCancelled)
      }
      return try never.receive()
    }
    coroutine.cancel()
    try await cleanup.send(5)
    await #expect(throws: CancellationError.self) { try await coroutine.get() }
    #expect(log.all == ["cleanup got 5", "unwound"])
  }

  @Test func aCancelDuringAShieldDoesNotEndItsWaits() async throws {
    let log = Log()
    let inside = Channel<Int>()
    let coroutine = try await waiting(log) { () -> Int in
      let value = try withCancellationShield { try inside.receive() }
      log.add("received")
      return try value + inside.receive()
    }
    coroutine.cancel()
    try await inside.send(1)
    await #expect(throws: CancellationError.self) { try await coroutine.get() }
    #expect(log.all == ["received", "unwound"])
  }

  @Test func handlersRunOnceInnermostFirstBeforeTheWaitEnds() async throws {
    let log = Log()
    let channel = Channel<Int>()
    let coroutine = try await waiting(log) {
      try withCancellationHandler {
        try withCancellationHandler {
          try withCancellationHandler {
            try channel.receive()
          } onCancel: {
            log.add("inner")
          }
        } onCancel: {
          log.add("middle")
        }
      } onCancel: {
        log.add("outer")
      }
    }
    coroutine.cancel()
    await #expect(throws: CancellationError.self) { try await coroutine.get() }
    coroutine.cancel()
    #expect(log.all == ["inner", "middle", "outer", "unwound"])
  }

  @Test func aCancelFromOutsideAShieldDoesNotReachTheHandlersInsideIt() async throws {
    let log = Log()
    let channel = Channel<Int>()
    let coroutine = try await waiting(log) {
      try withCancellationHandler {
        try withCancellationShield {
          try withCancellationHandler {
            try channel.receive()
          } onCancel: {
            log.add("shielded")
          }
        }
      } onCancel: {
        log.add("outer")
      }
    }
    coroutine.cancel()
    try await channel.send(1)
    #expect(try await coroutine.get() == 1)
    #expect(log.all == ["outer", "unwound"])
  }

  @Test func aHandlerThatComesTooLateRunsAtOnceAndOneThatIsOverDoesNot() async throws {
    let log = Log()
    let channel = Channel<Int>()
    let coroutine = try await waiting(log) {
      withCancellationHandler {
      } onCancel: {
        log.add("over")
      }
      _ = try? channel.receive()
      withCancellationHandler {
        log.add("operation")
      } onCancel: {
        log.add("at once")
      }
    }
    coroutine.cancel()
    try await coroutine.get()
    #expect(log.all == ["at once", "operation", "unwound"])
  }

  /// What comes after the operation may close what the handler uses.
  @Test func anOperationEndsBehindTheHandlerThatItsCancellerHasTaken() async throws {
    for isBegun in [false, true] {
      let log = Log()
      let (ready, begun, goesOn) = (WaitGroup(count: 1), DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
      let stay: @Sendable () -> Void = {
        begun.signal()
        goesOn.wait()
      }
      let coroutine = Coroutine(on: DispatchQueue(label: "operation")) {
        withCancellationHandler {
          // The canceller comes to this one first.
          let inner = CancellationRegion(of: CoroutineCore.running(for: "the test")) { _ in
            if !isBegun { stay() }
            return []
          }
          ready.done()
          begun.wait()
          inner.close()
        } onCancel: {
          if isBegun { stay() }
          log.add("handler")
        }
        log.add("returned")
      }
      try await ready.wait()
      let canceller = Coroutine(on: DispatchQueue(label: "canceller")) { coroutine.cancel() }
      while coroutine.suspension == nil, !coroutine.isFinished { await Task.yield() }
      #expect(coroutine.suspension?.waitsFor == "the end of a cancellation handler")
      goesOn.signal()
      try await canceller.get()
      try await coroutine.get()
      #expect(log.all == ["handler", "returned"])
    }
  }

  @Test func aCancelledTaskLeavesTheQueueItWaitsIn() async throws {
    let channel = Channel<Int>()
    let task = Task { try await channel.receive() }
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
    let joined = Coroutine { try channel.receive() }
    let joiner = Task { try await joined.get() }
    joiner.cancel()
    await #expect(throws: CancellationError.self) { try await joiner.value }
    try await channel.send(3)
    #expect(try await joined.get() == 3)
  }

  /// Also where what is inside is cancelled by itself, or its time is up, behind a cancel from around it.
  @Test func theFirstReasonCountsWhateverIsCancelledBehindIt() async throws {
    struct First: Error {}
    struct Second: Error {}
    let log = Log()
    @Sendable func note() { log.add("\(Coroutine.cancellationReason.map { "\(type(of: $0))" } ?? "none")") }
    try await Coroutine(on: ThreadPool(threads: 1)) {
      try? withScope { outer in
        try withScope { inner in
          outer.cancel(reason: First())
          inner.cancel(reason: Second())
          note()
        }
      }
      try? withScope { outer in
        try withCancellationShield {
          try withScope { inner in
            outer.cancel(reason: First())
            inner.cancel(reason: Second())
            note()
          }
        }
      }
      let whole = Coroutine {
        Coroutine.current?.cancel(reason: First())
        try withTimeout(.zero) {
          note()
          try Coroutine.checkCancellation()
        }
      }
      log.add(failure { try whole.get() })
    }.get()
    #expect(log.all == ["First", "Second", "First", "CancellationError()"])
  }

  /// The time was up first around the consumer, which is not around the body any more.
  @Test func aTimeThatWasUpBehindAnotherOfAConsumerStillEndsTheBodysWaits() async throws {
    let log = Log()
    try await Coroutine(on: ThreadPool(threads: 1)) {
      let elements = Generator<Int> { yield in
        log.add(
          outcome {
            try withTimeout(.zero) {
              try yield(1)
              _ = try Channel<Int>().receive()
            }
          })
        try yield(2)
      }
      try withTimeout(.zero) { log.add("\(elements.next() ?? 0)") }
      log.add("\(elements.next() ?? 0)")
    }.get()
    #expect(log.all == ["1", "timed out", "2"])
  }

  @Test func aCancelRacesWithASendAndNothingIsLost() async throws {
    for _ in 0..<2_000 {
      let channel = Channel<Int>()
      let receiver = Coroutine { () -> Int? in try? channel.receive() }
      let sender = Coroutine { () -> Bool in
        do {
          try channel.send(1)
          return true
        } catch {
          return false
        }
      }
      async let _: Void = receiver.cancel()
      async let _: Void = sender.cancel()
      let received: Int?
      do { received = try await receiver.get() } catch { received = nil }
      let wasSent: Bool
      do { wasSent = try await sender.get() } catch { wasSent = false }
      #expect((received != nil) == wasSent)
    }
  }

  @Test func aCancelRacesWithTheEnd() async throws {
    for _ in 0..<2_000 {
      let coroutine = Coroutine { 1 }
      async let _: Void = coroutine.cancel()
      let value = try? await coroutine.get()
      #expect(value == 1 || coroutine.isCancelled)
    }
  }
}

/// That of the kernel, but a sleep tells that it has begun, and has a handler.
private struct ClockWithHandler: Clock {
  let minimumResolution = Duration.nanoseconds(1)
  private let isAsleep: Channel<Void>
  private let handler: @Sendable () -> Void

  init(_ isAsleep: Channel<Void>, onCancel handler: @escaping @Sendable () -> Void) {
    (self.isAsleep, self.handler) = (isAsleep, handler)
  }

  var now: ContinuousClock.Instant { .now }

  func sleep(until deadline: ContinuousClock.Instant, tolerance: Duration?) async throws {
    try await withTaskCancellationHandler {
      try await isAsleep.send(())
      try await Task.sleep(until: deadline, tolerance: tolerance, clock: .continuous)
    } onCancel: {
      handler()
    }
  }
}
