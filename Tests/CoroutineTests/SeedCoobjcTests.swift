import Coroutine
import CoroutineTestSupport
import Dispatch
import Foundation
import Testing

/// The examples of coobjc's documents, with the results that these give. Where they count the steps of several
/// coroutines, the coroutines run on one serial queue, as there.
@Suite(.ownThreads, .timeLimit(.minutes(30))) struct SeedCoobjcTests {
  struct Problem: Error, Equatable { var code = 100 }

  /// Runs `body` in a coroutine on a serial queue, and then the coroutines that it has launched there.
  static func serially(_ body: @escaping @Sendable (Log) throws -> Void) async throws -> [String] {
    let log = Log()
    let queue = DispatchQueue(label: "seed")
    try await Coroutine(on: queue) { try body(log) }.get()
    // Each coroutine waits at most twice for others.
    for _ in 1...4 { try await Coroutine(on: queue) { Coroutine.yield() }.get() }
    return log.all
  }

  // MARK: Launching

  @Test func launchesComeAfterTheLauncherAndImmediateOnesBefore() async throws {
    let order = try await Self.serially { log in
      Coroutine { log.add("1") }
      Coroutine.immediate { log.add("now") }
      Coroutine { log.add("2") }
      log.add("launcher")
    }
    #expect(order == ["now", "launcher", "1", "2"])
  }

  @Test func aDelayStopsTheCoroutineAndNotItsThread() async throws {
    let log = Log()
    let slept = try await Coroutine(on: DispatchQueue(label: "seed")) {
      // Both are in the queue before the first one sleeps, however slow the machine is.
      let sleeper = Coroutine {
        let begin = ContinuousClock.now
        try Coroutine.sleep(for: .milliseconds(20))
        log.add("slept")
        return ContinuousClock.now - begin
      }
      let other = Coroutine { log.add("other") }
      try other.get()
      return try sleeper.get()
    }.get()
    #expect(slept >= .milliseconds(20))
    #expect(log.all == ["other", "slept"])
  }

  @Test func aCancelledCoroutineDoesNotGoOn() async throws {
    let values = Guarded(0)
    let isWaiting = Channel<Void>()
    let coroutine = Coroutine {
      values.withLock { $0 += 1 }
      try isWaiting.send(())
      defer { values.withLock { $0 += 10 } }  // "some cleaning operations"
      try Coroutine.sleep(for: .seconds(3_600))
      values.withLock { $0 += 100 }
    }
    try await isWaiting.receive()
    coroutine.cancel()
    await #expect(throws: CancellationError.self) { try await coroutine.get() }
    #expect(values.withLock { $0 } == 11)
  }

  // MARK: Promises

  static func fulfilled(_ value: String) -> Promise<String> {
    Promise { resolver in DispatchQueue.global().async { resolver.fulfill(value) } }
  }

  static func rejected() -> Promise<String> {
    Promise { resolver in DispatchQueue.global().async { resolver.reject(Problem()) } }
  }

  @Test func awaitReturnsTheValueOrThrowsTheError() async throws {
    let value = Coroutine { try Self.fulfilled("Hello coobjc!").get() }
    #expect(try await value.get() == "Hello coobjc!")
    let error = Coroutine { try Self.rejected().get() }
    await #expect(throws: Problem()) { try await error.get() }
  }

  @Test func aCancelledPromiseTellsItsWorkAndItsWaiter() async throws {
    let log = Log()
    let (promise, resolver) = Promise<String>.makePromise()
    resolver.onCancel { log.add("isCancel") }
    promise.catch { log.add("catch \($0 is CancellationError)") }
    let coroutine = Coroutine { () throws -> Bool in
      do {
        _ = try promise.get()
        return false
      } catch is CancellationError {
        return promise.isCancelled && !Coroutine.isCancelled
      }
    }
    DispatchQueue.global().async { promise.cancel() }
    #expect(try await coroutine.get())
    while log.all.count < 2 { await Task.yield() }
    #expect(log.all == ["isCancel", "catch true"])
  }

  @Test func thenReturnsAPromiseThatIsAwaited() async throws {
    let chained = Self.fulfilled("a").then { value in Self.fulfilled(value + "b") }
    #expect(try await chained.get() == "ab")
  }

  @Test func severalAreAwaitedAtOnce() async throws {
    let both = Coroutine { try values(of: [Self.fulfilled("02"), Self.fulfilled("03")]) }
    #expect(try await both.get() == ["02", "03"])
    let each = Coroutine { try results(of: [Self.fulfilled("02"), Self.rejected()]).map { try? $0.get() } }
    #expect(try await each.get() == ["02", nil])
  }

  @Test func progressIsIteratedAndThenTheValueTaken() async throws {
    let download = ProgressPromise<Double, [UInt8]>(keeping: .all) { resolver in
      DispatchQueue.global().async {
        for step in 1...10 { resolver.report(Double(step) / 10) }
        resolver.fulfill([1, 2, 3])
      }
    }
    let coroutine = Coroutine { () throws -> (Int, [UInt8]) in
      var reports = 0
      for _ in download.progress { reports += 1 }
      return (reports, try download.get())
    }
    let (reports, data) = try await coroutine.get()
    #expect(reports == 10)
    #expect(data == [1, 2, 3])
  }

  // MARK: Channels

  @Test func aFunctionMayAnswerThroughAChannel() async throws {
    @Sendable func fetchSomething() -> Channel<String> {
      let channel = Channel<String>(capacity: .buffered(1))
      DispatchQueue.global().async { _ = channel.trySend("something") }
      return channel
    }
    #expect(try await Coroutine { try fetchSomething().receive() }.get() == "something")
  }

  @Test func aSendWithoutABufferWaitsForAReceiver() async throws {
    let order = try await Self.serially { log in
      let channel = Channel<Int>()
      Coroutine {
        log.add("1")
        try channel.send(111)
        log.add("2")
      }
      Coroutine {
        log.add("3")
        #expect(channel.tryReceive() == .received(111))
        log.add("4")
      }
    }
    #expect(order == ["1", "3", "4", "2"])
  }

  @Test func aSendIntoABufferDoesNot() async throws {
    let order = try await Self.serially { log in
      let channel = Channel<Int>(capacity: .buffered(2))
      Coroutine {
        log.add("1")
        try channel.send(111)
        log.add("2")
      }
      Coroutine {
        log.add("3")
        #expect(channel.tryReceive() == .received(111))
        log.add("4")
      }
    }
    #expect(order == ["1", "2", "3", "4"])
  }

  @Test func aReceiveWaitsForASender() async throws {
    let order = try await Self.serially { log in
      let channel = Channel<Int>()
      Coroutine {
        log.add("1")
        let value = try channel.receive()
        #expect(value == 111)
        log.add("2")
      }
      Coroutine {
        log.add("3")
        try channel.send(111)
        log.add("4")
      }
    }
    #expect(order == ["1", "3", "4", "2"])
  }

  @Test func aSendThatDoesNotWaitIsTakenByABufferAndNotWithoutOne() async throws {
    let order = try await Self.serially { log in
      let buffered = Channel<Int>(capacity: .buffered(1))
      let rendezvous = Channel<Int>()
      Coroutine {
        log.add("1 \(buffered.trySend(111).isSent)")
        #expect(rendezvous.trySend(111) == .full(111))  // handed back
        log.add("2")
      }
      Coroutine {
        #expect(buffered.tryReceive() == .received(111))
        #expect(rendezvous.tryReceive() == .empty)
        log.add("3")
      }
    }
    #expect(order == ["1 true", "2", "3"])
  }

  @Test func severalReceiversAreServedInTheirOrder() async throws {
    let order = try await Self.serially { log in
      let channel = Channel<Int>(capacity: .buffered(1))
      Coroutine {
        log.add("1")
        let value = try channel.receive()
        #expect(value == 111)
        log.add("2")
      }
      Coroutine {
        log.add("3")
        let value = try channel.receive()
        #expect(value == 222)
        log.add("4")
      }
      Coroutine {
        log.add("5")
        try channel.send(111)
        log.add("6")
        try channel.send(222)
        log.add("7")
      }
    }
    #expect(order == ["1", "3", "5", "6", "7", "2", "4"])
  }

  @Test func anUnboundedChannelLosesNothing() async throws {
    let channel = Channel<Int>(capacity: .unbounded)
    let queue = DispatchQueue(label: "seed")
    for number in 0..<2_000 { Coroutine(on: queue) { try channel.send(number) } }
    let receivers = (0..<2_000).map { _ in Coroutine(on: queue) { try channel.receive() } }
    var sum = 0
    for receiver in receivers { sum += try await receiver.get() }
    #expect(sum == 1_999_000)
  }

  @Test func aNumberOfValuesIsReceivedAtOnce() async throws {
    let channel = Channel<Int>(capacity: .buffered(10))
    for number in 0..<10 { #expect(channel.trySend(number).isSent) }
    let coroutine = Coroutine { (try channel.receive(count: 3), try channel.receiveAll()) }
    let (three, others) = try await coroutine.get()
    #expect(three == [0, 1, 2])
    #expect(others == [3, 4, 5, 6, 7, 8, 9])
  }

  @Test func sendingAndSleepingNeedACoroutine() async {
    let exit1 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      func send() throws { try Channel<Int>().send(1) }
      try send()
    }
    #expect(
      standardError(of: exit1).contains("Channel.send(_:) suspends the running coroutine, but no coroutine runs here"))
    let exit2 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      func sleep() throws { try Coroutine.sleep(for: .milliseconds(1)) }
      try sleep()
    }
    #expect(
      standardError(of: exit2).contains(
        "Coroutine.sleep(for:) suspends the running coroutine, but no coroutine runs here"))
  }

  // MARK: Generators

  @Test func aGeneratorIsAskedFromOtherCoroutines() async throws {
    let coroutine = Coroutine { () -> [Int] in
      let generator = Generator<Int> { yield in
        var index = 0
        while true {
          try yield(index)
          index += 1
        }
      }
      defer { generator.cancel() }
      return (0..<10).map { _ in generator.next()! }
    }
    #expect(try await coroutine.get() == Array(0..<10))
  }

  @Test func aYieldedPromiseIsAwaitedWhenAskedFor() async throws {
    let log = Log()
    let coroutine = Coroutine {
      let messages = ThrowingGenerator<String> { yield in
        for number in 1... {
          log.add("query \(number)")
          try yield(Self.fulfilled("message \(number)").get())
        }
      }
      while let message = try messages.next() {
        log.add(message)
        if message == "message 2" { break }
      }
    }
    try await coroutine.get()
    #expect(log.all == ["query 1", "message 1", "query 2", "message 2"])
  }

  // MARK: Actors

  enum Counting {
    case add(Int)
    case get(Reply<Int>)
    case fail(Reply<Int>)
  }

  static func counter(_ log: Log = Log()) -> MessageActor<Counting> {
    MessageActor { mailbox in
      var count = 0
      for message in mailbox {
        switch message {
        case .add(let number): count += number
        case .get(let reply): reply.complete(count)
        case .fail(let reply): reply.complete(with: Result { Int(try rejected().get())! })
        }
      }
      log.add("the loop has ended")
    }
  }

  @Test func anActorCountsAndAnswers() async throws {
    let log = Log()
    let counter = Self.counter(log)
    let asking = Coroutine { () throws -> Int in
      for _ in 1...6 { try counter.tell(.add(1)) }
      try counter.tell(.add(-1))
      let count = try counter.ask { .get($0) }
      counter.cancel()
      return count
    }
    #expect(try await asking.get() == 5)
    try await counter.join()
    #expect(log.all == ["the loop has ended"])
    await #expect(throws: ActorStopped.self) { try await counter.tell(.add(1)) }
  }

  @Test func anActorsErrorReachesItsAsker() async throws {
    let counter = Self.counter()
    let asking = Coroutine { () throws -> Int in try counter.ask { .fail($0) } }
    await #expect(throws: Problem()) { try await asking.get() }
  }

  // MARK: The feeds

  /// The main example of the documents: one feed after another is fetched, parsed and stored. A feed that fails is
  /// skipped.
  @Test func feedsAreFetchedOneAfterTheOther() async throws {
    let log = Log()
    @Sendable func get(_ url: String) throws -> String {
      try awaitCallback { done in
        DispatchQueue.global().async { url == "b" ? done(nil, Problem()) : done("content of \(url)", nil) }
      }
    }
    try await Coroutine(on: .main) {
      for url in ["a", "b", "c"] {
        do {
          let content = try get(url)
          let stored = try Coroutine(on: .pool) { "stored \(content)" }.get()
          log.add(stored)
        } catch is Problem {
          log.add("skipped \(url)")
        }
        #expect(DispatchQueue.main.isCurrent)
      }
      log.add("complete")
    }.get()
    #expect(log.all == ["stored content of a", "skipped b", "stored content of c", "complete"])
  }
}
