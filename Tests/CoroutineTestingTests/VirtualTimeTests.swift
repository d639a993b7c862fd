import CoroutineIO
import CoroutineLibc
import CoroutineTestSupport
import CoroutineTesting
import Dispatch
import Foundation
import Synchronization
import Testing

@testable import Coroutine

@Suite(.ownThreads) struct VirtualTimeTests {
  @Test func aSleepTakesItsTimeAndNoOther() throws {
    let real = ContinuousClock.now
    try runTest {
      let start = TestClock().now
      try Coroutine.sleep(for: .seconds(86_400))
      #expect(start.duration(to: TestClock().now) == .seconds(86_400))
    }
    #expect(ContinuousClock.now - real < .seconds(3600))
  }

  @Test func theClockShowsCenturies() throws {
    try runTest {
      let start = TestClock().now
      try Coroutine.sleep(for: .seconds(10_000_000_000))
      #expect(start.duration(to: TestClock().now) == .seconds(10_000_000_000))
    }
  }

  /// As the kernel's clocks do.
  @Test func aCancelledTaskDoesNotSleepUntilNow() async throws {
    try await runTest {
      let poller = Task { while true { try await Task.sleep(until: TestClock().now, clock: .test) } }
      poller.cancel()
      await #expect(throws: CancellationError.self) { try await poller.value }
    }
  }

  @Test func aTickerIsALoopOfAsyncCode() async throws {
    try await runTest {
      let start = TestClock().now
      var count = 0
      for await _ in Ticker(every: .seconds(10)).ticks {
        count += 1
        if count == 3 { break }
      }
      #expect(start.duration(to: TestClock().now) == .seconds(30))
    }
  }

  @Test func sleepersWakeInTheOrderOfTheirDeadlines() throws {
    let order = Log<Int>()
    try runTest {
      let all = [5, 3, 8, 1].map { seconds in
        Coroutine {
          try Coroutine.sleep(for: .seconds(seconds))
          order.add(seconds)
        }
      }
      for coroutine in all { try coroutine.get() }
      #expect(TestClock().now.offset == .seconds(8))
    }
    #expect(order.all == [1, 3, 5, 8])
  }

  @Test func timeoutsAndWaitsWithDeadlinesGoByIt() throws {
    try runTest {
      let channel = Channel<Int>()
      #expect(throws: TimeoutError.self) { try channel.receive(timeout: .seconds(100)) }
      #expect(TestClock().now.offset == .seconds(100))
      #expect(throws: TimeoutError.self) { try withTimeout(.seconds(10)) { _ = try channel.receive() } }
      #expect(TestClock().now.offset == .seconds(110))
      let wasLate = Unlocked(0)
      try select {
        channel.onReceive { _ in }
        onTimeout(.seconds(5)) { wasLate.value = 1 }
      }
      #expect(wasLate.value == 1 && TestClock().now.offset == .seconds(115))
    }
  }

  @Test func aTimeoutThatIsNotNeededTakesNoTime() throws {
    try runTest {
      try withTimeout(.seconds(10)) { try Coroutine.sleep(for: .seconds(1)) }
      #expect(TestClock().now.offset == .seconds(1))
    }
  }

  @Test func tickersTickByIt() throws {
    try runTest {
      let ticker = Ticker(every: .seconds(10))
      var count = 0
      for _ in ticker {
        count += 1
        if count == 3 { break }
      }
      ticker.stop()
      #expect(TestClock().now.offset == .seconds(30))
    }
  }

  @Test func sleepsByItsClockAndByTheKernels() throws {
    try runTest {
      try Coroutine.sleep(until: TestClock().now.advanced(by: .seconds(7)), clock: .test)
      #expect(TestClock().now.offset == .seconds(7))
      try Coroutine.sleep(until: .now + .seconds(3600), clock: .continuous)
      #expect(TestClock().now.offset > .seconds(3600))
    }
  }

  /// A timer of the process and one of a run don't meet.
  @Test func aTimeoutAroundIsOfTheProcess() throws {
    let ticker = Ticker(every: .seconds(3600))
    try runTest {
      try Coroutine.sleep(for: .seconds(1))
      ticker.stop()
    }
  }

  @Test func timeStandsStillForWorkThatBlocks() throws {
    try runTest {
      let value = try withTimeout(.seconds(1)) { try blocking { 42 } }
      #expect(value == 42)
      #expect(TestClock().now.offset == .zero)
    }
  }

  /// On another scheduler, for longer than a run waits for what may be over soon.
  @Test func timeStandsStillForWhatRunsElsewhere() throws {
    @Sendable func compute() -> Int {
      let end = ContinuousClock.now + .milliseconds(60)
      while ContinuousClock.now < end {}
      return 5
    }
    try runTest {
      #expect(on(.pool) { compute() } == 5)
      #expect(try withTimeout(.seconds(3600)) { on(.pool) { compute() } } == 5)
      #expect(try Coroutine(on: .pool) { compute() }.get() == 5)
      #expect(TestClock().now.offset == .zero)
      // It sleeps there, by the time of the run.
      try on(.pool) { try Coroutine.sleep(for: .seconds(100)) }
      #expect(TestClock().now.offset == .seconds(100))
    }
  }

  /// However it is waited for: only a coroutine's end was asked for its scheduler.
  @Test(arguments: WaitForOutsider.allCases) func aWaitForWhatRunsElsewhereIsNoDeadlock(_ wait: WaitForOutsider) throws
  {
    let value = try runTest {
      let value = try wait.call {
        let end = ContinuousClock.now + .milliseconds(60)
        while ContinuousClock.now < end {}
      }
      #expect(TestClock().now.offset == .zero)
      return value
    }
    #expect(value == 5)
  }

  @Test(arguments: WaitForOutsider.allCases) func aDeadlineStandsStillForWhatRunsElsewhere(_ wait: WaitForOutsider)
    throws
  {
    let value = try runTest {
      try withTimeout(.seconds(1)) {
        try wait.call {
          let end = ContinuousClock.now + .milliseconds(60)
          while ContinuousClock.now < end {}
        }
      }
    }
    #expect(value == 5)
  }

  /// For longer than it may compute there, where anything but its end is waited for.
  @Test func aDeadlineStandsStillForOneThatWaitsForItsTurn() throws {
    let pool = ThreadPool(threads: 1)
    let busy = Coroutine(on: pool) { _ = usleep(1_500_000) }
    let value = try runTest {
      let channel = Channel<Int>()
      Coroutine(on: pool) {
        // The run looks at it meanwhile.
        usleep(100_000)
        try channel.send(5)
      }
      return try withTimeout(.seconds(1)) { try channel.receive() }
    }
    #expect(value == 5)
    try busy.getBlocking()
  }

  enum WaitForOutsider: CaseIterable {
    case scope, channel, ends, firstEnd, promise, group, generator, actor, choice, outsiderOfOutsider

    func call(_ work: @escaping @Sendable () -> Void) throws -> Int {
      let channel = Channel<Int>()
      switch self {
      case .scope:
        return try withScope { scope in
          let child = scope.launch(on: .pool) { work() }
          _ = child
          return 5
        }
      case .channel:
        Coroutine(on: .pool) {
          work()
          try channel.send(5)
        }
        return try channel.receive()
      case .ends:
        return try values(
          of: (2...3).map { number in
            Coroutine(on: .pool) {
              work()
              return number
            }
          }
        ).reduce(0, +)
      case .firstEnd:
        return try firstValue(
          of: (1...2).map { _ in
            Coroutine(on: .pool) {
              work()
              return 5
            }
          })
      case .promise:
        return try Promise<Int>(on: DispatchQueue.global()) { resolver in
          work()
          resolver.fulfill(5)
        }.get()
      case .group:
        let group = WaitGroup(count: 1)
        Coroutine(on: .pool) {
          work()
          group.done()
        }
        try group.wait()
        return 5
      case .generator:
        let generator = AsyncGenerator<Int>(on: .pool) { yield in
          work()
          try yield(5)
        }
        return try generator.next() ?? 0
      case .actor:
        let actor = MessageActor<Reply<Int>>(on: .pool) { mailbox in
          for reply in mailbox {
            work()
            reply.complete(5)
          }
        }
        defer { actor.cancel() }
        return try actor.ask { $0 }
      case .choice:
        let other = Coroutine(on: .pool) {
          work()
          return 5
        }
        return try select { other.onValue { $0 } }
      case .outsiderOfOutsider:
        Coroutine(on: .pool) {
          Coroutine(on: .pool) {
            work()
            try channel.send(5)
          }
        }
        return try channel.receive()
      }
    }
  }

  /// It waits for the run, and the run for it.
  @Test func anOutsiderThatWaitsForTheRunIsADeadlock() throws {
    let failure = try #require(throws: ScheduleFailure.self) {
      try explore(seeds: 0..<1) {
        let (requests, answers) = (Channel<Int>(), Channel<Int>())
        Coroutine(on: .pool) { for request in requests.received { try answers.send(request) } }
        defer { requests.close() }
        _ = try answers.receive()
      }
    }
    #expect(failure.kind == .deadlock)
  }

  /// By a thread that runs no coroutine, when the run has nothing to do any more.
  @Test func aCallbackMaySettleOrSendLate() throws {
    func afterItSuspends(_ body: AnyCoroutine, _ callback: @escaping @Sendable () -> Void) {
      DispatchQueue.global().async {
        // A block that comes too late for its run must not look for ever.
        while body.state != .suspended {
          if body.state == .finished { return }
          sched_yield()
        }
        callback()
      }
    }
    let promised = try runTest {
      let (promise, resolver) = Promise<Int>.makePromise()
      afterItSuspends(Coroutine.current!) { resolver.fulfill(1) }
      return try promise.get()
    }
    #expect(promised == 1)
    // This is waited for for a second, in which a busy machine may not run the thread: not each time.
    let sent = (1...200).lazy.compactMap { _ in
      try? runTest {
        let channel = Channel<Int>()
        afterItSuspends(Coroutine.current!) { _ = channel.trySend(2) }
        return try channel.receive()
      }
    }
    #expect(sent.first == 2)
  }

  @Test func whatBeginsInATaskMayMoveToAnotherScheduler() async throws {
    try await runTest {
      let tasks = (0..<8).map { number in
        Task {
          try await Coroutine.immediate { on(.pool) { number } }.get()
        }
      }
      for (number, task) in tasks.enumerated() {
        let value = try await task.value
        #expect(value == number)
      }
    }
  }

  /// Bytes that are there come before a time that has not come.
  @Test func anEventThatIsThereComesBeforeTheTime() throws {
    try explore(seeds: 0..<20) {
      let (reader, writer) = try makePipe()
      let reading = Coroutine { try withTimeout(.seconds(1)) { try reader.readExactly(5) } }
      Coroutine.yield()
      try writer.write("hello")
      let text = try reading.get()
      #expect(text == Array("hello".utf8))
    }
  }

  @Test func anEventThatIsThereComesBeforeTheTimeOfASelect() throws {
    try explore(seeds: 0..<20) {
      var ends: [CInt] = [-1, -1]
      try #require(pipe(&ends) == 0)
      let (reader, writer) = (try Descriptor(adopting: ends[0]), ends[1])
      defer { close(writer) }
      let waiting = Coroutine {
        try select {
          reader.onReadable { true }
          onTimeout(.seconds(1)) { false }
        }
      }
      Coroutine.yield()
      try #require(write(writer, "h", 1) == 1)
      let isReadable = try waiting.get()
      #expect(isReadable)
    }
  }

  @Test func anEventThatAnotherThreadIsAboutToDeliverComesBeforeTheTime() throws {
    try explore(seeds: 0..<4) {
      let late = LateEvent()
      let waiting = Coroutine { try withTimeout(.seconds(1)) { try late.wait() } }
      let selecting = Coroutine {
        try select {
          late.onReadable { true }
          onTimeout(.seconds(1)) { false }
        }
      }
      Coroutine.yield()
      let isDelivered = late.becomeReady()
      let end = Result { try waiting.get() }
      let isSelected = try selecting.get()
      late.isAwaited.store(false, ordering: .relaxed)
      isDelivered.wait()
      #expect(throws: Never.self) { try end.get() }
      #expect(isSelected)
    }
  }

  @Test func aTestMayTakeAnyTime() throws {
    try runTest(upTo: .seconds(Int64.max)) { try Coroutine.sleep(for: .seconds(1)) }
  }

  @Test func oneThatWaitsForAnotherOnAnotherSchedulerIsADeadlock() throws {
    let failure = try #require(throws: ScheduleFailure.self) {
      try runTest(upTo: .milliseconds(50)) {
        let channel = Channel<Int>()
        let other = Coroutine { try on(.pool) { try channel.receive() } }
        _ = try other.get()
      }
    }
    #expect(failure.kind == .deadlock)
    #expect("\(failure)".contains("is on another scheduler"), "\(failure)")
  }

  /// It uses what the test has given to it, and the test's caller would go on beside it.
  @Test func theEndWaitsForWhatComputesElsewhere() throws {
    struct Problem: Error {}
    let begun = DispatchSemaphore(value: 0)
    let mayEnd = DispatchSemaphore(value: 0)
    let log = Log<String>()
    #expect(throws: Problem.self) {
      try runTest(upTo: .milliseconds(50)) {
        Coroutine.immediate {
          on(.pool) {
            begun.signal()
            mayEnd.wait()
            log.add("elsewhere")
          }
        }
        begun.wait()
        // Far later than the end of the run's patience.
        DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(300)) { mayEnd.signal() }
        throw Problem()
      }
    }
    log.add("after the test")
    #expect(log.all == ["elsewhere", "after the test"])
  }

  /// Coroutines of a run share what belongs to the actor that waits for it.
  @Test func anOverlapOfTwoCoroutinesOfARunTraps() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      @MainActor final class Model {
        var items = [3, 1, 2]
        func waits(_ body: () throws -> Void) rethrows { try Self.hold(&items[1], body) }

        @inline(never)
        private static func hold(_ value: inout Int, _ body: () throws -> Void) rethrows {
          try body()
          value += 1
        }
      }
      // Code of no actor, which is the main actor's by the thread on which it runs.
      @Sendable func test(_ model: Model) throws {
        let waiter = Coroutine {
          try MainActor.assumeIsolated { try model.waits { try Coroutine.sleep(for: .seconds(1)) } }
        }
        Coroutine.yield()
        try Coroutine { MainActor.assumeIsolated { model.items = [] } }.get()
        try waiter.get()
      }
      try await MainActor.run {
        let model = Model()
        try runTest { try test(model) }
      }
    }
    let text = result.map { String(decoding: $0.standardErrorContent, as: UTF8.self) }
    #expect(text?.contains("imultaneous accesses") == true)
  }

  /// The main queue, which waits for the run, could not come to them.
  @MainActor @Test func whatCodeOfTheMainActorLaunchesIsOfTheRun() throws {
    @MainActor final class Model {
      var numbers: [Int] = []
    }
    let model = Model()
    try runTest(upTo: .seconds(20)) {
      let sleeper = Coroutine {
        model.numbers.append(2)
        try Coroutine.sleep(for: .seconds(100))
        model.numbers.append(4)
      }
      let immediate = Coroutine.immediate { @MainActor in model.numbers.append(1) }
      let promise = Promise(value: 3).then { @MainActor in model.numbers.append($0) }
      try sleeper.get()
      try immediate.get()
      try promise.get()
      #expect(TestClock().now.offset == .seconds(100))
    }
    #expect(model.numbers == [1, 2, 3, 4])
  }

  @Test func tasksOfTheRunSleepByIt() throws {
    try runTest {
      let offset = try Coroutine.await {
        try await TestClock().sleep(for: .seconds(60))
        return TestClock().now.offset
      }
      #expect(offset == .seconds(60))
    }
  }

  @Test func aTaskThatWaitsForACoroutineTimesOutByIt() throws {
    try runTest {
      let sleeper = Coroutine { try Coroutine.sleep(for: .seconds(100)) }
      _ = try Coroutine.await {
        await #expect(throws: TimeoutError.self) { try await sleeper.get(timeout: .seconds(10)) }
      }
      try sleeper.get()
      #expect(TestClock().now.offset == .seconds(100))
    }
  }

  @Test func anAsyncBodyAndItsTasksGoByIt() async throws {
    try await runTest {
      let sleeper = Coroutine { try Coroutine.sleep(for: .seconds(100)) }
      async let late: Void = TestClock().sleep(for: .seconds(50))
      await #expect(throws: TimeoutError.self) { try await sleeper.get(timeout: .seconds(10)) }
      #expect(TestClock().now.offset == .seconds(10))
      try await late
      #expect(TestClock().now.offset == .seconds(50))
      try await sleeper.get()
      #expect(TestClock().now.offset == .seconds(100))
    }
  }

  /// No coroutine is the creator of these: what belongs to the run would be lost on another thread.
  @Test func whatTasksOfTheRunLaunchRunsOnItsThread() async throws {
    try await runTest {
      let generator = AsyncGenerator<pthread_t> { yield in try yield(pthread_self()) }
      async let child = Coroutine { pthread_self() }.get()
      let threads = [
        try await Coroutine { pthread_self() }.get(),
        try await Coroutine.immediate { pthread_self() }.get(),
        try await withScope { try await $0.launch { pthread_self() }.get() },
        try await generator.next(),
        try await child,
        // Swift runs this task on its pool.
        try await Task { try await Coroutine { pthread_self() }.get() }.value,
      ]
      #expect(threads == Array(repeating: pthread_self(), count: threads.count))
      let others = [
        try await Coroutine(on: .pool) { pthread_self() }.get(), try await Coroutine.detached { pthread_self() }.get(),
      ]
      #expect(!others.contains(pthread_self()))
    }
  }

  @Test func aSleepThatATaskLaunchesBeginsBeforeTheTimeGoesOn() async throws {
    try await runTest {
      let sleeper = Coroutine {
        try Coroutine.sleep(for: .seconds(100))
        return TestClock().now.offset
      }
      try await TestClock().sleep(for: .seconds(50))
      #expect(try await sleeper.get() == .seconds(100))
    }
  }

  @Test func coroutinesOfTasksHaveTurnsOfASchedule() throws {
    let failure = try #require(throws: ScheduleFailure.self) {
      try explore(seeds: 0..<100) {
        let order = Log<Int>()
        try Coroutine.await {
          let all = (0..<3).map { number in Coroutine { order.add(number) } }
          for coroutine in all { try await coroutine.get() }
        }
        if order.all == [2, 1, 0] { throw LostUpdate() }
      }
    }
    #expect(failure.kind == .thrown && failure.isRepeatable)
  }

  @Test func whatATaskLaunchesAfterTheRunRunsAllTheSame() async throws {
    let gate = AsyncStream<Void>.makeStream()
    let late = try await runTest {
      Task {
        for await _ in gate.stream { break }
        return try await Coroutine { 7 }.get() + Coroutine.immediate { 1 }.get()
      }
    }
    gate.continuation.yield()
    #expect(try await late.value == 8)
  }

  @Test func tasksHaveTurnsOfASchedule() throws {
    let orders = Log<[Int]>()
    try explore(seeds: 0..<20) {
      let order = Log<Int>()
      let all = (0..<3).map { number in
        Coroutine {
          try Coroutine.await {
            for _ in 0..<2 {
              order.add(number)
              await Task.yield()
            }
          }
        }
      }
      for coroutine in all { try coroutine.get() }
      orders.add(order.all)
    }
    #expect(Set(orders.all).count > 5)
  }

  /// What is written arrives in spite of a timeout. A read that times out takes no real time.
  @Test func deadlinesOfDescriptorsGoByIt() throws {
    try runTest {
      let (reader, writer) = try makePipe()
      #expect(throws: TimeoutError.self) { try reader.read(upTo: 1, timeout: .seconds(3600)) }
      #expect(TestClock().now.offset == .seconds(3600))
      let sender = Coroutine {
        try Coroutine.sleep(for: .seconds(10))
        try writer.write([7])
      }
      #expect(try reader.read(upTo: 1, timeout: .seconds(3600)) == [7])
      try sender.get()
      #expect(TestClock().now.offset == .seconds(3610))
    }
  }

  @Test func callbacksFromElsewhereAreWaitedFor() throws {
    let value = try runTest {
      try withSuspension { (resume: Resumption<Int>) in Task.detached { resume.returning(7) } }
    }
    #expect(value == 7)
  }

  @Test func aSleeperAfterTheBodyIsLeftOver() throws {
    let failure = try #require(throws: ScheduleFailure.self) {
      try runTest { Coroutine(name: "late") { try Coroutine.sleep(for: .seconds(1)) } }
    }
    #expect(failure.kind == .leftOver)
    #expect(failure.waiting.first?.contains("\"late\"") == true)
  }

  @Test func theBodysErrorIsThrownAsItIs() throws {
    #expect(throws: LostUpdate.self) { try runTest { throw LostUpdate() } }
  }
}

/// A descriptor whose event another thread has taken, and delivers when the run has looked for it.
private final class LateEvent: Sendable {
  private final class State: Sendable {
    let isReady = Atomic<Bool>(false)
    let looks = Atomic<Int>(0)
  }

  private let state = State()
  private let waits: ReadinessStorage
  /// Whether the run still waits for it.
  let isAwaited = Atomic<Bool>(true)

  init() {
    waits = ReadinessStorage(name: "late") { [state] _ in
      state.looks.wrappingAdd(1, ordering: .relaxed)
      return state.isReady.load(ordering: .acquiring)
    }
  }

  func wait() throws {
    try waits.wait(CoroutineCore.running(for: "wait"), .read, seen: nil, until: WaitDeadline.never).check()
  }

  func onReadable(_ handler: @escaping () throws -> Bool) -> Select.Case<Select.DescriptorReadiness, Bool> {
    Select.Case(Select.DescriptorReadiness.Source(waits, .read)) { try handler() }
  }

  /// Signals when it has been delivered.
  func becomeReady() -> DispatchSemaphore {
    state.isReady.store(true, ordering: .releasing)
    let looks = state.looks.load(ordering: .relaxed)
    let isDelivered = DispatchSemaphore(value: 0)
    // A thread of its own: other tests may keep those of Dispatch busy.
    Thread.detachNewThread { [self] in
      while state.looks.load(ordering: .relaxed) == looks, isAwaited.load(ordering: .relaxed) { sched_yield() }
      waits.becomeReady(.readable)
      isDelivered.signal()
    }
    return isDelivered
  }
}
