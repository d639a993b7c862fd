import CoroutineTestSupport
import Dispatch
import Foundation
import Synchronization
import Testing

@testable import Coroutine

/// Work for whose end no caller waits.
final class UnansweredWork: BlockingWork {
  private let body: @Sendable () -> Void
  init(_ body: @escaping @Sendable () -> Void) { self.body = body }
  func perform(_ refusal: ThreadRefused?) { body() }
  var isWanted: Bool { true }
}

@Suite(.ownThreads, .timeLimit(.minutes(30))) struct BlockingTests {
  struct Problem: Error {}

  @Test func theWorkRunsOnAThreadWithoutACoroutine() async throws {
    let coroutine = Coroutine { () throws -> (UInt64?, UInt64?) in
      let inside = try blocking { Coroutine.currentID }
      return (inside, Coroutine.currentID)
    }
    let (inside, after) = try await coroutine.get()
    #expect(inside == nil)
    #expect(after == coroutine.id)
  }

  @Test func aThreadMayStayForTheLongestTimeThereIs() async throws {
    let pool = BlockingPool(threadLimit: 1, idleTime: Duration(attoseconds: .max))
    for number in 1...3 { #expect(try await Coroutine { try blocking(on: pool) { number } }.get() == number) }
    #expect(pool.threadCount == 1)
  }

  @Test func whatItThrowsComesOut() async throws {
    let caught = try await Coroutine { () -> Bool in
      do {
        try blocking { throw Problem() }
        return false
      } catch {
        return error is Problem
      }
    }.get()
    #expect(caught)
    await #expect(throws: Problem.self) { try await blocking { throw Problem() } }
    #expect(try await blocking { 3 } == 3)
  }

  /// What JSONSerialization and FileManager return, of which the caller has the only reference.
  @Test func itReturnsWhatIsNotSendable() async throws {
    final class Reply { var words = ["a"] }
    let words = try await Coroutine {
      let reply = try blocking { Reply() }
      reply.words.append("b")
      let anything: Any = try blocking { () -> Any in Reply().words }
      return reply.words + (anything as? [String] ?? [])
    }.get()
    #expect(words == ["a", "b", "a"])
    let reply = try await blocking { Reply() }
    #expect(reply.words == ["a"])
    await #expect(throws: Problem.self) { try await blocking { () -> Reply in throw Problem() } }
  }

  @Test func onAPlainThreadItIsACall() throws {
    let thread = pthread_self()
    #expect(try blocking { pthread_equal(pthread_self(), thread) != 0 })
  }

  /// Work that blocks until the last piece of it has begun: with fewer threads than pieces it would never end.
  @Test func thePoolGoesOnMeanwhile() async throws {
    let serial = ThreadPool(threads: 1)
    let threads = BlockingPool(threadLimit: 8)
    let gates = (0..<8).map { _ in Gate() }
    let all = Coroutine(on: serial) {
      let waiting = gates.map { gate in Coroutine { try blocking(on: threads) { gate.pass() } } }
      // The only thread of the pool is free while all eight pieces block.
      Coroutine.yield()
      for gate in gates { gate.open() }
      for coroutine in waiting { try coroutine.get() }
    }
    try await all.get()
  }

  @Test func aThousandSlowReadsTakeNoMoreThreadsThanAllowed() async throws {
    let threads = BlockingPool(threadLimit: 4)
    let now = Holder(Atomic<Int>(0))
    let most = Holder(Atomic<Int>(0))
    let reads = (0..<1_000).map { _ in
      Coroutine {
        try blocking(on: threads) { () throws -> Int in
          let running = now.value.add(1, ordering: .relaxed).newValue
          most.value.max(running, ordering: .relaxed)
          defer { now.value.subtract(1, ordering: .relaxed) }
          return try Data(contentsOf: URL(fileURLWithPath: "/proc/self/stat")).count
        }
      }
    }
    for read in reads { #expect(try await read.get() > 0) }
    #expect(most.value.load(ordering: .relaxed) <= 4)
    #expect(threads.threadCount <= 4)
  }

  @Test func whatExceedsTheLimitRunsInOrder() async throws {
    let threads = BlockingPool(threadLimit: 1)
    let log = Log()
    let gate = Gate()
    try await Coroutine(on: ThreadPool(threads: 1)) {
      let all = (0..<100).map { number in
        Coroutine {
          try blocking(on: threads) {
            if number == 0 { gate.pass() }
            log.add("\(number)")
          }
        }
      }
      Coroutine.yield()
      gate.open()
      for coroutine in all { try coroutine.get() }
    }.get()
    #expect(log.all == (0..<100).map { "\($0)" })
  }

  @Test func aHigherLimitLetsWaitingWorkBegin() async throws {
    let threads = BlockingPool(threadLimit: 1)
    let first = Gate()
    let blocked = Coroutine { try blocking(on: threads) { first.pass() } }
    while threads.threadCount == 0 { await Task.yield() }
    // Waits for a thread, and has to run before the first one can end.
    let second = Coroutine { try blocking(on: threads) { first.open() } }
    threads.threadLimit = 2
    try await second.get()
    try await blocked.get()
    threads.threadLimit = 1
    #expect(try await blocking(on: threads) { 1 } == 1)
  }

  @Test func cancelledWorkIsNotWaitedForAndNotBegun() async throws {
    let threads = BlockingPool(threadLimit: 1)
    let gate = Gate()
    let log = Log()
    let (begun, begin) = AsyncStream<Void>.makeStream()
    let first = Coroutine {
      try blocking(on: threads) {
        begin.yield()
        gate.pass()
        log.add("first")
      }
    }
    for await _ in begun { break }
    let second = Coroutine { try blocking(on: threads) { log.add("second") } }
    first.cancel()
    second.cancel()
    await #expect(throws: CancellationError.self) { try await first.get() }
    await #expect(throws: CancellationError.self) { try await second.get() }
    gate.open()
    try await blocking(on: threads) { log.add("third") }
    #expect(log.all == ["first", "third"])
  }

  @Test func aCancelledTasksWorkIsNotWaitedForAndNotBegun() async throws {
    let threads = BlockingPool(threadLimit: 1)
    let log = Log()
    let gate = Gate()
    let (begun, begin) = AsyncStream<Void>.makeStream()
    let first = Task {
      try await blocking(on: threads) {
        begin.yield()
        gate.pass()
        log.add("first")
      }
    }
    for await _ in begun { break }
    let second = Task { try await blocking(on: threads) { log.add("second") } }
    second.cancel()
    first.cancel()
    // Both, while the thread is still taken.
    await #expect(throws: CancellationError.self) { try await first.value }
    await #expect(throws: CancellationError.self) { try await second.value }
    gate.open()
    try await blocking(on: threads) { log.add("third") }
    #expect(log.all == ["first", "third"])
  }

  @Test func idleThreadsEnd() async throws {
    weak var gone: BlockingPool?
    do {
      let threads = BlockingPool(threadLimit: 4, idleTime: .zero)
      gone = threads
      for _ in 0..<50 { #expect(try await blocking(on: threads) { 1 } == 1) }
      while threads.threadCount > 0 { await Task.yield() }
    }
    // Each thread keeps the pool alive.
    while gone != nil { await Task.yield() }
  }

  /// A thread may stay for long without work, and what the last piece owned must not stay with it.
  @Test func aThreadLetsGoOfItsWorkBeforeItWaitsForMore() async throws {
    final class Owned: Sendable {
      func use() {}
    }
    let threads = BlockingPool(threadLimit: 1, idleTime: .seconds(3600))
    weak var owned: Owned?
    do {
      let object = Owned()
      owned = object
      try await blocking(on: threads) { object.use() }
      try await Coroutine { [object] in try blocking(on: threads) { object.use() } }.get()
    }
    while owned != nil { await Task.yield() }
    #expect(threads.threadCount == 1)
  }

  @Test func suspendingInTheWorkTrapsByName() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      try await Coroutine { try blocking { Coroutine.yield() } }.get()
    }
    let text = result.map { String(decoding: $0.standardErrorContent, as: UTF8.self) } ?? ""
    #expect(text.contains("no coroutine runs here"))
  }

  @Test func impossibleSizesAndTimesTrap() async {
    let exit1 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      _ = BlockingPool(threadLimit: 0)
    }
    #expect(standardError(of: exit1).contains("a BlockingPool needs at least one thread, not 0"))
    let exit2 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      BlockingPool(threadLimit: 1).idleTime = .seconds(-1)
    }
    #expect(standardError(of: exit2).contains("a BlockingPool's threads can't stay for a negative time"))
  }

  /// Though the queue still has a place for it: its turn may be far away.
  @Test func cancelledWorkLetsGoOfWhatItCaptured() async throws {
    final class Captured: Sendable {}
    let (threads, gate) = (BlockingPool(threadLimit: 1), Gate())
    let first = Coroutine { try blocking(on: threads) { gate.pass() } }
    while threads.threadCount == 0 { await Task.yield() }
    for isTask in [false, true] {
      weak var captured: Captured?
      let cancel: () -> Void
      let result: () async throws -> Void
      do {
        let object = Captured()
        captured = object
        if isTask {
          let task = Task { try await blocking(on: threads) { withExtendedLifetime(object) {} } }
          while threads.waitingCount == 0 { await Task.yield() }
          cancel = { task.cancel() }
          result = { try await task.value }
        } else {
          let coroutine = Coroutine { try blocking(on: threads) { withExtendedLifetime(object) {} } }
          while threads.waitingCount == 0 { await Task.yield() }
          cancel = { coroutine.cancel() }
          result = { try await coroutine.get() }
        }
      }
      cancel()
      await #expect(throws: CancellationError.self) { try await result() }
      while captured != nil { await Task.yield() }
      #expect(threads.waitingCount == 0)
    }
    gate.open()
    try await first.get()
  }

  @Test func aLowerLimitHoldsForIdleThreadsToo() async throws {
    let threads = BlockingPool(threadLimit: 2, idleTime: .seconds(3600))
    let (gates, log) = ([Gate(), Gate()], Log())
    let begun = Channel<Int>(capacity: .unbounded)
    let first = gates.indices.map { number in
      Coroutine {
        try blocking(on: threads) {
          _ = begun.trySend(number)
          gates[number].pass()
        }
      }
    }
    _ = try await [begun.receive(), begun.receive()]
    for gate in gates { gate.open() }
    for coroutine in first { try await coroutine.get() }
    threads.threadLimit = 1
    let gate = Gate()
    let queue = DispatchQueue(label: "serial")
    let second = (0..<2).map { number in
      Coroutine(on: queue) {
        try blocking(on: threads) {
          log.add("\(number) begins")
          if number == 0 { gate.pass() }
          log.add("\(number) ends")
        }
      }
    }
    while second.contains(where: { $0.suspension == nil }) { await Task.yield() }
    gate.open()
    for coroutine in second { try await coroutine.get() }
    #expect(log.all == ["0 begins", "0 ends", "1 begins", "1 ends"])
  }

  @Test func aQueueKeepsItsOrder() {
    var queue = FIFOQueue<Int>()
    var expected: [Int] = []
    var taken: [Int] = []
    for round in 0..<200 {
      for offset in 0..<(round % 7) {
        queue.append(round * 10 + offset)
        expected.append(round * 10 + offset)
      }
      for _ in 0..<(round % 5) { if let next = queue.popFirst() { taken.append(next) } }
    }
    while let next = queue.popFirst() { taken.append(next) }
    #expect(taken == expected)
    #expect(queue.isEmpty)
  }

  @Test func aQueueLetsGoOfAWaveAndRemovesWhatIsUnwanted() {
    var queue = FIFOQueue<Int>()
    for number in 0..<10_000 { queue.append(number) }
    for number in 0..<10 { #expect(queue.popFirst() == number) }
    #expect(queue.removeAll { $0 % 2 == 0 } == Array(stride(from: 10, to: 10_000, by: 2)))
    #expect(queue.count == 4_995)
    for number in stride(from: 11, to: 10_000, by: 2) { #expect(queue.popFirst() == number) }
    #expect(queue.isEmpty && queue.popFirst() == nil && queue.capacity <= 1024)
    queue.append(1)
    #expect(queue.popFirst() == 1)
  }

  @Test func itSaysWhatItWaitsFor() async throws {
    let gate = Gate()
    let coroutine = Coroutine { try blocking { gate.pass() } }
    // Until then its thread has not begun the work.
    while coroutine.suspension?.waitsFor != "work that blocks a thread" { sched_yield() }
    #expect(coroutine.suspension?.reason == .blocking)
    gate.open()
    try await coroutine.get()
  }

  @Test func itSaysThatItWaitsForAThread() async throws {
    let threads = BlockingPool(threadLimit: 1)
    let (first, second) = (Gate(), Gate())
    let working = Coroutine { try blocking(on: threads) { first.pass() } }
    while working.suspension?.waitsFor != "work that blocks a thread" { sched_yield() }
    let queued = Coroutine { try blocking(on: threads) { second.pass() } }
    while queued.suspension == nil { sched_yield() }
    #expect(queued.suspension?.waitsFor == "a thread for work that blocks")
    first.open()
    while queued.suspension?.waitsFor != "work that blocks a thread" { sched_yield() }
    second.open()
    try await working.get()
    try await queued.get()
  }

  @Test func aPoolWhoseThreadsAreAllStuckSaysSoOnce() async {
    let exit = await #expect(processExitsWith: .success, observing: [\.standardErrorContent]) {
      let threads = BlockingPool(threadLimit: 1, idleTime: .zero, name: "the only one", standstillTime: .zero)
      let gate = Gate()
      // The first piece takes the thread, and the others wait.
      for _ in 0..<3 { threads.submit(UnansweredWork { gate.pass() }) }
      gate.open()
    }
    let text = exit.map { String(decoding: $0.standardErrorContent, as: UTF8.self) } ?? ""
    let told = "the only one has given out all of its threads (1), and none has become free for "
    #expect(text.components(separatedBy: told).count == 2, "\(text)")
  }

  /// What waits may be all the work that there will ever be.
  @Test func aPoolWhoseThreadsAreAllStuckNeedsNoMoreWorkToSaySo() async {
    await #expect(processExitsWith: .success) {
      // If nothing is said it ends here.
      alarm(600)
      var ends: [CInt] = [0, 0]
      guard pipe(&ends) == 0, dup2(ends[1], STDERR_FILENO) == STDERR_FILENO else { exit(1) }
      let threads = BlockingPool(
        threadLimit: 1, idleTime: .zero, name: "the only one", standstillTime: .milliseconds(20))
      let gate = Gate()
      for _ in 0..<2 { threads.submit(UnansweredWork { gate.pass() }) }
      var text = [UInt8](repeating: 0, count: 4096)
      let count = read(ends[0], &text, text.count)
      gate.open()
      let told = "the only one has given out all of its threads (1), and none has become free for "
      exit(String(decoding: text.prefix(max(0, count)), as: UTF8.self).hasPrefix(told) ? 0 : 1)
    }
  }
}
