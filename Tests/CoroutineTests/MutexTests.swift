import CCoroutine
import CoroutineTestSupport
import Dispatch
import Synchronization
import Testing

@testable import Coroutine

@Suite(.ownThreads) struct MutexTests {
  struct Problem: Error {}

  @Test func theHolderKeepsItAcrossSuspensionsAndWaitersAreServedInOrder() async throws {
    let log = Log()
    try await serially {
      let mutex = CoroutineMutex(0, name: "counter")
      let gate = Channel<Void>()
      let all = (0..<3).map { number in
        Coroutine {
          try mutex.withLock { value in
            log.add("\(number) has \(value)")
            if number == 0 { try gate.receive() }
            Coroutine.yield()
            value += 1
            log.add("\(number) leaves \(value)")
          }
        }
      }
      Coroutine.yield()
      log.add("open")
      try gate.send(())
      for coroutine in all { try coroutine.get() }
      try mutex.withLock { log.add("\($0) at the end") }
    }
    #expect(
      log.all == [
        "0 has 0", "open", "0 leaves 1", "1 has 1", "1 leaves 2", "2 has 2", "2 leaves 3", "3 at the end",
      ])
  }

  @Test func noCallerOvertakesAWaiter() async throws {
    let log = Log()
    try await serially {
      let mutex = CoroutineMutex(name: "m")
      let waiter = try mutex.withLock {
        let waiter = Coroutine { try mutex.withLock { log.add("waiter") } }
        Coroutine.yield()
        return waiter
      }
      // The mutex has passed to the waiter already, though the waiter has not run.
      log.add("\(mutex.withLockIfAvailable { 1 } as Int?)")
      try mutex.withLock { log.add("again") }
      try waiter.get()
    }
    #expect(log.all == ["nil", "waiter", "again"])
  }

  @Test func anExchangeTakesTheValueOutAndPutsAnotherIn() async throws {
    let log = Log()
    let mutex = CoroutineMutex([1], name: "m")
    try await serially {
      log.add("\(try mutex.exchange(with: [2]))")
      let waiter = try mutex.withLock { _ in
        let waiter = Coroutine { try mutex.exchange(with: [3]) }
        Coroutine.yield()
        log.add("\(waiter.state)")
        return waiter
      }
      log.add("\(try waiter.get())")
      let go = Channel<Int>()
      let holder = Coroutine { try mutex.withLock { _ in _ = try go.receive() } }
      Coroutine.yield()
      log.add(outcome { _ = try mutex.exchange(with: [4], timeout: .zero) })
      try go.send(1)
      try holder.get()
    }
    #expect(log.all == ["[1]", "suspended", "[2]", "timed out"])
    #expect(try await mutex.exchange(with: []) == [3])
  }

  @Test func manyCoroutinesTasksAndThreadsCountRight() async throws {
    let mutex = CoroutineMutex(0)
    let coroutines = (0..<8).map { _ in
      Coroutine {
        for round in 0..<1_000 {
          try mutex.withLock { value in
            let before = value
            if round.isMultiple(of: 50) { Coroutine.yield() }
            value = before + 1
          }
        }
      }
    }
    let tasks = (0..<4).map { _ in
      Task {
        for round in 0..<500 {
          try await mutex.withLock { value in
            let before = value
            if round.isMultiple(of: 50) { await Task.yield() }
            value = before + 1
          }
        }
      }
    }
    let tries = Task.detached {
      var count = 0
      for _ in 0..<500 where mutex.withLockIfAvailable({ $0 += 1 }) != nil { count += 1 }
      return count
    }
    for coroutine in coroutines { try await coroutine.get() }
    for task in tasks { try await task.value }
    let expected = await 10_000 + tries.value
    #expect(try await mutex.withLock { $0 } == expected)
  }

  @Test func aWaiterThatIsCancelledOrLateLeavesTheQueue() async throws {
    let log = Log()
    try await serially {
      let mutex = CoroutineMutex(name: "m")
      try mutex.withLock {
        let cancelled = Coroutine { log.add(outcome { try mutex.withLock { log.add("in") } }) }
        let late = Coroutine { log.add(outcome { try mutex.withLock(timeout: .milliseconds(1)) { log.add("in") } }) }
        let impatient = Coroutine { log.add(outcome { try mutex.withLock(timeout: .zero) { log.add("in") } }) }
        let patient = Coroutine { log.add(outcome { try mutex.withLock(timeout: .seconds(3600)) { log.add("in") } }) }
        try impatient.get()
        try late.get()
        cancelled.cancel()
        try cancelled.get()
        log.add("\(patient.isFinished)")
      }
      try mutex.withLock { log.add("free") }
    }
    #expect(log.all == ["timed out", "timed out", "cancelled", "false", "in", "done", "free"])
  }

  @Test func aCancelledCallerDoesNotGetAFreeOneAndAnErrorGivesItBack() async throws {
    let log = Log()
    try await serially {
      let mutex = CoroutineMutex(1)
      let coroutine = Coroutine {
        withCancellationShield { Coroutine.yield() }
        log.add(outcome { try mutex.withLock { _ in log.add("in") } })
        log.add(outcome { try withCancellationShield { try mutex.withLock { _ in throw Problem() } } })
      }
      Coroutine.yield()
      coroutine.cancel()
      try coroutine.get()
      log.add(outcome { try mutex.withLock { log.add("\($0)") } })
    }
    #expect(log.all == ["cancelled", "Problem()", "1", "done"])
  }

  @Test func aCancelledTaskLeavesTheQueue() async throws {
    let mutex = CoroutineMutex(0)
    let isHeld = Channel<Void>()
    let gate = Channel<Void>()
    let holder = Task {
      try await mutex.withLock { value in
        try await isHeld.send(())
        try await gate.receive()
        value += 1
      }
    }
    try await isHeld.receive()
    let waiter = Task { try await mutex.withLock { $0 += 10 } }
    waiter.cancel()
    await #expect(throws: CancellationError.self) { try await waiter.value }
    await #expect(throws: TimeoutError.self) { try await mutex.withLock(timeout: .zero) { $0 += 100 } }
    await #expect(throws: TimeoutError.self) { try await mutex.withLock(timeout: .milliseconds(1)) { $0 += 100 } }
    try await gate.send(())
    try await holder.value
    #expect(try await mutex.withLock { $0 } == 1)
  }

  @Test func aCancelRacesWithAHandOverAndTheMutexIsNeverLost() async throws {
    for _ in 0..<2_000 {
      let mutex = CoroutineMutex(0)
      let holder = Coroutine { try mutex.withLock { _ in Coroutine.yield() } }
      let waiter = Coroutine { try mutex.withLock { $0 += 1 } }
      let after = Coroutine { try mutex.withLock { $0 += 10 } }
      async let _: Void = waiter.cancel()
      try await holder.get()
      let wasIn = (try? await waiter.get()) != nil
      try await after.get()
      #expect(try await mutex.withLock { $0 } == (wasIn ? 11 : 10))
    }
  }

  @Test func aHundredThousandWaitsThatWereEndedLeaveNothingBehind() async throws {
    let mutex = CoroutineMutex(0)
    try await serially {
      try mutex.withLock { _ in
        for round in 0..<amount(1_000, sanitized: 100) {
          let waiters = (0..<100).map { number in
            Coroutine {
              _ = outcome { try mutex.withLock(timeout: number < 50 ? .zero : nil) { $0 += 1 } }
            }
          }
          Coroutine.yield()
          for waiter in waiters { waiter.cancel() }
          for waiter in waiters { try waiter.get() }
          if round == 500 { Coroutine.yield() }
        }
      }
      // The first exchange clears what the waiters have left in the word.
      for _ in 0..<2 { try mutex.withLock { $0 += 1 } }
    }
    #expect(mutex.withLockIfAvailable { $0 } == 2)
    #expect(mutex.storage.waiterCount == 0)
  }

  @Test func aValueThatCannotBeCopiedIsGuardedAndReleased() async throws {
    struct Ticket: ~Copyable {
      let number: Int
      static let live = Atomic<Int>(0)
      init(_ number: Int) {
        self.number = number
        Ticket.live.add(1, ordering: .relaxed)
      }
      deinit { Ticket.live.subtract(1, ordering: .relaxed) }
    }
    try await serially {
      let mutex = CoroutineMutex(Ticket(1))
      try mutex.withLock { ticket in
        Coroutine.yield()
        ticket = Ticket(ticket.number + 1)
      }
      #expect(try mutex.withLock { $0.number } == 2)
    }
    #expect(Ticket.live.load(ordering: .relaxed) == 0)
  }

  @Test func bothMutexesCanBeUsedInOneFile() async throws {
    let ours = CoroutineMutex(1)
    let theirs = Mutex(1)
    try await ours.withLock { $0 += 1 }
    theirs.withLock { $0 += 1 }
    #expect(try await ours.withLock { $0 } == 2 && theirs.withLock { $0 } == 2)
  }

  /// As the README has it. Inlined into the loop below, with optimisation, it would take one thread for another.
  final class Hits: Sendable {
    private let count = Mutex(0)
    var all: Int { count.withLock { $0 } }
    @inline(never) func add() { count.withLock { $0 += 1 } }
  }

  @Test(.disabled(if: coroutine_sanitizers_active(), "ThreadSanitizer does not know what their lock does"))
  func theirsIsLockedInAFunctionOfItsOwnBetweenSuspensions() async throws {
    let hits = Hits()
    let (coroutines, rounds) = (8, 20_000)
    let all = (0..<coroutines).map { _ in
      Coroutine(on: .pool) {
        for _ in 0..<rounds {
          Coroutine.yield()
          hits.add()
        }
      }
    }
    for coroutine in all { try await coroutine.get() }
    #expect(hits.all == coroutines * rounds)
  }

  @Test func aDumpNamesTheOwnerOfWhatACoroutineWaitsFor() async throws {
    let mutex = CoroutineMutex(0, name: "accounts")
    let lock = ReadWriteLock(0, name: "routes")
    let once = Once<Int>(name: "settings")
    let gate = Channel<Void>()
    let queue = DispatchQueue(label: "serial")
    let holder = Coroutine(on: queue, name: "writer") {
      try mutex.withLock { _ in
        try lock.withWriteLock { _ in
          try once.get {
            try gate.receive()
            return 1
          }
        }
      }
    }
    let waiters = [
      Coroutine(on: queue) { _ = try mutex.withLock { $0 } },
      Coroutine(on: queue) { _ = try lock.withReadLock { $0 } },
      Coroutine(on: queue) { _ = try once.get { 2 } },
    ]
    try await Coroutine(on: queue) {}.get()
    var reasons: [UInt64: String] = [:]
    try Inspection.visitAll { if $0.state == .suspended { reasons[$0.id] = $0.waitsFor } }
    let by = "by coroutine \(holder.id) \"writer\""
    #expect(
      waiters.map { reasons[$0.id] } == [
        "mutex \"accounts\", held \(by)", "read-write lock \"routes\", held by writer \(by.dropFirst(3))",
        "the value of once \"settings\", made \(by)",
      ])
    #expect(mutex.storage.wakers(.lock) == .coroutine(holder.id))
    #expect(lock.storage.wakers(.lock) == .coroutine(holder.id))
    #expect(once.storage.wakers(.once) == .coroutine(holder.id))
    try await gate.send(())
    for waiter in waiters { try await waiter.get() }
    // The mutex has an owner that is no coroutine.
    let isHeld = Channel<Void>()
    let task = Task {
      try await mutex.withLock { _ in
        try await isHeld.send(())
        try await gate.receive()
      }
    }
    try await isHeld.receive()
    let waiter = Coroutine(on: queue) { try mutex.withLock { $0 } }
    try await Coroutine(on: queue) {}.get()
    try Inspection.visitAll { if $0.state == .suspended { reasons[$0.id] = $0.waitsFor } }
    #expect(reasons[waiter.id] == "mutex \"accounts\", held by async code")
    try await gate.send(())
    try await task.value
    _ = try await waiter.get()
  }

  // MARK: Misuse

  @Test func lockingAgainTrapsWithTheCoroutinesName() async throws {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let mutex = CoroutineMutex(0, name: "accounts")
      func lockTwice() throws {
        try Coroutine(name: "teller") {
          try mutex.withLock { _ in try mutex.withLock { _ in } }
        }.getBlocking()
      }
      try lockTwice()
    }
    let text = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
    #expect(text.contains("\"teller\" locks mutex \"accounts\", which it holds already"))
  }

  @Test func lockingAgainInATaskTraps() async throws {
    let exit1 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let mutex = CoroutineMutex(0)
      try await mutex.withLock { _ in try await mutex.withLock { _ in } }
    }
    #expect(standardError(of: exit1).contains("which it holds already: it would wait for itself for ever"))
  }

  @Test func aNegativeTimeoutIsAsZero() async {
    await #expect(processExitsWith: .success) {
      let mutex = CoroutineMutex(0)
      try await mutex.withLock(timeout: .seconds(-1)) { _ in
        do {
          try await Coroutine { try mutex.withLock(timeout: .seconds(-1)) { $0 = 1 } }.get()
          fatalError("locked")
        } catch is TimeoutError {}
      }
    }
  }

  @Test func lockingOutsideACoroutineTraps() async {
    let exit2 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      func lock() throws { try CoroutineMutex(0).withLock { _ in } }
      try lock()
    }
    #expect(
      standardError(of: exit2).contains(
        "CoroutineMutex.withLock(_:) suspends the running coroutine, but no coroutine runs here"))
  }
}
