// SPDX-License-Identifier: Apache-2.0

import CoroutineTestSupport
import Glibc
import Synchronization
import Testing

@testable import Coroutine

/// Deadlines that others than their body move: `Deadline.handle`. By virtual time: `DeadlineTests` of CoroutineTesting.
@Suite(.ownThreads) struct DeadlineHandleTests {
  private let never = Channel<Int>(name: "never")

  /// The one that was in time counts: a deadline that was moved does not cancel for the time of before.
  @Test func aMoveFromAnotherThreadRacesWithTheTime() async throws {
    let pool = ThreadPool(threads: 1)
    for _ in 0..<amount(500, sanitized: 100) {
      let (handles, go) = (Channel<DeadlineHandle>(capacity: .buffered(1)), Channel<Int>(capacity: .buffered(1)))
      let mover = Coroutine(on: pool) { () -> Bool in
        let isMoved = try handles.receive().move(after: .seconds(1000))
        if isMoved { try go.send(7) }
        return isMoved
      }
      let ended = try await Coroutine {
        try withTimeoutOrNil(.microseconds(20)) { deadline in
          try? withCancellationShield { try handles.send(deadline.handle) }
          return try go.receive()
        }
      }.get()
      let isMoved = try await mover.get()
      #expect(ended == (isMoved ? 7 : nil))
    }
  }

  @Test func twoThatExtendADeadlineExtendItByBoth() throws {
    let timer = IgnoredDeadline(allowed: .seconds(1000), name: "")
    timer.begin(at: TimerService.shared.deadline(after: .seconds(1000)))
    let threads = (0..<4).map { _ in
      PlainThread { (0..<amount(2000, sanitized: 300)).allSatisfy { _ in timer.move(by: .seconds(1)) } }
    }
    #expect(threads.allSatisfy { $0.join() })
    let added = Duration.seconds(4 * amount(2000, sanitized: 300))
    #expect(timer.timeRemaining > added && timer.timeRemaining <= .seconds(1000) + added)
    #expect(timer.error.duration == .seconds(1000) + added)
    #expect(timer.stop())
  }

  @Test func noDurationIsTooShortToExtendBy() async throws {
    let cancelled = try await Coroutine {
      try withTimeoutOrNil(.seconds(1000)) { deadline in
        deadline.extend(by: Duration(attoseconds: .min))
        try Coroutine.sleep(for: .seconds(1000))
        return 7
      }
    }.get()
    #expect(cancelled == nil)
  }

  /// The last to let go of a timer may be the timers' thread, on which no `deinit` of a user's may run.
  @Test(.timeLimit(.minutes(30))) func aHandleKeepsNothingOfATasksResult() async throws {
    let (handles, gone) = (Guarded<[DeadlineHandle]>([]), WaitGroup(count: 1))
    func run() async throws {
      _ = try await withTimeout(.seconds(1000)) { deadline in
        let handle = deadline.handle
        handles.withLock { $0.append(handle) }
        return Remains(gone)
      }
    }
    try await run()
    try await gone.wait()
    #expect(handles.withLock { $0.count } == 1)
  }

  /// As above.
  @Test(.timeLimit(.minutes(30))) func aHandleKeepsNothingOfATimeoutsCause() async throws {
    let (handles, gone) = (Guarded<[DeadlineHandle]>([]), WaitGroup(count: 1))
    let hadCause = try await Coroutine { () -> Bool in
      do {
        try withTimeout(.milliseconds(1)) { deadline in
          let handle = deadline.handle
          handles.withLock { $0.append(handle) }
          try Coroutine.await {
            while !Task.isCancelled { await Task.yield() }
            throw Problem(remains: Remains(gone))
          }
        }
        return false
      } catch let error as TimeoutError {
        return error.cause is Problem
      }
    }.get()
    #expect(hadCause)
    try await gone.wait()
    #expect(handles.withLock { $0.count } == 1)
  }

  private struct Problem: Error {
    let remains: Remains
  }

  private final class Remains: Sendable {
    private let gone: WaitGroup
    init(_ gone: WaitGroup) { self.gone = gone }
    deinit { gone.done() }
  }

  /// The owner's end is the last word: no timer is armed behind it, which would keep the object.
  @Test func aMoveRacesWithTheEndOfTheBody() throws {
    for round in 0..<amount(200, sanitized: 50) {
      let timer = IgnoredDeadline(allowed: nil, name: "")
      timer.begin(at: TimerService.shared.deadline(after: .seconds(1000)))
      let begun = Holder(Atomic<Bool>(false))
      let mover = PlainThread { [timer] in
        begun.value.store(true, ordering: .releasing)
        var moves = 0
        while moves < 100, timer.move(after: .seconds(round % 2 == 0 ? 1000 : 0)) { moves += 1 }
        return moves
      }
      while !begun.value.load(ordering: .acquiring) { sched_yield() }
      timer.stop()
      mover.join()
      #expect(timer.isStopped && !timer.move(by: .seconds(1)) && !timer.stop())
      #expect(timer.expiries.load(ordering: .relaxed) <= 1)
    }
    var timer: IgnoredDeadline? = IgnoredDeadline(allowed: nil, name: "")
    timer?.begin(at: TimerService.shared.deadline(after: .seconds(1000)))
    _ = timer?.move(by: .seconds(1))
    timer?.stop()
    _ = timer?.move(by: .seconds(1))
    let alive = WeakReference(timer)
    timer = nil
    #expect(alive.object == nil)
  }

  @Test func behindTheEndAHandleMovesNothing() async throws {
    let handles = Guarded<[DeadlineHandle]>([])
    try await Coroutine {
      try withTimeout(.seconds(1000)) { deadline in handles.withLock { $0.append(deadline.handle) } }
    }.get()
    try await withTimeout(.seconds(1000)) { deadline in handles.withLock { $0.append(deadline.handle) } }
    for handle in handles.withLock({ $0 }) {
      #expect(handle.timeRemaining == nil)
      #expect(!handle.extend(by: .seconds(1)) && !handle.move(after: .zero))
      #expect(!handle.move(to: .now, clock: .continuous))
    }
  }

  @Test func theDeadlineOfATaskIsMovedFromOutside() async throws {
    let never = never
    let handles = Channel<DeadlineHandle>()
    let task = Task {
      try await withTimeout(.seconds(1000), name: "a task") { deadline in
        let handle = deadline.handle
        try await handles.send(handle)
        return try await never.receive()
      }
    }
    let handle = try await handles.receive()
    #expect(handle.extend(by: .seconds(1)))
    let left = try #require(handle.timeRemaining)
    #expect(left > .seconds(900) && left <= .seconds(1001))
    #expect(handle.move(after: .zero))
    await #expect(throws: TimeoutError(name: "a task")) { try await task.value }
    #expect(!handle.move(after: .seconds(1)) && handle.timeRemaining == nil)
  }

  /// The canceller's handlers have run when the move returns, as those of a `cancel()`.
  @Test func aMoveIntoThePastCancelsBeforeItReturns() async throws {
    let (log, never, handles) = (Log(), never, Channel<DeadlineHandle>())
    let waiting = Coroutine {
      try withTimeout(.seconds(1000), name: "moved") { deadline in
        try handles.send(deadline.handle)
        return try withCancellationHandler {
          try never.receive()
        } onCancel: {
          log.add("handler")
        }
      }
    }
    let handle = try await handles.receive()
    while never.waitingReceiverCount == 0 { await Task.yield() }
    log.add("\(handle.extend(by: .seconds(-2000)))")
    log.add("\(handle.extend(by: .seconds(2000)))")
    #expect(log.all == ["handler", "true", "false"])
    let error = await #expect(throws: TimeoutError.self) { try await waiting.get() }
    #expect(error?.name == "moved")
  }

  /// What began in virtual time stays there, whichever code moves it; and what did not stays outside.
  @Test func aMoverFromAnotherTimeDoesNotChangeTheTime() throws {
    let (service, outside) = (TimerService(startingAt: 1_000_000_000), IgnoredDeadline(allowed: nil, name: ""))
    outside.begin(at: TimerService.shared.deadline(after: .seconds(1000)))
    let inside = service.withVirtualTime { IgnoredDeadline(allowed: nil, name: "") }
    service.withVirtualTime { inside.begin(at: TimerService.shared.deadline(after: .seconds(3))) }
    #expect(inside.timeRemaining == .seconds(3))
    #expect(inside.move(after: .seconds(5)) && inside.timeRemaining == .seconds(5))
    service.withVirtualTime {
      #expect(outside.move(by: .seconds(1)))
      #expect(outside.timeRemaining > .seconds(900))
      #expect(outside.move(after: .seconds(2000)))
    }
    #expect(service.count == 1)
    service.advance(to: 6_000_000_000)
    #expect(inside.expiries.load(ordering: .relaxed) == 1 && service.count == 0)
    #expect(!inside.move(by: .seconds(1)) && inside.timeRemaining == .zero)
    #expect(outside.stop() && outside.expiries.load(ordering: .relaxed) == 0)
  }

  /// By a clock of the program's own a task sleeps: movers take it back, and one of them, or the clock, is the last.
  @Test func moversRaceWithAClockOfOnesOwn() async throws {
    let clock = ImmediateClock()
    for _ in 0..<amount(300, sanitized: 50) {
      let timer = IgnoredDeadline(allowed: nil, name: "")
      timer.begin(at: TimerService.shared.deadline(after: .seconds(1000)))
      let movers = (0..<2).map { _ in
        PlainThread { () -> Int in
          var moves = 0
          while moves < 20, timer.move(to: .init(offset: .seconds(moves)), of: clock) { moves += 1 }
          return moves
        }
      }
      let moves = movers.map { $0.join() }
      let wasAhead = timer.stop()
      while !wasAhead, timer.expiries.load(ordering: .acquiring) == 0 { await Task.yield() }
      #expect(timer.expiries.load(ordering: .acquiring) == (wasAhead ? 0 : 1))
      #expect(!wasAhead || moves == [20, 20])
    }
  }

}

/// A deadline that only counts how often its time was up.
// Unchecked: as its superclass; the number is atomic.
private final class IgnoredDeadline: DeadlineTimer, @unchecked Sendable {
  let expiries = Atomic<Int>(0)
  override func expire() { expiries.wrappingAdd(1, ordering: .acquiringAndReleasing) }
}

private struct WeakReference {
  private(set) weak var object: AnyObject?
  init(_ object: AnyObject?) { self.object = object }
}

/// A clock whose every instant has come.
private struct ImmediateClock: Clock {
  typealias Instant = ManualClock.Instant

  var now: Instant { Instant(offset: .seconds(1)) }
  var minimumResolution: Duration { .nanoseconds(1) }
  func sleep(until deadline: Instant, tolerance: Duration?) async throws { try Task.checkCancellation() }
}
