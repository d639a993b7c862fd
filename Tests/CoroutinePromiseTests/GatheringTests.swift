import CoroutineTestSupport
import Testing

@testable import Coroutine

/// Barrier, wait group, once: several coroutines wait for one moment.
@Suite(.ownThreads) struct GatheringTests {
  struct Problem: Error {}

  // MARK: Barrier

  @Test func aBarrierHoldsAllUntilTheLastOneRoundAfterRound() async throws {
    let log = Log()
    try await serially {
      let barrier = Barrier(parties: 3, name: "b")
      let all = (0..<3).map { number in
        Coroutine {
          for round in 0..<2 {
            for _ in 0..<number { Coroutine.yield() }
            log.add("\(number) comes to \(round)")
            if try barrier.wait() { log.add("\(number) was last") }
          }
        }
      }
      for coroutine in all { try coroutine.get() }
    }
    #expect(
      log.all == [
        "0 comes to 0", "1 comes to 0", "2 comes to 0", "2 was last", "0 comes to 1", "1 comes to 1", "2 comes to 1",
        "2 was last",
      ])
  }

  @Test func aBarrierThatOneLeavesWaitsForAnother() async throws {
    let log = Log()
    try await serially {
      let barrier = Barrier(parties: 2)
      let cancelled = Coroutine { log.add(outcome { try barrier.wait() }) }
      let late = { Coroutine { log.add(outcome { try barrier.wait(timeout: .milliseconds(1)) }) } }
      Coroutine.yield()
      cancelled.cancel()
      try cancelled.get()
      try late().get()
      log.add(outcome { try barrier.wait(timeout: .zero) })
      let first = Coroutine { log.add(outcome { try barrier.wait() }) }
      Coroutine.yield()
      log.add("\(first.isFinished) \(try barrier.wait(timeout: .zero))")
      try first.get()
    }
    #expect(log.all == ["cancelled", "timed out", "timed out", "false true", "done"])
  }

  /// It has not withdrawn yet, as another has had the turn since.
  @Test func aPartyThatWasCancelledBeforeDoesNotCount() async throws {
    let log = Log()
    try await serially {
      let barrier = Barrier(parties: 3)
      let (cancelled, other) = (Coroutine { log.add(outcome { try barrier.wait() }) }, Coroutine { try barrier.wait() })
      Coroutine.yield()
      cancelled.cancel()
      log.add(outcome { try barrier.wait(timeout: .zero) })
      try cancelled.get()
      let second = Coroutine { try barrier.wait() }
      Coroutine.yield()
      log.add("\(other.isFinished || second.isFinished) \(try barrier.wait())")
      log.add("\(try other.get()) \(try second.get())")
    }
    #expect(log.all == ["timed out", "cancelled", "false true", "false false"])
  }

  @Test func tasksAndCoroutinesMeetAtABarrier() async throws {
    let barrier = Barrier(parties: 4)
    let lasts = Guarded(0)
    let coroutines = (0..<2).map { _ in
      Coroutine { for _ in 0..<500 where try barrier.wait() { lasts.withLock { $0 += 1 } } }
    }
    let tasks = (0..<2).map { _ in
      Task { for _ in 0..<500 where try await barrier.wait() { lasts.withLock { $0 += 1 } } }
    }
    for coroutine in coroutines { try await coroutine.get() }
    for task in tasks { try await task.value }
    #expect(lasts.withLock { $0 } == 500)
    #expect(try await Barrier(parties: 1).wait())
  }

  @Test func aBarrierOfNoPartiesTraps() async {
    let exit1 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      _ = Barrier(parties: 0)
    }
    #expect(standardError(of: exit1).contains("a Barrier of 0 parties can't let any of them on"))
  }

  // MARK: Wait group

  @Test func aWaitGroupLetsAllKindsGoAtZeroAndCanBeUsedAgain() async throws {
    let group = WaitGroup(count: 2, name: "g")
    let coroutine = Coroutine { try group.wait() }
    let task = Task { try await group.wait() }
    let thread = PlainThread { outcome { try group.waitBlocking() } }
    group.add()
    for _ in 0..<2 { group.done() }
    #expect(group.count == 1 && !coroutine.isFinished)
    await #expect(throws: TimeoutError.self) { try await group.wait(timeout: .zero) }
    group.done()
    try await coroutine.get()
    try await task.value
    #expect(thread.join() == "done")
    try await group.wait()
    group.add(2)
    let cancelled = Coroutine { try group.wait() }
    let late = Coroutine { try group.wait(timeout: .milliseconds(1)) }
    cancelled.cancel()
    await #expect(throws: CancellationError.self) { try await cancelled.get() }
    await #expect(throws: TimeoutError.self) { try await late.get() }
    func block() throws { try group.waitBlocking(timeout: .milliseconds(1)) }
    #expect(throws: TimeoutError.self) { try block() }
    group.done()
    group.done()
    try await group.wait()
  }

  @Test func oneDoneTooManyTraps() async {
    let exit2 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) { WaitGroup().done() }
    #expect(standardError(of: exit2).contains("done() was called more often than things were added to"))
    let exit3 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) { WaitGroup().add(-1) }
    #expect(standardError(of: exit3).contains("-1 things added to"))
    let exit4 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      _ = WaitGroup(count: -1)
    }
    #expect(standardError(of: exit4).contains("can't begin with a count of -1"))
    let exit5 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let group = WaitGroup(count: .max)
      group.add()
    }
    #expect(standardError(of: exit5).contains("can't count more than Int.max things"))
  }

  // MARK: Once

  @Test func aOnceIsMadeByTheFirstAndTheOthersWait() async throws {
    let log = Log()
    try await serially {
      let once = Once<Int>(name: "o")
      let gate = Channel<Void>()
      let all = (0..<3).map { number in
        Coroutine {
          let value = try once.get {
            log.add("\(number) makes it")
            try gate.receive()
            return 7
          }
          log.add("\(number) has \(value)")
        }
      }
      Coroutine.yield()
      log.add("\(once.value as Int?)")
      try gate.send(())
      for coroutine in all { try coroutine.get() }
      log.add("\(try once.get { 8 }) \(once.value ?? 0)")
    }
    #expect(log.all == ["0 makes it", "nil", "0 has 7", "1 has 7", "2 has 7", "7 7"])
  }

  @Test func whenTheMakerFailsTheNextOneTries() async throws {
    let log = Log()
    try await serially {
      let once = Once<Int>()
      let all = (0..<4).map { number in
        Coroutine {
          log.add(
            outcome {
              let value = try once.get {
                log.add("\(number) tries")
                Coroutine.yield()
                if number < 2 { throw Problem() }
                return number
              }
              log.add("\(number) has \(value)")
            })
        }
      }
      for coroutine in all { try coroutine.get() }
    }
    #expect(
      log.all == ["0 tries", "Problem()", "1 tries", "Problem()", "2 tries", "2 has 2", "done", "3 has 2", "done"])
  }

  @Test func oneThatGivesUpWaitingForAOnceIsNotAsked() async throws {
    let once = Once<Int>()
    let begun = Channel<Void>()
    let gate = Channel<Void>()
    let maker = Task {
      try await once.get {
        try await begun.send(())
        try await gate.receive()
        throw Problem()
      }
    }
    try await begun.receive()
    let cancelled = Coroutine { try once.get { 1 } }
    let late = Coroutine { try once.get(timeout: .milliseconds(1)) { 2 } }
    let waiter = Coroutine { try once.get { 3 } }
    cancelled.cancel()
    await #expect(throws: CancellationError.self) { try await cancelled.get() }
    await #expect(throws: TimeoutError.self) { try await late.get() }
    try await gate.send(())
    await #expect(throws: Problem.self) { try await maker.value }
    #expect(try await waiter.get() == 3)
    #expect(try await once.get { 4 } == 3)
  }

  @Test func manyAskAtOnceAndOneMakesIt() async throws {
    for _ in 0..<200 {
      let once = Once<Int>()
      let made = Guarded(0)
      let all = (0..<8).map { number in
        Coroutine {
          try once.get {
            made.withLock { $0 += 1 }
            return number
          }
        }
      }
      let first = try await all[0].get()
      for coroutine in all { #expect(try await coroutine.get() == first) }
      #expect(made.withLock { $0 } == 1)
    }
  }

  @Test func askingWhileOneMakesItTraps() async {
    let exit5 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let once = Once<Int>()
      _ = try await Coroutine { try once.get { try once.get { 1 } } }.get()
    }
    #expect(standardError(of: exit5).contains("it would wait for itself for ever"))
  }
}
