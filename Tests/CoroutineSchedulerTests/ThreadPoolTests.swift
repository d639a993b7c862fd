import CCoroutine
import CoroutineTestSupport
import Dispatch
import Foundation
import Synchronization
import Testing

@testable import Coroutine

@Suite(.ownThreads, .timeLimit(.minutes(30))) struct ThreadPoolTests {
  // MARK: The order

  @Test func aSerialPoolIsStrictlyFirstInFirstOut() async throws {
    let pool = ThreadPool(threads: 1)
    let log = Log()
    let wake = Channel<Void>()
    try await Coroutine(on: pool) {
      let woken = Coroutine {
        try wake.receive()
        log.add("woken")
      }
      Coroutine.yield()  // it waits now
      let first = Coroutine { log.add("first") }
      try wake.send(())  // the slot is taken, so it comes behind the first one
      // From another thread, before the next one of this thread.
      let outside = DispatchSemaphore(value: 0)
      Thread {
        Coroutine(on: pool) { log.add("from outside") }
        outside.signal()
      }.start()
      outside.wait()
      let last = Coroutine { log.add("last") }
      log.add("launcher goes on")
      Coroutine.yield()
      log.add("launcher yielded")
      try first.get()
      try woken.get()
      try last.get()
    }.get()
    #expect(log.all == ["launcher goes on", "first", "woken", "from outside", "last", "launcher yielded"])
  }

  /// A pool of two workers, one of which is occupied until the gate opens.
  private func withOneOfTwoWorkers(_ body: (ThreadPool) async throws -> Void) async throws {
    let pool = ThreadPool(threads: 2)
    let gate = Gate()
    let (began, begin) = AsyncStream<Void>.makeStream()
    let blocker = Coroutine(on: pool) {
      begin.yield()
      gate.pass()
    }
    for await _ in began { break }
    defer { gate.open() }
    try await body(pool)
    gate.open()
    try await blocker.get()
  }

  @Test func aWakeRunsNextAndANewOneLast() async throws {
    try await withOneOfTwoWorkers { pool in
      let log = Log()
      try await Coroutine(on: pool) {
        let wake = Channel<Void>()
        let woken = Coroutine {
          try wake.receive()
          log.add("woken")
        }
        Coroutine.yield()
        let launched = Coroutine { log.add("launched") }
        try wake.send(())
        log.add("waker goes on")
        Coroutine.yield()
        log.add("yielded")
        try woken.get()
        try launched.get()
      }.get()
      #expect(log.all == ["waker goes on", "woken", "launched", "yielded"])
    }
  }

  /// Otherwise the joiner would be resumed between any two of them, only to wait for the next one.
  @Test func aJoinerOfSeveralGoesOnBehindThoseThatAreReady() async throws {
    try await withOneOfTwoWorkers { pool in
      let log = Log()
      try await Coroutine(on: pool) {
        let all = (0..<4).map { number in Coroutine { log.add("\(number)") } }
        for (number, one) in all.enumerated() {
          try one.get()
          log.add("joined \(number)")
        }
      }.get()
      // The first time the joiner runs next, as most joiners wait for one coroutine.
      let events = ["0", "joined 0", "1", "2", "3", "joined 1", "joined 2", "joined 3"]
      #expect(log.all == events)
    }
  }

  @Test func aPairThatWakesEachOtherForEverDoesNotStarveTheRest() async throws {
    try await withOneOfTwoWorkers { pool in
      let holder = Holder(Atomic<Bool>(false))
      try await Coroutine(on: pool) {
        let ping = Channel<Void>()
        let pong = Channel<Void>()
        let partner = Coroutine {
          for _ in ping.received { try pong.send(()) }
        }
        Coroutine { holder.value.store(true, ordering: .relaxed) }
        while !holder.value.load(ordering: .relaxed) {
          try ping.send(())
          try pong.receive()
        }
        ping.close()
        try partner.get()
      }.get()
    }
  }

  @Test func whatComesFromOutsideIsNotStarvedByThoseInside() async throws {
    try await withOneOfTwoWorkers { pool in
      let holder = Holder(Atomic<Bool>(false))
      let busy = (0..<3).map { _ in
        Coroutine(on: pool) {
          while !holder.value.load(ordering: .relaxed) { Coroutine.yield() }
        }
      }
      try await Coroutine(on: pool) { holder.value.store(true, ordering: .relaxed) }.get()
      for coroutine in busy { try await coroutine.get() }
    }
  }

  // MARK: Helping each other

  @Test func aWakeIsTakenFromAWorkerThatIsBusy() async throws {
    let pool = ThreadPool(threads: 2)
    try await Coroutine(on: pool) {
      let wake = Channel<Void>()
      let gate = Gate()
      Coroutine {
        try wake.receive()
        gate.open()
      }
      Coroutine.yield()
      try wake.send(())
      gate.pass()  // blocks the thread until the woken one has run: on the other
    }.get()
  }

  @Test func aNewOneIsTakenFromAWorkerThatIsBusy() async throws {
    let pool = ThreadPool(threads: 2)
    for _ in 0..<20 {
      try await Coroutine(on: pool) {
        let gate = Gate()
        Coroutine { gate.open() }
        gate.pass()
      }.get()
    }
  }

  @Test func allWorkersHelp() async throws {
    let pool = ThreadPool(threads: 4)
    // Each waits until all four are inside, so that each worker has to run one of them.
    try await Coroutine(on: pool) {
      let inside = Holder(Atomic<Int>(0))
      let all = (0..<4).map { _ in
        Coroutine {
          inside.value.add(1, ordering: .relaxed)
          while inside.value.load(ordering: .relaxed) < 4 { sched_yield() }
        }
      }
      for coroutine in all { try coroutine.get() }
    }.get()
  }

  /// A monitor looks rarely while all that it monitors stand still. What a worker wakes when it goes on does not wait for that.
  @Test func aMonitorThatLooksRarelyIsUnparkedByWhatBecomesReady() async throws {
    let pool = ThreadPool(threads: 2)
    // If the monitor has seen that the worker goes on, before that wakes another one, there was no need.
    for _ in 0..<100 where pool.core.monitorUnparks.load(ordering: .relaxed) == 0 {
      let (gate, isBlocked, hasRun) = (Gate(), Holder(Atomic<Bool>(false)), Holder(Atomic<Bool>(false)))
      let blocked = Coroutine(on: pool) {
        let wake = Channel<Void>()
        let woken = Coroutine {
          try wake.receive()
          hasRun.value.store(true, ordering: .relaxed)
        }
        Coroutine.yield()
        isBlocked.value.store(true, ordering: .relaxed)
        gate.pass()
        try wake.send(())
        // Only the other worker can run it.
        while !hasRun.value.load(ordering: .relaxed) { sched_yield() }
        try woken.get()
      }
      while !isBlocked.value.load(ordering: .relaxed) || !pool.core.monitorsRarely { sched_yield() }
      gate.open()
      try await blocked.get()
    }
    #expect(pool.core.monitorUnparks.load(ordering: .relaxed) > 0)
  }

  /// Runs of a view of the pool, and jobs of tasks, come in a burst while one worker is busy and another one monitors. Each of
  /// them waits until all have begun, so that each needs a worker of its own.
  @Test(arguments: [false, true]) func allIdleWorkersComeForJobs(ofTasks: Bool) async throws {
    let count = 4
    let pool = ThreadPool(threads: 1 + count)
    let (isOver, inside) = (Holder(Atomic<Bool>(false)), Holder(Atomic<Int>(0)))
    let busy = Coroutine(on: pool) { while !isOver.value.load(ordering: .relaxed) { sched_yield() } }
    // As long as nothing is ready the monitor looks again and again.
    let before = pool.core.looks.load(ordering: .relaxed)
    while pool.core.looks.load(ordering: .relaxed) < before + 2 { sched_yield() }
    let waitForAll: @Sendable () -> Void = {
      inside.value.add(1, ordering: .relaxed)
      while inside.value.load(ordering: .relaxed) < count { sched_yield() }
    }
    if ofTasks {
      let tasks = (0..<count).map { _ in Task(executorPreference: pool) { waitForAll() } }
      for task in tasks { await task.value }
    } else {
      let view = pool.limited(to: count)
      let turns = (0..<count).map { _ in Coroutine(on: view, waitForAll) }
      for turn in turns { try await turn.get() }
    }
    isOver.value.store(true, ordering: .relaxed)
    try await busy.get()
  }

  /// Short turns make the workers pause sharing. Then long turns come, from inside and from outside.
  @Test func allWorkersHelpAgainAfterTheyHelpedInVain() async throws {
    let pool = ThreadPool(threads: 3)
    for round in 0..<amount(40, debug: 20, sanitized: 5) {
      let inside = Holder(Atomic<Int>(0))
      let waitForAll: @Sendable () -> Void = {
        inside.value.add(1, ordering: .relaxed)
        while inside.value.load(ordering: .relaxed) < 3 { sched_yield() }
      }
      let isFromOutside = round.isMultiple(of: 2)
      let first = try await Coroutine(on: pool) {
        for short in (0..<2_000).map({ _ in Coroutine {} }) { try short.get() }
        return (0..<(isFromOutside ? 1 : 3)).map { _ in Coroutine(waitForAll) }
      }.get()
      let rest = (0..<(isFromOutside ? 2 : 0)).map { _ in Coroutine(on: pool, waitForAll) }
      for long in first + rest { try await long.get() }
    }
  }

  /// Short work from outside keeps the other worker busy again and again, so that it does not search by itself.
  @Test func whatABusyWorkerHoldsIsTakenThoughShortWorkComesFromOutside() async throws {
    let pool = ThreadPool(threads: 2)
    let hasRun = Holder(Atomic<Bool>(false))
    let isAwaited = Holder(Atomic<Bool>(false))
    let isHeld = Holder(Atomic<Bool>(false))
    let busy = Coroutine(on: pool) {
      while !isAwaited.value.load(ordering: .acquiring) { sched_yield() }
      let held = Coroutine { hasRun.value.store(true, ordering: .releasing) }
      isHeld.value.store(true, ordering: .releasing)
      while !hasRun.value.load(ordering: .acquiring) { sched_yield() }
      try held.get()
    }
    var arrivals = 0
    while arrivals < 20_000, !hasRun.value.load(ordering: .acquiring) {
      try await Coroutine(on: pool) {}.get()
      // The busy one may not have a processor for long.
      guard arrivals < 100 || isHeld.value.load(ordering: .acquiring) else { continue }
      arrivals += 1
      if arrivals == 100 { isAwaited.value.store(true, ordering: .releasing) }
    }
    let wasTaken = hasRun.value.exchange(true, ordering: .acquiringAndReleasing)
    #expect(wasTaken, "no worker has looked")
    try await busy.get()
  }

  @Test func moreThanARingTakesRunOnceEach() async throws {
    for threads in [1, 2, 4] {
      let pool = ThreadPool(threads: threads)
      let runs = Holder(Atomic<Int>(0))
      try await Coroutine(on: pool) {
        let all = (0..<3_000).map { _ in
          Coroutine {
            runs.value.add(1, ordering: .relaxed)
            Coroutine.yield()
            runs.value.add(1, ordering: .relaxed)
          }
        }
        for coroutine in all { try coroutine.get() }
      }.get()
      #expect(runs.value.load(ordering: .relaxed) == 6_000)
    }
  }

  // MARK: Sleeping and waking

  @Test(arguments: [1, 2, 4])
  func noWakeUpFromOutsideIsLost(threads: Int) async throws {
    let pool = ThreadPool(threads: threads)
    let clients = (0..<3).map { client in
      Task.detached {
        for round in 0..<500 {
          let answer = try await Coroutine(on: pool) { round * 3 + client }.get()
          #expect(answer == round * 3 + client)
        }
      }
    }
    for client in clients { try await client.value }
  }

  @Test func poolsWakeEachOther() async throws {
    let here = ThreadPool(threads: 2)
    let there = ThreadPool(threads: 1)
    let ping = Channel<Int>()
    let pong = Channel<Int>()
    let partner = Coroutine(on: there) {
      for value in ping.received { try pong.send(value + 1) }
    }
    let sum = Coroutine(on: here) { () throws -> Int in
      var sum = 0
      for value in 0..<1_000 {
        try ping.send(value)
        sum += try pong.receive()
      }
      ping.close()
      return sum
    }
    #expect(try await sum.get() == 500_500)
    try await partner.get()
  }

  @Test func manyPairsOnManyThreads() async throws {
    let pool = ThreadPool(threads: 4)
    let total = try await Coroutine(on: pool) { () throws -> Int in
      let pairs = (0..<50).map { _ in
        Coroutine { () throws -> Int in
          let ping = Channel<Int>()
          let pong = Channel<Int>()
          let partner = Coroutine {
            for value in ping.received { try pong.send(value) }
          }
          var sum = 0
          for value in 0..<200 {
            try ping.send(value)
            sum += try pong.receive()
          }
          ping.close()
          try partner.get()
          return sum
        }
      }
      return try pairs.reduce(0) { try $0 + $1.get() }
    }.get()
    #expect(total == 50 * 199 * 100)
  }

  // MARK: Its life

  @Test(arguments: [1, 3])
  func theThreadsEndWithTheLastReference(threads: Int) async throws {
    weak var core: PoolCore?
    do {
      let pool = ThreadPool(threads: threads)
      core = pool.core
      try await Coroutine(on: pool) {
        let children = (0..<10).map { _ in Coroutine { Coroutine.yield() } }
        for child in children { try child.get() }
      }.get()
    }
    // Each thread keeps the core alive.
    while core != nil { await Task.yield() }
  }

  @Test func aPoolLivesAsLongAsACoroutineOnIt() async throws {
    let release = Channel<Int>()
    weak var core: PoolCore?
    var waiting: Coroutine<Int, any Error>?
    do {
      let pool = ThreadPool(threads: 2)
      core = pool.core
      waiting = Coroutine(on: pool) { () throws -> Int in
        let child = Coroutine { try release.receive() }
        return try child.get()
      }
    }
    try await release.send(7)
    #expect(try await waiting?.get() == 7)
    waiting = nil
    while core != nil { await Task.yield() }
  }

  @Test func aPoolThatNeverRanAnythingGoes() async {
    weak var core: PoolCore?
    do { core = ThreadPool(threads: 3).core }
    // A count of all coroutines keeps all pools alive for a moment.
    while core != nil { await Task.yield() }
  }

  @Test func aThreadKnowsItsPool() async throws {
    let pool = ThreadPool(threads: 2)
    #expect(!pool.isCurrent)
    #expect(!pool.isSerial)
    #expect(ThreadPool(threads: 1).isSerial)
    #expect(try await Coroutine(on: pool) { pool.isCurrent && !ThreadPool.shared.isCurrent }.get())
  }

  // MARK: The shared pool's size

  @Test func theSizeOfTheSharedPoolCanBeSet() async {
    await #expect(processExitsWith: .success) {
      ThreadPool.sharedThreadCount = 3
      #expect(ThreadPool.sharedThreadCount == 3)
      #expect(ThreadPool.shared.threadCount == 3)
    }
    await #expect(processExitsWith: .success) {
      setenv("COROUTINE_THREADS", "5", 1)
      #expect(ThreadPool.shared.threadCount == 5)
    }
    await #expect(processExitsWith: .success) {
      setenv("COROUTINE_THREADS", "5", 1)
      ThreadPool.sharedThreadCount = 2
      #expect(ThreadPool.shared.threadCount == 2)
    }
  }

  @Test func aPoolOfOnesOwnIsNoUseOfTheSharedOne() async {
    await #expect(processExitsWith: .success) {
      _ = try await Coroutine(on: ThreadPool(threads: 1)) { 1 }.get()
      // A child has a shared pool of its own, whose threads are not the parent's. A sanitizer's locks are not free in a child.
      if !coroutine_sanitizers_active() {
        #expect(Child.end { (try? Coroutine { 2 }.getBlocking()) == 2 ? 0 : 3 } == .exited(0))
      }
      ThreadPool.sharedThreadCount = 3
      #expect(ThreadPool.shared.threadCount == 3)
    }
  }

  @Test func aSizeThatComesTooLateTrapsByName() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      _ = try await Coroutine { 1 }.get()
      ThreadPool.sharedThreadCount = 3
    }
    #expect(text(result).contains("set it at the program's start"))
  }

  @Test(.disabled(if: coroutine_sanitizers_active(), "their memory is the whole address space"))
  func aThreadThatTheSystemRefusesTrapsWithAdvice() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let status = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8)
      let mapped = UInt(status.prefix { $0 != " " })! * UInt(sysconf(CInt(_SC_PAGESIZE)))
      // No more room than the stacks of ended threads, which the C library keeps.
      var limit = rlimit(rlim_cur: mapped + (4 << 20), rlim_max: .max)
      setrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &limit)
      for _ in 0..<100 { Coroutine(on: ThreadPool(threads: 1)) { pause() } }
    }
    #expect(text(result).contains("thread 1 of a ThreadPool of 1 could not be started: "))
    #expect(text(result).contains("make the pool smaller"))
  }

  @Test func aSizeThatIsNoneTrapsByName() async {
    let fromCode = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      ThreadPool.sharedThreadCount = 0
    }
    #expect(text(fromCode).contains("must be from 1 to 4194304, not 0"))
    let fromOutside = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      setenv("COROUTINE_THREADS", "many", 1)
      _ = ThreadPool.shared
    }
    #expect(text(fromOutside).contains("not \"many\""))
    let tooLarge = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      setenv("COROUTINE_THREADS", "\(Int.max)", 1)
      _ = ThreadPool.shared
    }
    #expect(text(tooLarge).contains("from 1 to 4194304, not \"\(Int.max)\""))
  }

  /// Swift makes an array of so many workers too short, and writes behind it.
  @Test func moreThreadsThanLinuxCanHaveTrapByName() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      _ = ThreadPool(threads: .max)
    }
    #expect(text(result).contains("4194304 threads at most, not \(Int.max)"))
  }

  /// `StackPool.trim()` frees stacks that are not in use. A pool may sleep for hours.
  @Test(.timeLimit(.minutes(30))) func workersThatSleepKeepNoStack() async throws {
    let pool = ThreadPool(threads: 2)
    for _ in 0..<10 {
      let both = (0..<2).map { number in Coroutine(on: pool) { number } }
      for coroutine in both { _ = try await coroutine.get() }
      while pool.core.spareStackCount > 0 { await Task.yield() }
    }
  }

  private func text(_ result: ExitTest.Result?) -> String {
    result.map { String(decoding: $0.standardErrorContent, as: UTF8.self) } ?? ""
  }
}
