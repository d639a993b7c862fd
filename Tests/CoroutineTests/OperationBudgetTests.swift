import CoroutineTestSupport
import Dispatch
import Testing

@testable import Coroutine

/// A coroutine whose operations are always ready lets the others of its thread run.
@Suite(.ownThreads) struct OperationBudgetTests {
  /// More than any budget: for as long as no other coroutine has run.
  private static let many = 100_000

  /// Operations that are always ready.
  enum Operation: CaseIterable {
    case channel, received, unbounded, sendOrReturn, timed, select, semaphore, promise, readLock, broadcast, mutex,
      ended
  }

  @Test(arguments: Operation.allCases) func readyOperationsLetTheOthersRun(_ operation: Operation) throws {
    let perform = Self.make(operation)
    let count = try Coroutine(on: ThreadPool(threads: 1)) { try Self.countUntilAnotherRuns(perform) }.getBlocking()
    #expect(count < 3 * ElementRing<Int>.countInterval)
  }

  @Test func theyLetTheOthersOfAPoolsWorkerRun() throws {
    let pool = ThreadPool(threads: 2)
    // The other worker is kept busy, so that it steals nothing.
    let (isBusy, ends) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    let other = Coroutine(on: pool) {
      isBusy.signal()
      ends.wait()
    }
    isBusy.wait()
    defer { ends.signal() }
    let count = try Coroutine(on: pool) { try Self.countUntilAnotherRuns(Self.make(.channel)) }.getBlocking()
    #expect(count < 3 * ElementRing<Int>.countInterval)
    withExtendedLifetime(other) {}
  }

  @Test func theyLetTheOthersOfAQueueRun() throws {
    let queue = DispatchQueue(label: "budget")
    let count = try Coroutine(on: queue) { try Self.countUntilAnotherRuns(Self.make(.channel)) }.getBlocking()
    #expect(count < 3 * ElementRing<Int>.countInterval)
  }

  @Test func anActorWhoseMailboxIsNeverEmptyLetsTheOthersRun() throws {
    let pool = ThreadPool(threads: 1)
    let handled = try Coroutine(on: pool) {
      let (hasRun, handled) = (Flag(), Counter())
      let actor = MessageActor<Int>(on: pool) { mailbox in
        for _ in mailbox where !hasRun.isSet { handled.add() }
      }
      for number in 1...10_000 { actor.send(number) }
      // Behind the actor, which has its first turn before.
      try Coroutine { hasRun.set() }.get()
      return handled.value
    }.getBlocking()
    #expect(handled < 3 * ElementRing<Int>.countInterval)
  }

  /// Its mailbox is empty whenever it takes a message, and never when it looks for the next one.
  @Test func anActorThatTellsItselfLetsTheOthersRun() throws {
    let pool = ThreadPool(threads: 1)
    let handled = try Coroutine(on: pool) {
      let (hasRun, handled) = (Flag(), Counter())
      let actor = MessageActor<Int>(on: pool) { mailbox in
        for _ in mailbox where !hasRun.isSet && handled.value < Self.many {
          handled.add()
          try mailbox.actor.tell(1)
        }
      }
      try actor.tell(1)
      try Coroutine { hasRun.set() }.get()
      return handled.value
    }.getBlocking()
    #expect(handled < 3 * ElementRing<Int>.countInterval)
  }

  @Test func aCancelledConsumerThatOverlooksItsErrorLetsTheOthersRun() throws {
    let pool = ThreadPool(threads: 1)
    let count = try Coroutine(on: pool) {
      let (hasRun, count) = (Flag(), Counter())
      let generator = AsyncGenerator<Int>(on: pool) { yield in try yield(1) }
      let consumer = Coroutine {
        Coroutine.yield()
        while !hasRun.isSet, count.value < Self.many {
          _ = try? generator.next()
          count.add()
        }
      }
      Coroutine.yield()
      consumer.cancel()
      Coroutine { hasRun.set() }
      try? consumer.join()
      return count.value
    }.getBlocking()
    #expect(count < 3 * ElementRing<Int>.countInterval)
  }

  // MARK: Operations that do not yield

  @Test func whatPassesBesideACountedSlotOfTheBufferCountsOnce() throws {
    let received = try Coroutine(on: ThreadPool(threads: 1)) {
      let channel = Channel<Int>(capacity: .buffered(100))
      // The next slot is one that counts for many.
      for number in 1..<ElementRing<Int>.countInterval {
        try channel.send(number)
        _ = try channel.receive()
        Coroutine.yield()
      }
      let received = Counter()
      let receivers = (0..<10).map { _ in
        Coroutine {
          _ = try channel.receive()
          received.add()
        }
      }
      Coroutine.yield()
      for receiver in receivers { #expect(receiver.state == .suspended) }
      for number in 0..<10 { try channel.send(number) }
      let before = received.value
      for receiver in receivers { try receiver.get() }
      return before
    }.getBlocking()
    #expect(received == 0)
  }

  @Test func noCoroutineYieldsWithoutSuspension() throws {
    let perform = Self.make(.channel)
    let hasRun = Flag()
    try Coroutine(on: ThreadPool(threads: 1)) {
      let other = Coroutine { hasRun.set() }
      try withoutSuspension {
        for _ in 0..<1_000 { try perform() }
        #expect(!hasRun.isSet)
      }
      try other.get()
    }.getBlocking()
  }

  private enum Late {
    static let operation = OperationBudgetTests.make(.channel)
    /// Made by a coroutine while another is ready.
    static let value = OperationBudgetTests.performMany()
  }

  private static func performMany() -> Int {
    for _ in 0..<1_000 { try? Late.operation() }
    return 1
  }

  /// Debug builds trap where one does.
  @Test func noCoroutineYieldsInsideThreadBoundCode() throws {
    let hasRun = Flag()
    try Coroutine(on: ThreadPool(threads: 1)) {
      let other = Coroutine { hasRun.set() }
      #expect(Late.value == 1)
      DispatchQueue(label: "budget").sync { _ = Self.performMany() }
      #expect(!hasRun.isSet)
      try other.get()
    }.getBlocking()
  }

  /// Others of the main actor may use the variable: each such use would trap.
  @MainActor private final class Words {
    var all = ["b", "a", "c"]
    func change(_ body: () -> Void) { Self.change(&all, body) }
    private static func change(_ words: inout [String], _ body: () -> Void) {
      body()
      words.sort()
    }
  }

  @Test func noCoroutineOfTheMainActorYieldsInsideAnAccess() async throws {
    try await Coroutine { @MainActor in
      let words = Words()
      let other = Coroutine { @MainActor in words.all.count }
      words.change { _ = Self.performMany() }
      let count = try other.get()
      #expect(count == 3)
    }.get()
  }

  /// A view of a pool shares no variables: there the budget counts inside an access, too.
  @Test func coroutinesThatShareNothingYieldInsideAnAccess() throws {
    final class Held {
      var count = 0
      func hold(_ body: () throws -> Int) rethrows -> Int { try Self.hold(&count, body) }
      private static func hold(_ count: inout Int, _ body: () throws -> Int) rethrows -> Int {
        count = try body()
        return count
      }
    }
    let view = ThreadPool(threads: 2).limited(to: 1)
    let count = try Coroutine(on: view) {
      try Held().hold { try Self.countUntilAnotherRuns(Self.make(.channel)) }
    }.getBlocking()
    #expect(count < 3 * ElementRing<Int>.countInterval)
  }

  @Test func oneThatIsBegunAtOnceRunsToItsFirstWait() throws {
    let perform = Self.make(.channel)
    let ended = Flag()
    let coroutine = Coroutine.immediate {
      for _ in 0..<1_000 { try perform() }
      ended.set()
    }
    #expect(ended.isSet)
    try coroutine.getBlocking()
  }

  @Test func noCoroutineYieldsWhenNoOtherIsReady() throws {
    let perform = Self.make(.channel)
    try Coroutine(on: ThreadPool(threads: 1)) {
      let worker = try #require(CoroutineCore.current?.pool.flatMap { PoolWorker.current(ofPoolAt: $0) })
      let before = worker.takeUnretainedValue().pickMark
      for _ in 0..<1_000 { try perform() }
      #expect(worker.takeUnretainedValue().pickMark == before)
    }.getBlocking()
  }

  // MARK: -

  /// How many operations the calling coroutine makes until another one, which was launched before, has run.
  private static func countUntilAnotherRuns(_ perform: () throws -> Void) throws -> Int {
    let hasRun = Flag()
    let other = Coroutine { hasRun.set() }
    var count = 0
    while !hasRun.isSet && count < many {
      try perform()
      count += 1
    }
    try other.get()
    return count
  }

  private static func make(_ operation: Operation) -> @Sendable () throws -> Void {
    let channel = Channel<Int>(capacity: .buffered(4))
    switch operation {
    case .channel:
      return {
        try channel.send(1)
        _ = try channel.receive()
      }
    case .received:
      return {
        try channel.send(1)
        _ = channel.received.next()
      }
    case .unbounded:
      let unbounded = Channel<Int>(capacity: .unbounded)
      return { try unbounded.send(1) }
    case .sendOrReturn:
      return {
        _ = channel.send(orReturn: 1)
        _ = channel.tryReceive()
      }
    case .timed:
      return {
        try channel.send(1, timeout: .seconds(60))
        _ = try channel.receive(timeout: .seconds(60))
      }
    case .select:
      return {
        try select {
          channel.onReceive { _ in }
          channel.onSend(1) {}
        }
      }
    case .semaphore:
      let semaphore = Semaphore(permits: 1)
      return { try semaphore.withPermit {} }
    case .promise:
      let promise = Promise(value: 1)
      return { _ = try promise.get() }
    case .readLock:
      let lock = ReadWriteLock(0)
      return { _ = try lock.withReadLock { $0 } }
    case .mutex:
      let mutex = CoroutineMutex(0)
      return { try mutex.withLock { _ in } }
    case .ended:
      let ended = Coroutine { 1 }
      return { _ = try ended.get() }
    case .broadcast:
      let broadcast = BroadcastChannel<Int>(capacity: 4)
      let subscription = broadcast.subscribe()
      return {
        try broadcast.send(1)
        _ = try subscription.receive()
      }
    }
  }
}
