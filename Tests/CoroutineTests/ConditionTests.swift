import CoroutineTestSupport
import Testing

@testable import Coroutine

@Suite(.ownThreads) struct ConditionTests {
  @Test func aWaiterGivesTheMutexBackAndHasItAgain() async throws {
    let log = Log()
    try await serially {
      let queue = CoroutineMutex([Int]())
      let notEmpty = Condition(of: queue, name: "not empty")
      let consumer = Coroutine {
        try queue.withLock { items in
          while items.isEmpty {
            log.add("waits")
            try notEmpty.wait(&items)
          }
          log.add("\(items)")
          items.removeFirst()
        }
      }
      Coroutine.yield()
      try queue.withLock { $0.append(1) }
      notEmpty.signal()
      try consumer.get()
      try queue.withLock { log.add("\($0)") }
    }
    #expect(log.all == ["waits", "[1]", "[]"])
  }

  @Test func aBoundedQueueOfManyProducersAndConsumersLosesNothing() async throws {
    let queue = CoroutineMutex([Int]())
    let notEmpty = Condition(of: queue)
    let notFull = Condition(of: queue)
    let producers = (0..<4).map { producer in
      Coroutine {
        for number in 0..<500 {
          try queue.withLock { items in
            try notFull.wait(&items) { $0.count < 3 }
            items.append(producer * 500 + number)
          }
          notEmpty.signal()
        }
      }
    }
    let consumers = (0..<3).map { _ in
      Coroutine {
        var taken: [Int] = []
        for _ in 0..<500 {
          try taken.append(
            queue.withLock { items in
              try notEmpty.wait(&items) { !$0.isEmpty }
              return items.removeFirst()
            })
          notFull.signal()
        }
        return taken
      }
    }
    let task = Task {
      var taken: [Int] = []
      for _ in 0..<500 {
        let next = try await queue.withLock { items in
          try await notEmpty.wait(&items) { !$0.isEmpty }
          return items.removeFirst()
        }
        taken.append(next)
        notFull.signal()
      }
      return taken
    }
    for producer in producers { try await producer.get() }
    var all = try await task.value
    for consumer in consumers { all += try await consumer.get() }
    #expect(all.sorted() == Array(0..<2_000))
  }

  @Test func aSignalWakesTheOldestWaiterAndABroadcastAll() async throws {
    let log = Log()
    try await serially {
      let mutex = CoroutineMutex(name: "m")
      let condition = Condition(of: mutex)
      condition.signal()
      let all = (0..<4).map { number in
        Coroutine {
          try mutex.withLock {
            try condition.wait()
            log.add("\(number)")
          }
        }
      }
      Coroutine.yield()
      condition.signal()
      try all[0].get()
      log.add("one")
      try mutex.withLock { condition.broadcast() }
      for coroutine in all { try coroutine.get() }
    }
    #expect(log.all == ["0", "one", "1", "2", "3"])
  }

  @Test func aCancelledOrLateWaiterThrowsWithTheMutexHeld() async throws {
    let log = Log()
    try await serially {
      let mutex = CoroutineMutex(0)
      let condition = Condition(of: mutex)
      let gate = Channel<Void>()
      let cancelled = Coroutine {
        try mutex.withLock { value in
          log.add(outcome { try condition.wait(&value) })
          log.add("sees \(value), free: \(mutex.withLockIfAvailable { _ in } != nil)")
        }
      }
      Coroutine.yield()
      let holder = Coroutine {
        try mutex.withLock { value in
          try gate.receive()
          value = 5
        }
      }
      Coroutine.yield()
      cancelled.cancel()
      Coroutine.yield()
      // It is cancelled, and waits for the mutex none the less.
      log.add("\(cancelled.isFinished)")
      try gate.send(())
      try holder.get()
      try cancelled.get()
      try mutex.withLock { value in
        log.add(outcome { try condition.wait(&value, timeout: .zero) })
        log.add(outcome { try condition.wait(&value, timeout: .milliseconds(1)) { $0 == 6 } })
        log.add(outcome { try condition.wait(&value, timeout: .zero) { $0 == 5 } })
      }
    }
    #expect(
      log.all == ["false", "cancelled", "sees 5, free: false", "timed out", "timed out", "done"])
  }

  @Test func aCancelledTaskHasTheMutexAgainToo() async throws {
    let mutex = CoroutineMutex(0)
    let condition = Condition(of: mutex)
    let task = Task {
      try await mutex.withLock { value in
        do {
          try await condition.wait(&value)
          return false
        } catch {
          value += 1
          return error is CancellationError && mutex.withLockIfAvailable { _ in } == nil
        }
      }
    }
    while condition.storage.waiterCount == 0 { await Task.yield() }
    task.cancel()
    #expect(try await task.value)
    #expect(try await mutex.withLock { $0 } == 1)
    await #expect(throws: TimeoutError.self) {
      try await mutex.withLock { try await condition.wait(&$0, timeout: .milliseconds(1)) { $0 == 2 } }
    }
  }

  @Test func aCancelRacesWithASignalAndOneWaiterGetsIt() async throws {
    for _ in 0..<1_000 {
      let mutex = CoroutineMutex(0)
      let condition = Condition(of: mutex)
      let waiters = (0..<2).map { _ in
        Coroutine { try mutex.withLock { try condition.wait(&$0) } }
      }
      while condition.storage.waiterCount < 2 { await Task.yield() }
      async let _: Void = waiters[0].cancel()
      condition.signal()
      // One waiter was signalled. If it is the second one, the first one was cancelled.
      let first = (try? await waiters[0].get()) != nil
      if first { condition.signal() }
      try await waiters[1].get()
    }
  }

  @Test func whatTheClosureHasReplacedIsWhatTheOthersSee() async throws {
    try await serially {
      // A closure is passed by a temporary copy, which must get into the mutex and back.
      let mutex = CoroutineMutex<@Sendable () -> Int>({ 1 })
      let condition = Condition(of: mutex)
      let waiter = Coroutine {
        try mutex.withLock { closure in
          closure = { 2 }
          try condition.wait(&closure)
          return closure()
        }
      }
      Coroutine.yield()
      #expect(try mutex.withLock { $0() } == 2)
      try mutex.withLock { $0 = { 3 } }
      condition.signal()
      #expect(try waiter.get() == 3)
    }
  }

  @Test func aValueThatIsNotTheMutexsTraps() async {
    let ended = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      func wait() throws {
        let mutex = CoroutineMutex([1], name: "m")
        let condition = Condition(of: mutex, name: "c")
        try Coroutine {
          try mutex.withLock { items in
            var copy = items
            try condition.wait(&copy, timeout: .zero)
          }
        }.getBlocking()
      }
      try wait()
    }
    #expect(
      standardError(of: ended).contains(
        "condition \"c\" was given another value than that of mutex \"m\": pass what the closure of withLock was given")
    )
  }

  @Test func aTasksValueThatIsNotTheMutexsTraps() async {
    let ended = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let mutex = CoroutineMutex([1], name: "m")
      let condition = Condition(of: mutex, name: "c")
      try await mutex.withLock { items in
        var copy = items
        try await condition.wait(&copy, timeout: .zero)
      }
    }
    #expect(
      standardError(of: ended).contains("condition \"c\" was given another value than that of mutex \"m\""))
  }

  /// Of a mutex's value that is an object: `wait` gets the variable that refers to it, and not what it has.
  final class Account {
    var total = Total()
    var isOpen = false
  }

  struct Total: Sendable {
    var count = 0

    /// An access to a variable of this type as long as `body` runs.
    @inline(never)
    mutating func hold(_ body: () throws -> Void) rethrows {
      try body()
      count += 1
    }

    @inline(never)
    mutating func wait(for condition: Condition<Account>, _ account: inout sending Account) throws {
      try condition.wait(&account, timeout: .seconds(3600))
      count += 1
    }
  }

  @Test func aWaitInsideAnAccessThatBeganWithTheMutexTraps() async {
    let ended = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      func wait() throws {
        let mutex = CoroutineMutex(Account(), name: "m")
        let condition = Condition(of: mutex, name: "c")
        try Coroutine {
          try mutex.withLock { account in try account.total.wait(for: condition, &account) }
        }.getBlocking()
      }
      try wait()
    }
    #expect(standardError(of: ended).contains("argument) that has begun with mutex \"m\" held"))
  }

  @Test func aWaitInsideAnAccessFromBeforeTheLockIsNone() async throws {
    try await serially {
      let mutex = CoroutineMutex(Account())
      let condition = Condition(of: mutex)
      let waiter = Coroutine {
        let own = Account()
        try own.total.hold {
          // At once, then handed over by another holder.
          for _ in 0..<2 {
            try mutex.withLock { account in
              account.total.hold {}
              try condition.wait(&account) { $0.isOpen }
              account.isOpen = false
            }
          }
        }
        return own.total.count
      }
      Coroutine.yield()
      for _ in 0..<2 {
        try mutex.withLock { account in
          account.isOpen = true
          condition.signal()
          Coroutine.yield()
        }
        Coroutine.yield()
      }
      #expect(try waiter.get() == 1)
    }
  }

  /// What the holders before have noted does not count for one that makes the first condition.
  @Test func aConditionThatIsMadeInsideKnowsNothingOfItsHoldersAccesses() async throws {
    try await serially {
      let mutex = CoroutineMutex(1)
      let other = Coroutine { try mutex.withLock { _ in } }
      // So that the mutex is handed over.
      try mutex.withLock { _ in Coroutine.yield() }
      try other.get()
      var own = Total()
      try own.hold {
        try mutex.withLock { value in
          let condition = Condition(of: mutex)
          do { try condition.wait(&value, timeout: .zero) } catch is TimeoutError {}
          do { try condition.wait(&value, timeout: .zero) } catch is TimeoutError {}
        }
      }
    }
  }

  @Test func anAccessThatEndsInsideLeavesTheOthersAgesUnknown() async throws {
    try await serially {
      let mutex = CoroutineMutex(1)
      let condition = Condition(of: mutex)
      let (own, held) = (Account(), Account())
      let numbers = Generator<Int> { yield in
        try held.total.hold { try yield(1) }
        try yield(2)
      }
      try own.total.hold {
        _ = numbers.next()
        try mutex.withLock { value in
          _ = numbers.next()
          do { try condition.wait(&value, timeout: .zero) } catch is TimeoutError {}
        }
      }
      #expect(own.total.count == 1 && held.total.count == 1)
    }
  }

  /// Their own variables are passed where they lie, and so another one is told apart.
  @Test func noTupleOrOptionalTakesThePlaceOfTheMutexs() async throws {
    let tuple = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      try await Coroutine {
        let mutex = CoroutineMutex(([1], 2), name: "m")
        try mutex.withLock { pair in
          var copy = pair
          try Condition(of: mutex).wait(&copy, timeout: .zero)
        }
      }.get()
    }
    #expect(standardError(of: tuple).contains("was given another value than that of mutex \"m\""))
    let optional = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      try await Coroutine {
        let mutex = CoroutineMutex([1] as [Int]?, name: "m")
        try mutex.withLock { value in
          var copy = value
          try Condition(of: mutex).wait(&copy, timeout: .zero)
        }
      }.get()
    }
    #expect(standardError(of: optional).contains("was given another value than that of mutex \"m\""))
  }

  @Test func tuplesAndOptionalsAreGivenBackMeanwhile() async throws {
    try await serially {
      do {
        let mutex = CoroutineMutex<([Int], Int)>(([1], 2))
        let condition = Condition(of: mutex)
        let waiter = Coroutine {
          try mutex.withLock { value in
            try condition.wait(&value)
            return value.0[0] + value.1
          }
        }
        Coroutine.yield()
        try mutex.withLock { $0 = ([3], 4) }
        condition.signal()
        #expect(try waiter.get() == 7)
      }
      do {
        let mutex = CoroutineMutex<[Int]?>(nil)
        let condition = Condition(of: mutex)
        let waiter = Coroutine {
          try mutex.withLock { value in
            try condition.wait(&value)
            return value?.first
          }
        }
        Coroutine.yield()
        try mutex.withLock { $0 = [5] }
        condition.signal()
        #expect(try waiter.get() == 5)
      }
      // With functions in them they are passed by a temporary copy.
      do {
        let mutex = CoroutineMutex<(@Sendable () -> Int, Int)>(({ 1 }, 2))
        let condition = Condition(of: mutex)
        let waiter = Coroutine {
          try mutex.withLock { value in
            try condition.wait(&value)
            return value.0() + value.1
          }
        }
        Coroutine.yield()
        try mutex.withLock { $0 = ({ 3 }, 4) }
        condition.signal()
        #expect(try waiter.get() == 7)
      }
      do {
        let mutex = CoroutineMutex<(@Sendable () -> Int)?>({ 1 })
        let condition = Condition(of: mutex)
        let waiter = Coroutine {
          try mutex.withLock { value in
            try condition.wait(&value)
            return value?()
          }
        }
        Coroutine.yield()
        try mutex.withLock { $0 = { 2 } }
        condition.signal()
        #expect(try waiter.get() == 2)
      }
    }
  }

  @Test func withoutAValueItWaitsForWhatIsTrueElsewhere() async throws {
    let mutex = CoroutineMutex(name: "m")
    let condition = Condition(of: mutex, name: "c")
    #expect(condition.name == "c")
    let (state, log) = (Log(), Log())
    let waiter = Coroutine {
      try mutex.withLock { _ in try condition.wait(until: { state.all == ["ready"] }) }
      log.add("coroutine")
    }
    let task = _Concurrency.Task {
      try await mutex.withLock { _ in try await condition.wait(until: { state.all == ["ready"] }) }
      log.add("task")
    }
    let signalled = _Concurrency.Task {
      try await mutex.withLock { _ in try await condition.wait() }
      log.add("signalled")
    }
    while condition.storage.waiterCount < 3 { await _Concurrency.Task.yield() }
    try await mutex.withLock { _ in
      state.add("ready")
      condition.broadcast()
    }
    try await waiter.get()
    try await task.value
    try await signalled.value
    #expect(log.all.sorted() == ["coroutine", "signalled", "task"])
  }

  @Test func waitingWithoutTheMutexTraps() async {
    let exit1 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      func wait() throws {
        try Coroutine {
          let mutex = CoroutineMutex(name: "m")
          try Condition(of: mutex).wait()
        }.getBlocking()
      }
      try wait()
    }
    #expect(
      standardError(of: exit1).contains("without holding mutex \"m\": call wait inside the closure of its withLock"))
    let exit2 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let mutex = CoroutineMutex(name: "m")
      try await Condition(of: mutex).wait()
    }
    #expect(
      standardError(of: exit2).contains("without holding mutex \"m\": call wait inside the closure of its withLock"))
  }

  /// The values of both would change places before it is found out.
  @Test func aValueIsNotTouchedWithoutTheMutex() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      func wait() throws {
        try Coroutine {
          var mine = [2]
          try Condition(of: CoroutineMutex([1], name: "m")).wait(&mine)
        }.getBlocking()
      }
      try wait()
    }
    #expect(standardError(of: result).contains("without holding mutex \"m\""))
  }

  /// It would give the mutex back in the middle of the body's closure.
  @Test func aBodyThatHasYieldedHoldsAMutexForItself() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      func wait() throws {
        try Coroutine {
          let mutex = CoroutineMutex(name: "m")
          let numbers = Generator<Int> { yield in
            try mutex.withLock { try yield(1) }
          }
          _ = numbers.next()
          try Condition(of: mutex).wait(timeout: .zero)
        }.getBlocking()
      }
      try wait()
    }
    #expect(standardError(of: result).contains("without holding mutex \"m\""))
    let task = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let mutex = CoroutineMutex(name: "m")
      let numbers = Generator<Int> { yield in
        _ = try mutex.withLockIfAvailable { try yield(1) }
      }
      _ = numbers.next()
      try await Condition(of: mutex).wait(timeout: .zero)
    }
    #expect(standardError(of: task).contains("without holding mutex \"m\""))
  }

  @Test func aBodyThatRunsInsideOfAClosureMayWaitInIt() async throws {
    let count = try await Coroutine { () -> Int in
      let mutex = CoroutineMutex(name: "m")
      let condition = Condition(of: mutex)
      return try mutex.withLock { () -> Int in
        let numbers = Generator<Int> { yield in
          for number in 0..<2 {
            try? condition.wait(timeout: .zero)
            try yield(number)
          }
        }
        var count = 0
        while numbers.next() != nil {
          count += 1
          try? condition.wait(timeout: .zero)
        }
        return count
      }
    }.get()
    #expect(count == 2)
  }
}
