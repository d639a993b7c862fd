import CoroutineTestSupport

@testable import Coroutine

/// An operation that waits for ever, and a check that it has left no waiter behind.
struct WaitingOperation: Sendable {
  let name: String
  let reason: SuspensionReason
  /// Whether the operation takes a timeout.
  var hasTimeout = true
  let wait: @Sendable (Duration?) throws -> Void
  /// The same operation in `async` code, if there is one.
  var waitInTask: (@Sendable (Duration?) async throws -> Void)?
  /// Whether nothing has happened, and no queue has a waiter.
  var isUntouched: @Sendable () throws -> Bool = { true }
}

/// One operation of each kind. They wait as long as this lives, and until `finish()`.
struct WaitingOperations: Sendable {
  let all: [WaitingOperation]
  private let release = Channel<Void>()
  /// Owns what the others wait for.
  private let holder: Coroutine<Void, any Error>
  private let actor: MessageActor<Reply<Int>>
  private let others: [Coroutine<Void, any Error>]

  init() async {
    let release = release
    let (empty, full) = (Channel<Int>(), Channel<Int>(capacity: .buffered(1)))
    _ = full.trySend(1)
    let isFull: @Sendable () -> Bool = { full.trySend(3) == .full(3) && full.storage.machine.senders.isEmpty }
    let isEmpty: @Sendable () -> Bool = { empty.trySend(1) == .full(1) && empty.storage.machine.receivers.isEmpty }
    let (promise, resolver) = Promise.makePromise(of: Int.self)
    let isPending: @Sendable () -> Bool = { promise.isPending && promise.storage.waiterAndObserverCount == 0 }
    let held = CoroutineMutex(name: "held")
    let guarded = ReadWriteLock(0)
    let once = Once<Int>()
    let holder = Coroutine {
      try held.withLock {
        try guarded.withWriteLock { _ in
          _ = try once.get {
            try release.receive()
            return 1
          }
        }
      }
      resolver.fulfill(1)
    }
    // The actor takes no message before it is released.
    let actor = MessageActor<Reply<Int>>(on: .pool, mailbox: .bounded(1)) { mailbox in
      try release.receive()
      for reply in mailbox { reply.complete(1) }
    }
    let filling = Coroutine { () throws -> Void in _ = try actor.ask { $0 } }
    let mutex = CoroutineMutex(0)
    let condition = Condition(of: mutex)
    let semaphore = Semaphore(permits: 1)
    _ = semaphore.tryAcquire()
    let barrier = Barrier(parties: 2)
    let group = WaitGroup(count: 1)
    let (crowded, quiet) = (BroadcastChannel<Int>(capacity: 1), BroadcastChannel<Int>())
    let (slow, stories) = (crowded.subscribe(), quiet.subscribe())
    _ = crowded.trySend(1)
    let level = WatchedValue(0)
    let family = CoroutineScope()
    family.launch { try release.receive() }
    let elements = AsyncGenerator<Int>(on: .pool) { yield in
      try yield(0)
      try Channel<Void>().receive()
    }
    // It has begun, as all that the operations wait for.
    _ = try? await elements.next()
    let (progress, reporter) = ProgressPromise<Double, Int>.makePromise()

    all = [
      WaitingOperation(
        name: "send", reason: .send, wait: { try full.send(2, timeout: $0) },
        waitInTask: { try await full.send(2, timeout: $0) },
        isUntouched: isFull),
      WaitingOperation(
        name: "receive", reason: .receive, wait: { _ = try empty.receive(timeout: $0) },
        waitInTask: { _ = try await empty.receive(timeout: $0) },
        isUntouched: isEmpty),
      WaitingOperation(
        name: "receiveAll", reason: .receive, wait: { _ = try empty.receiveAll(timeout: $0) },
        waitInTask: { _ = try await empty.receiveAll(timeout: $0) },
        isUntouched: isEmpty),
      WaitingOperation(
        name: "iteration", reason: .receive, hasTimeout: false,
        wait: { _ in
          for _ in empty.received {}
          try Coroutine.checkCancellation()
        },
        waitInTask: { _ in
          for await _ in empty {}
          try Task.checkCancellation()
        },
        isUntouched: isEmpty),
      WaitingOperation(
        name: "select", reason: .select,
        wait: { timeout in
          try select {
            full.onSend(2)
            empty.onReceive { _ in }
            promise.onValue { _ in }
            if let timeout { onTimeout(timeout) { throw TimeoutError(after: timeout) } }
          }
        },
        waitInTask: { timeout in
          try await select {
            full.onSend(2)
            empty.onReceive { _ in }
            promise.onValue { _ in }
            if let timeout { onTimeout(timeout) { throw TimeoutError(after: timeout) } }
          }
        },
        isUntouched: { isFull() && isEmpty() && isPending() }),
      WaitingOperation(
        name: "promise", reason: .promise,
        wait: { timeout in
          _ = if let timeout { try promise.get(timeout: timeout) } else { try promise.get() }
        },
        waitInTask: { timeout in
          _ = if let timeout { try await promise.get(timeout: timeout) } else { try await promise.get() }
        },
        isUntouched: isPending),
      WaitingOperation(
        name: "several", reason: .promise, hasTimeout: false,
        wait: { _ in _ = try values(of: promise, holder) },
        waitInTask: { _ in _ = try await values(of: promise, holder) },
        isUntouched: isPending),
      WaitingOperation(
        name: "progress", reason: .receive, hasTimeout: false,
        wait: { _ in
          for _ in progress.progress {}
          try Coroutine.checkCancellation()
          _ = reporter
        },
        waitInTask: { _ in
          for await _ in progress {}
          try Task.checkCancellation()
        },
        isUntouched: { progress.latestProgress == nil }),
      WaitingOperation(
        name: "generator", reason: .receive, hasTimeout: false, wait: { _ in _ = try elements.next() },
        waitInTask: { _ in _ = try await elements.next() },
        isUntouched: { elements.owner.storage.machine.consumers.isEmpty && elements.owner.storage.machine.asking == 0 }),
      WaitingOperation(
        name: "join", reason: .join,
        wait: { timeout in
          if let timeout { try holder.get(timeout: timeout) } else { try holder.get() }
        },
        waitInTask: { timeout in
          if let timeout { try await holder.get(timeout: timeout) } else { try await holder.get() }
        },
        isUntouched: { !holder.isFinished && !holder.isCancelled }),
      WaitingOperation(name: "sleep", reason: .sleep, hasTimeout: false) { _ in
        try Coroutine.sleep(for: .seconds(1_000_000))
      },
      WaitingOperation(name: "callback", reason: .callback, hasTimeout: false) { _ in
        let kept = Guarded<Resumption<Void>?>(nil)
        try withSuspension { resume in kept.withLock { $0 = resume } }
      },
      WaitingOperation(
        name: "mutex", reason: .lock, wait: { try held.withLock(timeout: $0) {} },
        waitInTask: { try await held.withLock(timeout: $0) {} },
        isUntouched: { held.withLockIfAvailable {} == nil && held.storage.waiterCount == 0 }),
      WaitingOperation(
        name: "read lock", reason: .lock, wait: { try guarded.withReadLock(timeout: $0) { _ in } },
        waitInTask: { try await guarded.withReadLock(timeout: $0) { _ in } },
        isUntouched: { guarded.withReadLockIfAvailable { _ in } == nil }),
      WaitingOperation(
        name: "write lock", reason: .lock, wait: { try guarded.withWriteLock(timeout: $0) { _ in } },
        waitInTask: { try await guarded.withWriteLock(timeout: $0) { _ in } },
        isUntouched: { guarded.withWriteLockIfAvailable { _ in } == nil }),
      WaitingOperation(
        name: "once", reason: .once, wait: { _ = try once.get(timeout: $0) { 2 } },
        waitInTask: { _ = try await once.get(timeout: $0) { 2 } },
        isUntouched: { once.value == nil }),
      WaitingOperation(
        name: "condition", reason: .condition,
        wait: { timeout in try mutex.withLock { try condition.wait(&$0, timeout: timeout) } },
        waitInTask: { timeout in
          try await mutex.withLock { try await condition.wait(&$0, timeout: timeout) }
        },
        isUntouched: { mutex.withLockIfAvailable { _ in } != nil }),
      WaitingOperation(
        name: "semaphore", reason: .permit, wait: { try semaphore.acquire(timeout: $0) },
        waitInTask: { try await semaphore.acquire(timeout: $0) },
        isUntouched: {
          guard semaphore.storage.waiterCount == 0 else { return false }
          semaphore.release()
          return semaphore.tryAcquire() && !semaphore.tryAcquire()
        }),
      WaitingOperation(
        name: "barrier", reason: .barrier, wait: { _ = try barrier.wait(timeout: $0) },
        waitInTask: { _ = try await barrier.wait(timeout: $0) },
        isUntouched: {
          // If a waiter had stayed, this would be the second one.
          do { _ = try barrier.wait(timeout: .zero) } catch is TimeoutError { return true }
          return false
        }),
      WaitingOperation(
        name: "wait group", reason: .group, wait: { try group.wait(timeout: $0) },
        waitInTask: { try await group.wait(timeout: $0) },
        isUntouched: { group.count == 1 }),
      WaitingOperation(
        name: "broadcast", reason: .send, wait: { try crowded.send(2, timeout: $0) },
        waitInTask: { try await crowded.send(2, timeout: $0) },
        isUntouched: { crowded.trySend(3) == .full(3) && slow.owner.storage.senderCount == 0 }),
      WaitingOperation(
        name: "subscription", reason: .receive, wait: { _ = try stories.receive(timeout: $0) },
        waitInTask: { _ = try await stories.receive(timeout: $0) },
        isUntouched: { stories.tryReceive() == .empty && stories.owner.reader.waiters.isEmpty }),
      WaitingOperation(
        name: "watched value", reason: .receive, wait: { timeout in try level.wait(timeout: timeout) { $0 > 0 } },
        waitInTask: { timeout in try await level.wait(timeout: timeout) { $0 > 0 } },
        isUntouched: { level.value == 0 }),
      WaitingOperation(
        name: "scope", reason: .join, wait: { try family.join(timeout: $0) },
        waitInTask: { try await family.join(timeout: $0) },
        isUntouched: { family.storage.joinerCount == 0 }),
      WaitingOperation(
        name: "tell", reason: .send, wait: { timeout in _ = try actor.ask(timeout: timeout) { $0 } },
        waitInTask: { timeout in _ = try await actor.ask(timeout: timeout) { $0 } },
        isUntouched: { actor.storage.machine.senders.isEmpty }),
    ]
    self.holder = holder
    self.actor = actor
    others = [filling]
    while holder.suspension?.reason != .receive || filling.suspension?.reason != .promise { await Task.yield() }
  }

  /// Lets the coroutines go on that hold up the operations.
  func finish() async throws {
    for _ in 0..<3 { try await release.send(()) }
    try await holder.get()
    for other in others { try await other.get() }
    actor.cancel()
    _ = try? await actor.join()
  }
}
