import Coroutine
import CoroutineTestSupport
import Dispatch
import Testing

@Suite(.ownThreads) struct SuspensionTests {
  struct Problem: Error {}

  @Test func aResumeBeforeTheSuspensionIsKept() async throws {
    let coroutine = Coroutine { try withSuspension { resume in resume.returning(1) } }
    #expect(try await coroutine.get() == 1)
  }

  @Test func aResumeFromAnotherThreadWakes() async throws {
    let coroutine = Coroutine { () throws -> Int in
      try withSuspension { resume in DispatchQueue.global().async { resume.returning(2) } }
    }
    #expect(try await coroutine.get() == 2)
  }

  @Test func anErrorIsThrown() async throws {
    let coroutine = Coroutine { () throws -> Int in try withSuspension { $0.throwing(Problem()) } }
    await #expect(throws: Problem.self) { try await coroutine.get() }
  }

  @Test func aCallbacksResultIsReturnedOrThrown() async throws {
    func wait(for result: Result<Int, Problem>) async throws -> Int {
      try await Coroutine { () throws -> Int in try withSuspension { resume in resume(with: result) } }.get()
    }
    #expect(try await wait(for: .success(3)) == 3)
    // The error's type need not be written.
    #expect(try await Coroutine { try withSuspension { resume in resume(with: .success(4)) } }.get() == 4)
    await #expect(throws: Problem.self) { try await wait(for: .failure(Problem())) }
  }

  @Test func aSecondResumeIsHarmlessSaysSoAndIsReportedOnce() async throws {
    let answers = Guarded<[Bool]>([])
    let log = Log()
    let value = try await LostErrors.observe { error, origin in
      guard let twice = error as? SettledTwice, origin.contains("\"resumed twice\"") else { return false }
      log.add(twice.ignoredError == nil ? "value" : "error")
      return true
    } during: {
      let coroutine = Coroutine(name: "resumed twice") { () throws -> Int in
        try withSuspension { resume in
          let first = resume.returning(1)
          let second = resume.returning(2)
          let third = resume.throwing(Problem())
          answers.withLock { $0 = [first, second, third] }
        }
      }
      return try await coroutine.get()
    }
    #expect(value == 1)
    #expect(answers.withLock { $0 } == [true, false, false])
    #expect(log.all == ["value"])
  }

  @Test func aResumeThatLostToACancelIsNotReported() async throws {
    let queue = DispatchQueue(label: "serial")
    let kept = Guarded<Resumption<Int>?>(nil)
    let log = Log()
    await LostErrors.observe { error, origin in
      guard error is SettledTwice, origin.contains("\"cancelled\"") else { return false }
      log.add("reported")
      return true
    } during: {
      let coroutine = Coroutine(on: queue, name: "cancelled") { () throws -> Int in
        try withSuspension { resume in kept.withLock { $0 = resume } }
      }
      _ = try? await Coroutine(on: queue) {}.get()
      coroutine.cancel()
      _ = try? await coroutine.get()
      let answer = kept.withLock { $0?.returning(1) }
      #expect(answer == false)
    }
    #expect(log.all == [])
  }

  @Test func oneOfManyRacingResumesWins() async throws {
    for _ in 0..<50 {
      let wins = Guarded(0)
      let winner = try await LostErrors.observe { error, origin in
        error is SettledTwice && origin.contains("\"raced for\"")
      } during: {
        let coroutine = Coroutine(name: "raced for") { () throws -> Int in
          try withSuspension { resume in
            DispatchQueue.concurrentPerform(iterations: 8) { index in
              if resume.returning(index) { wins.withLock { $0 += 1 } }
            }
          }
        }
        return try await coroutine.get()
      }
      #expect((0..<8).contains(winner))
      #expect(wins.withLock { $0 } == 1)
    }
  }

  @Test func anAbandonedSuspensionEndsWithAnError() async throws {
    let coroutine = Coroutine { () throws -> Int in try withSuspension { _ in } }
    await #expect(throws: SuspensionAbandoned.self) { try await coroutine.get() }
    let kept = Guarded<Resumption<Int>?>(nil)
    let waiting = Coroutine { () throws -> Int in
      try withSuspension { resume in kept.withLock { $0 = resume } }
    }
    while kept.withLock({ $0 == nil }) { await Task.yield() }
    kept.withLock { $0 = nil }
    await #expect(throws: SuspensionAbandoned.self) { try await waiting.get() }
  }

  @Test func whatBeginsTheWorkMaySuspendToo() async throws {
    let queue = DispatchQueue(label: "serial")
    let nested = Coroutine(on: queue) { () throws -> Int in
      try withSuspension { outer in
        let inner = Result { try withSuspension { (resume: Resumption<Int>) in queue.async { resume(4) } } }
        queue.async { outer(with: inner.map { $0 + 1 }) }
      }
    }
    #expect(try await nested.get() == 5)
  }

  /// Invariant 1: a waker that wakes a coroutine as soon as it is visible must find its context saved.
  @Test func aWakerThatIsFasterThanTheSwitchNeverResumesARunningStack() async throws {
    let rounds = 2_000
    let coroutines = (0..<8).map { _ in
      Coroutine { () throws -> Int in
        var sum = 0
        for round in 0..<rounds {
          let local = [round, round + 1]
          sum += try withSuspension { resume in
            Coroutine { resume.returning(local[0]) }
          }
          guard local == [round, round + 1] else { return -1 }
        }
        return sum
      }
    }
    for coroutine in coroutines { #expect(try await coroutine.get() == rounds * (rounds - 1) / 2) }
  }

  @Test func suspendingOutsideACoroutineTraps() async {
    func suspend() throws -> Int { try withSuspension { $0.returning(1) } }
    _ = suspend
    let exit1 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      func suspend() throws -> Int { try withSuspension { $0.returning(1) } }
      _ = try suspend()
    }
    #expect(
      standardError(of: exit1).contains("withSuspension suspends the running coroutine, but no coroutine runs here"))
  }

  /// A function that is built on `withSuspension` traps by its own name.
  @Test func whatSuspendsByCallbacksTrapsByItsOwnName() async {
    let callback = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      func wait() throws -> Int {
        try awaitCallback { (done: @escaping @Sendable (Int?, (any Error)?) -> Void) in done(1, nil) }
      }
      _ = try wait()
    }
    #expect(standardError(of: callback).contains("awaitCallback suspends the running coroutine, but no"))
    let element = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      func wait() throws -> Int? { try AsyncStream<Int> { $0.finish() }.elements.next() }
      _ = try wait()
    }
    #expect(standardError(of: element).contains("AsyncElements.next() suspends the running coroutine, but no"))
  }
}
