import CCoroutine
import CoroutineTestSupport
import Dispatch
import Testing

@testable import Coroutine

/// What a coroutine's handle reports about its wait.
@Suite(.ownThreads) struct SuspensionInspectionTests {
  @Test func itTellsWhatIsWaitedForInTheWordsOfADump() async throws {
    let queue = DispatchQueue(label: "serial")
    let jobs = Channel<Int>(name: "jobs")
    let mutex = CoroutineMutex(name: "ledger")
    let (promise, resolver) = Promise.makePromise(of: Int.self, name: "page")
    let told = try await Coroutine(on: queue) { () -> [String] in
      try mutex.withLock { () -> [String] in
        let all: [Coroutine<Void, any Error>] = [
          Coroutine { _ = try jobs.receive() },
          Coroutine { _ = try promise.get() },
          Coroutine { try mutex.withLock {} },
          Coroutine { try Coroutine.sleep(for: .seconds(1_000)) },
          Coroutine {
            try select {
              jobs.onReceive { _ in }
              onTimeout(.seconds(1_000)) {}
            }
          },
          Coroutine { try withSuspension { (resume: Resumption<Void>) in resolver.onCancel { resume() } } },
        ]
        let before = all.map { $0.suspension == nil && $0.state == .ready }
        Coroutine.yield()
        let told = all.map { $0.suspension.map { "\($0.reason): \($0.waitsFor)" } ?? "nothing" }
        for coroutine in all { coroutine.cancel() }
        for coroutine in all { try coroutine.join() }
        let after = all.map { $0.suspension == nil && $0.state == .finished }
        guard before.allSatisfy(\.self), after.allSatisfy(\.self) else { return [] }
        return told + ["\(Coroutine.currentID!)"]
      }
    }.get()
    guard told.count == 7 else {
      Issue.record("\(told)")
      return
    }
    #expect(told[0] == "receive: receive on channel \"jobs\" (2 receivers)")
    #expect(told[1] == "promise: promise \"page\"")
    #expect(told[2] == "lock: mutex \"ledger\", held by coroutine \(told[6])")
    #expect(told[3] == "sleep: sleep")
    #expect(told[4].hasPrefix("select: select: receive on channel \"jobs\"") && told[4].contains("a timeout of"))
    #expect(told[5] == "callback: a callback")
    resolver.fulfill(1)
  }

  @Test func oneThatRunsWaitsForNothing() async throws {
    let holder = Guarded<Coroutine<Bool, any Error>?>(nil)
    let isQuiet = try await serially {
      let own = Coroutine { () throws -> Bool in holder.withLock { $0 }?.suspension == nil }
      holder.withLock { $0 = own }
      return try own.get()
    }
    #expect(isQuiet)
    holder.withLock { $0 = nil }
  }

  @Test func itTellsWhenTheWaitWillEnd() async throws {
    let never = Channel<Int>()
    let waiting = Coroutine { try never.receive(timeout: .seconds(1_000)) }
    let endless = Coroutine { try never.receive() }
    while waiting.suspension == nil || endless.suspension == nil { await Task.yield() }
    let left = waiting.suspension?.deadline.map { SuspendingClock.now.duration(to: $0) }
    #expect(left.map { $0 > .zero && $0 <= .seconds(1_000) } == true)
    #expect(waiting.suspension?.deadline == waiting.suspension?.deadline, "an instant, not what is left of it")
    #expect(endless.suspension?.deadline == nil)
    waiting.cancel()
    endless.cancel()
  }

  /// In a process of its own: whether times are recorded concerns all coroutines.
  @Test func itTellsSinceWhenWhereTimesAreRecorded() async {
    await #expect(processExitsWith: .success) {
      let never = Channel<Int>()
      func since() async -> SuspendingClock.Instant? {
        // The body keeps the error to itself. As a result that is about to be released it would be reported as a leak, if the
        // process ended at that moment: Swift has the kind of a result in the pointer's upper bits.
        let waiting = Coroutine { _ = try? never.receive() }
        while waiting.suspension == nil { await Task.yield() }
        defer { waiting.cancel() }
        return waiting.suspension?.since
      }
      coroutine_record_times(false)
      guard await since() == nil else { fatalError("nothing was recorded") }
      coroutine_record_times(true)
      // The times are those of the kernel's last tick, however long ago that was.
      // It is read first: it may tick before the next clock is read.
      let tick = coroutine_coarse_time()
      let begin = SuspendingClock.now - .nanoseconds(MonotonicClock.now - tick)
      guard let since = await since(), since >= begin, since <= SuspendingClock.now else {
        fatalError("it began to wait in between")
      }
    }
  }

  /// At any moment the coroutine may go on, end, and leave its stack to another one.
  @Test func itMayBeAskedWhileCoroutinesComeAndGo() async throws {
    let isOver = Channel<Void>()
    let last = Guarded<Coroutine<Void, any Error>?>(nil)
    let churn = Coroutine(on: ThreadPool(threads: 2)) {
      while case .empty = isOver.tryReceive() {
        let channel = Channel<Int>()
        let one = Coroutine { () throws -> Void in _ = try channel.receive() }
        last.withLock { $0 = one }
        try channel.send(1)
      }
    }
    var answers = Set<SuspensionReason>()
    for _ in 0..<amount(2_000, debug: 500, sanitized: 100) {
      if let suspension = last.withLock({ $0 })?.suspension { answers.insert(suspension.reason) }
    }
    isOver.close()
    try await churn.get()
    #expect(answers.isSubset(of: [.receive]))
  }
}
