// SPDX-License-Identifier: Apache-2.0

#if NIO
  import Context
  import Coroutine
  import CoroutineLibc
  import NIOCore
  import Synchronization

  /// The last handler of a connection's pipeline: what arrives here, coroutines read. Where the connection's messages are
  /// streams, the handler that makes them comes behind it.
  // Unchecked: belongs to the loop's thread, but for what the queue says of itself, `writability` and `isHeldUp`, which are for any
  // thread, and `failure`, which is written before the waits are ended, and read after.
  final class ConnectionHandler: DemandQueue<ErasedMessage>, ChannelDuplexHandler, @unchecked Sendable {
    typealias InboundIn = Any
    typealias OutboundIn = Never

    // What a request needs comes first, behind the queue: each cache line of a connection is likely to be fetched from far, once
    // for a request. What changes is the loop's, where nothing else is said.

    let scheduler: EventLoopScheduler
    /// What coroutines of the loop have written, and the pipeline has not got yet.
    @exclusivity(unchecked) private var written = WrittenMessages.Chain()
    /// How many written messages may wait for the run's end. At that number they go to the pipeline before the next write,
    /// since they may make the channel unwritable. Three: the head, the body and the end of a response of HTTP. One when the
    /// channel has been unwritable: then writers notice it as early as they can.
    @exclusivity(unchecked) private var mostWritten: UInt8 = 3
    let kind: ConnectionKind
    @exclusivity(unchecked) private var isUnflushed = false
    /// Whether what the reader needs is being fetched, since a message of the present read has come.
    @exclusivity(unchecked) private var isPrefetched = false
    /// Whether the pipeline is getting what was written.
    @exclusivity(unchecked) private var isGiving = false
    /// Whether the channel takes messages, as `isHeldUp` says for any thread.
    @exclusivity(unchecked) private var isWritable = true
    @exclusivity(unchecked) private var hasEnded = false
    /// Whether the scheduler is going to end its run, and the handler after it.
    @exclusivity(unchecked) private var isListed = false
    /// Whether this side's half has ended, or will when what was written is sent: what is written now would come behind that.
    @exclusivity(unchecked) private var isOutputEnded = false
    /// Whether a message or an event has come through the pipeline, either way: then a handshake, if there is one, is over.
    @exclusivity(unchecked) private var isUsed = false
    @exclusivity(unchecked) private var hasQuiesced = false
    /// Whether what comes is dropped, until the peer's end.
    @exclusivity(unchecked) private var isLingering = false
    private let fill: (ErasedMessage, NIOAny) -> Void
    /// Of the reader that came last. For any thread.
    let reader: PrefetchHint
    @exclusivity(unchecked) private var context: ChannelHandlerContext?
    @exclusivity(unchecked) var nextListed: Unmanaged<ConnectionHandler>?
    let writability: ReadinessStorage
    private let heldUp: Flag
    /// Of callers that have asked for the end of this side's half, which waits until all is sent.
    @exclusivity(unchecked) private var waitingForSent: [EventLoopPromise<Void>] = []
    /// Until the next look whether it is.
    @exclusivity(unchecked) private var pause = TimeAmount.milliseconds(1)
    /// Closes it, when its time is up.
    @exclusivity(unchecked) private var cutOff: Scheduled<Void>?
    /// Of a stream: how many writes are not with the system yet.
    @exclusivity(unchecked) private var unsentCount = 0
    /// Whether it is to be closed. Then `isOutputEnded`, too.
    @exclusivity(unchecked) private var isClosing = false
    /// Whether the peer has ended its half, and the channel goes on.
    @exclusivity(unchecked) private var isInputClosed = false
    /// How often the channel may still read for nothing but the peer's end.
    @exclusivity(unchecked) private var lingeringReads = 64
    /// What a handler has reported, first.
    @exclusivity(unchecked) private(set) var failure: (any Error)?
    /// Called once, when the channel is active.
    @exclusivity(unchecked) var onActive: (() -> Void)?

    /// Whether more is written than the channel wants to keep. Changed by the loop.
    private final class Flag: Sendable {
      let value = Atomic<Bool>(false)
    }

    init(
      of channel: any NIOCore::Channel, _ kind: ConnectionKind, readAhead: ClosedRange<Int>, name: String,
      fill: @escaping (ErasedMessage, NIOAny) -> Void
    ) {
      self.kind = kind
      self.fill = fill
      let name = "NIO connection \(name)"
      let heldUp = Flag()
      self.heldUp = heldUp
      scheduler = EventLoopScheduler.of(channel.eventLoop)
      writability = ReadinessStorage(name: name) { _ in !heldUp.value.load(ordering: .acquiring) }
      let elements = Coroutine::Channel<ErasedMessage>(capacity: .unbounded, name: name)
      reader = PrefetchHint(ofReceiversFrom: elements)
      super.init(elements, of: channel.eventLoop, readAhead: readAhead)
    }

    /// Does something with it, right now or as soon as the loop comes to it. From any thread.
    func onLoopSoon(_ body: @escaping @Sendable (ConnectionHandler) -> Void) {
      if eventLoop.inEventLoop { body(self) } else { eventLoop.execute { body(self) } }
    }

    var isHeldUp: Bool { heldUp.value.load(ordering: .acquiring) }

    // MARK: Inbound

    func handlerAdded(context: ChannelHandlerContext) {
      self.context = context
      isWritable = context.channel.isWritable
      heldUp.value.store(!isWritable, ordering: .releasing)
    }

    func channelActive(context: ChannelHandlerContext) {
      onActive?()
      onActive = nil
      context.fireChannelActive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      isUsed = true
      guard !isLingering else { return }
      guard kind != .ofStreams else { return context.fireChannelRead(data) }
      if !isPrefetched { prefetch() }
      let message = scheduler.emptyMessage()
      fill(message, data)
      append(consume message, readBefore: scheduler)
    }

    /// Before a message is made of the data, which takes as long as a few of these lines would. Once for what one read has brought:
    /// with the first message of a request the reader is woken.
    @inline(__always)
    private func prefetch() {
      isPrefetched = true
      reader.prefetch()
    }

    func channelReadComplete(context: ChannelHandlerContext) {
      isPrefetched = false
      guard !isLingering else { return readWhileLingering(context) }
      scheduler.runReader()
      // A handler behind this one has read something only where messages are streams.
      if kind == .ofStreams { context.fireChannelReadComplete() }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
      switch event as? ChannelEvent {
      case .inputClosed:
        isInputClosed = true
        endReading()
      // Other code has ended this half: NIO refuses what comes now, and a write of a run would not learn of that.
      case .outputClosed: isOutputEnded = true
      default: break
      }
      if event is ChannelShouldQuiesceEvent {
        // The listener's `serve` sends one, and then `serveStreams` does. The handlers of a protocol may take the second one for an
        // error; but after a handshake they are new, and don't know of the first.
        guard !(kind == .ofStreams && (hasQuiesced || hasEnded)) else { return }
        hasQuiesced = isUsed
      } else {
        isUsed = true
      }
      context.fireUserInboundEventTriggered(event)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
      // Not once it is closed: then others may read it.
      if failure == nil, !writability.isClosed { failure = error }
      endReading(throwing: error)
      if kind == .ofStreams { context.fireErrorCaught(error) }
    }

    func channelInactive(context: ChannelHandlerContext) {
      end()
      context.fireChannelInactive()
    }

    func handlerRemoved(context: ChannelHandlerContext) {
      self.context = nil
      end()
    }

    private func end() {
      hasEnded = true
      onActive = nil
      cutOff?.cancel()
      cutOff = nil
      endReading()
      _ = writability.closeWaits()
      for promise in takeWaitingForSent() { refuse(promise) }
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
      isWritable = context.channel.isWritable
      heldUp.value.store(!isWritable, ordering: .releasing)  // litmus: pool-watch
      if isWritable { writability.becomeReady(.writable) } else { mostWritten = 1 }
      context.fireChannelWritabilityChanged()
    }

    // MARK: Outbound

    func read(context: ChannelHandlerContext) { readIfWanted(context) }

    /// Whether it takes a message at once.
    var takesMessages: Bool { isWritable && !hasEnded && context != nil && !isFull }

    /// Whether it keeps as many messages as it may: then a handler of the pipeline is in the middle of one, and must return
    /// first.
    var isFull: Bool { written.count >= mostWritten }

    /// Whether it takes none any more.
    var isGone: Bool { hasEnded || context == nil }

    /// What a write throws now; `nil`: nothing.
    var refusal: (any Error)? {
      guard !isGone, !isClosing else { return closedError }
      return isOutputEnded ? ChannelError.outputClosed : nil
    }

    /// Where a coroutine of the loop writes a message, at once: the pipeline gets it when the run ends.
    @inline(__always)
    func placeInRun() throws -> UnsafeMutablePointer<NIOAny> {
      eventLoop.assertInEventLoop()
      guard !isGone, !isOutputEnded else { throw refusal ?? closedError }
      return place(promise: nil)
    }

    @inline(__always)
    private func place(promise: EventLoopPromise<Void>?) -> UnsafeMutablePointer<NIOAny> {
      list()
      return scheduler.written.append(promise: promise, to: &written)
    }

    /// At once. While a handler of the pipeline has a message, it comes behind that.
    func write(_ message: NIOAny, promise: EventLoopPromise<Void>?) {
      guard !isGone, !isOutputEnded else { return refuse(promise) }
      place(promise: promise).initialize(to: message)
      giveWritten()
    }

    /// Has the pipeline get what was written, if the channel may be unwritable by it.
    @inline(__always)
    func giveIfMany() {
      if isFull { giveWritten() }
    }

    /// Has the pipeline get what was written.
    @inline(__always)
    func giveWritten() {
      if !written.isEmpty { giveAndFlushLater() }
    }

    private func giveAndFlushLater() {
      guard let context else { return discardWritten() }
      give(to: context)
      flushLater()
    }

    @inline(__always)
    private func give(to context: ChannelHandlerContext) {
      // A handler that has got one gets the others after that.
      guard !isGiving else { return }
      isGiving = true
      isUsed = true
      scheduler.givingCount += 1
      while !written.isEmpty {
        let message = scheduler.written.removeFirst(of: &written)
        context.write(message.data, promise: counted(message.promise))
      }
      scheduler.givingCount -= 1
      isGiving = false
    }

    /// The channel's end has come before.
    private func discardWritten() {
      while !written.isEmpty { refuse(scheduler.written.removeFirst(of: &written).promise) }
    }

    private func flushLater() {
      isUnflushed = true
      list()
    }

    @inline(__always)
    private func list() {
      guard !isListed else { return }
      isListed = true
      scheduler.endLater(self)
    }

    /// At the end of a run.
    func endRun() {
      isListed = false
      if isUnflushed || !written.isEmpty { flush() }
    }

    func flush() {
      guard let context else { return discardWritten() }
      give(to: context)
      isUnflushed = false
      // Not with the write in one call: that flushes from the first handler which has it, and that may remove itself when it has.
      context.flush()
    }

    /// Closes this side's half when all is sent.
    func closeOutput(promise: EventLoopPromise<Void>) {
      guard let context else { return refuse(promise) }
      // It would take this for an abort.
      guard kind != .stream else { return promise.fail(ChannelError.operationUnsupported) }
      // What was written before still goes; nothing is put behind it from now on.
      isOutputEnded = true
      // A handler that has a message asks for it: behind that, and the others.
      if isGiving { return context.eventLoop.assumeIsolated().execute { self.closeOutput(promise: promise) } }
      flush()
      // Behind the end of the peer's half, NIO would close the channel at once, and discard the rest.
      if isInputClosed, !isAllSent(by: context.channel) { return waitUntilSent(promise, on: context.eventLoop) }
      let closed = context.eventLoop.makePromise(of: Void.self)
      closed.futureResult.assumeIsolated().whenComplete { result in
        // All was sent; but the peer's half has ended meanwhile, so that NIO has closed the channel as a whole.
        if self.isInputClosed, case .failure(ChannelError.outputClosed) = result { return promise.succeed() }
        // It has no halves, or a handler has refused, and goes on as before. (Where the half has ended, an event has said so.)
        switch result {
        case .success, .failure(ChannelError.outputClosed): break
        case .failure: self.isOutputEnded = self.isClosing
        }
        promise.completeWith(result)
      }
      context.close(mode: .output, promise: closed)
    }

    /// Whether the system has taken all that was flushed.
    private func isAllSent(by channel: any NIOCore::Channel) -> Bool { unsentBytes(of: channel) == 0 }

    /// What the system has not taken; zero also where the channel does not say.
    private func unsentBytes(of channel: any NIOCore::Channel) -> Int {
      // Other channels with halves, such as those of SSH, need not know the option.
      guard ConnectionKind(of: channel) == .whole, let options = channel.syncOptions else { return 0 }
      return (try? options.getOption(.bufferedWritableBytes)) ?? 0
    }

    /// No event reports it: so this looks again and again, ever less often.
    private func waitUntilSent(_ promise: EventLoopPromise<Void>, on eventLoop: any EventLoop) {
      waitingForSent.append(promise)
      guard waitingForSent.count == 1 else { return }
      defer { pause = min(pause * 2, .milliseconds(64)) }
      _ = eventLoop.assumeIsolated().scheduleTask(in: pause) {
        for promise in self.takeWaitingForSent() { self.closeOutput(promise: promise) }
      }
    }

    private func takeWaitingForSent() -> [EventLoopPromise<Void>] {
      defer { waitingForSent = [] }
      return waitingForSent
    }

    /// What operations throw once it is closed. On the loop's thread, and on others from then on.
    var closedError: any Error { failure ?? ChannelError.ioOnClosedChannel }

    private func refuse(_ promise: EventLoopPromise<Void>?) { promise?.fail(refusal ?? closedError) }

    /// As `close`, after the last copy is gone: nothing else could then cut off a peer that takes nothing for that long.
    func close(cuttingOffAfter limit: TimeAmount) {
      close()
      if let context, cutOff == nil { cutOffLater(ifNothingIsSentIn: limit, context) }
    }

    /// Looks after that time whether the system has taken something, and gives the rest as much time, if so. More than before is
    /// what a handler, such as one of TLS, had kept: that gets the time, too.
    private func cutOffLater(ifNothingIsSentIn limit: TimeAmount, _ context: ChannelHandlerContext) {
      let before = amountUnsent(context.channel)
      cutOff = context.eventLoop.assumeIsolated().scheduleTask(in: limit) {
        guard let context = self.context else { return }
        guard self.amountUnsent(context.channel) != before else { return context.close(promise: nil) }
        self.cutOffLater(ifNothingIsSentIn: limit, context)
      }
    }

    /// In bytes; of a stream, in messages.
    private func amountUnsent(_ channel: any NIOCore::Channel) -> Int {
      kind == .stream ? unsentCount : unsentBytes(of: channel)
    }

    func close() {
      guard let context, !isClosing else { return }
      isClosing = true
      isOutputEnded = true
      if kind == .stream {
        flush()
        return closeIfSent()
      }
      // Nothing was read or written. By halves, the close would wait for the end of a TLS handshake, which may never come.
      guard isUsed || !written.isEmpty || !isAllSent(by: context.channel) else { return context.close(promise: nil) }
      // The half that writes is closed when all is sent; where a channel has no halves, at once.
      let sent = context.eventLoop.makePromise(of: Void.self)
      sent.futureResult.assumeIsolated().whenComplete { result in
        switch result {
        // In the second case the half had ended before, by `finishWriting()` or other code.
        case .success, .failure(ChannelError.outputClosed): self.lingerBeforeClose()
        case .failure: self.context?.close(promise: nil)
        }
      }
      closeOutput(promise: sent)
    }

    /// Closes it when its half has ended: as soon as the peer's has, too, if the close would keep the peer from what was written.
    /// If bytes have come that were not read, the kernel drops what it has not sent yet, and resets the connection.
    ///
    /// What comes meanwhile is dropped; that it is the peer's end NIO notices by itself, and closes the channel, whether or not
    /// `allowRemoteHalfClosure` is set. A peer that goes on has a second, or 64 reads. One that is quiet gets its end by the close.
    private func lingerBeforeClose() {
      guard let context, !hasEnded else { return }
      guard !isInputClosed, hasUnread(context) else { return context.close(promise: nil) }
      isLingering = true
      // Readers find the end behind what was read ahead.
      open()
      endReading()
      // That of an owner which has gone would come later.
      cutOff?.cancel()
      cutOff = context.eventLoop.assumeIsolated().scheduleTask(in: .seconds(1)) { self.context?.close(promise: nil) }
    }

    /// Whether it is a socket, and has something for which no reader has asked: here or in the kernel.
    private func hasUnread(_ context: ChannelHandlerContext) -> Bool {
      guard ConnectionKind(of: context.channel) == .whole else { return false }
      let hasBytes = try? context.pipeline.syncOperations.withUnsafeTransportIfAvailable(of: NIOBSDSocket.Handle.self) {
        var byte: UInt8 = 0
        return recv($0, &byte, 1, CInt(MSG_PEEK)) > 0
      }
      guard let hasBytes else { return false }
      return hasBytes || (kind == .whole && elements.count > 0)
    }

    private func readWhileLingering(_ context: ChannelHandlerContext) {
      lingeringReads -= 1
      if lingeringReads == 0 { context.close(promise: nil) }
    }

    /// The promise of a write. Those of a stream are counted until they are sent.
    @inline(__always)
    private func counted(_ promise: EventLoopPromise<Void>?) -> EventLoopPromise<Void>? {
      kind == .stream ? countedOfStream(promise) : promise
    }

    // (Not with the context's loop: that would be looked up for every flush, of streams or not.)
    private func countedOfStream(_ promise: EventLoopPromise<Void>?) -> EventLoopPromise<Void> {
      let sent = promise ?? eventLoop.makePromise()
      unsentCount += 1
      sent.futureResult.assumeIsolated().whenComplete { _ in
        self.unsentCount -= 1
        if self.isClosing { self.closeIfSent() }
      }
      return sent
    }

    /// The close of a stream discards what still waits for the peer to take it.
    private func closeIfSent() {
      guard unsentCount == 0, written.isEmpty, let context else { return }
      // Not right here: the multiplexer may be about to count the stream among the open ones.
      context.eventLoop.assumeIsolated().execute { self.context?.close(promise: nil) }
    }
  }

  /// What a connection is to the handler at its end.
  enum ConnectionKind {
    /// A socket or the like: its halves can be closed by themselves.
    case whole
    /// A socket whose multiplexer makes streams of it: these are its messages.
    case ofStreams
    /// One of those.
    case stream

    /// That of a channel which delivers messages of its own.
    init(of channel: any NIOCore::Channel) {
      // The parent of a stream is a connection, and has a peer. That of a socket listens, and has none.
      self = channel.parent?.remoteAddress == nil ? .whole : .stream
    }
  }
#endif
