import CoroutineTestSupport
import Dispatch
import Synchronization
import Testing

@testable import Coroutine

/// Records the events of coroutines whose names begin with `prefix`, as tests run side by side.
private final class Recorder: CoroutineObserver {
  let log = Log()
  private let prefix: String
  private let names = Guarded<[UInt64: String]>([0: "no coroutine"])

  init(_ prefix: String) { self.prefix = prefix + "." }

  func observe(_ event: borrowing CoroutineEvent) {
    let name = event.name
    guard name.hasPrefix(prefix) else { return }
    let short = String(name.dropFirst(prefix.count))
    names.withLock { $0[event.id] = short }
    let what =
      switch event.kind {
      case .created: "created by \(called(event.parentID))"
      case .ready(let cause, let waker): "ready, \(cause) by \(called(waker))"
      case .resumed: "resumed"
      case .suspended(let reason): "suspended, \(reason): \(event.waitsFor)"
      case .finished: event.failure.map { "finished, \($0)" } ?? "finished"
      case .stolen: "stolen"
      }
    log.add("\(short) \(what)")
  }

  private func called(_ id: UInt64) -> String { names.withLock { $0[id] ?? "?" } }

  func observing<Result>(
    isolation: isolated (any Actor)? = #isolation, _ body: () async throws -> Result
  ) async rethrows -> Result {
    CoroutineObservation.install(self)
    defer { CoroutineObservation.remove(self) }
    return try await body()
  }
}

private struct Failure: Error {}

@Suite(.ownThreads, .timeLimit(.minutes(30))) struct ObservationTests {
  // MARK: The order of events

  @Test func aWaitInAChannel() async throws {
    let recorder = Recorder("wait")
    try await recorder.observing {
      try await Coroutine(on: ThreadPool(threads: 1), name: "wait.main") {
        let channel = Channel<Int>(name: "jobs")
        let child = Coroutine(name: "wait.child") { try channel.receive() }
        Coroutine.yield()
        try channel.send(1)
        _ = try child.get()
      }.get()
    }
    #expect(
      recorder.log.all == [
        "main created by no coroutine", "main ready, launched by no coroutine", "main resumed",
        "child created by main", "child ready, launched by main", "main ready, yielded by main",
        "child resumed", "child suspended, receive: receive on channel \"jobs\" (1 receiver)",
        "main resumed", "child ready, woken by main", "main suspended, join: \(try #require(joinText(recorder)))",
        "child resumed", "child finished", "main ready, woken by no coroutine", "main resumed", "main finished",
      ])
  }

  /// The event of a join, without its number, which differs from run to run.
  private func joinText(_ recorder: Recorder) -> String? {
    recorder.log.all.first { $0.contains("suspended, join: the end of coroutine") }.map {
      String($0.dropFirst("main suspended, join: ".count))
    }
  }

  @Test func aMoveToAnotherScheduler() async throws {
    let recorder = Recorder("move")
    let places = Log()
    let elsewhere = ThreadPool(threads: 3)
    try await recorder.observing {
      try await Coroutine(on: ThreadPool(threads: 1), name: "move.main") {
        on(elsewhere) { places.add("elsewhere") }
      }.get()
    }
    #expect(
      recorder.log.all == [
        "main created by no coroutine", "main ready, launched by no coroutine", "main resumed",
        "main ready, yielded by main", "main resumed", "main ready, yielded by main", "main resumed", "main finished",
      ])
  }

  @Test func cancelsDeadlinesAndErrors() async throws {
    let recorder = Recorder("ends")
    let ends = try await recorder.observing {
      try await Coroutine(on: ThreadPool(threads: 1), name: "ends.main") {
        let channel = Channel<Int>()
        let cancelled = Coroutine(name: "ends.cancelled") { try channel.receive() }
        Coroutine.yield()
        cancelled.cancel()
        let neverBegun = Coroutine(name: "ends.never") {}
        neverBegun.cancel()
        let throwing = Coroutine(name: "ends.throwing") { throw Failure() }
        let late = Coroutine(name: "ends.late") { try channel.receive(timeout: .milliseconds(1)) }
        return [
          outcome { _ = try cancelled.get() }, outcome { try neverBegun.get() }, outcome { try throwing.get() },
          outcome { _ = try late.get() },
        ]
      }.get()
    }
    #expect(ends == ["cancelled", "cancelled", "Failure()", "timed out"])
    func events(of name: String) -> [String] {
      recorder.log.all.filter { $0.hasPrefix(name + " ") }.map { String($0.dropFirst(name.count + 1)) }
    }
    let birth = ["created by main", "ready, launched by main"]
    let wait = "suspended, receive: receive on an unnamed channel (1 receiver)"
    #expect(
      events(of: "cancelled")
        == birth + ["resumed", wait, "ready, cancelled by main", "resumed", "finished, CancellationError()"])
    #expect(events(of: "never") == birth + ["finished, CancellationError()"])
    #expect(events(of: "throwing") == birth + ["resumed", "finished, Failure()"])
    #expect(events(of: "late").dropLast() == birth + ["resumed", wait, "ready, timedOut by no coroutine", "resumed"])
    #expect(events(of: "late").last?.hasPrefix("finished, ") == true)
  }

  @Test func oneThatBeginsAtOnceAndOneThatKeepsItsThread() async throws {
    let recorder = Recorder("now")
    try await recorder.observing {
      try await Coroutine(on: ThreadPool(threads: 1), name: "now.main") {
        let child = Coroutine.immediate(name: "now.child") { Coroutine.yield() }
        withThreadPinned { Coroutine.yield() }
        try child.get()
      }.get()
    }
    #expect(
      recorder.log.all == [
        "main created by no coroutine", "main ready, launched by no coroutine", "main resumed",
        "child created by main", "child resumed", "child ready, yielded by child", "main ready, yielded by main",
        "child resumed", "child finished", "main resumed", "main finished",
      ])
  }

  @Test func whatAThiefTakes() async throws {
    let recorder = Recorder("theft")
    let before = Coroutine.counters.steals
    try await recorder.observing {
      try await Coroutine(on: ThreadPool(threads: 2), name: "theft.main") {
        let gate = Gate()
        let children = (0..<2).map { _ in Coroutine(name: "theft.child") { gate.open() } }
        gate.pass()  // blocks the thread: the other one has to take them
        for child in children { try child.get() }
      }.get()
    }
    #expect(recorder.log.all.contains("child stolen"))
    #expect(Coroutine.counters.steals > before)
  }

  @Test func numbersOfTurnsAndTimesOfQueuesBelongTogether() async throws {
    final class Turns: CoroutineObserver {
      let all = Guarded<[(ready: UInt64?, turn: UInt32, queued: UInt64?, time: UInt64)]>([])
      func observe(_ event: borrowing CoroutineEvent) {
        guard event.name == "turns" else { return }
        let (turn, time) = (event.turn, event.time)
        switch event.kind {
        case .ready: all.withLock { $0.append((time, turn, nil, time)) }
        case .resumed(let queued): all.withLock { $0.append((nil, turn, queued, time)) }
        default: break
        }
      }
    }
    let turns = Turns()
    CoroutineObservation.install(turns)
    try await Coroutine(name: "turns") { for _ in 1...3 { Coroutine.yield() } }.get()
    CoroutineObservation.remove(turns)
    let all = turns.all.withLock { $0 }
    try #require(all.count == 8)
    for index in stride(from: 0, to: 8, by: 2) {
      let (ready, resumed) = (all[index], all[index + 1])
      #expect(ready.turn == UInt32(index / 2 + 1) && resumed.turn == ready.turn)
      #expect(resumed.queued == resumed.time - (try #require(ready.ready)))
    }
  }

  // MARK: Installing and removing

  @Test func severalObserversInTheirOrderAndEachUntilItIsRemoved() async throws {
    final class Numbered: CoroutineObserver {
      let number: Int
      let log: Log
      init(_ number: Int, _ log: Log) { (self.number, self.log) = (number, log) }
      func observe(_ event: borrowing CoroutineEvent) {
        if event.name == "several", event.kind == .finished { log.add("\(number)") }
      }
    }
    let log = Log()
    weak var forgotten: Numbered?
    func run() async throws { try await Coroutine(name: "several") {}.get() }
    do {
      let (first, second) = (Numbered(1, log), Numbered(2, log))
      forgotten = first
      CoroutineObservation.install(first)
      CoroutineObservation.install(second)
      try await run()
      CoroutineObservation.remove(first)
      CoroutineObservation.remove(first)
      try await run()
      CoroutineObservation.remove(second)
      try await run()
    }
    #expect(log.all == ["1", "2", "2"])
    // Another test that installs an observer at this moment may release the old list a little later.
    while forgotten != nil { await Task.yield() }
  }

  /// Checks that each coroutine's events follow the rules, from the first one seen on, on any number of threads.
  private final class Grammar: CoroutineObserver {
    private enum State { case created, ready, running, suspended }
    private let states = Guarded<[UInt64: State]>([:])
    let errors = Log()
    let created = Atomic<Int>(0)
    let finished = Atomic<Int>(0)
    let isRemoved = Atomic<Bool>(false)

    func observe(_ event: borrowing CoroutineEvent) {
      guard event.name == "grammar" else { return }
      let (id, kind) = (event.id, event.kind)
      if kind == .created { created.wrappingAdd(1, ordering: .relaxed) }
      if kind == .finished { finished.wrappingAdd(1, ordering: .relaxed) }
      if isRemoved.load(ordering: .sequentiallyConsistent) { errors.add("\(kind) after the removal") }
      states.withLock { states in
        let before = states[id]
        let (isRight, after): (Bool, State?) =
          switch kind {
          case .created: (before == nil, .created)
          case .ready(.launched, _): (before == nil || before == .created, .ready)
          case .ready(.yielded, _): (before == nil || before == .running, .ready)
          case .ready: (before == nil || before == .suspended, .ready)
          case .stolen: (before == nil || before == .ready, .ready)
          case .resumed: (before == nil || before == .ready, .running)
          case .suspended: (before == nil || before == .running, .suspended)
          case .finished: (before == nil || before == .running, nil)
          }
        if !isRight { errors.add("\(kind) after \(String(describing: before))") }
        states[id] = after
      }
    }
  }

  /// In a process of its own: other tests stop all coroutines again and again.
  @Test func comesAndGoesWhileCoroutinesRun() async {
    await #expect(processExitsWith: .success) { try await Self.comeAndGo() }
  }

  private static func comeAndGo() async throws {
    let (pairs, rounds) = (4, 100)
    let pool = ThreadPool(threads: 4)
    let whole = Grammar()
    CoroutineObservation.install(whole)
    let busy = (0..<pairs).map { _ in
      Coroutine(on: pool, name: "grammar") {
        let (there, back) = (Channel<Int>(), Channel<Int>())
        let echo = Coroutine(name: "grammar") { for value in there.received { try back.send(value) } }
        for round in 1...rounds {
          try there.send(round)
          _ = try back.receive()
          try Coroutine(name: "grammar") { Coroutine.yield() }.get()
        }
        there.close()
        try echo.get()
      }
    }
    var observers = [whole]
    while observers.count < 5 || busy.contains(where: { !$0.isFinished }) {
      let observer = Grammar()
      CoroutineObservation.install(observer)
      await Task.yield()
      CoroutineObservation.remove(observer)
      observer.isRemoved.store(true, ordering: .sequentiallyConsistent)
      observers.append(observer)
    }
    for coroutine in busy { try await coroutine.get() }
    CoroutineObservation.remove(whole)
    for observer in observers { #expect(observer.errors.all == []) }
    let all = pairs * (2 + rounds)
    #expect(whole.created.load(ordering: .relaxed) == all && whole.finished.load(ordering: .relaxed) == all)
  }

  // MARK: Misuse

  @Test func anObserverThatSuspendsOrInstallsEndsTheProgram() async {
    func traps(saying text: String, _ result: ExitTest.Result?) {
      #expect(standardError(of: result).contains(text))
    }
    await traps(
      saying: "suspends the running coroutine, but no coroutine runs here",
      #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        final class Sleepy: CoroutineObserver {
          func observe(_ event: borrowing CoroutineEvent) { Coroutine.yield() }
        }
        CoroutineObservation.install(Sleepy())
        try await Coroutine { Coroutine.yield() }.get()
      })
    await traps(
      saying: "installs or removes one inside of observe(_:)",
      #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        final class Fickle: CoroutineObserver {
          func observe(_ event: borrowing CoroutineEvent) { CoroutineObservation.remove(self) }
        }
        CoroutineObservation.install(Fickle())
        try await Coroutine {}.get()
      })
    await traps(
      saying: "a CoroutineObserver was installed twice",
      #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        let recorder = Recorder("twice")
        CoroutineObservation.install(recorder)
        CoroutineObservation.install(recorder)
      })
  }

  @Test func whatAnObserverCausesIsNotObserved() async throws {
    // A pool of one thread, so that no worker steals.
    let pool = ThreadPool(threads: 1)
    final class Launcher: CoroutineObserver {
      let pool: ThreadPool
      let launched = Guarded<[Coroutine<Void, Never>]>([])
      init(_ pool: ThreadPool) { self.pool = pool }
      func observe(_ event: borrowing CoroutineEvent) {
        guard event.name == "launches another", event.kind == .finished else { return }
        let child = Coroutine<Void, Never>(on: pool, name: "cause.child") {}
        launched.withLock { $0.append(child) }
      }
    }
    let (launcher, recorder) = (Launcher(pool), Recorder("cause"))
    try await recorder.observing {
      CoroutineObservation.install(launcher)
      defer { CoroutineObservation.remove(launcher) }
      try await Coroutine(on: pool, name: "launches another") {}.get()
      for child in launcher.launched.withLock({ $0 }) { try await child.get() }
    }
    #expect(recorder.log.all == ["child resumed", "child finished"])
  }

  // MARK: Numbers

  @Test func theCensusCountsByWhatIsWaitedFor() async {
    await #expect(processExitsWith: .success) { try await Self.count() }
  }

  /// In a process of its own, in which nothing else is counted.
  private static func count() async throws {
    let (channel, mutex) = (Channel<Int>(), CoroutineMutex(0))
    let locked = Channel<Void>()
    let holder = Coroutine {
      try mutex.withLock { _ in
        try locked.send(())
        _ = try channel.receive()
      }
    }
    try await locked.receive()
    let all = (0..<4).map { _ in Coroutine { try mutex.withLock { _ in } } }
    while holder.state != .suspended || all.contains(where: { $0.state != .suspended }) { await Task.yield() }
    let generator = Generator<Int> { yield in try yield(1) }
    #expect(generator.next() == 1)
    let (gate, open) = AsyncStream<Void>.makeStream()
    let awaiting = Coroutine { try Coroutine.await { for await _ in gate {} } }
    while awaiting.state != .suspended { await Task.yield() }
    let census = try CoroutineCensus.take()
    #expect(census.suspended == [.lock: 4, .receive: 1, .async: 1])
    open.finish()
    try await awaiting.get()
    #expect((census.new, census.ready, census.running, census.generators) == (0, 0, 0, 1))
    try await channel.send(1)
    try await holder.get()
    for coroutine in all { try await coroutine.get() }
    withExtendedLifetime(generator) {}
    #expect(Coroutine.counters.createdCoroutines == 6)
    // The threads have nothing to do any more.
    while Coroutine.counters.threadSleeps == 0 { await Task.yield() }
  }
}
