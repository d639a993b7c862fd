import CoroutineTestSupport
import Dispatch
import Synchronization
import Testing

@testable import Coroutine

/// Selects on locks and the like, and the select that prefers its first case.
@Suite(.ownThreads) struct SelectSyncTests {
  @Test func aSelectTakesPermitsOrNone() async throws {
    let log = Log()
    try await serially {
      let (semaphore, stop) = (Semaphore(permits: 1), Channel<Void>())
      let choose: @Sendable (Int) throws -> Void = { count in
        try select {
          semaphore.onAcquire(count) { log.add("took \(count)") }
          stop.onReceive { _ in log.add("stopped") }
        }
      }
      try choose(1)
      let waiting = Coroutine { try choose(1) }
      Coroutine.yield()
      semaphore.release()
      try waiting.get()
      // A waiter that wants many permits holds up one that wants few, until its select chooses another case.
      let many = Coroutine { try choose(2) }
      let few = Coroutine { try semaphore.withPermit { log.add("few") } }
      Coroutine.yield()
      semaphore.release()
      Coroutine.yield()
      try stop.send(())
      try many.get()
      try few.get()
      log.add("\(semaphore.available)")
    }
    #expect(log.all == ["took 1", "took 1", "stopped", "few", "1"])
  }

  /// The case for many comes before that for one in the queue, where it holds up other waiters.
  @Test func aSelectIsNotHeldUpByACaseOfItsOwn() async throws {
    let log = Log()
    try await serially {
      let (semaphore, stop) = (Semaphore(permits: 0), Channel<Void>())
      let choosing = Coroutine {
        try selectBiased {
          semaphore.onAcquire(3) { log.add("three") }
          semaphore.onAcquire(2) { log.add("two") }
          semaphore.onAcquire { log.add("one") }
          stop.onNext { _ in log.add("stopped") }
        }
      }
      let next = Coroutine {
        try semaphore.acquire()
        log.add("next")
      }
      Coroutine.yield()
      semaphore.release()
      Coroutine.yield()
      stop.close()
      try choosing.get()
      log.add("\(next.isFinished) \(semaphore.available)")
      semaphore.release()
      try next.get()
      log.add("\(semaphore.available)")
    }
    #expect(log.all == ["one", "false 0", "next", "0"])
  }

  @Test func aSelectTakesAMutexAndGivesItBack() async throws {
    let log = Log()
    try await serially {
      let (mutex, stop) = (CoroutineMutex(1, name: "m"), Channel<Void>())
      let choose: @Sendable () throws -> Void = {
        try select {
          mutex.onLock { value in
            value += 1
            log.add("locked \(value)")
            Coroutine.yield()
          }
          stop.onReceive { _ in log.add("stopped") }
        }
      }
      try choose()
      let release = Channel<Void>()
      let holder = Coroutine { try mutex.withLock { _ in try release.receive() } }
      Coroutine.yield()
      let (first, second) = (Coroutine { try choose() }, Coroutine { try choose() })
      Coroutine.yield()
      log.add("\(first.suspension?.waitsFor.contains("mutex \"m\", held by") == true)")
      try stop.send(())
      try release.send(())
      for coroutine in [holder, first, second] { try coroutine.get() }
      log.add("\(mutex.withLockIfAvailable { $0 } ?? 0) \(mutex.storage.waiterCount)")
    }
    #expect(log.all == ["locked 2", "true", "stopped", "locked 3", "3 0"])
  }

  @Test func aSelectOnAMutexRacesWithItsOwnerAndNoWaiterIsLeft() async throws {
    let mutex = CoroutineMutex(0)
    let count = amount(1_000, sanitized: 100)
    let never = Channel<Void>()
    let all = (0..<4).map { number in
      Coroutine {
        for _ in 0..<count {
          if number.isMultiple(of: 2) {
            try mutex.withLock { $0 += 1 }
          } else {
            try select {
              mutex.onLock { $0 += 1 }
              never.onReceive { _ in }
            }
          }
        }
      }
    }
    for coroutine in all { try await coroutine.get() }
    #expect(mutex.withLockIfAvailable { $0 } == 4 * count)
  }

  @Test func aCancelOfASelectRacesWithAReleaseAndNoPermitIsLost() async throws {
    for _ in 0..<amount(1_000, sanitized: 100) {
      let (semaphore, never) = (Semaphore(permits: 0), Channel<Void>())
      let waiter = Coroutine {
        try select {
          semaphore.onAcquire {}
          never.onReceive { _ in }
        }
      }
      let releaser = Coroutine { semaphore.release() }
      async let _: Void = waiter.cancel()
      try await releaser.get()
      let hasOne = (try? await waiter.get()) != nil
      #expect(semaphore.available == (hasOne ? 0 : 1))
    }
  }

  @Test func aSelectWaitsForAGroup() async throws {
    let log = Log()
    try await serially {
      let group = WaitGroup(count: 1)
      let waiting = Coroutine {
        try select {
          group.onZero { log.add("all done") }
          onTimeout(.seconds(1000)) { log.add("late") }
        }
      }
      Coroutine.yield()
      group.done()
      try waiting.get()
      try select {
        group.onZero { log.add("at once") }
        otherwise {}
      }
      group.add()
      try select {
        group.onZero { log.add("wrong") }
        otherwise { log.add("not yet") }
      }
    }
    #expect(log.all == ["all done", "at once", "not yet"])
    let permits = Semaphore(permits: 1)
    #expect(try await select { permits.onAcquire { 1 } } == 1)
  }

  @Test func aBiasedSelectPrefersItsFirstCase() async throws {
    let log = Log()
    try await serially {
      let (first, second) = (Channel<Int>(capacity: .unbounded), Channel<Int>(capacity: .unbounded))
      for number in 0..<100 {
        try first.send(number)
        try second.send(number)
      }
      var order = ""
      for _ in 0..<200 {
        try selectBiased {
          first.onReceive { _ in order += "1" }
          second.onReceive { _ in order += "2" }
        }
      }
      log.add("\(order == String(repeating: "1", count: 100) + String(repeating: "2", count: 100))")
      // It waits like any select, even with more cases than fit into a word.
      let last = Channel<Int>()
      Coroutine { try last.send(5) }
      let cases: [any SelectCase<Int>] = (0..<20).map { _ in first.onReceive { $0 } } + [last.onReceive { $0 }]
      log.add("\(try selectBiased(cases))")
    }
    #expect(log.all == ["true", "5"])
    let (first, second) = (Channel<Int>(capacity: .buffered(9)), Channel<Int>(capacity: .buffered(9)))
    for number in 0..<9 { for channel in [first, second] { try await channel.send(number) } }
    for _ in 0..<9 {
      let chosen = try await selectBiased {
        first.onReceive { _ in 1 }
        second.onReceive { _ in 2 }
      }
      #expect(chosen == 1)
    }
  }

  @Test func aBiasedSelectOfAnArrayPrefersItsFirst() async throws {
    let lanes = (0..<20).map { _ in Channel<Int>(capacity: .unbounded) }
    for round in 0..<5 { for lane in lanes { _ = lane.trySend(round) } }
    let inOrder = try await Coroutine { () throws -> Bool in
      let chosen = try (0..<5).map { _ in
        try selectBiased(lanes.enumerated().map { index, lane in lane.onReceive { _ in index } })
      }
      return chosen == [0, 0, 0, 0, 0]
    }.get()
    #expect(inOrder)
    // In `async` code: of one kind and of any kinds, with handlers that await and with others.
    for _ in 0..<2 {
      #expect(try await selectBiased(lanes.enumerated().map { index, lane in lane.onReceive { _ in index } }) == 1)
      let any: [any SelectCase<Int>] = [lanes[0].onReceive { _ in 0 }, lanes[1].onReceive { _ in 1 }, otherwise { 2 }]
      #expect(try await selectBiased(any) == 1)
    }
    var awaiting: [Select.AsyncCase<Select.Receive<Int>, Int>] = []
    for (index, lane) in lanes.enumerated() {
      awaiting.append(
        lane.onReceive { _ in
          await Task.yield()
          return index
        })
    }
    #expect(try await selectBiased(awaiting) == 1)
    let awaitingAny: [any AsyncSelectCase<Int>] = awaiting
    #expect(try await selectBiased(awaitingAny) == 2)
  }

  @Test func permitsTakenAwayAreFreeOnesFirstThenReleasedOnes() async throws {
    let log = Log()
    try await serially {
      let semaphore = Semaphore(permits: 3)
      try semaphore.acquire(2)
      semaphore.changePermits(by: -2)
      log.add("\(semaphore.available) \(semaphore.tryAcquire())")
      let waiting = Coroutine { try semaphore.withPermit { log.add("in") } }
      semaphore.release()
      Coroutine.yield()
      log.add("one came back: \(waiting.isFinished)")
      semaphore.release()
      try waiting.get()
      log.add("\(semaphore.available)")
      let more = Coroutine { try semaphore.acquire(3) }
      Coroutine.yield()
      semaphore.changePermits(by: 2)
      try more.get()
      log.add("\(semaphore.available)")
    }
    #expect(log.all == ["0 false", "one came back: false", "in", "1", "0"])
  }
}
