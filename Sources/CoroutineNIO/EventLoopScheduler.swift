// SPDX-License-Identifier: Apache-2.0

#if NIO
  import Context
  public import Coroutine
  public import NIOCore
  import Synchronization

  /// Coroutines run on an event loop of SwiftNIO, one after another, between its handlers: `Coroutine(on: .eventLoop(loop))`.
  ///
  /// ```swift
  /// Coroutine(on: .eventLoop(channel.eventLoop)) {
  ///   let user = try users.find(name).get()          // an EventLoopFuture: suspends
  ///   channel.writeAndFlush(user.page, promise: nil)
  /// }
  /// ```
  ///
  /// The code of such a coroutine is on the loop's thread: it may use what belongs to the loop, `syncOperations` and
  /// loop-bound values among it, and must not block, nor compute for long. What becomes ready runs together once the loop
  /// has handled its current events; but a coroutine that waits to read resumes immediately after its channel's read, if no other
  /// is ready. What `NIOConnection`s write in such a run is flushed at its end, once each.
  ///
  /// One for each loop; it lives as long as a coroutine of the loop. A loop that is shut down while coroutines are
  /// suspended on it can't run them any more (NIO prints that), and their joiners wait for ever: join them first.
  // Unchecked: what changes belongs to the loop's thread.
  public final class EventLoopScheduler: SharingScheduler, HiddenFromMirrors, @unchecked Sendable {
    /// Where its coroutines run.
    public let eventLoop: any EventLoop
    private let ready = CoroutineJobQueue()
    package let sharedAccesses = SharedAccesses()
    /// `Fork.count` of the process that has the loop.
    private let madeIn = Fork.count
    /// The reader of the channel that is reading now: it runs when that channel has read everything. It is set only while
    /// `ready` is empty, so it overtakes no other coroutine.
    @exclusivity(unchecked) private var reader: CoroutineJob?
    @exclusivity(unchecked) private(set) var emptyMessages = EmptyMessages()
    @exclusivity(unchecked) var written = WrittenMessages()
    /// Handlers to which coroutines have written since the end of the last run, linked through themselves; retained.
    @exclusivity(unchecked) private var firstListed: Unmanaged<ConnectionHandler>?
    @exclusivity(unchecked) private var lastListed: Unmanaged<ConnectionHandler>?
    /// How many pipelines are getting what was written, one on top of the other.
    @exclusivity(unchecked) var givingCount = 0
    @exclusivity(unchecked) private var isInRun = false
    /// Whether the loop has a task to run what is ready, of those that its own thread asks for.
    @exclusivity(unchecked) private var isRunDue = false
    /// Since when it runs without the loop having looked for events.
    @exclusivity(unchecked) private var busySince: NIODeadline?
    /// When the run before has ended, if the next one was to follow at once.
    @exclusivity(unchecked) private var lastRunEnd: NIODeadline?

    fileprivate init(_ eventLoop: any EventLoop) {
      self.eventLoop = eventLoop
    }

    deinit { Self.forget(eventLoop) }

    public func enqueue(_ job: consuming CoroutineJob) {
      if Fork.count != madeIn {
        reportLeftInParent("an event loop has a coroutine to run", "run it there on a loop that was made there")
      }
      guard ready.append(job) else { return }
      if eventLoop.inEventLoop { runReadySoon() } else { eventLoop.execute { self.runReady(self.ready) } }
    }

    public var isCurrent: Bool { eventLoop.inEventLoop }
    public var isSerial: Bool { true }

    /// On the loop's thread, as all that follows. One task at a time is enough: it comes to what is ready by then.
    ///
    /// (Two captured references make the closure's context an object of its own. With `self` alone Swift uses the scheduler as the
    /// context, and NIO retains and releases it about a dozen times for each task. That is slow, as there is a weak reference to the
    /// scheduler.)
    private func runReadySoon() {
      guard !isRunDue else { return }
      isRunDue = true
      eventLoop.execute { [ready] in
        self.isRunDue = false
        self.runReady(ready)
      }
    }

    private var hasReader: Bool {
      switch reader {
      case .some(_): true
      case .none: false
      }
    }

    /// Runs the reader of a channel when that has read, in the middle of the events of the loop: what it has read is answered
    /// while it is in the processor's caches. Behind others that are ready it is one of them.
    @inline(__always)
    func runAfterRead(_ reader: consuming CoroutineJob) {
      guard !isInRun, !hasReader, ready.isEmpty else { return enqueue(reader) }
      self.reader = consume reader
      // Should the channel not say that it has read.
      runReadySoon()
    }

    /// A channel has read. Those that become ready meanwhile have their turn after the events.
    ///
    /// (Inlined, it would count a reference to this, which is slow, since there is a weak one.)
    @inline(never)
    func runReader() {
      // Nor on the stack of a coroutine that a handler has begun at once, nor of a handler that has a coroutine's message.
      guard !isInRun, givingCount == 0, CoroutineCore.current == nil, let reader = reader.take() else { return }
      isInRun = true
      reader.run(sharedAccesses)
      endRun()
    }

    /// - Parameter ready: this scheduler's. `runReadySoon` says why it is passed.
    private func runReady(_ ready: CoroutineJobQueue) {
      // How long the loop takes from one of its tasks to the next.
      let pause = lastRunEnd.map { NIODeadline.now() - $0 } ?? .zero
      lastRunEnd = nil
      isInRun = true
      if let reader = reader.take() { reader.run(sharedAccesses) }
      let isMore = ready.run(limit: Self.batch, sharedAccesses)
      endRun()
      guard isMore else {
        busySince = nil
        return
      }
      // A loop looks for events only when it has nothing to execute: coroutines that yield to each other would keep it from
      // that for ever. After a while it gets a moment without them.
      let now = NIODeadline.now()
      if let since = busySince, now - since >= Self.slice {
        busySince = nil
        // Long enough not to be over when the loop looks whether it is.
        let moment = min(max(Self.shortestMoment, pause * 4), Self.slice)
        eventLoop.scheduleTask(in: moment) { self.runReady(self.ready) }
      } else {
        busySince = busySince ?? now
        lastRunEnd = now
        runReadySoon()
      }
    }

    /// A message for what a channel has read.
    @inline(__always)
    func emptyMessage() -> ErasedMessage { emptyMessages.removeFirst() }

    /// A message whose value was taken.
    @inline(__always)
    func keep(_ message: consuming ErasedMessage) { emptyMessages.insert(consume message) }

    /// Ends the handler's run when this one ends; outside of a run, behind the loop's present tasks. Once until it is done.
    @inline(__always)
    func endLater(_ handler: ConnectionHandler) {
      if !isInRun, firstListed == nil { scheduleEnd() }
      let handler = Unmanaged.passRetained(handler)
      if let lastListed {
        lastListed._withUnsafeGuaranteedRef { $0.nextListed = handler }
      } else {
        firstListed = handler
      }
      lastListed = handler
    }

    private func scheduleEnd() {
      eventLoop.execute {
        // A loop for tests may execute it inside of one, which then has its end to come.
        if !self.isInRun { self.endRun() }
      }
    }

    /// The pipelines get what was written, and a flush each. A part of the run: a reader that a pipeline wakes meanwhile would
    /// run on top of that pipeline's handlers, and what it writes could overtake what they have.
    private func endRun() {
      isInRun = true
      defer { isInRun = false }
      // A handler that one of these passes may have others written.
      while let handler = firstListed?.takeRetainedValue() {
        firstListed = handler.nextListed
        if firstListed == nil { lastListed = nil }
        handler.nextListed = nil
        handler.endRun()
      }
    }

    /// How many turns of coroutines in a run, before the loop's other tasks.
    private static var batch: Int { 256 }
    private static var slice: TimeAmount { .milliseconds(1) }
    private static var shortestMoment: TimeAmount { .microseconds(20) }
  }

  extension EventLoopScheduler {
    private struct Weak {
      weak var scheduler: EventLoopScheduler?
    }

    private static let lock = Lock()
    /// By their loops. A scheduler keeps its loop, so that an address belongs to one loop while it is listed. Guarded by the
    /// lock.
    nonisolated(unsafe) private static var known: [ObjectIdentifier: Weak] = [:]

    /// The scheduler of a loop, made when there is none. Callable from any thread.
    public static func of(_ eventLoop: any EventLoop) -> EventLoopScheduler {
      lock.withLock {
        if let scheduler = known[ObjectIdentifier(eventLoop)]?.scheduler { return scheduler }
        let scheduler = EventLoopScheduler(eventLoop)
        known[ObjectIdentifier(eventLoop)] = Weak(scheduler: scheduler)
        return scheduler
      }
    }

    private static func forget(_ eventLoop: any EventLoop) {
      // Another one may have been made meanwhile. It may be released by its last user right now: then here, behind the unlock, as
      // its end comes to this, too.
      let other = lock.withLock {
        let other = known[ObjectIdentifier(eventLoop)]?.scheduler
        if other == nil { known[ObjectIdentifier(eventLoop)] = nil }
        return other
      }
      withExtendedLifetime(other) {}
    }
  }

  extension Scheduler where Self == EventLoopScheduler {
    /// An event loop of SwiftNIO: `Coroutine(on: .eventLoop(channel.eventLoop)) { … }`. See `EventLoopScheduler`.
    public static func eventLoop(_ eventLoop: any EventLoop) -> EventLoopScheduler { .of(eventLoop) }
  }
#endif
