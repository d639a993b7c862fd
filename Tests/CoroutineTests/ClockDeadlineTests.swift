import Dispatch
import Testing

@testable import Coroutine

/// `withTimeout(until:clock:)` around an operation ends its wait as exactly as a timeout of its own, whatever the clock.
@Suite struct ClockDeadlineTests {
  /// Something that would wait for ever, and how one sees that nobody waits there any more.
  private struct Operation: Sendable {
    let name: String
    let reason: SuspensionReason
    /// With its own timeout, or without one.
    let wait: @Sendable (Duration?) throws -> Void
    let isUntouched: @Sendable () throws -> Bool
  }

  private static func operations() -> [Operation] {
    let (empty, full) = (Channel<Int>(), Channel<Int>(capacity: .buffered(1)))
    _ = full.trySend(1)
    let isFull: @Sendable () -> Bool = { full.trySend(3) == .full(3) && full.storage.machine.senders.isEmpty }
    let (promise, resolver) = Promise.makePromise(of: Int.self)
    let held = CoroutineMutex(name: "held")
    let guarded = ReadWriteLock(0)
    let release = Channel<Void>()
    let never = Coroutine {
      try held.withLock { try guarded.withWriteLock { _ in try release.receive() } }
      _ = resolver
    }
    let mutex = CoroutineMutex(0)
    let condition = Condition(of: mutex)
    let semaphore = Semaphore(permits: 1)
    _ = semaphore.tryAcquire()
    let barrier = Barrier(parties: 2)
    let group = WaitGroup(count: 1)
    return [
      Operation(name: "send", reason: .send) {
        try full.send(2, timeout: $0)
      } isUntouched: {
        isFull()
      },
      Operation(name: "receive", reason: .receive) {
        _ = try empty.receive(timeout: $0)
      } isUntouched: {
        empty.trySend(1) == .full(1)
      },
      Operation(name: "receiveAll", reason: .receive) {
        _ = try empty.receiveAll(timeout: $0)
      } isUntouched: {
        empty.trySend(1) == .full(1)
      },
      Operation(name: "select", reason: .select) { timeout in
        try select {
          full.onSend(2)
          empty.onReceive { _ in }
          promise.onValue { _ in }
          if let timeout { onTimeout(timeout) { throw TimeoutError(after: timeout) } }
        }
      } isUntouched: {
        isFull() && empty.trySend(1) == .full(1) && promise.storage.waiterAndObserverCount == 0
      },
      Operation(name: "promise", reason: .promise) { timeout in
        _ = if let timeout { try promise.get(timeout: timeout) } else { try promise.get() }
      } isUntouched: {
        promise.isPending && promise.storage.waiterAndObserverCount == 0
      },
      Operation(name: "join", reason: .join) { timeout in
        if let timeout { try never.get(timeout: timeout) } else { try never.get() }
      } isUntouched: {
        !never.isFinished && !never.isCancelled
      },
      Operation(name: "mutex", reason: .lock) {
        try held.withLock(timeout: $0) {}
      } isUntouched: {
        held.withLockIfAvailable {} == nil
      },
      Operation(name: "read lock", reason: .lock) {
        try guarded.withReadLock(timeout: $0) { _ in }
      } isUntouched: {
        guarded.withReadLockIfAvailable { _ in } == nil
      },
      Operation(name: "write lock", reason: .lock) {
        try guarded.withWriteLock(timeout: $0) { _ in }
      } isUntouched: {
        guarded.withWriteLockIfAvailable { _ in } == nil
      },
      Operation(name: "condition", reason: .condition) { timeout in
        try mutex.withLock { try condition.wait(&$0, timeout: timeout) }
      } isUntouched: {
        mutex.withLockIfAvailable { _ in } != nil
      },
      Operation(name: "semaphore", reason: .permit) {
        try semaphore.acquire(timeout: $0)
      } isUntouched: {
        semaphore.release()
        return semaphore.tryAcquire() && !semaphore.tryAcquire()
      },
      Operation(name: "barrier", reason: .barrier) {
        _ = try barrier.wait(timeout: $0)
      } isUntouched: {
        // Had it stayed, this would be the second one.
        do { _ = try barrier.wait(timeout: .zero) } catch is TimeoutError { return true }
        return false
      },
      Operation(name: "wait group", reason: .group) {
        try group.wait(timeout: $0)
      } isUntouched: {
        group.count == 1
      },
      // Also ends what the others wait for.
      Operation(name: "last", reason: .receive) {
        _ = try empty.receive(timeout: $0)
      } isUntouched: {
        try release.send(())
        try never.get()
        return true
      },
    ]
  }

  @Test func everyOperationGivesUpAtATimeOfAnyClockAndIsGone() async throws {
    for operation in Self.operations() {
      let clock = ManualClock()
      let waiting = Coroutine(on: DispatchQueue(label: "serial")) { () -> String in
        let ended = outcome {
          try withTimeout(until: .init(offset: .seconds(3)), clock: clock) { try operation.wait(nil) }
        }
        return "\(ended), untouched: \(try operation.isUntouched())"
      }
      while waiting.suspension?.reason != operation.reason { await Task.yield() }
      clock.opened.continuation.yield()
      #expect(try await waiting.get() == "timed out, untouched: true", "\(operation.name)")
    }
  }

  /// What the test above expects is what the operations do with timeouts of their own.
  @Test func everyOperationGivesUpAtItsOwnTimeoutAndIsGone() async throws {
    for operation in Self.operations() {
      let ended = try await serially {
        let ended = outcome { try operation.wait(.milliseconds(1)) }
        return "\(ended), untouched: \(try operation.isUntouched())"
      }
      #expect(ended == "timed out, untouched: true", "\(operation.name)")
    }
  }

  @Test func whoComesNextInTheLineIsServedAndTheHandlerRunsBeforeTheError() async throws {
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

  @Test func whoAsksAnActorGoesOnInTimeThoughThatBlocksItsThread() async throws {
    let pool = ThreadPool(threads: 2)
    let hasGoneOn = DispatchSemaphore(value: 0)
    let actor = MessageActor<Reply<Int>>(on: pool) { mailbox in
      for reply in mailbox {
        _ = hasGoneOn.wait(timeout: .now() + 60)
        reply.complete(7)
      }
    }
    let ended = try await Coroutine(on: pool) {
      // Once it waits for a message, a thread could be lent to it.
      while !actor.storage.isIdle { Coroutine.yield() }
      let ended = outcome { try withTimeout(.milliseconds(1)) { _ = try actor.ask { $0 } } }
      hasGoneOn.signal()
      return ended
    }.get()
    #expect(ended == "timed out")
  }
}
