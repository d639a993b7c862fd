import Coroutine
import CoroutineNIO
import NIOCore
import NIOPosix
import Synchronization

/// A promise of NIO's that need not be completed.
private func makePromise(_ loop: any EventLoop = group.next()) -> EventLoopPromise<Int> {
  loop.makePromise(of: Int.self)
}

let futureChecks = [
  Check("aFutureIsWaitedForOnItsLoopAndElsewhere") {
    let loop = group.next()
    let other = EventLoopScheduler.of(group.next())
    for scheduler in [EventLoopScheduler.of(loop) as any Scheduler, other, ThreadPool.shared] {
      let promise = makePromise(loop)
      let waiters = (0..<10).map { _ in startWaiter(on: scheduler, promise.futureResult) }
      loop.execute { promise.succeed(7) }
      for waiter in waiters { try expect("value", try waiter.get(), 7) }
      // It has its value by now.
      try expect("value that is there", try startWaiter(on: scheduler, promise.futureResult).get(), 7)
      let failed: EventLoopFuture<Int> = loop.makeFailedFuture(Failure())
      try expectError(Failure.self) { _ = try startWaiter(on: scheduler, failed).get() }
    }
  },

  Check("aWaitThatIsCancelledEndsAndTheFutureGoesOn") {
    let promise = makePromise()
    let waiter = Coroutine { try promise.futureResult.get() }
    try wait { waiter.suspension != nil }
    try expect("what it waits for", waiter.suspension?.waitsFor, "a future")
    waiter.cancel()
    try expectError(CancellationError.self) { _ = try waiter.get() }
    promise.succeed(1)
    try expect("value", try promise.futureResult.get(), 1)
  },

  Check("aWaitThatIsTooLongEndsAndTheFutureGoesOn") {
    let promise = makePromise()
    try expectError(TimeoutError.self) { _ = try promise.futureResult.get(timeout: .milliseconds(1)) }
    try expectError(TimeoutError.self) { _ = try promise.futureResult.get(timeout: .zero) }
    try expectError(TimeoutError.self) {
      try withTimeout(.milliseconds(1)) { _ = try promise.futureResult.get() }
    }
    promise.succeed(1)
    try expect("value", try promise.futureResult.get(timeout: .seconds(30)), 1)
  },

  // The script looks for what they say on the standard error: once, with the place.
  Check("waitSuspendsACoroutine") {
    let loop = group.next()
    // On the loop NIO's ends the program. On the pool it has the only thread.
    for scheduler in [EventLoopScheduler.of(loop) as any Scheduler, ThreadPool(threads: 1)] {
      let promise = makePromise(loop)
      let waiters = (0..<10).map { _ in Coroutine(on: scheduler) { try promise.futureResult.wait() } }
      try wait { waiters.allSatisfy { $0.suspension?.waitsFor == "a future" } }
      Coroutine(on: scheduler) { promise.succeed(7) }
      for waiter in waiters { try expect("value", try waiter.get(), 7) }
      let failed: EventLoopFuture<Int> = loop.makeFailedFuture(Failure())
      try expectError(Failure.self) { _ = try failed.wait() }
    }
    let never = makePromise()
    let waiter = Coroutine { try never.futureResult.wait() }
    waiter.cancel()
    try expectError(CancellationError.self) { _ = try waiter.get() }
    never.succeed(0)
  },

  Check("waitWhereNoCoroutineRunsIsThatOfNIO") {
    let promise = makePromise()
    let waiter = Coroutine { try blocking { try promise.futureResult.wait() } }
    try wait { waiter.suspension != nil }
    promise.succeed(7)
    try expect("value", try waiter.get(), 7)
    let failed: EventLoopFuture<Int> = group.next().makeFailedFuture(Failure())
    try expectError(Failure.self) { _ = try blocking { try failed.wait(file: #filePath, line: #line) } }
    // Which of the two it is does not depend on what is done with the value.
    let void: EventLoopFuture<Void> = group.next().makeSucceededVoidFuture()
    let text: EventLoopFuture<String?> = group.next().makeSucceededFuture("a")
    func waitGenerically<Value: Sendable>(_ future: EventLoopFuture<Value>) throws -> Value { try future.wait() }
    try void.wait()
    _ = try? void.wait()
    if let text = try text.wait() { try expect("value", text, "a") }
    try expect("values", try [text, text].map { try $0.wait() }, ["a", "a"])
    try expect("sum", try promise.futureResult.wait() + waitGenerically(promise.futureResult) * 2, 21)
  },

  Check("aWaitRacesWithItsFutureAndWithACancel") {
    for number in 0..<500 {
      let promise = makePromise()
      let waiter = Coroutine { try promise.futureResult.get() }
      Coroutine { promise.succeed(number) }
      Coroutine { waiter.cancel() }
      do { try expect("value", try waiter.get(), number) } catch is CancellationError {}
    }
  },

  Check("severalAreWaitedForAtOnce") {
    let (first, second) = (makePromise(), makePromise())
    let sum = Coroutine {
      let (a, b, c) = try values(of: Promise(first.futureResult), Promise(second.futureResult), Coroutine { 3 })
      return a + b + c
    }
    second.succeed(2)
    first.succeed(1)
    try expect("sum", try sum.get(), 6)
    let never = makePromise()
    let failed: EventLoopFuture<Int> = group.next().makeFailedFuture(Failure())
    try expectError(Failure.self) { _ = try values(of: Promise(never.futureResult), Promise(failed)) }
    never.succeed(0)
  },

  Check("oneIsACaseOfASelect") {
    let promise = makePromise()
    let numbers = Coroutine::Channel<Int>()
    let chosen = Coroutine {
      try select {
        promise.futureResult.onValue { "future \($0)" }
        numbers.onReceive { "channel \($0)" }
      }
    }
    promise.succeed(5)
    try expect("chosen", try chosen.get(), "future 5")
    let never = makePromise()
    let other = Coroutine {
      try select {
        never.futureResult.onEnd { "future \($0)" }
        numbers.onReceive { "channel \($0)" }
      }
    }
    try numbers.send(6)
    try expect("chosen", try other.get(), "channel 6")
    never.succeed(0)
  },

  Check("theErrorOfAFutureThatWasNotChosenIsNotReported") {
    let reports = Log()
    let reportBefore = CoroutineErrors.unhandled
    CoroutineErrors.unhandled = { _, origin in reports.add(origin) }
    defer { CoroutineErrors.unhandled = reportBefore }
    let promise = makePromise()
    let numbers = Coroutine::Channel<Int>(capacity: .buffered(2))
    for number in 0..<2 {
      try numbers.send(number)
      try selectBiased {
        numbers.onReceive { _ in }
        if number == 0 { promise.futureResult.onValue { _ in } } else { promise.futureResult.onEnd { _ in } }
      }
    }
    promise.fail(Failure())
    try expectError(Failure.self) { _ = try promise.futureResult.get() }
    try promise.futureResult.eventLoop.submit {}.get()  // the turn that ran the callbacks of the selects has ended
    try expect("reports", reports.all, [])
  },

  Check("aPromiseAndACoroutineBecomeFuturesOfALoop") {
    let loop = group.next()
    let (promise, resolver) = Promise.makePromise(of: Int.self)
    let future = promise.future(on: loop).map { value in
      loop.preconditionInEventLoop()
      return value + 1
    }
    resolver.fulfill(1)
    try expect("of a promise", try future.get(), 2)
    try expect("of one that is settled", try promise.future(on: loop).get(), 1)
    let failing = Coroutine { () throws -> Int in throw Failure() }
    try expectError(Failure.self) { _ = try failing.future(on: loop).get() }
    let cancelled = Promise<Int>.makePromise()
    let end = cancelled.promise.future(on: loop)
    cancelled.promise.cancel()
    try expectError(CancellationError.self) { _ = try end.get() }
    // Only the resolver and the future refer to the promise.
    func abandon() -> EventLoopFuture<Int> { Promise<Int>.makePromise().promise.future(on: loop) }
    try expectError(PromiseAbandoned.self) { _ = try abandon().get() }
  },

  Check("whatWaitsForAFutureDoesNotRunInTheMiddleOfWhoSettles") {
    let loop = group.next()
    let log = Log()
    let (promise, resolver) = Promise.makePromise(of: Int.self)
    let future = promise.future(on: loop).map { _ in log.add("callback") }
    try Coroutine(on: .eventLoop(loop)) {
      resolver.fulfill(1)
      log.add("settled")
    }.get()
    try future.get()
    try expect("order", log.all, ["settled", "callback"])
  },

  Check("aHandlerBeginsACoroutineAndGetsAFuture") {
    let loop = group.next()
    let future = loop.makeFutureWithCoroutine(name: "handler") {
      try Coroutine.sleep(for: .microseconds(10))
      loop.preconditionInEventLoop()
      return 3
    }
    try expect("value", try future.get(), 3)
    let failing = loop.makeFutureWithCoroutine { () throws -> Int in throw Failure() }
    try expectError(Failure.self) { _ = try failing.get() }
  },
]

private func startWaiter(on scheduler: some Scheduler, _ future: EventLoopFuture<Int>) -> Coroutine<Int, any Error> {
  Coroutine(on: scheduler) { try future.get() }
}
