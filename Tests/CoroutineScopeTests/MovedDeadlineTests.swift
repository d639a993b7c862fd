import CoroutineTestSupport
import Dispatch
import Glibc
import Synchronization
import Testing

@testable import Coroutine

/// Deadlines by a clock of the program's own, for which a task sleeps in place of a timer.
@Suite(.ownThreads) struct MovedDeadlineTests {
  @Test func aDeadlineOfAnyClockIsMovedByThatClock() async throws {
    let (clock, never) = (OpenedClock(), Channel<Int>())
    let waiting = Coroutine {
      try withTimeout(until: .init(offset: .seconds(3)), clock: clock) { deadline in
        let (before, around) = (deadline.timeRemaining, Coroutine.timeRemaining)
        let isMoved = deadline.extend(by: .seconds(2))
        let after = deadline.timeRemaining
        #expect(before == .seconds(3) && around == .seconds(3) && isMoved && after == .seconds(5))
        _ = try never.receive()
      }
    }
    // The sleeper of before is cancelled, and may have begun or not.
    for await instant in clock.asked.stream where instant.offset == .seconds(5) { break }
    try await clock.opened.send(())
    await #expect(throws: TimeoutError()) { try await waiting.get() }
  }

  @Test func aDeadlineGoesFromOneClockToAnother() async throws {
    let (clock, never) = (OpenedClock(), Channel<Int>())
    let there = Coroutine {
      try withTimeout(.seconds(1000)) { deadline in
        let isMoved = deadline.move(to: .init(offset: .seconds(7)), clock: clock)
        let after = deadline.timeRemaining
        #expect(isMoved && after == .seconds(7))
        _ = try never.receive()
      }
    }
    for await instant in clock.asked.stream where instant.offset == .seconds(7) { break }
    try await clock.opened.send(())
    await #expect(throws: TimeoutError()) { try await there.get() }
    let back = Coroutine {
      try withTimeout(until: .init(offset: .seconds(8)), clock: clock) { deadline in
        let isMoved = deadline.move(to: .now, clock: .continuous)
        let isMovedAgain = deadline.move(to: .init(offset: .seconds(9)), clock: clock)
        #expect(isMoved && !isMovedAgain)
        _ = try never.receive()
      }
    }
    await #expect(throws: TimeoutError()) { try await back.get() }
  }

  @Test func theEndOfTheTimeRacesWithAMove() async throws {
    let never = Channel<Int>()
    for _ in 0..<amount(500, sanitized: 100) {
      let (moved, ended) = try await Coroutine { () -> (Bool, Bool) in
        var moved = false
        let ended = try withTimeoutOrNil(.microseconds(20)) { deadline in
          for _ in 0..<20 { Coroutine.yield() }
          moved = deadline.move(after: .seconds(1000))
          // One that was moved in time does not cancel any more.
          return try moved || never.receive() == 0
        }
        return (moved, ended != nil)
      }.get()
      #expect(moved == ended)
    }
  }

  @Test func aSelectGivesUpByAnyClock() async throws {
    let (clock, never) = (OpenedClock(), Channel<String>())
    let waiting = Coroutine {
      try select {
        never.onReceive { $0 }
        onTimeout(until: .init(offset: .seconds(3)), clock: clock) { "late" }
      }
    }
    for await _ in clock.asked.stream { break }
    try await clock.opened.send(())
    #expect(try await waiting.get() == "late")
    let task = Task {
      try await select {
        never.onReceive { $0 }
        onTimeout(until: .init(offset: .seconds(3)), clock: clock) { "late" }
      }
    }
    for await _ in clock.asked.stream { break }
    try await clock.opened.send(())
    #expect(try await task.value == "late")
  }

  @Test func theSleeperOfALostCaseGoes() async throws {
    let (clock, channel) = (OpenedClock(), Channel<String>())
    let waiting = Coroutine {
      try select {
        channel.onReceive { $0 }
        onTimeout(until: .init(offset: .seconds(3)), clock: clock) { "late" }
      }
    }
    for await _ in clock.asked.stream { break }
    try await channel.send("in time")
    #expect(try await waiting.get() == "in time")
    // Its sleeper was cancelled: it is the next one that is woken.
    async let opening: Void = clock.opened.send(())
    await #expect(throws: TimeoutError()) {
      try await channel.receive(until: .init(offset: .seconds(4)), clock: clock)
    }
    try await opening
  }

  @Test func equalInstantsOfTheKernelsClocksAreEqualDeadlines() throws {
    let instant = ContinuousClock.now + .seconds(100)
    let sources = (0..<3).map { _ in Select.Until(Select.Until.Source(instant, .continuous)).target.kind }
    let deadlines = sources.compactMap { if case .deadline(let deadline) = $0 { deadline } else { nil } }
    #expect(deadlines.count == 3 && Set(deadlines).count == 1)
  }

  /// What a program's own clock and instants are made of goes when the deadline is moved, and may ask for that deadline then.
  @Test func whatTheOldInstantOwnedMayAskForTheDeadlineAsItGoes() async throws {
    final class IgnoredDeadline: DeadlineTimer, @unchecked Sendable {  // Unchecked: as its superclass.
      override func expire() {}
    }
    let timer = IgnoredDeadline(allowed: nil, name: "")
    let left = Guarded<[Duration]>([])
    do {
      let owned = AtItsEnd { left.withLock { $0.append(timer.timeRemaining) } }
      timer.begin(at: OwningInstant(offset: .seconds(3000), owned: owned), of: OwningInstant.SleepingClock())
    }
    #expect(left.withLock { $0 } == [])
    let isMoved = timer.move(by: .seconds(1000))
    timer.stop()
    #expect(isMoved)
    // The mover lets go of it, or the sleeping task does, which was cancelled.
    while left.withLock({ $0 }) == [] { await Task.yield() }
    #expect(left.withLock { $0 } == [.seconds(4000)])
  }
}

/// Runs a function when it goes.
private final class AtItsEnd: Sendable {
  private let body: @Sendable () -> Void
  init(_ body: @escaping @Sendable () -> Void) { self.body = body }
  deinit { body() }
}

/// An instant that owns something, which those that come from it don't.
private struct OwningInstant: InstantProtocol {
  typealias Duration = Swift.Duration

  var offset: Duration
  var owned: AtItsEnd?

  func advanced(by duration: Duration) -> OwningInstant { OwningInstant(offset: offset + duration) }
  func duration(to other: OwningInstant) -> Duration { other.offset - offset }
  static func < (left: OwningInstant, right: OwningInstant) -> Bool { left.offset < right.offset }
  static func == (left: OwningInstant, right: OwningInstant) -> Bool { left.offset == right.offset }
  func hash(into hasher: inout Hasher) { hasher.combine(offset) }

  struct SleepingClock: Clock {
    var now: OwningInstant { OwningInstant(offset: .zero) }
    var minimumResolution: Swift.Duration { .nanoseconds(1) }
    func sleep(until deadline: OwningInstant, tolerance: Swift.Duration?) async throws {
      try await Task.sleep(for: .seconds(3600))
    }
  }
}

/// A clock whose sleepers are woken one by one; those that were cancelled are gone.
private final class OpenedClock: Clock, Sendable {
  typealias Instant = ManualClock.Instant

  let asked = AsyncStream<Instant>.makeStream()
  let opened = Channel<Void>()
  var now: Instant { Instant(offset: .zero) }
  var minimumResolution: Duration { .nanoseconds(1) }

  func sleep(until deadline: Instant, tolerance: Duration?) async throws {
    asked.continuation.yield(deadline)
    try await opened.receive()
  }
}
