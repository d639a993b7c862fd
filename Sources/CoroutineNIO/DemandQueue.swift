// SPDX-License-Identifier: Apache-2.0

#if NIO
  import Coroutine
  import NIOCore
  import Synchronization

  /// What a channel has read and no reader has taken yet, and the gate that keeps it from reading more.
  ///
  /// The channel keeps `autoRead`: after each read it asks for the next one, and that passes its handlers. While the gate is
  /// open it reaches the socket, which stays registered with the kernel; so demand costs no system call. Shut, the request is
  /// held until the elements have become few.
  ///
  /// The appender shuts the gate, on any thread; the channel's loop opens it.
  ///
  /// `ConnectionHandler` is a subclass, and not an owner, of it: one object fewer of which each request fetches some cache lines.
  // Unchecked: `held` belongs to the loop's thread.
  class DemandQueue<Element: Sendable>: HiddenFromMirrors, @unchecked Sendable {
    final let elements: Coroutine::Channel<Element>
    // The order counts: this is where a connection's memory begins, see `ConnectionHandler`.
    final let eventLoop: any EventLoop
    private final let isShut = Atomic<Bool>(false)
    /// How many elements the channel has read that can't be appended yet.
    private final let announcedCount = Atomic<Int32>(0)
    private final let few: Int
    private final let many: Int
    /// The handler's context of a read that is held back until the gate opens.
    @exclusivity(unchecked) private final var held: ChannelHandlerContext?

    /// - Parameter elements: without a limit of its own.
    init(_ elements: Coroutine::Channel<Element>, of eventLoop: any EventLoop, readAhead: ClosedRange<Int>) {
      self.elements = elements
      self.eventLoop = eventLoop
      (few, many) = (readAhead.lowerBound, readAhead.upperBound)
    }

    /// Something was read. On any thread.
    final func append(_ element: Element) {
      // Refused where no reader wants it any more.
      _ = elements.trySend(element)
      shutIfMany(elements.count + Int(announcedCount.load(ordering: .relaxed)))
    }

    /// Something was read that can't be appended yet. On any thread, as the next one.
    final func announce() {
      shutIfMany(elements.count + Int(announcedCount.add(1, ordering: .sequentiallyConsistent).newValue))
    }

    /// What was announced can be appended, or never will be.
    final func settle() {
      announcedCount.subtract(1, ordering: .sequentiallyConsistent)  // litmus: demand-gate
      tookOne()
    }

    /// As `append`, on the loop's thread, by a channel that reads: a reader that has waited on that loop goes on when it has.
    @inline(__always)
    final func append(_ element: consuming Element, readBefore scheduler: EventLoopScheduler) {
      var reader: CoroutineJob?
      let count = elements.send(consume element, by: scheduler, waking: &reader)
      if let reader = reader.take() { scheduler.runAfterRead(reader) }
      shutIfMany(count)
    }

    @inline(__always)
    private final func shutIfMany(_ count: Int) {
      guard count >= many else { return }
      isShut.store(true, ordering: .sequentiallyConsistent)  // litmus: demand-gate
      // A reader that takes elements looks at the gate after that. Either it has seen it shut, or this sees that there
      // are few.
      openIfFew()
    }

    /// Something was taken. On any thread.
    @inline(__always)
    final func tookOne() {
      if isShut.load(ordering: .sequentiallyConsistent) { openIfFew() }  // litmus: demand-gate
    }

    private final func openIfFew() {
      guard elements.count + Int(announcedCount.load(ordering: .sequentiallyConsistent)) <= few else { return }
      // At the end nothing is held, and the loop may be shut down: a reader that takes the rest is not to ask it for anything.
      guard !elements.isClosed else { return }
      if eventLoop.inEventLoop { open() } else { eventLoop.execute { self.open() } }
    }

    /// On the loop's thread.
    final func open() {
      isShut.store(false, ordering: .sequentiallyConsistent)
      held.take()?.read()
    }

    // MARK: On the loop's thread

    /// The channel asks for the next read.
    final func readIfWanted(_ context: ChannelHandlerContext) {
      if isShut.load(ordering: .sequentiallyConsistent) { held = context } else { context.read() }
    }

    /// Nothing more will be read.
    final func endReading(throwing error: (any Error)? = nil) {
      held = nil
      elements.close(throwing: error)
    }
  }
#endif
