import CoroutineTestSupport
import Glibc
import Synchronization
import Testing

@testable import Coroutine

extension HeldScheduler {
  fileprivate static func beginAndRun(_ count: Int, rounds: Int) {
    let scheduler = HeldScheduler()
    for _ in 0..<rounds {
      _ = new(count, on: scheduler)
      scheduler.run(limit: count)
    }
  }
}

/// Debuggers find coroutines that have not begun, even on schedulers that they can't look into.
@Suite(.ownThreads) struct UnstartedCoroutineTests {
  /// How many of these the inspection finds.
  private func found(_ coroutines: [Coroutine<Void, Never>]) throws -> Int {
    let ids = Set(coroutines.map(\.id))
    var count = 0
    try Inspection.visitAll { found in
      if found.state == .new, ids.contains(found.id) { count += 1 }
    }
    return count
  }

  @Test func allAreFoundHoweverManyAndWhicheverHaveBegun() throws {
    let scheduler = HeldScheduler()
    var coroutines = new(1000, on: scheduler)
    #expect(try found(coroutines) == 1000)
    scheduler.run(limit: 300)
    #expect(try found(coroutines) == 700)
    // Between those that wait, and behind them.
    coroutines += new(500, on: scheduler)
    #expect(try found(coroutines) == 1200)
    scheduler.run(limit: 1200)
    #expect(try found(coroutines) == 0)
  }

  @Test func theyAreFoundAfterTheirThreadHasEnded() throws {
    let scheduler = HeldScheduler()
    let coroutines = Guarded<[Coroutine<Void, Never>]>([])
    for _ in 0..<10 {
      PlainThread { coroutines.withLock { $0 += new(10, on: scheduler) } }.join()
    }
    #expect(try found(coroutines.withLock { $0 }) == 100)
    scheduler.run(limit: 100)
    #expect(try found(coroutines.withLock { $0 }) == 0)
  }

  /// It has left the queue, and gets no stack. Its worker shows it until it may end.
  @Test func oneThatIsCancelledIsFoundWhileItsWorkerBeginsIt() throws {
    let pool = ThreadPool(threads: 1)
    let gate = Channel<Void>()
    let runs = Atomic<Bool>(false)
    let mayWait = Atomic<Bool>(false)
    let first = Coroutine(on: pool) {
      runs.store(true, ordering: .releasing)
      while !mayWait.load(ordering: .acquiring) { sched_yield() }
      try gate.receive()
    }
    while !runs.load(ordering: .acquiring) { sched_yield() }
    let cancelled = Coroutine(on: pool) {}
    cancelled.cancel()
    var state: InspectedCoroutine.State?
    try Inspection.visitAll { found in
      if found.id == cancelled.id { state = found.state }
      guard found.id == first.id else { return }
      // The worker is free for the next one now. If it ever shows that one, it does so at once.
      mayWait.store(true, ordering: .releasing)
      let end = ContinuousClock.now + .seconds(600)
      var isShown = false
      while !isShown, ContinuousClock.now < end {
        sched_yield()
        pool.core.visitStarting { isShown = $0.id == cancelled.id }
      }
      #expect(isShown)
    }
    #expect(state == .new)
    #expect(throws: CancellationError.self) { try cancelled.getBlocking() }
    try Coroutine { try gate.send(()) }.getBlocking()
    try first.getBlocking()
  }

  // In processes of their own, as the threads of other tests have slots, too.

  @Test func threadsThatHaveEndedLeaveTheirPlacesToOthers() async {
    await #expect(processExitsWith: .success) {
      func beginOneOfAThread() { PlainThread { HeldScheduler.beginAndRun(1, rounds: 1) }.join() }
      beginOneOfAThread()
      let before = capacity()
      for _ in 0..<100 { beginOneOfAThread() }
      #expect(capacity() == before)
    }
  }

  @Test func placesAreUsedAgainAndAgain() async {
    await #expect(processExitsWith: .success) {
      let growth = PlainThread {
        HeldScheduler.beginAndRun(100, rounds: 10)
        let before = capacity()
        HeldScheduler.beginAndRun(100, rounds: 300)
        return capacity() - before
      }.join()
      #expect(growth == 0)
    }
  }
}

/// How many slots the threads of the process have, as another process would count them.
private func capacity() -> Int {
  guard let layout = UnstartedCoroutines.Layout() else { fatalError("no reflection metadata") }
  // Another test's thread may write the first word.
  func word(_ address: UInt) -> UInt {
    UnsafePointer<Atomic<UInt>>(bitPattern: address)!.pointee.load(ordering: .acquiring)
  }
  var (count, row) = (0, word(layout.rows))
  while row != 0 {
    count += Int(word(row + layout.count))
    row = word(row + layout.next)
  }
  return count
}

private func new(_ count: Int, on scheduler: HeldScheduler) -> [Coroutine<Void, Never>] {
  (0..<count).map { _ in Coroutine(on: scheduler) { () throws(Never) -> Void in } }
}
