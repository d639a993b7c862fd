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
      let words = WordsOnStandardError(secondsUntilTold: "1")
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
      #expect(PoolWatch.isOver)
    }
    let text = standardOutput(of: result)
    #expect(text.contains("All 2 threads of a ThreadPool have been blocked for 1 s, in coroutine "), "\(text)")
    #expect(text.contains("\"reader\"") && text.contains("\"writer\"") && !text.contains("\"waiting\""), "\(text)")
    #expect(text.contains("COROUTINE_BLOCKED_SECONDS=0"), "\(text)")
  }

  @Test func aSerialPoolThatIsBlockedIsTold() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardOutputContent]) {
      let words = WordsOnStandardError(secondsUntilTold: "1")
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
    #expect(text.contains("The only thread of a ThreadPool has been blocked for 1 s, in coroutine "), "\(text)")
  }

  @Test func theThreadOfRunUntilCompleteIsTold() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardOutputContent]) {
      let words = WordsOnStandardError(secondsUntilTold: "1")
      try blockMainCoroutine(until: words)
    }
    #expect(standardOutput(of: result).contains("The only thread of runUntilComplete has been blocked for 1 s"))
  }

  @Test func aThreadThatWasPinnedAndIsBlockedIsTold() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardOutputContent]) {
      let words = WordsOnStandardError(secondsUntilTold: "1")
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
      #expect(PoolWatch.isOver)
    }
  }

  @Test func aTimeThatIsNoneTraps() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      setenv("COROUTINE_BLOCKED_SECONDS", "never", 1)
      try await Coroutine(on: ThreadPool(threads: 1)) {}.get()
    }
    #expect(standardError(of: result).contains("COROUTINE_BLOCKED_SECONDS must be a number of seconds"))
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

/// Reads what this process writes to its standard error. A report that never comes ends the process after a minute.
private struct WordsOnStandardError: Sendable {
  private let reader: CInt

  init(secondsUntilTold seconds: String) {
    setenv("COROUTINE_BLOCKED_SECONDS", seconds, 1)
    var ends: [CInt] = [-1, -1]
    guard pipe(&ends) == 0, dup2(ends[1], STDERR_FILENO) >= 0 else { fatalError("no pipe") }
    close(ends[1])
    reader = ends[0]
    alarm(60)
  }

  /// The next line. Blocks the thread.
  func next() -> String {
    var line: [UInt8] = []
    var byte: UInt8 = 0
    while read(reader, &byte, 1) == 1, byte != UInt8(ascii: "\n") { line.append(byte) }
    return String(decoding: line, as: UTF8.self)
  }
}
