import CoroutineTestSupport
import Dispatch
import Synchronization
import Testing

@testable import Coroutine

/// Selects on a condition, on an asynchronous generator, on a broadcast that is sent to; and `async` ones on a mutex.
@Suite(.ownThreads) struct SelectMoreTests {
  // MARK: Conditions

  @Test func aConditionIsWaitedForTogetherWithOtherThings() async throws {
    let log = Log()
    try await serially {
      let (queue, stop) = (CoroutineMutex([Int](), name: "queue"), Channel<Void>())
      let notEmpty = Condition(of: queue, name: "not empty")
      let take: @Sendable () throws -> Int? = {
        try queue.withLock { items in
          while items.isEmpty {
            log.add("waits")
            let isOver = try notEmpty.wait(
              &items,
              orSelect: {
                stop.onReceive { _ in
                  log.add("holds: \(queue.withLockIfAvailable { _ in } == nil)")
                  return true
                }
              })
            if isOver == true { return nil }
          }
          return items.removeFirst()
        }
      }
      let first = Coroutine { try take() }
      Coroutine.yield()
      log.add("\(first.suspension?.waitsFor.contains("not empty") == true)")
      try queue.withLock { $0.append(7) }
      notEmpty.signal()
      log.add("\(try first.get() ?? 0)")
      let second = Coroutine { try take() }
      Coroutine.yield()
      try stop.send(())
      log.add("\(try second.get() as Any)")
      log.add("\(notEmpty.storage.waiterCount) \(queue.storage.waiterCount)")
    }
    #expect(log.all == ["waits", "true", "7", "waits", "holds: true", "nil", "0 0"])
  }

  @Test func aSignalThatIsNotTakenGoesToTheNextWaiter() async throws {
    let log = Log()
    try await serially {
      let (mutex, go) = (CoroutineMutex(), Channel<Void>(capacity: .buffered(1)))
      let condition = Condition(of: mutex)
      // It finds the case ready at once, or the signal that came since it was registered: one of the two, and the other stays.
      let chooser = Coroutine {
        try mutex.withLock {
          let chosen = try condition.wait(orSelect: { go.onReceive { _ in true } })
          log.add(chosen == true ? "case" : "signal")
        }
      }
      let next = Coroutine {
        try mutex.withLock { try condition.wait() }
        log.add("next")
      }
      Coroutine.yield()
      try go.send(())
      condition.signal()
      try chooser.get()
      try next.get()
    }
    #expect(log.all == ["case", "next"])
  }

  @Test func aCancelledWaiterForAConditionHoldsTheMutex() async throws {
    let log = Log()
    try await serially {
      let (mutex, never) = (CoroutineMutex(1), Channel<Void>())
      let condition = Condition(of: mutex)
      let waiter = Coroutine {
        try mutex.withLock { value in
          let error = outcome { _ = try condition.wait(&value, orSelect: { never.onReceive { _ in } }) }
          value += 1
          log.add("\(error), holds: \(mutex.withLockIfAvailable { _ in } == nil)")
        }
      }
      Coroutine.yield()
      waiter.cancel()
      try waiter.get()
      log.add("\(mutex.withLockIfAvailable { $0 } ?? 0) \(condition.storage.waiterCount)")
      // What the closure of `wait(until:)` is has not changed.
      try mutex.withLock { value in try condition.wait(&value) { $0 == 2 } }
    }
    #expect(log.all == ["cancelled, holds: true", "2 0"])
  }

  @Test func signalsRaceWithOtherCasesAndNoneIsLost() async throws {
    let count = amount(1_000, sanitized: 100)
    let (mutex, other) = (CoroutineMutex(0), Channel<Void>(capacity: .unbounded))
    let changed = Condition(of: mutex)
    let takers = (0..<3).map { _ in
      Coroutine { () -> Int in
        var others = 0
        var taken = 0
        while taken + others < count {
          let isOther = try mutex.withLock { value -> Bool in
            while value == 0 {
              let isOther = try changed.wait(&value, orSelect: { other.onReceive { _ in true } })
              if isOther == true { return true }
            }
            value -= 1
            return false
          }
          if isOther { others += 1 } else { taken += 1 }
        }
        return taken
      }
    }
    let signaller = Coroutine {
      for _ in 0..<2 * count {
        try mutex.withLock { $0 += 1 }
        changed.signal()
      }
    }
    let sender = Coroutine { for _ in 0..<count { try other.send(()) } }
    try await signaller.get()
    try await sender.get()
    var taken = 0
    for taker in takers { taken += try await taker.get() }
    #expect(mutex.withLockIfAvailable { $0 } == 2 * count - taken)
  }

  // MARK: Generators

  @Test func aLostSelectLosesNoElementOfAGenerator() async throws {
    let log = Log()
    try await serially {
      let (gate, stop) = (Channel<Int>(), Channel<Void>())
      let numbers = AsyncGenerator<Int> { yield in
        log.add("begins")
        for number in 1...3 {
          _ = try gate.receive()
          try yield(number)
          log.add("after \(number)")
        }
      }
      let choose: @Sendable () throws -> String = {
        try select {
          numbers.onNext { $0.map { "\($0)" } ?? "end" }
          stop.onReceive { _ in "stopped" }
        }
      }
      let first = Coroutine { try choose() }
      Coroutine.yield()
      try gate.send(0)
      log.add(try first.get())
      let second = Coroutine { try choose() }
      Coroutine.yield()
      Coroutine.yield()
      try stop.send(())
      log.add(try second.get())
      // The body goes on with what the lost select has asked for; the next consumer gets it.
      try gate.send(0)
      log.add("next: \(try numbers.next() ?? 0)")
      let last = Coroutine { [try choose(), try choose()] }
      try gate.send(0)
      log.add("\(try last.get())")
    }
    #expect(
      log.all == [
        "begins", "1", "after 1", "stopped", "next: 2", "after 2", "after 3", "[\"3\", \"end\"]",
      ])
  }

  @Test func aSelectThatDoesNotWaitLetsAGeneratorGoOnByOneElement() async throws {
    let log = Log()
    try await serially {
      let numbers = AsyncGenerator<Int> { yield in
        for number in 1...3 {
          log.add("makes \(number)")
          try yield(number)
        }
      }
      let look: @Sendable () throws -> Void = {
        try select {
          numbers.onNext { log.add($0.map { "has \($0)" } ?? "end") }
          otherwise { log.add("none yet") }
        }
      }
      for _ in 1...8 {
        try look()
        Coroutine.yield()
      }
    }
    #expect(
      log.all == [
        "none yet", "makes 1", "has 1", "none yet", "makes 2", "has 2", "none yet", "makes 3", "has 3", "none yet",
        "end",
      ])
  }

  @Test func aSelectGetsWhatAGeneratorsBodyThrowsOnce() async throws {
    struct Failure: Error {}
    let failing = AsyncGenerator<Int> { _ in throw Failure() }
    let never = Channel<Int>()
    let endings = try await Coroutine { () -> [String] in
      try (0..<2).map { _ in
        do {
          return try select {
            failing.onNext { $0 == nil ? "end" : "element" }
            never.onReceive { _ in "never" }
          }
        } catch is Failure {
          return "failure"
        }
      }
    }.get()
    #expect(endings == ["failure", "end"])
    let elements = AsyncGenerator<Int> { yield in for number in 1...2 { try yield(number) } }
    var all: [Int?] = []
    for _ in 1...3 {
      all.append(
        try await select {
          elements.onNext { $0 }
          never.onReceive { $0 }
        })
    }
    #expect(all == [1, 2, nil])
  }

  @Test func aCaseMadeOnceIsUsedAgain() async throws {
    let all = try await serially { () -> [Int?] in
      let numbers = AsyncGenerator<Int> { yield in for number in 1...4 { try yield(number) } }
      let never = Channel<Int?>()
      let cases: [any SelectCase<Int?>] = [numbers.onNext { $0 }, never.onReceive { $0 }]
      // The body is never ahead by more than one.
      return try (1...5).map { _ in try select(cases) }
    }
    #expect(all == [1, 2, 3, 4, nil])
  }

  @Test func selectsOnAGeneratorRaceAndEachElementComesOnce() async throws {
    let count = amount(2_000, sanitized: 200)
    let numbers = AsyncGenerator<Int> { yield in for number in 0..<count { try yield(number) } }
    let other = Channel<Void>(capacity: .unbounded)
    let takers = (0..<3).map { _ in
      Coroutine { () -> [Int] in
        var all: [Int] = []
        var isAtEnd = false
        while !isAtEnd {
          try select {
            numbers.onNext { number in if let number { all.append(number) } else { isAtEnd = true } }
            other.onReceive { _ in }
          }
        }
        return all
      }
    }
    let sender = Coroutine { for _ in 0..<count { try other.send(()) } }
    var all: [Int] = []
    for taker in takers { all += try await taker.get() }
    try await sender.get()
    #expect(all.sorted() == Array(0..<count))
  }

  // MARK: Broadcasts

  @Test func aSelectSendsToAllOrToNobody() async throws {
    let log = Log()
    try await serially {
      let (prices, stop) = (BroadcastChannel<Int>(capacity: 1), Channel<Void>())
      let (first, second) = (prices.subscribe(), prices.subscribe())
      let send: @Sendable (Int) throws -> Void = { price in
        try select {
          prices.onSend(price) { log.add("sent \(price)") }
          stop.onReceive { _ in log.add("stopped") }
        }
      }
      try send(1)
      let stopped = Coroutine { try send(2) }
      Coroutine.yield()
      log.add("\(stopped.suspension?.waitsFor.contains("broadcast") == true)")
      try stop.send(())
      try stopped.get()
      log.add("\(try first.receive()) \(try second.receive())")
      let waiting = Coroutine { try send(3) }
      let other = Coroutine { try send(4) }
      Coroutine.yield()
      log.add("\(try first.receive()) \(try second.receive())")
      try waiting.get()
      log.add("\(try first.receive()) \(try second.receive())")
      try other.get()
      prices.close()
      do { try send(5) } catch let error as ChannelClosed<Int> { log.add("closed: \(error.unsent ?? 0)") }
    }
    #expect(
      log.all == ["sent 1", "true", "stopped", "1 1", "sent 3", "3 3", "4 4", "sent 4", "closed: 5"])
    let prices = BroadcastChannel<Int>()
    let updates = prices.subscribe()
    #expect(try await select { prices.onSend(6) { "sent" } } == "sent")
    #expect(try await updates.receive() == 6)
  }

  @Test func sendsOfSelectsRaceAndEachElementComesOnce() async throws {
    let count = amount(1_000, sanitized: 100)
    let (numbers, other) = (BroadcastChannel<Int>(capacity: 2), Channel<Int>())
    let reader = numbers.subscribe()
    let sender = Coroutine { () -> Int in
      var sentElsewhere = 0
      for number in 0..<count {
        try select {
          numbers.onSend(number)
          other.onSend(number) { sentElsewhere += 1 }
        }
      }
      numbers.close()
      other.close()
      return sentElsewhere
    }
    let here = Coroutine { Array(reader.received) }
    let there = Coroutine { Array(other.received) }
    let elsewhere = try await sender.get()
    let (read, received) = (try await here.get(), try await there.get())
    #expect(received.count == elsewhere && (read + received).sorted() == Array(0..<count))
  }

  // MARK: In async code

  @Test func anAsyncSelectTakesAMutexAndGivesItBack() async throws {
    let (mutex, stop) = (CoroutineMutex(1), Channel<Void>(capacity: .buffered(1)))
    let first = try await select {
      mutex.onLock { value -> Int in
        await Task.yield()
        value += 1
        return value
      }
      stop.onReceive { _ in 0 }
    }
    #expect(first == 2)
    // While another holds it the select waits, or chooses another case.
    let (isHeld, release) = (Channel<Void>(), Channel<Void>())
    let holder = Coroutine {
      try mutex.withLock { _ in
        try isHeld.send(())
        try release.receive()
      }
    }
    try await isHeld.receive()
    let waiting = Task {
      try await select {
        mutex.onLock { value in value }
        stop.onReceive { _ in 0 }
      }
    }
    while mutex.storage.waiterCount == 0 { await Task.yield() }
    try await stop.send(())
    #expect(try await waiting.value == 0)
    let other = Task { try await select { mutex.onLock { value in value } } }
    while mutex.storage.waiterCount == 0 { await Task.yield() }
    try await release.send(())
    #expect(try await other.value == 2)
    try await holder.get()
    #expect(mutex.withLockIfAvailable { $0 } == 2)
  }

  @Test func aChildIsStartedFromAsyncCode() async throws {
    struct Failure: Error {}
    let stop = Channel<Void>()
    let log = Log()
    try await withScope { scope in
      let value = try await scope.start(name: "server") { ready in
        ready(7)
        try stop.receive()
        log.add("stopped")
      }
      log.add("\(value)")
      let failing: @Sendable (ReadySignal<Int>) throws -> Void = { _ in throw Failure() }
      do { _ = try await scope.start(failing) } catch { log.add("\(type(of: error))") }
      do { _ = try await scope.start { (_: ReadySignal<Int>) in } } catch { log.add("\(type(of: error))") }
      try await stop.send(())
    }
    #expect(log.all == ["7", "Failure", "ChildNotReady", "stopped"])
  }

  @Test func aTaskThatIsCancelledCancelsTheChildThatItStarts() async throws {
    let never = Channel<Int>()
    let hasBegun = Channel<Void>()
    let starter = Task {
      try await withScope { scope in
        try await scope.start { (_: ReadySignal<Int>) in
          try hasBegun.send(())
          _ = try never.receive()
        }
      }
    }
    try await hasBegun.receive()
    starter.cancel()
    await #expect(throws: CancellationError.self) { try await starter.value }
  }
}
