// SPDX-License-Identifier: Apache-2.0

#if NIO
  import Context
  public import Coroutine
  public import NIOCore

  /// A channel of SwiftNIO as coroutines use it: reading suspends until the pipeline has delivered a message, writing while
  /// the peer is slow.
  ///
  /// ```swift
  /// let listener = try NIOListener(bootstrap, host: "127.0.0.1", port: 8080) { channel in
  ///   try channel.pipeline.syncOperations.configureHTTPServerPipeline()
  ///   return try NIOConnection<HTTPServerRequestPart, HTTPServerResponsePart>(wrapping: channel)
  /// }
  /// try listener.serve { connection in
  ///   while let part = try connection.read() { … try connection.write(answer) }
  /// }
  /// ```
  ///
  /// **On which thread.** Its operations may be called in any coroutine. On one of the channel's own loop, where `serve` runs
  /// them, they touch the pipeline directly; in others each write hops to the loop and back.
  ///
  /// **Reading is by demand.** Without a reader, the channel reads a few messages ahead, and then leaves the rest to
  /// the kernel, so that the peer has to wait. Each message goes to one reader, and none is lost where a read ends
  /// otherwise.
  ///
  /// **Writing is gathered.** What the coroutines of a loop write is flushed when they have all had their turn, once for each
  /// connection; `flush()` and `writeAndFlush(_:)` do it now. The last messages that coroutines of the loop have written to
  /// a connection, three at most, reach its pipeline then, too; earlier if they write more to it, flush or close it, or ask for its
  /// `channel`. A handler of the pipeline that does one of these while it gets a message has the others behind that.
  ///
  /// While more than the channel's high watermark is not sent yet, writing suspends. A message counts when it reaches the
  /// pipeline. So up to three more may be pending; one, once the channel has been over its watermark. Writers on other
  /// schedulers add at most one in all.
  ///
  /// Copies are the same connection. With the last one the channel is closed, as by `close()`.
  public struct NIOConnection<Inbound: Sendable, Outbound: Sendable>: Sendable {
    @usableFromInline let storage: ConnectionStorage

    /// Wraps a channel, at the end of its pipeline. To be called in the channel's initializer, on its loop, before anything
    /// is read: behind the handlers that make an `Inbound` of bytes.
    ///
    /// - Parameters:
    ///   - channel: what to wrap.
    ///   - readAhead: the upper bound is the number of untaken messages at which the channel stops reading, the lower
    ///     bound the number at which it reads again. (One read of the socket may bring more at once.)
    ///   - closesByHalves: whether the half of the channel that writes can be closed by itself, as of a socket. `nil`: not if the
    ///     channel is one of several on a connection, such as a stream of HTTP/2. A channel of SSH is one of those and has
    ///     halves: `true`.
    /// - Throws: what the pipeline throws, if it is closed already.
    /// - Precondition: called on the channel's loop, and the channel reads ahead one message at least: traps otherwise.
    @inlinable
    public init(
      wrapping channel: any NIOCore::Channel, readAhead: ClosedRange<Int> = 2...10, closesByHalves: Bool? = nil
    ) throws {
      storage = try ConnectionStorage(wrapping: channel, readAhead: readAhead, closesByHalves: closesByHalves) {
        $0.fill(with: Inbound.self, unwrapping: $1)
      }
    }

    /// What is wrapped: for its options, its handlers and its `closeFuture`. Writing to the channel directly breaks the order
    /// of messages.
    ///
    /// On its loop, what was written before has reached the pipeline when this returns: it has passed the handlers that the
    /// caller is about to remove. (`pipeline` in a variable from before can't know that.)
    public var channel: any NIOCore::Channel {
      // So that it has passed the handlers that were there when it was written, should the caller remove some.
      if eventLoop.inEventLoop { storage.handler.giveWritten() }
      return storage.channel
    }

    /// The loop on which the channel's handlers run.
    public var eventLoop: any EventLoop { storage.eventLoop }

    /// Its name in messages and dumps: the peer's address, as far as it is known when the channel is wrapped.
    public var name: String { storage.name }
  }

  // MARK: - Reading

  extension NIOConnection {
    /// Takes the next message that the pipeline delivers; suspends the calling coroutine until there is one.
    ///
    /// - Parameter timeout: how long to wait at most; zero or less: not at all; `nil`: for ever.
    /// - Returns: the message; `nil` when the peer sends nothing more, or the channel is closed.
    /// - Throws: `CancellationError`, `TimeoutError`, and has taken nothing; the error that a handler of the pipeline has
    ///   reported, once what came before was read.
    /// - Precondition: called inside a coroutine: traps elsewhere.
    @inlinable
    @available(*, noasync, message: "call it in a coroutine")
    public func read(timeout: Duration? = nil) throws -> Inbound? {
      guard let message = try storage.read(timeout) else { return nil }
      let value = message.take(as: Inbound.self)
      storage.reuse(consume message)
      return value
    }

    /// A case of a `select`: the next message, or `nil` at the end. If a handler of the pipeline has reported an error, that
    /// is the end too; `read()` throws it.
    ///
    /// - Parameter handler: gets the message. Runs after the choice, on the calling coroutine; may suspend and throw.
    public func onRead<Output>(
      _ handler: @escaping (Inbound?) throws -> Output
    ) -> Select.Case<Select.Next<ErasedMessage>, Output> {
      storage.handler.elements.onNext { [storage] message in
        guard let message else { return try handler(nil) }
        storage.handler.tookOne()
        return try handler(message.take(as: Inbound.self))
      }
    }
  }

  // MARK: - Writing

  extension NIOConnection {
    /// Gives a message to the pipeline, to be flushed when the loop's coroutines have had their turn; suspends the calling
    /// coroutine while the peer is slow.
    ///
    /// That it returns does not say that the message was sent: an error of that closes the channel, and the next operation
    /// throws it. `writeAndFlush(_:timeout:)` waits for that.
    ///
    /// - Parameters:
    ///   - message: what is written.
    ///   - timeout: how long to wait at most until the channel takes it; zero or less: not at all; `nil`: for ever.
    /// - Throws: `CancellationError`, `TimeoutError`, and has written nothing; after `finishWriting()`
    ///   `ChannelError.outputClosed`; after `close()`, or once the channel is closed, what a handler has reported, or
    ///   `ChannelError.ioOnClosedChannel`.
    /// - Precondition: called inside a coroutine: traps elsewhere.
    @inlinable
    @available(*, noasync, message: "call it in a coroutine")
    public func write(_ message: Outbound, timeout: Duration? = nil) throws {
      defer { withExtendedLifetime(self) {} }
      if let place = try storage.placeToWrite(timeout) {
        // Past the coroutine's stack. Nothing comes between: the end of the connection would give the pipeline what is not there yet.
        place.initialize(to: NIOAny(message))
      } else {
        try storage.submit(NIOAny(message), timeout)
      }
    }

    /// Gives a message to the pipeline, and suspends the calling coroutine until the system has taken it, and all before it.
    ///
    /// - Parameters:
    ///   - message: what is written.
    ///   - timeout: how long to wait at most; `nil`: for ever.
    /// - Throws: `CancellationError`, `TimeoutError`: then the message may still be sent; the error of the write; after
    ///   `finishWriting()` `ChannelError.outputClosed`; after `close()`, or once the channel is closed, what a handler has
    ///   reported, or `ChannelError.ioOnClosedChannel`.
    /// - Precondition: called inside a coroutine: traps elsewhere.
    @available(*, noasync, message: "call it in a coroutine")
    public func writeAndFlush(_ message: Outbound, timeout: Duration? = nil) throws {
      defer { withExtendedLifetime(self) {} }
      let deadline = WaitDeadline.after(timeout)
      if eventLoop.inEventLoop {
        if let refusal = storage.handler.refusal { throw refusal }
        storage.handler.giveWritten()
      }
      try storage.waitUntilWritable(until: deadline, timeout)
      let written = eventLoop.makePromise(of: Void.self)
      let message = OutboundMessage(NIOAny(message))
      storage.onLoopSoon { handler in
        handler.write(message.data, promise: written)
        handler.flush()
      }
      try written.futureResult.get(until: deadline, timeout: timeout)
    }

    /// Sends what was written, without waiting for the other coroutines. Callable from any thread.
    public func flush() { onLoopIfOpen { $0.flush() } }
  }

  // MARK: - Ending

  extension NIOConnection {
    /// Ends this side's half of the connection: the peer reads what was written, then the end. Reading goes on, if the
    /// channel's option `allowRemoteHalfClosure` is set, until the peer ends its half. Suspends the calling coroutine until
    /// all is sent.
    ///
    /// - Throws: `CancellationError`; `ChannelError.operationUnsupported` where the channel has no halves; other errors of the
    ///   channel.
    /// - Precondition: called inside a coroutine: traps elsewhere.
    @available(*, noasync, message: "call it in a coroutine")
    public func finishWriting() throws {
      defer { withExtendedLifetime(self) {} }
      // Its loop may be shut down, and would never complete the promise.
      guard !isClosed else { throw storage.handler.closedError }
      let ended = eventLoop.makePromise(of: Void.self)
      storage.onLoopSoon { $0.closeOutput(promise: ended) }
      try ended.futureResult.get()
    }

    /// Closes the channel when what was written is sent, and returns at once: what is written after that is refused. Callable
    /// from any thread; again: without effect.
    ///
    /// TCP resets a connection that is closed while bytes have come that were not read, and what was written, and was not sent
    /// by then, is lost. So if there are such bytes, or messages that nobody has taken, this side's half is ended first, and what
    /// comes is dropped until the peer's end; for a second at most, or 64 reads of the channel. A peer that begins to send only
    /// then is for the caller: `finishWriting()`, and `read()` until it gives `nil`.
    ///
    /// A peer that does not read what was written keeps the channel open. `channel.close(promise: nil)` is not so patient. When
    /// the last copy of the connection goes, it is closed in this way, if it was not before; from then on a peer is cut off
    /// when the system could send nothing of the rest for 30 seconds. (Of a stream: none of the messages.)
    public func close() { onLoopIfOpen { $0.close() } }

    /// A channel that is closed may have a loop that is shut down, and takes nothing.
    private func onLoopIfOpen(_ body: @escaping @Sendable (ConnectionHandler) -> Void) {
      if !isClosed { storage.onLoopSoon(body) }
    }

    /// Whether the channel is closed.
    public var isClosed: Bool { storage.handler.writability.isClosed }

    /// Closes it and waits until that is done. A caller that is cancelled makes short work of it, as does the end of the time: a
    /// peer that takes nothing of what was written would have the connection for ever.
    func closeAndWait(upTo limit: Duration) {
      close()
      do {
        try channel.closeFuture.get(timeout: limit)
      } catch {
        // Not in time, by its end or by a cancel. After an error of its own it is closed already: then this does nothing.
        channel.close(promise: nil)
      }
    }
  }

  extension NIOConnection: CustomStringConvertible {
    /// Its name.
    public var description: String { name }
  }
#endif
