import CoroutineTestSupport
import Dispatch
import Synchronization
import Testing

@testable import Coroutine

@Suite(.ownThreads) struct SemaphoreTests {
  private struct Problem: Error {}

  @Test func noMoreThanThePermitsAreInsideAndTheOthersComeInOrder() async throws {
    let log = Log()
    try await serially {
      let semaphore = Semaphore(permits: 2, name: "s")
      let all = (0..<4).map { number in
        Coroutine {
          try semaphore.withPermit {
            log.add("\(number) in")
            Coroutine.yield()
            log.add("\(number) out")
          }
        }
      }
      for coroutine in all { try coroutine.get() }
      log.add("\(semaphore.available)")
    }
    #expect(log.all == ["0 in", "1 in", "0 out", "1 out", "2 in", "3 in", "2 out", "3 out", "2"])
  }

  @Test func aWaiterForManyIsNotOvertaken() async throws {
    let log = Log()
    try await serially {
      let semaphore = Semaphore(permits: 2)
      try semaphore.acquire(2)
      let many = Coroutine { try semaphore.withPermits(3) { log.add("many") } }
      let few = Coroutine { try semaphore.withPermit { log.add("few") } }
      Coroutine.yield()
      semaphore.release(2)
      log.add("\(semaphore.available) \(semaphore.tryAcquire())")
      semaphore.release()
      try few.get()
      try many.get()
    }
    #expect(log.all == ["2 false", "many", "few"])
  }

  @Test func noPermitsAreAlwaysThereAlsoWhereTooManyAreOut() async throws {
    let semaphore = Semaphore(permits: 2)
    semaphore.changePermits(by: -5)
    #expect(semaphore.tryAcquire(0) && !semaphore.tryAcquire())
    try await Coroutine { try semaphore.acquire(0, timeout: .zero) }.get()
    #expect(semaphore.available == 0)
    let many = Coroutine { try semaphore.acquire(1) }
    semaphore.release(4)
    try await many.get()
  }

  @Test func oneThatGivesUpLetsTheWaitersBehindItGoOn() async throws {
    let log = Log()
    try await serially {
      let semaphore = Semaphore(permits: 2)
      for timeout in [nil, Duration.milliseconds(1)] {
        let many = Coroutine { log.add(outcome { try semaphore.acquire(3, timeout: timeout) }) }
        let few = (0..<2).map { number in Coroutine { try semaphore.withPermit { log.add("few") } } }
        Coroutine.yield()
        if timeout == nil { many.cancel() }
        for coroutine in few { try coroutine.get() }
        try many.get()
      }
      log.add("\(semaphore.available)")
    }
    #expect(log.all.sorted() == ["2", "cancelled", "few", "few", "few", "few", "timed out"])
  }

  /// Neither those that want some now, nor those behind it: it has not withdrawn yet, as others have had the turn since.
  @Test func oneThatWasCancelledHoldsUpNoOther() async throws {
    let log = Log()
    try await serially {
      let semaphore = Semaphore(permits: 10)
      try semaphore.acquire(4)
      let cancelled = (0..<2).map { _ in Coroutine { log.add(outcome { try semaphore.acquire(8) }) } }
      Coroutine.yield()
      for coroutine in cancelled { coroutine.cancel() }
      log.add("\(semaphore.tryAcquire(6)) \(semaphore.available)")
      semaphore.release(6)
      try semaphore.acquire(6, timeout: .zero)
      for coroutine in cancelled { try coroutine.get() }
      let (first, behind) = (Coroutine { _ = try? semaphore.acquire(2) }, Coroutine { try semaphore.acquire(1) })
      Coroutine.yield()
      first.cancel()
      semaphore.release()
      log.add("\(semaphore.available)")
      try behind.get()
    }
    #expect(log.all == ["true 0", "cancelled", "cancelled", "0"])
  }

  @Test func aTaskThatGivesUpLetsACoroutineGoOn() async throws {
    let semaphore = Semaphore(permits: 1)
    let many = Task { try await semaphore.acquire(2) }
    while semaphore.storage.waiterCount == 0 { await Task.yield() }
    let few = Coroutine { try semaphore.withPermit { 1 } }
    many.cancel()
    await #expect(throws: CancellationError.self) { try await many.value }
    #expect(try await few.get() == 1)
    await #expect(throws: TimeoutError.self) { try await semaphore.acquire(2, timeout: .zero) }
    #expect(try await semaphore.withPermit { 7 } == 7)
    #expect(semaphore.available == 1)
  }

  @Test func aCancelRacesWithAReleaseAndNoPermitIsLost() async throws {
    for _ in 0..<2_000 {
      let semaphore = Semaphore(permits: 0)
      let waiter = Coroutine { try semaphore.acquire() }
      let releaser = Coroutine { semaphore.release() }
      async let _: Void = waiter.cancel()
      try await releaser.get()
      let hasOne = (try? await waiter.get()) != nil
      #expect(semaphore.available == (hasOne ? 0 : 1))
    }
  }

  @Test func aHundredThousandWaitsThatWereEndedLeaveNothingBehind() async throws {
    let semaphore = Semaphore(permits: 0)
    try await serially {
      for _ in 0..<amount(1_000, sanitized: 100) {
        let waiters = (0..<100).map { number in
          Coroutine { _ = outcome { try semaphore.acquire(number, timeout: number.isMultiple(of: 2) ? .zero : nil) } }
        }
        Coroutine.yield()
        for waiter in waiters { waiter.cancel() }
        for waiter in waiters { try waiter.get() }
      }
    }
    #expect(semaphore.available == 0 && semaphore.storage.waiterCount == 0)
    semaphore.release()
    #expect(semaphore.tryAcquire())
  }

  @Test func anyThreadMayTryAndRelease() {
    let semaphore = Semaphore(permits: 3)
    let given = Atomic<Int>(0)
    DispatchQueue.concurrentPerform(iterations: 8) { _ in
      for _ in 0..<1_000 where semaphore.tryAcquire(2) {
        given.add(1, ordering: .relaxed)
        semaphore.release(2)
      }
    }
    #expect(semaphore.available == 3 && given.load(ordering: .relaxed) > 0)
    #expect(semaphore.tryAcquire(0) && !semaphore.tryAcquire(4))
  }

  @Test func severalPermitsAreHeldForATasksBody() async throws {
    let semaphore = Semaphore(permits: 3, name: "s")
    #expect(semaphore.name == "s")
    let left = try await semaphore.withPermits(2) { () async throws -> Int in
      await _Concurrency.Task.yield()
      return semaphore.available
    }
    #expect(left == 1 && semaphore.available == 3)
    await #expect(throws: Problem.self) { try await semaphore.withPermits(3) { () async throws in throw Problem() } }
    #expect(semaphore.available == 3)
  }

  @Test func negativeNumbersTrap() async {
    let exit1 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      _ = Semaphore(permits: -1)
    }
    #expect(standardError(of: exit1).contains("can't begin with -1 permits"))
    let exit2 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      Semaphore(permits: 1).release(-1)
    }
    #expect(standardError(of: exit2).contains("-1 permits of"))
    let exit3 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      _ = Semaphore(permits: 1).tryAcquire(-1)
    }
    #expect(standardError(of: exit3).contains("-1 permits of"))
    let exit4 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      try await Semaphore(permits: 1).acquire(-1)
    }
    #expect(standardError(of: exit4).contains("-1 permits of"))
    let exit5 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      Semaphore(permits: .max).release()
    }
    #expect(standardError(of: exit5).contains("can't have more than Int.max permits"))
  }
}
