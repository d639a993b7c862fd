// SPDX-License-Identifier: Apache-2.0

import Context
package import Coroutine
import Synchronization

extension StreamListener {
  /// Handles connections, each in a coroutine of its own, until the calling coroutine is cancelled or the listener closed.
  ///
  /// ```swift
  /// let server = Coroutine(name: "echo") {
  ///   try listener.serve(limit: 10_000) { connection in
  ///     while let bytes = try connection.read(timeout: .seconds(60)) { try connection.write(bytes) }
  ///   }
  /// }
  /// …
  /// server.cancel()             // no new connections; those that run have ten seconds to end
  /// ```
  ///
  /// The coroutines run on the caller's scheduler, and are named after their peers. A connection is closed when its handler
  /// has returned or thrown. An error of one never ends the others.
  ///
  /// What a handler has written before it returns reaches its peer also if that still sends: a close would reset the
  /// connection then. Where bytes have come that the handler has not read, the peer gets the end, and what it sends is
  /// dropped until its own end, 256 KiB of it at most, for a second at most. A connection whose peer is quiet is closed at
  /// once, as is one whose handler has thrown.
  ///
  /// When it is cancelled, or the listener is closed, it accepts nothing more. It waits for the connections that run,
  /// no longer than `grace`, then cancels them, and waits for their ends. A listener that was not closed stays open; clients
  /// wait in its queue.
  ///
  /// So there are two ways to stop: by a cancel, whose grace nothing ends before its time, and by a close, which a cancel may
  /// follow: that ends the grace, and the connections with it.
  ///
  /// - Parameters:
  ///   - limit: how many connections run at a time, at least 1; more wait to be accepted. `nil`: any number.
  ///   - grace: how long the connections may go on after the end; zero or less: they are cancelled at once.
  ///   - stackSize: of each connection's coroutine; `nil` for the default. A connection that gets no stack is closed, with a
  ///     `StackError` for `onError`; the next one is accepted when one of them has ended, or after 100 ms.
  ///   - onError: called for each error of a handler, in the connection's coroutine, except that of one which was
  ///     cancelled at the end; for the `StackError` of a connection, in the coroutine that has called this, with the next
  ///     connection or at the end. `nil`: `CoroutineErrors.unhandled` gets the first error of each kind, and at the end, the
  ///     number of the others.
  ///   - handler: serves a connection. May suspend, throw, and write and read in any order.
  /// - Throws: `CancellationError` when it was cancelled, also in the grace after a close; `IOError` if nothing can be accepted
  ///   any more. Nothing if the listener was closed.
  /// - Precondition: called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "call it in a coroutine")
  public func serve(
    limit: Int? = nil, grace: Duration = .seconds(10), stackSize: Int? = nil,
    onError: (@Sendable (_ error: any Error, _ peer: SocketAddress) -> Void)? = nil,
    _ handler: @escaping @Sendable (Connection) throws -> Void
  ) throws {
    _ = CoroutineCore.running(for: "serve")
    require(limit ?? 1 > 0, "serve(limit: \(limit ?? 0)) at \(address): at least one connection has to be allowed")
    let connections = RunningConnections(limit: limit, name: "connections at \(address)")
    let errors = ServingErrors<SocketAddress>(origin: "serving \(address)", onError: onError)
    defer { errors.reportRest() }
    let ended = (self as? any DescriptorListener)?.onEnded
    var failure: (any Error)?
    do {
      while true {
        errors.reportLate()
        try connections.waitForStack()
        guard try connections.waitForRoom(or: ended) else { break }
        do {
          let connection = try accept(timeout: nil)
          let peer = connection.remoteAddress
          connections.start(name: connection.name, stackSize: stackSize) { isCancelled in
            defer { connection.close() }
            do {
              try handler(connection)
              connection.endpoint.lingerBeforeClose()
            } catch {
              if !(isCancelled() && error is CancellationError) { errors.report(error, of: peer) }
            }
          } withoutStack: { error in
            errors.reportOutside(error, of: peer)
          }
        } catch {
          connections.giveBackRoom()
          throw error
        }
      }
    } catch is DescriptorClosed {
      // Closed by its owner: the end, not an error.
    } catch {
      failure = error
    }
    try connections.end(after: grace, isCancelled: failure is CancellationError)
    if let failure { throw failure }
  }
}

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

  /// Suspends the calling coroutine for a moment if the last connection has got no stack: until one ends, or begins. Otherwise
  /// each client would be accepted, and dropped.
  ///
  /// - Parameter time: how long at most: other code gives stacks back, too.
  /// - Throws: `CancellationError`.
  package func waitForStack(upTo time: Duration = .milliseconds(100)) throws {
    guard isShortOfStacks.load(ordering: .relaxed) else { return }
    do { try news.receive(timeout: time) } catch is TimeoutError {}
  }

  /// Suspends the calling coroutine while there are as many as may be.
  ///
  /// - Parameter ended: gives `false` when nothing more will come, which ends the wait; `nil`: nothing does but room, and a
  ///   cancel.
  /// - Returns: whether there is room.
  /// - Throws: `CancellationError`; what `ended` throws.
  package func waitForRoom<Operation: SelectOperation>(or ended: Select.Case<Operation, Bool>?) throws -> Bool {
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

  /// The room that was waited for is not needed.
  package func giveBackRoom() {
    room?.release()
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
