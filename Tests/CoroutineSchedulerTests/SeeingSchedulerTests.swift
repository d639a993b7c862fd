import CoroutineTestSupport
import Dispatch
import Testing

@testable import Coroutine

/// Schedulers that see what they run, and views of a pool.
@Suite(.ownThreads) struct SeeingSchedulerTests {
  /// Runs the most important one first, on a Dispatch queue, when it is let.
  private final class PriorityScheduler: Scheduler {
    private let queue = DispatchQueue(label: "by priority")
    private let levels: [(least: TaskPriority, ready: CoroutineJobQueue)] =
      [.high, .medium, .low].map { ($0, CoroutineJobQueue()) } + [(TaskPriority(rawValue: 0), CoroutineJobQueue())]
    let seen = Log()

    func enqueue(_ job: consuming CoroutineJob) {
      let priority = job.priority
      seen.add("\(job.name): \(priority.map { "\($0.rawValue)" } ?? "none")")
      let level = levels.first { $0.least <= priority ?? .medium } ?? levels[levels.count - 1]
      _ = level.ready.append(job)
      queue.async { self.runFirst() }
    }

    private func runFirst() {
      if let level = levels.first(where: { !$0.ready.isEmpty }) { _ = level.ready.run(limit: 1) }
    }

    func hold() { queue.suspend() }
    func letGo() { queue.resume() }
    var isCurrent: Bool { false }
    var isSerial: Bool { true }
  }

  @Test func aSchedulerSeesWhatIsReadyAndRunsByPriority() async throws {
    let (scheduler, log) = (PriorityScheduler(), Log())
    scheduler.hold()
    let all = [("a", TaskPriority.low), ("b", .medium), ("c", .high), ("d", .background), ("e", .high)].map {
      name, priority in
      Coroutine(on: scheduler, priority: priority, name: name) { log.add(name) }
    }
    #expect(all.map(\.priority) == [.low, .medium, .high, .background, .high])
    scheduler.letGo()
    for coroutine in all { try await coroutine.get() }
    #expect(log.all == ["c", "e", "b", "a", "d"])
    #expect(scheduler.seen.all.first == "a: \(TaskPriority.low.rawValue)")
  }

  @Test func aJobTellsTheNumberOfItsCoroutine() async throws {
    final class Noting: Scheduler {
      let ids = Guarded<[UInt64]>([])
      let queue = DispatchQueue(label: "noting")
      let ready = CoroutineJobQueue()
      func enqueue(_ job: consuming CoroutineJob) {
        let id = job.id
        ids.withLock { $0.append(id) }
        if ready.append(job) { queue.async { while self.ready.run() {} } }
      }
      var isCurrent: Bool { false }
      var isSerial: Bool { true }
    }
    let scheduler = Noting()
    let coroutine = Coroutine(on: scheduler) { Coroutine.yield() }
    try await coroutine.get()
    #expect(scheduler.ids.withLock { $0 } == [coroutine.id, coroutine.id])
  }

  @Test func aPriorityIsInheritedUnlessAnotherIsGiven() async throws {
    let seen = try await Coroutine(on: .pool, priority: .low) { () -> [TaskPriority?] in
      try withScope { scope in
        [
          Coroutine(on: .pool) {}.priority, Coroutine(on: .pool, priority: .high) {}.priority, scope.launch {}.priority,
          scope.launch(priority: .high) {}.priority, scope.launch(on: .pool, priority: .medium) {}.priority,
          try Coroutine.await { Task.currentPriority },
        ]
      }
    }.get()
    #expect(seen == [.low, .high, .low, .high, .medium, .low])
    #expect(Coroutine(priority: .background) {}.priority == .background)
    #expect(await DispatchQueue.global().launchOutside() == nil)
  }

  @Test func everyLaunchTakesAPriority() async throws {
    let scheduler = PriorityScheduler()
    try await Coroutine(on: .pool, priority: .background) {
      try withScope { scope in
        #expect(Coroutine.detached {}.priority == nil)
        let all: [Coroutine<Void, Never>] = [
          Coroutine.detached(priority: .high) {}, Coroutine.detached(on: scheduler, priority: .high) {},
          Coroutine.immediate(priority: .high) {}, Coroutine.immediate(on: scheduler, priority: .high) {},
          Coroutine(start: .lazy, priority: .high) {}, Coroutine(on: scheduler, start: .lazy, priority: .high) {},
          Coroutine(start: .atomic, priority: .high) {}, Coroutine(on: scheduler, start: .atomic, priority: .high) {},
          Coroutine.detached(priority: .high) { @MainActor in }, Coroutine.immediate(priority: .high) { @MainActor in },
          scope.launch(priority: .high) { @MainActor in },
        ]
        #expect(all.map(\.priority) == Array(repeating: .high, count: all.count))
        for coroutine in all { try coroutine.get() }
        let started = [
          try scope.start(priority: .high) { $0(Coroutine(on: .pool) {}.priority) },
          try scope.start(on: .pool, priority: .high) { $0(Coroutine(on: .pool) {}.priority) },
          try scope.start(priority: .high) { @MainActor in $0(Coroutine(on: .pool) {}.priority) },
          try scope.start { $0(Coroutine(on: .pool) {}.priority) },
        ]
        #expect(started == [.high, .high, .high, .background])
      }
    }.get()
    let high = ": \(TaskPriority.high.rawValue)"
    #expect(scheduler.seen.all == Array(repeating: high, count: 4))
  }

  @Test func oneThatBeginsAtOnceHasItsPriorityFromTheBeginning() async throws {
    let seen = try await Coroutine(on: .pool, priority: .low) {
      try Coroutine.immediate(priority: .high) {
        (Coroutine {}.priority, try Coroutine.await { Task.currentPriority })
      }.get()
    }.get()
    #expect(seen == (.high, .high))
  }

  @Test func aViewRunsNoMoreAtOnceThanItsLimit() async throws {
    let view = ThreadPool(threads: 4).limited(to: 2)
    let tally = RunningTally()
    let gate = ManualGate(2)
    let all = (0..<8).map { number in
      Coroutine(on: view) {
        tally.begin()
        // Two are needed at once for the first two to go on.
        if number < 2 { gate.arriveAndWait() }
        tally.end()
        Coroutine.yield()
      }
    }
    for coroutine in all { try await coroutine.get() }
    #expect(tally.most == 2)
    #expect(view.limit == 2 && !view.isSerial)
  }

  @Test func aViewOfOneRunsInOrderWhileThePoolRunsOthers() async throws {
    let (pool, log) = (ThreadPool(threads: 2), Log())
    let view = pool.limited(to: 1)
    let hold = DispatchSemaphore(value: 0)
    let first = Coroutine(on: view) {
      log.add("first, current: \(view.isCurrent)")
      _ = hold.wait(timeout: .now() + 600)
    }
    let others = (1...3).map { number in
      Coroutine(on: view) {
        log.add("\(number)")
        Coroutine.yield()
        log.add("\(number) again")
      }
    }
    // The view's thread is taken; the pool has another one.
    let elsewhere = try await Coroutine(on: pool) { view.isCurrent }.get()
    #expect(!elsewhere && others.allSatisfy { $0.state == .ready })
    hold.signal()
    try await first.get()
    for coroutine in others { try await coroutine.get() }
    #expect(
      log.all == ["first, current: true", "1", "2", "3", "1 again", "2 again", "3 again"])
  }

  @Test func aViewsCoroutinesWaitForOthersAndComeBack() async throws {
    let view = ThreadPool.shared.limited(to: 1)
    let count = amount(2_000, sanitized: 200)
    let (numbers, answers) = (Channel<Int>(), Channel<Int>())
    let there = Coroutine(on: .pool) {
      for number in numbers.received { try answers.send(number + 1) }
      answers.close()
    }
    let here = Coroutine(on: view) { () -> Int in
      var sum = 0
      for number in 0..<count {
        try numbers.send(number)
        sum += try answers.receive()
        if !view.isCurrent { return -1 }
      }
      numbers.close()
      return sum + on(.pool) { view.isCurrent ? 1 : 0 }
    }
    #expect(try await here.get() == count * (count + 1) / 2)
    try await there.get()
  }

  @Test func aViewEndsWithItsLastCoroutine() async throws {
    weak var known: LimitedScheduler?
    do {
      let view = ThreadPool(threads: 1).limited(to: 3)
      known = view
      #expect(view.isSerial && view.limit == 1)
      try await Coroutine(on: view) { Coroutine.yield() }.get()
    }
    // The turn in which it ended may not be over.
    while known != nil { await Task.yield() }
  }
}

/// How many run at once, and how many did at most.
private final class RunningTally: Sendable {
  private let counts = Guarded((now: 0, most: 0))

  func begin() {
    counts.withLock { counts in
      counts.now += 1
      counts.most = max(counts.most, counts.now)
    }
  }

  func end() { counts.withLock { $0.now -= 1 } }

  var most: Int { counts.withLock { $0.most } }
}

/// Blocks threads until so many have come.
private final class ManualGate: Sendable {
  private let missing: Guarded<Int>
  private let open = DispatchSemaphore(value: 0)

  init(_ count: Int) { missing = Guarded(count) }

  func arriveAndWait() {
    let isLast = missing.withLock { missing in
      missing -= 1
      return missing == 0
    }
    if isLast { open.signal() } else { _ = open.wait(timeout: .now() + 600) }
  }
}

extension DispatchQueue {
  /// The priority of a coroutine that is launched on a thread of the queue.
  fileprivate func launchOutside() async -> TaskPriority? {
    await withCheckedContinuation { continuation in
      async { continuation.resume(returning: Coroutine(on: .pool) {}.priority) }
    }
  }
}
