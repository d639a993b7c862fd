import CCoroutine
import Coroutine
import CoroutineTestSupport
import Dispatch
import Synchronization
import Testing

/// A loop without a thread. It counts how often it is woken, and a test runs its jobs.
private final class ToldScheduler: Scheduler {
  let ready = CoroutineJobQueue()
  let tells = Atomic<Int>(0)

  func enqueue(_ job: consuming CoroutineJob) {
    if ready.append(job) { tells.add(1, ordering: .relaxed) }
  }

  var isCurrent: Bool { false }
  var isSerial: Bool { true }
  var told: Int { tells.load(ordering: .relaxed) }
}

/// A loop with one thread or several, each of which sleeps until it is woken.
private final class ThreadScheduler: Scheduler {
  private let ready = CoroutineJobQueue()
  private let isTold = DispatchSemaphore(value: 0)
  private let isStopped = Atomic<Bool>(false)
  private let threads = Guarded<[PlainThread<Void>]>([])

  init(threads count: Int, limit: Int) {
    threads.withLock { threads in
      for _ in 0..<count {
        threads.append(
          PlainThread { [ready, isTold] in
            while true {
              isTold.wait()
              if self.isStopped.load(ordering: .acquiring) { return }
              if ready.run(limit: limit) { isTold.signal() }
            }
          })
      }
    }
  }

  func enqueue(_ job: consuming CoroutineJob) {
    if ready.append(job) { isTold.signal() }
  }

  var isCurrent: Bool { false }
  var isSerial: Bool { true }

  func stop() {
    isStopped.store(true, ordering: .releasing)
    threads.withLock { threads in
      for _ in threads { isTold.signal() }
      for thread in threads { thread.join() }
    }
  }
}

/// The queue of ready coroutines in a program's own scheduler.
@Suite(.ownThreads) struct JobQueueTests {
  @Test func theOwnerIsToldOnceForAllThatBecomeReadyUntilItRuns() throws {
    let loop = ToldScheduler()
    let log = Log()
    for number in 0..<100 { Coroutine(on: loop) { log.add("\(number)") } }
    #expect(loop.told == 1)
    #expect(loop.ready.count == 100)
    #expect(!loop.ready.run(limit: 100))
    #expect(log.all == (0..<100).map { "\($0)" })
    #expect(loop.ready.isEmpty)
    Coroutine(on: loop) {}
    #expect(loop.told == 2)
    #expect(!loop.ready.run())
  }

  @Test func thoseThatWakeEachOtherAreInTheSameRun() throws {
    let loop = ToldScheduler()
    let (there, back) = (Channel<Int>(), Channel<Int>())
    let first = Coroutine(on: loop) {
      for number in 0..<100 {
        try there.send(number)
        #expect(try back.receive() == number)
      }
    }
    Coroutine(on: loop) { for number in there.received { try back.send(number) } }
    while loop.ready.run() {}
    #expect(first.isFinished)
    #expect(loop.told == 1)
    there.close()
    #expect(loop.told == 2)
    _ = loop.ready.run()
  }

  @Test func aRunStopsAtItsLimitAndTellsThatSomeAreLeft() throws {
    let loop = ToldScheduler()
    let log = Log()
    let stops = Guarded(false)
    @Sendable func addAgainAndAgain(_ name: String) {
      while !stops.withLock({ $0 }) {
        log.add(name)
        Coroutine.yield()
      }
    }
    Coroutine(on: loop) { addAgainAndAgain("a") }
    Coroutine(on: loop) { addAgainAndAgain("b") }
    #expect(loop.ready.run(limit: 3))
    #expect(loop.ready.run(limit: 0))
    #expect(log.all == ["a", "b", "a"])
    // The queue's owner has been woken already, so it is not woken again.
    Coroutine(on: loop) { log.add("c") }
    #expect(loop.told == 1)
    #expect(loop.ready.run(limit: 3))
    #expect(log.all == ["a", "b", "a", "b", "a", "c"])
    stops.withLock { $0 = true }
    #expect(!loop.ready.run())
  }

  @Test func aRunWhoseLimitIsJustEnoughHasEndedAndTheNextOneIsTold() throws {
    let loop = ToldScheduler()
    for _ in 0..<5 { Coroutine(on: loop) {} }
    #expect(!loop.ready.run(limit: 5))
    Coroutine(on: loop) {}
    #expect(loop.told == 2)
    #expect(!loop.ready.run(limit: 1))
  }

  @Test func aRunWithoutAWakeSuppressesNoLaterWake() throws {
    let loop = ToldScheduler()
    for _ in 0..<3 { #expect(!loop.ready.run()) }
    Coroutine(on: loop) {}
    #expect(loop.told == 1)
    #expect(!loop.ready.run())
    #expect(!loop.ready.run())
    Coroutine(on: loop) {}
    #expect(loop.told == 2)
    #expect(!loop.ready.run())
  }

  @Test(arguments: [1, 2]) func noneIsLeftBehindWhileOwnersFallAsleep(owners: Int) async throws {
    let loop = ThreadScheduler(threads: owners, limit: 3)
    let ends = WaitGroup()
    let threads = (0..<4).map { _ in
      PlainThread {
        for _ in 0..<500 {
          ends.add()
          Coroutine(on: loop) {
            Coroutine.yield()
            ends.done()
          }
        }
      }
    }
    for thread in threads { thread.join() }
    try await ends.wait()
    loop.stop()
  }

  @Test(.disabled(if: coroutine_sanitizers_active(), "a sanitizer's locks are not free in a child"))
  func aChildOfForkRunsItsOwn() async {
    await #expect(processExitsWith: .success) {
      let end = Child.end {
        let loop = ToldScheduler()
        let gate = Channel<Int>(capacity: .unbounded)
        let sum = Coroutine(on: loop) { try gate.receive() + gate.receive() }
        _ = loop.ready.run()
        _ = gate.trySend(1)
        _ = loop.ready.run()
        _ = gate.trySend(2)
        _ = loop.ready.run()
        return sum.isFinished ? 0 : 3
      }
      #expect(end == .exited(0))
    }
  }

  @Test func droppedWithACoroutineInItItEndsTheProgramByName() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      /// Drops its queue.
      final class DroppingScheduler: Scheduler {
        func enqueue(_ job: consuming CoroutineJob) { _ = CoroutineJobQueue().append(job) }
        var isCurrent: Bool { false }
        var isSerial: Bool { true }
      }
      Coroutine(on: DroppingScheduler(), name: "lost one") {}
    }
    #expect(standardError(of: result).contains("lost one"))
  }

  @Test func aNegativeLimitTraps() async {
    await #expect(processExitsWith: .failure) { _ = CoroutineJobQueue().run(limit: -1) }
  }
}
