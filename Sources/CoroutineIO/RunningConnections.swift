// SPDX-License-Identifier: Apache-2.0

import Context
package import Coroutine
import Synchronization

/// The coroutines of the connections that are served.
///
/// Not a scope's children: a scope ends all of them when one fails, and one that gets no stack fails.
// Unchecked: the lock guards what changes.
package final class RunningConnections: @unchecked Sendable {
  private let lock = Lock()
  // Guarded by the lock, all three.
  /// The coroutines that run.
  private var running: [UInt64: Coroutine<Void, Never>] = [:]
  private var started: UInt64 = 0
  private var isCancelled = false
  /// The room that is left.
  private let room: Semaphore?
  private let all: WaitGroup
  /// Whether a connection has got no stack, and none has begun since.
  private let isShortOfStacks = Atomic<Bool>(false)
  /// In a shortage of stacks: has an element when a connection has ended, which gives its stack back, or one has begun.
  private let news: Channel<Void>

  package init(limit: Int?, name: String) {
    room = limit.map { Semaphore(permits: $0, name: name) }
    all = WaitGroup(name: name)
    news = Channel(capacity: .conflated, name: "a stack for \(name)")
  }

  /// Has one after another started, each when there are a stack and room for it, until no more will come.
  ///
  /// - Parameters:
  ///   - ended: gives `false` when no more will come, which ends a wait for room; `nil`: only `startNext` knows.
  ///   - startNext: waits for the next one, and starts it; false: there will be none.
  /// - Throws: `CancellationError`; what `ended` or `startNext` throws.
  package func startAll<Peer, Operation: SelectOperation>(
    until ended: Select.Case<Operation, Bool>?, reportingTo errors: ServingErrors<Peer>, startNext: () throws -> Bool
  ) throws {
    while true {
      errors.reportLate()
      try waitForStack()
      guard try waitForRoom(or: ended) else { return }
      var hasStarted = false
      defer { if !hasStarted { room?.release() } }
      hasStarted = try startNext()
      guard hasStarted else { return }
    }
  }

  /// Suspends the calling coroutine for a moment if the last connection has got no stack: until one ends, or begins. Otherwise
  /// each client would be accepted, and dropped.
  ///
  /// - Parameter time: how long at most: other code gives stacks back, too.
  /// - Throws: `CancellationError`.
  func waitForStack(upTo time: Duration = .milliseconds(100)) throws {
    guard isShortOfStacks.load(ordering: .relaxed) else { return }
    do { try news.receive(timeout: time) } catch is TimeoutError {}
  }

  /// Suspends the calling coroutine while there are as many as may be.
  ///
  /// - Returns: whether there is room; false: no more will come.
  func waitForRoom<Operation: SelectOperation>(or ended: Select.Case<Operation, Bool>?) throws -> Bool {
    guard let room, !room.tryAcquire() else { return true }
    guard let ended else {
      try room.acquire()
      return true
    }
    return try select {
      room.onAcquire { true }
      ended
    }
  }

  /// Starts one, which takes the room that was waited for.
  ///
  /// - Parameters:
  ///   - body: learns whether all are being cancelled.
  ///   - withoutStack: is called in place of `body`, with the error, if it gets no stack: outside of coroutines, so that it
  ///     must not wait.
  package func start(
    on scheduler: some Scheduler = .inherited, name: String, stackSize: Int?,
    _ body: @escaping @Sendable (_ isCancelled: () -> Bool) -> Void,
    withoutStack: @escaping @Sendable (_ error: any Error) -> Void
  ) {
    all.add()
    let coroutine = Coroutine(on: scheduler, name: name, stackSize: stackSize) { [self] in
      noteBegin()
      body { self.isBeingCancelled }
    }
    let number = lock.withLock {
      started += 1
      running[started] = coroutine
      return started
    }
    coroutine.atEnd { [self] error in
      if let error {
        isShortOfStacks.store(true, ordering: .relaxed)
        withoutStack(error)
      } else {
        sendNews()
      }
      ended(number)
    }
  }

  /// Waits until all that run have ended.
  package func waitForAll() throws { try all.wait() }

  /// Waits until all have ended, and cancels them when the time is up, or the caller is cancelled.
  ///
  /// - Parameter isCancelled: whether the caller is already, so that its cancel has begun the time, and does not end it.
  /// - Throws: `CancellationError` if it is cancelled now. All have ended then, too.
  package func end(after grace: Duration, isCancelled wasCancelled: Bool) throws {
    do {
      if wasCancelled {
        try withCancellationShield { try all.wait(timeout: grace) }
      } else {
        try all.wait(timeout: grace)
      }
    } catch {
      let rest = lock.withLock {
        isCancelled = true
        return Array(running.values)
      }
      for coroutine in rest { coroutine.cancel() }
      do { try withCancellationShield { try all.wait() } } catch {
        fatalError("a shielded wait for connections ended early: \(error)")
      }
      if error is CancellationError { throw error }
    }
  }

  private var isBeingCancelled: Bool { lock.withLock { isCancelled } }

  private func noteBegin() {
    guard isShortOfStacks.load(ordering: .relaxed) else { return }
    sendNews()
    isShortOfStacks.store(false, ordering: .relaxed)
  }

  private func sendNews() {
    if isShortOfStacks.load(ordering: .relaxed) { _ = news.trySend(()) }
  }

  private func ended(_ number: UInt64) {
    // Released after the unlock.
    _ = lock.withLock { running.removeValue(forKey: number) }
    room?.release()
    all.done()
  }
}
