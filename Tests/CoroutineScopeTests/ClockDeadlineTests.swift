import CoroutineTestSupport
import Dispatch
import Testing

@testable import Coroutine

/// `withTimeout(until:clock:)` around an operation ends its wait just as a timeout of the operation does, with any
/// clock.
@Suite(.ownThreads) struct ClockDeadlineTests {
  @Test func everyOperationGivesUpAtATimeOfAnyClockAndIsGone() async throws {
    let operations = await WaitingOperations()
    for operation in operations.all {
      let clock = ManualClock()
      let waiting = Coroutine(on: DispatchQueue(label: "serial")) { () -> String in
        let ended = outcome {
          try withTimeout(until: .init(offset: .seconds(3)), clock: clock) { try operation.wait(nil) }
        }
        return "\(ended), untouched: \(try operation.isUntouched())"
      }
      while waiting.suspension == nil, !waiting.isFinished { await Task.yield() }
      #expect(waiting.suspension?.reason == operation.reason, "\(operation.name)")
      clock.opened.continuation.yield()
      #expect(try await waiting.get() == "timed out, untouched: true", "\(operation.name)")
    }
    try await operations.finish()
  }

  @Test func everyOperationOfATaskGivesUpAtATimeOfAnyClockAndIsGone() async throws {
    let operations = await WaitingOperations()
    for operation in operations.all {
      guard let wait = operation.waitInTask else { continue }
      let clock = ManualClock()
      let waiting = Task {
        try await withTimeout(until: .init(offset: .seconds(3)), clock: clock) { try await wait(nil) }
      }
      for await _ in clock.asked.stream { break }
      clock.opened.continuation.yield()
      await #expect(throws: TimeoutError(), "\(operation.name)") { try await waiting.value }
      #expect(try await serially { try operation.isUntouched() }, "\(operation.name)")
    }
    try await operations.finish()
  }

  /// The tests above expect what the operations do with timeouts of their own.
  @Test func everyOperationGivesUpAtItsOwnTimeoutAndIsGone() async throws {
    let operations = await WaitingOperations()
    for operation in operations.all where operation.hasTimeout {
      let ended = try await serially {
        let ended = [Duration.zero, .milliseconds(1)].map { timeout in outcome { try operation.wait(timeout) } }
        return "\(ended), untouched: \(try operation.isUntouched())"
      }
      #expect(ended == "[\"timed out\", \"timed out\"], untouched: true", "\(operation.name)")
    }
    try await operations.finish()
  }

  @Test func whatIsEnteredWhenTheTimeIsUpIsNotDoneEvenWhereItNeedNotWait() async throws {
    let log = Log()
    try await serially {
      let channel = Channel<Int>(capacity: .buffered(2))
      try channel.send(1)
      let past = ContinuousClock.now - .seconds(1)
      log.add(outcome { try withTimeout(until: past, clock: .continuous) { _ = try channel.receive() } })
      log.add(outcome { try withTimeout(until: past, clock: .continuous) { try channel.send(2) } })
      log.add("\(try withTimeout(until: past, clock: .continuous) { channel.trySend(3) })")
      log.add("\(try channel.receive(timeout: .zero)), \(try channel.receive(timeout: .zero))")
    }
    #expect(log.all == ["timed out", "timed out", "sent", "1, 3"])
  }

  @Test func theNextWaiterIsServedAndTheHandlerRunsBeforeTheError() async throws {
    let log = Log()
    let channel = Channel<Int>()
    let clock = ManualClock()
    let queue = DispatchQueue(label: "serial")
    let first = Coroutine(on: queue) {
      log.add(
        outcome {
          try withTimeout(until: .init(offset: .seconds(3)), clock: clock) {
            _ = try channel.receive(onCancel: { log.add("handler") })
          }
        })
      log.add("goes on, cancelled: \(Coroutine.isCancelled)")
    }
    while first.suspension == nil { await Task.yield() }
    let second = Coroutine(on: queue) { log.add("second has \(try channel.receive())") }
    while second.suspension == nil { await Task.yield() }
    clock.opened.continuation.yield()
    try await first.get()
    try await channel.send(7)
    try await second.get()
    #expect(log.all == ["handler", "timed out", "goes on, cancelled: false", "second has 7"])
  }

  @Test func anAskerGoesOnInTimeThoughTheActorBlocksItsThread() async throws {
    let pool = ThreadPool(threads: 2)
    let hasGoneOn = DispatchSemaphore(value: 0)
    let actor = MessageActor<Reply<Int>>(on: pool) { mailbox in
      for reply in mailbox {
        _ = hasGoneOn.wait(timeout: .now() + 600)
        reply.complete(7)
      }
    }
    let ended = try await Coroutine(on: pool) {
      // Once the actor waits for a message, a thread could be handed off to it.
      while !actor.storage.isIdle { Coroutine.yield() }
      let ended = outcome { try withTimeout(.milliseconds(1)) { _ = try actor.ask { $0 } } }
      hasGoneOn.signal()
      return ended
    }.get()
    #expect(ended == "timed out")
  }
  // MARK: The clock that goes on while the machine is suspended

  @Test func theLeadOfTheOtherClockIsKeptAsLongAsItAgreesWithBoth() {
    func lead(_ known: Int64, _ boot: UInt64) -> Int64 {
      BootTimeClock.lead(known, before: 1_000_000, boot: boot, after: 1_000_040)
    }
    #expect(lead(0, 1_000_020) == 0)
    #expect(lead(0, 6_000_020) == 4_999_980, "the machine was suspended: never too early")
    #expect(lead(5_000_000, 6_000_020) == 5_000_000)
    #expect(lead(5_000_030, 6_000_020) == 4_999_980)
  }

  /// The first measurement falls short by the time between two looks; a later one by less.
  @Test func aCloserMeasurementMovesNoDeadline() {
    let first = BootTimeClock.lead(0, before: 1_000_000, boot: 6_000_020, after: 1_000_060)
    #expect(first == 4_999_960)
    #expect(BootTimeClock.lead(first, before: 2_000_000, boot: 7_000_010, after: 2_000_020) == first)
    // The first one was interrupted.
    #expect(BootTimeClock.lead(4_900_000, before: 2_000_000, boot: 7_000_010, after: 2_000_020) == 4_999_990)
  }

  /// In a time namespace each clock has an offset of its own.
  @Test func theOtherClockMayBeBehind() {
    #expect(BootTimeClock.lead(0, before: 1_000_000, boot: 400_020, after: 1_000_040) == -600_020)
    #expect(BootTimeClock.lead(-600_000, before: 1_000_000, boot: 400_020, after: 1_000_040) == -600_000)
    #expect(BootTimeClock.monotonicTime(of: 500_000, lead: -600_000) == 1_100_000)
    #expect(BootTimeClock.monotonicTime(of: 500_000, lead: 600_000) == 0)
    #expect(BootTimeClock.monotonicTime(of: .max - 5, lead: -600_000) == .max)
    #expect(BootTimeClock.monotonicTime(of: 700_000, lead: 600_000) == 100_000)
  }
}
