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
  // Unchecked: `held` belongs to the loop's thread.
  final class DemandQueue<Element: Sendable>: HiddenFromMirrors, @unchecked Sendable {
    let elements: Coroutine::Channel<Element>
    private let eventLoop: any EventLoop
    private let few: Int
    private let many: Int
    private let isShut = Atomic<Bool>(false)
    /// How many elements the channel has read that can't be appended yet.
    private let announcedCount = Atomic<Int>(0)
    /// The handler's context that asks to read, and is to wait.
    @exclusivity(unchecked) private var held: ChannelHandlerContext?

    init(of eventLoop: any EventLoop, readAhead: ClosedRange<Int>, name: String) {
      self.eventLoop = eventLoop
      (few, many) = (readAhead.lowerBound, readAhead.upperBound)
      elements = Coroutine::Channel(capacity: .unbounded, name: name)
    }

    /// Something was read. On any thread.
    func append(_ element: Element) {
      // Refused where no reader wants it any more.
      _ = elements.trySend(element)
      shutIfMany(elements.count + announcedCount.load(ordering: .relaxed))
    }

    /// Something was read that can't be appended yet. On any thread, as the next one.
    func announce() {
      shutIfMany(elements.count + announcedCount.add(1, ordering: .sequentiallyConsistent).newValue)
    }

    /// What was announced can be appended, or never will be.
    func settle() {
      announcedCount.subtract(1, ordering: .sequentiallyConsistent)  // litmus: demand-gate
      tookOne()
    }

    /// The same on the loop's thread, by a channel that reads: a reader that has waited on that loop goes on when it has.
    @inline(__always)
    func append(_ element: consuming Element, readBefore scheduler: EventLoopScheduler) {
      var reader: CoroutineJob?
      let count = elements.send(consume element, by: scheduler, waking: &reader)
      if let reader = reader.take() { scheduler.runAfterRead(reader) }
      shutIfMany(count)
    }

    @inline(__always)
    private func shutIfMany(_ count: Int) {
      guard count >= many else { return }
      isShut.store(true, ordering: .sequentiallyConsistent)  // litmus: demand-gate
      // A reader that takes elements looks at the gate after that. Either it has seen it shut, or this sees that there
      // are few.
      openIfFew()
    }

    /// Something was taken. On any thread.
    func tookOne() {
      if isShut.load(ordering: .sequentiallyConsistent) { openIfFew() }  // litmus: demand-gate
    }

    private func openIfFew() {
      guard elements.count + announcedCount.load(ordering: .sequentiallyConsistent) <= few else { return }
      if eventLoop.inEventLoop { open() } else { eventLoop.execute { self.open() } }
    }

    private func open() {
      isShut.store(false, ordering: .sequentiallyConsistent)
      held.take()?.read()
    }

    // MARK: On the loop's thread

    /// The channel asks for the next read.
    func read(_ context: ChannelHandlerContext) {
      if isShut.load(ordering: .sequentiallyConsistent) { held = context } else { context.read() }
    }

    /// Nothing more will be read.
    func close(throwing error: (any Error)? = nil) {
      held = nil
      elements.close(throwing: error)
    }
  }
#endif
