import Coroutine
import CoroutineTestSupport
import Dispatch
import Testing

@Suite(.ownThreads) struct PromiseChainingTests {
  struct Problem: Error, Equatable { var number = 0 }

  private let queue = DispatchQueue(label: "serial")

  /// Returns when all that is ready on the serial queue has run, and all that this has made ready there.
  private func settle() async throws {
    for _ in 0..<8 { try await Coroutine(on: queue) {}.get() }
  }

  // MARK: - Values and errors

  @Test func thenTransformsAndIsSkippedOnRejection() async throws {
    let log = Log()
    let (promise, resolver) = Promise.makePromise(of: Int.self)
    let derived = promise.then { value -> String in
      log.add("then \(value)")
      return "\(value)"
    }.then { $0 + "!" }
    #expect(derived.isPending)
    resolver.fulfill(5)
    #expect(try await derived.get() == "5!")

    let rejected = Promise<Int>(error: Problem(number: 1)).then { _ in log.add("not skipped") }.then { 1 }
    await #expect(throws: Problem(number: 1)) { try await rejected.get() }
    let throwing = Promise(value: 1).then { _ -> Int in throw Problem(number: 2) }.then { $0 + 1 }
    await #expect(throws: Problem(number: 2)) { try await throwing.get() }
    #expect(log.all == ["then 5"])
  }

  @Test func aReturnedPromiseIsFlattened() async throws {
    let (inner, resolver) = Promise.makePromise(of: String.self)
    let outer: Promise<String> = Promise(value: 1).then { _ in inner }
    let next = outer.then { $0.count }
    #expect(outer.isPending && next.isPending)
    resolver.fulfill("four")
    #expect(try await next.get() == 4)
    let failing = Promise(value: 1).then { _ in Promise<Int>(error: Problem()) }
    await #expect(throws: Problem.self) { try await failing.get() }
    let thrown = Promise(value: 1).then { (value: Int) throws -> Promise<Int> in throw Problem(number: value) }
    await #expect(throws: Problem(number: 1)) { try await thrown.get() }
    let several = Promise(value: 1).then { value in
      let sum = value + 1
      return Promise(value: sum)
    }
    #expect(try await several.get() == 2)
  }

  @Test func catchRecoversHandlesAndIsSkippedOnFulfilment() async throws {
    let log = Log()
    let failed = Promise<Int>(error: Problem(number: 1))
    #expect(try await failed.catch { error in (error as? Problem)?.number ?? 0 }.get() == 1)
    #expect(try await failed.catch { _ in Promise(value: 9) }.get() == 9)
    try await failed.catch { log.add("handled \($0)") }.get()
    await #expect(throws: Problem(number: 2)) {
      try await failed.catch { _ -> Int in throw Problem(number: 2) }.get()
    }
    let fulfilled = Promise(value: 3)
    #expect(try await fulfilled.catch { _ in 0 }.get() == 3)
    try await fulfilled.catch { _ in log.add("not skipped") }.get()
    #expect(log.all == ["handled Problem(number: 1)"])
  }

  /// To the compiler, a closure without a `return` fits every form of `catch`: it has to choose one.
  @Test func catchIsNotAmbiguousWithoutAReturn() async throws {
    let log = Log()
    let failed = Promise<Int>(error: Problem(number: 1))
    let handled: Promise<Void> = failed.catch { error in
      log.add("first")
      log.add("\(error)")
    }
    try await handled.get()
    #expect(log.all == ["first", "Problem(number: 1)"])
    let partly = failed.catch { error in
      if error is CancellationError { throw error }
      log.add("end")
    }
    try await partly.get()
    #expect(log.all.last == "end")

    let rethrown = failed.catch { error in
      log.add("again")
      throw error
    }
    await #expect(throws: Problem(number: 1)) { try await rethrown.get() }
    let other: Promise<Int> = failed.catch { _ in throw Problem(number: 2) }
    await #expect(throws: Problem(number: 2)) { try await other.get() }
    let mapped = failed.catch { _ in throw Problem(number: 3) }.then { $0 + 1 }
    await #expect(throws: Problem(number: 3)) { try await mapped.get() }

    let recovered = failed.catch { error in
      if error is CancellationError { throw error }
      return Promise(value: 4)
    }
    #expect(try await recovered.get() == 4)
    let empty = Promise<Void>(error: Problem(number: 1)).catch { error in
      log.add("empty")
      log.add("\(error)")
    }
    try await empty.get()
    #expect(log.all.suffix(2) == ["empty", "Problem(number: 1)"])
  }

  @Test func finallyRunsEitherWayAndPassesTheOutcomeOn() async throws {
    let log = Log()
    #expect(try await Promise(value: 3).finally { log.add("fulfilled") }.get() == 3)
    await #expect(throws: Problem(number: 1)) {
      try await Promise<Int>(error: Problem(number: 1)).finally { log.add("rejected") }.get()
    }
    await #expect(throws: Problem(number: 2)) {
      try await Promise(value: 3).finally { throw Problem(number: 2) }.get()
    }
    #expect(log.all == ["fulfilled", "rejected"])
  }

  @Test func aPromiseThatWouldBecomeItselfIsRejected() async throws {
    let kept = Guarded<Promise<Int>?>(nil)
    let (start, resolver) = Promise.makePromise(of: Int.self)
    let looping: Promise<Int> = start.then { _ in kept.withLock { $0 } ?? Promise(value: 0) }
    kept.withLock { $0 = looping }
    resolver.fulfill(1)
    await #expect(throws: PromiseFollowsItself.self) { try await looping.get() }
    kept.withLock { $0 = nil }
  }

  /// A closure waits for another promise that has become the one that it was registered at: which is not behind it.
  @Test func whatFollowsAPromiseWaitsBehindNoneOfItsClosures() async throws {
    let (inner, resolver) = Promise.makePromise(of: Int.self)
    let followers = Channel<Promise<Int>>(capacity: .buffered(1))
    let first = inner.then(on: .pool) { (value: Int) -> Int in
      try followers.receive().get(timeout: .seconds(600)) + value
    }
    let outer: Promise<Int> = Promise(value: 1).then(on: queue) { _ in inner }
    // It has become the other one by now.
    try await settle()
    try await followers.send(outer)
    resolver.fulfill(2)
    #expect(try await first.get() == 4)
  }

  // MARK: - Order

  @Test func observersRunOneAfterAnotherInTheirOrderAlsoOnThePool() async throws {
    for _ in 0..<20 {
      let log = Log()
      let (promise, resolver) = Promise.makePromise(of: Int.self)
      let observers = (0..<50).map { number in
        promise.finally {
          log.add("\(number)")
          Coroutine.yield()
          log.add("\(number) again")
        }
      }
      #expect(log.all == [])
      resolver.fulfill(1)
      for observer in observers { _ = try await observer.get() }
      #expect(log.all == (0..<50).flatMap { ["\($0)", "\($0) again"] })
    }
  }

  @Test func aLateObserverRunsBehindTheOthersNotInItsRegistration() async throws {
    let log = Log()
    let (promise, resolver) = Promise.makePromise(of: Int.self)
    let work = Coroutine(on: queue) {
      promise.then { _ in
        log.add("first")
        promise.then { _ in log.add("registered by the first") }
        log.add("first ends")
      }
      promise.then { _ in log.add("second") }
      resolver.fulfill(1)
      log.add("fulfilled")
      promise.then { _ in log.add("third") }
      log.add("registered")
    }
    try await work.get()
    try await settle()
    #expect(
      log.all == [
        "fulfilled", "registered", "first", "first ends", "second", "third", "registered by the first",
      ])
    let late = Coroutine(on: queue) {
      promise.then { _ in log.add("late") }
      log.add("late is registered")
    }
    try await late.get()
    try await settle()
    #expect(log.all.suffix(2) == ["late is registered", "late"])
  }

  @Test func siblingsComeBeforeGrandchildren() async throws {
    let log = Log()
    let (promise, resolver) = Promise.makePromise(of: Int.self)
    promise.then(on: queue) { _ in log.add("A") }.then(on: queue) { log.add("B") }
    promise.then(on: queue) { _ in log.add("C") }
    resolver.fulfill(1)
    try await settle()
    #expect(log.all == ["A", "C", "B"])
  }

  @Test func observersRunOnTheSchedulerThatWasGivenOrInherited() async throws {
    let other = DispatchQueue(label: "other")
    let (promise, resolver) = Promise.makePromise(of: Int.self)
    let places = Guarded<[String]>([])
    @Sendable func note(_ name: String) {
      let answers = [self.queue.isCurrent, other.isCurrent, ThreadPool.shared.isCurrent]
      places.withLock { $0.append("\(name): \(answers)") }
    }
    let registered = Coroutine(on: queue) {
      promise.then(on: other) { _ in note("given") }
      promise.then { _ in note("inherited") }
      return promise.then(on: .pool) { _ in note("pool") }
    }
    _ = try await registered.get()
    let last = promise.then { _ in note("outside") }
    resolver.fulfill(1)
    try await last.get()
    #expect(
      places.withLock { $0 } == [
        "given: [false, true, false]", "inherited: [true, false, false]", "pool: [false, false, true]",
        "outside: [false, false, true]",
      ])
  }

  @TaskLocal static var binding = "none"

  @Test func aClosureMayWaitAndSeesTheBindingsOfItsRegistration() async throws {
    let channel = Channel<Int>()
    let (promise, resolver) = Promise.makePromise(of: Int.self)
    let sum = Self.$binding.withValue("registered") {
      promise.then { value in "\(try value + channel.receive()) \(Self.binding)" }
    }
    Self.$binding.withValue("settled") { _ = resolver.fulfill(1) }
    try await channel.send(2)
    #expect(try await sum.get() == "3 registered")
  }

  // MARK: - Cancelling

  @Test func aCancelGoesDownTheChainButNotUp() async throws {
    let log = Log()
    let (promise, resolver) = Promise.makePromise(of: Int.self)
    resolver.onCancel { log.add("stopped") }
    let (first, second) = (promise.then { $0 + 1 }, promise.then { $0 + 2 })
    let third = second.then { value -> Int in
      log.add("not skipped")
      return value
    }
    #expect(second.cancel())
    await #expect(throws: CancellationError.self) { try await third.get() }
    #expect(third.isCancelled && promise.isPending && first.isPending)
    resolver.fulfill(1)
    #expect(try await first.get() == 2)
    #expect(log.all == [])

    let (other, otherResolver) = Promise.makePromise(of: Int.self)
    otherResolver.onCancel { log.add("stopped") }
    let derived = other.then { $0 }.catch { _ in -1 }
    other.cancel()
    #expect(try await derived.get() == -1)
    #expect(log.all == ["stopped"] && otherResolver.isCancelled)
  }

  @Test func cancellingADerivedPromiseStopsItsClosureAlone() async throws {
    let log = Log()
    let (promise, resolver) = Promise.makePromise(of: Int.self)
    promise.then(on: queue) { _ in log.add("first") }
    let cancelled = promise.then(on: queue) { _ in log.add("cancelled") }
    promise.then(on: queue) { _ in log.add("third") }
    cancelled.cancel()
    resolver.fulfill(1)
    // Cancelled when its turn has come, but before it has begun.
    let block = DispatchQueue(label: "blocked")
    block.suspend()
    let turn = promise.then(on: block) { _ in log.add("had the turn") }
    promise.then(on: queue) { _ in log.add("fifth") }
    while !log.all.contains("third") { await Task.yield() }
    turn.cancel()
    block.resume()
    while !log.all.contains("fifth") { await Task.yield() }
    #expect(log.all == ["first", "third", "fifth"])
  }

  @Test func cancellingADerivedPromiseCancelsTheWaitsOfItsClosure() async throws {
    let log = Log()
    let channel = Channel<Int>()
    let (promise, resolver) = Promise.makePromise(of: Int.self)
    let derived = promise.then(on: queue) { _ in
      defer { log.add("unwound") }
      _ = try channel.receive()
    }
    promise.then(on: queue) { _ in log.add("sibling") }
    resolver.fulfill(1)
    try await settle()
    #expect(log.all == [])
    derived.cancel()
    await #expect(throws: CancellationError.self) { try await derived.get() }
    try await settle()
    #expect(log.all == ["unwound", "sibling"])
  }

  @Test func cancellingWhatFollowsAnotherPromiseLeavesThatAlone() async throws {
    let (inner, resolver) = Promise.makePromise(of: Int.self)
    let outer: Promise<Int> = Promise(value: 1).then(on: queue) { _ in inner }
    try await settle()
    #expect(outer.cancel())
    #expect(inner.isPending)
    resolver.fulfill(2)
    #expect(try await inner.get() == 2)
    await #expect(throws: CancellationError.self) { try await outer.get() }
  }

  @Test func stepsThatDoNotRunHoldUpNoOthers() async throws {
    // A step that was cancelled asks for no stack. The other kind of step that does not run goes the same way.
    let log = Log()
    let (promise, resolver) = Promise.makePromise(of: Int.self)
    let steps = (0..<100).map { number in promise.then(on: queue) { _ in log.add("\(number)") } }
    for number in stride(from: 0, to: 100, by: 2) { steps[number].cancel() }
    resolver.fulfill(0)
    for number in stride(from: 1, to: 100, by: 2) { try await steps[number].get() }
    #expect(log.all == stride(from: 1, to: 100, by: 2).map { "\($0)" })
  }

  // MARK: - Length

  @Test func aChainOfAMillionStepsIsWorkedOffWithoutRecursion() async throws {
    let length = amount(1_000_000, debug: 100_000, sanitized: 20_000)
    let (promise, resolver) = Promise.makePromise(of: Int.self)
    var last = promise
    for _ in 0..<length { last = last.then { $0 + 1 } }
    resolver.fulfill(0)
    #expect(try await last.get() == length)
  }

  @Test func longChainsAreReleasedWithoutRecursion() async throws {
    let length = amount(100_000, debug: 20_000, sanitized: 20_000)
    let dropped: Promise<Int>
    do {
      let (promise, resolver) = Promise.makePromise(of: Int.self)
      var last = promise
      for _ in 0..<length { last = last.then { $0 + 1 } }
      dropped = last
      withExtendedLifetime(resolver) {}
    }
    await #expect(throws: PromiseAbandoned.self) { try await dropped.get() }

    let (promise, resolver) = Promise.makePromise(of: Int.self)
    var last = promise
    for _ in 0..<length { last = last.then { $0 + 1 } }
    promise.cancel()
    withExtendedLifetime(resolver) {}
    await #expect(throws: CancellationError.self) { try await last.get() }
  }

  @Test func promisesThatReturnPromisesAreFlattenedToAnyDepth() async throws {
    @Sendable func count(_ number: Int) -> Promise<Int> {
      number == 0 ? Promise(value: 0) : Promise(value: number).then { count($0 - 1) }
    }
    #expect(try await count(20_000).get() == 0)
  }
}
