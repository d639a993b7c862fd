import CoroutineTestSupport
import Glibc
import Testing

@testable import Coroutine

/// A pool whose workers are all blocked reports it once, and a pool that computes for long doesn't.
@Suite(.ownThreads) struct BlockedPoolTests {
  // MARK: What counts as a standstill

  private static let blocked = PoolStandstill.Look(picks: [7, 9], processorTime: [100, 200], isSomethingWaiting: true)

  /// Whether a pool that looked like `Self.blocked` at first stands still after these looks.
  private func standsStill(after looks: [PoolStandstill.Look?]) -> Bool {
    var standstill = PoolStandstill()
    var isStill = standstill.takeLook(Self.blocked, slack: 10)
    for look in looks { isStill = standstill.takeLook(look, slack: 10) }
    return isStill
  }

  @Test func aPoolStandsStillAfterSomeLooksThatFindTheSame() {
    #expect(standsStill(after: [Self.blocked, Self.blocked, Self.blocked, Self.blocked]))
    #expect(!standsStill(after: [Self.blocked, Self.blocked, Self.blocked]))
  }

  @Test func aPoolThatGoesOnInBetweenDoesNotStandStill() {
    for change in [
      nil,
      PoolStandstill.Look(picks: [7, 10], processorTime: [100, 200], isSomethingWaiting: true),
      PoolStandstill.Look(picks: [7, 9], processorTime: [100, 211], isSomethingWaiting: true),
      PoolStandstill.Look(picks: [7, 9], processorTime: [100, nil], isSomethingWaiting: true),
      PoolStandstill.Look(picks: [7, 9], processorTime: [100, 20], isSomethingWaiting: true),
      PoolStandstill.Look(picks: [7, 9], processorTime: [100, 200], isSomethingWaiting: false),
    ] {
      #expect(!standsStill(after: [Self.blocked, Self.blocked, Self.blocked, change]))
      #expect(!standsStill(after: [Self.blocked, change, Self.blocked, Self.blocked, Self.blocked]))
    }
  }

  @Test func aPoolThatComputesForeverDoesNotStandStill() {
    let looks = (1...100).map { second in
      PoolStandstill.Look(picks: [7, 9], processorTime: [100, 200 + 11 * UInt64(second)], isSomethingWaiting: true)
    }
    #expect(!standsStill(after: looks))
  }

  @Test func aBlockedCallThatIsRestartedStillCounts() {
    let looks = (1...4).map { second in
      PoolStandstill.Look(picks: [7, 9], processorTime: [100, 200 + UInt64(second)], isSomethingWaiting: true)
    }
    #expect(standsStill(after: looks))
  }

  // MARK: The report

  @Test func aCoroutineThatBlocksAllWorkersIsNamedOnce() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardOutputContent]) {
      let words = WordsOnStandardError(secondsUntilTold: "3")
      let pool = ThreadPool(threads: 2)
      let gate = Gate()
      let blockers = ["reader", "writer"].map { name in
        let begun = Gate()
        let blocker = Coroutine(on: pool, name: name) {
          begun.open()
          gate.pass()
        }
        begun.pass()
        return blocker
      }
      let waiting = Coroutine(on: pool, name: "waiting") {}
      print(words.next())
      gate.open()
      for blocker in blockers { try await blocker.get() }
      try await waiting.get()
      #expect(BlockedPoolDetector.isOver)
    }
    let text = standardOutput(of: result)
    #expect(text.contains("All 2 threads of a ThreadPool have been blocked for 3 s, in coroutine "), "\(text)")
    #expect(text.contains("\"reader\"") && text.contains("\"writer\"") && !text.contains("\"waiting\""), "\(text)")
    #expect(text.contains("COROUTINE_BLOCKED_SECONDS=0"), "\(text)")
  }

  /// Tests of the runtime's own and of CoroutineDebug are one program: here without it.
  @Test(.enabled(if: access("/proc/self/syscall", R_OK) == 0, "the kernel does not tell"))
  func theSystemCallIsToldWithoutADebugger() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardOutputContent]) {
      let words = WordsOnStandardError(secondsUntilTold: "3")
      let pool = ThreadPool(threads: 2)
      var ends: [CInt] = [-1, -1]
      #expect(pipe(&ends) == 0)
      let (begun, gate) = (WaitGroup(), Gate())
      begun.add(2)
      let reader = Coroutine(on: pool, name: "reader") { [end = ends[0]] in
        begun.done()
        var byte: UInt8 = 0
        return read(end, &byte, 1)
      }
      let waiter = Coroutine(on: pool, name: "waiter") {
        begun.done()
        gate.pass()
      }
      try await begun.wait()
      BlockedPoolReport.use(nil)
      let waiting = Coroutine(on: pool) {}
      print(words.next())
      gate.open()
      #expect(write(ends[1], "!", 1) == 1)
      #expect(try await reader.get() == 1)
      try await waiter.get()
      try await waiting.get()
    }
    let text = standardOutput(of: result)
    #expect(text.contains("\"reader\" (in read), "), "\(text)")
    #expect(text.contains("\"waiter\" (in futex, for a lock, a semaphore or the like), "), "\(text)")
    #expect(text.contains("A program that links CoroutineDebug gets their backtraces here. "), "\(text)")
  }

  @Test func ofManyThatBlockAThreadOnlyTheFirstAreNamed() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardOutputContent]) {
      let words = WordsOnStandardError(secondsUntilTold: "3")
      let pool = ThreadPool(threads: 18)
      let gate = Gate()
      let blockers = (0..<18).map { _ in Coroutine(on: pool, name: "blocker") { gate.pass() } }
      let waiting = Coroutine(on: pool) {}
      print(words.next())
      gate.open()
      for blocker in blockers { try await blocker.get() }
      try await waiting.get()
    }
    let text = standardOutput(of: result)
    #expect(text.count { $0 == "\"" } == 32 && text.contains(", 2 more, while others"), "\(text)")
  }

  @Test func aSerialPoolThatIsBlockedIsTold() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardOutputContent]) {
      let words = WordsOnStandardError(secondsUntilTold: "3")
      let gate = Gate()
      let blocker = Coroutine(on: ThreadPool(threads: 1), name: "blocker") {
        // Only the worker knows of it: it is in the worker's own queue.
        let next = Coroutine { 5 }
        gate.pass()
        return try next.get()
      }
      print(words.next())
      gate.open()
      let value = try await blocker.get()
      #expect(value == 5)
    }
    let text = standardOutput(of: result)
    #expect(text.contains("The only thread of a ThreadPool has been blocked for 3 s, in coroutine "), "\(text)")
  }

  @Test func theThreadOfRunUntilCompleteIsTold() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardOutputContent]) {
      let words = WordsOnStandardError(secondsUntilTold: "3")
      try blockMainCoroutine(until: words)
    }
    #expect(standardOutput(of: result).contains("The only thread of runUntilComplete has been blocked for 3 s"))
  }

  @Test func whatRunUntilCompleteLeftOnTheMainThreadIsNamed() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardOutputContent]) {
      let words = WordsOnStandardError(secondsUntilTold: "3")
      try await MainActor.run { try leaveOneBehind(until: words) }
    }
    let text = standardOutput(of: result)
    #expect(text.contains("a runUntilComplete on the main thread has left behind"), "\(text)")
    #expect(text.contains("have waited for 3 s for the main queue"), "\(text)")
  }

  @Test func aThreadThatWasPinnedAndIsBlockedIsTold() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardOutputContent]) {
      let words = WordsOnStandardError(secondsUntilTold: "3")
      let pool = ThreadPool(threads: 1)
      let (begun, gate) = (Gate(), Gate())
      let channel = Channel<Void>()
      let pinned = Coroutine(on: pool, name: "pinned") {
        try withThreadPinned {
          // The worker gets another thread meanwhile, and then this one back.
          try channel.receive()
          begun.open()
          gate.pass()
        }
      }
      try await Coroutine(on: pool) { try channel.send(()) }.get()
      begun.pass()
      let waiting = Coroutine(on: pool) {}
      print(words.next())
      gate.open()
      try await pinned.get()
      try await waiting.get()
    }
    #expect(standardOutput(of: result).contains("\"pinned\""))
  }

  @Test func theWordCanBeTurnedOff() async {
    await #expect(processExitsWith: .success) {
      setenv("COROUTINE_BLOCKED_SECONDS", "0", 1)
      try await Coroutine(on: ThreadPool(threads: 1)) {}.get()
      #expect(BlockedPoolDetector.isOver)
    }
  }

  @Test func aTimeThatIsNoneTraps() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      setenv("COROUTINE_BLOCKED_SECONDS", "never", 1)
      try await Coroutine(on: ThreadPool(threads: 1)) {}.get()
    }
    #expect(standardError(of: result).contains("COROUTINE_BLOCKED_SECONDS must be a number of seconds"))
  }

  // MARK: What it costs

  /// The other workers look now and then whether work waits behind the blocked one. In a second of real time: a slower machine
  /// has fewer looks in it, not more.
  @Test func aBlockedWorkerHasTheOthersLookRarely() async {
    await #expect(processExitsWith: .success) {
      func waits() -> Int {
        var usage = rusage()
        getrusage(0, &usage)  // of all its threads
        return usage.ru_nvcsw
      }
      let pool = ThreadPool(threads: 4)
      let (begun, gate) = (Gate(), Gate())
      let blocker = Coroutine(on: pool) {
        begun.open()
        gate.pass()
      }
      begun.pass()
      // The time encloses the looks.
      let start = ContinuousClock.now
      let before = waits()
      usleep(1_000_000)
      let looks = Double(waits() - before) / ((ContinuousClock.now - start) / .seconds(1))
      #expect(looks < 150, "\(looks) a second")
      gate.open()
      try await blocker.get()
    }
  }
}

/// A function of its own, as this may not be called in an `async` function.
private func blockMainCoroutine(until words: WordsOnStandardError) throws {
  try runUntilComplete {
    let next = Coroutine {}
    print(words.next())
    try next.get()
  }
}

/// The coroutine that the first call leaves over becomes ready in the second one.
@MainActor private func leaveOneBehind(until words: WordsOnStandardError) throws {
  let numbers = Channel<Int>()
  try runUntilComplete {
    Coroutine(name: "left behind") { try numbers.receive() }
    Coroutine.yield()
  }
  try runUntilComplete {
    try numbers.send(1)
    print(words.next())
  }
}
