// SPDX-License-Identifier: Apache-2.0

#if NIO
  import Context
  public import Coroutine
  public import NIOCore

  // MARK: - Waiting for a future

  extension EventLoopFuture where Value: Sendable {
    /// Waits for the future and returns its value. Suspends the calling coroutine, which may run anywhere.
    ///
    /// ```swift
    /// let channel = try bootstrap.connect(host: "example.org", port: 80).get(timeout: .seconds(5))
    /// ```
    ///
    /// This is what to say in a coroutine instead of `wait()`.
    ///
    /// (Where a `main.swift` imports this, `try await future.get()` at its top level is taken for this one, by Swift 6.3, and
    /// refused: it has to be in a function.)
    ///
    /// Allocates one small object beside NIO's callback. A coroutine of the future's loop is not suspended if the future has
    /// its value.
    ///
    /// A wait that a timeout or a cancel has ended leaves its callback, and that object, in the future until that is complete. So
    /// to wait again and again for a future that may never be, make one `Promise(future)`, and wait for that.
    ///
    /// - Parameter timeout: how long to wait at most; zero or less: not at all; `nil`: for ever.
    /// - Throws: the future's error; `CancellationError`, `TimeoutError`: the wait has ended then, the future goes on.
    /// - Precondition: called inside a coroutine: traps elsewhere.
    @_disfavoredOverload @available(*, noasync, message: "use 'await', in a function")
    public func get(timeout: Duration? = nil) throws -> Value {
      try get(until: WaitDeadline.after(timeout), timeout: timeout)
    }

    /// The same with a deadline, that of `timeout`, which the error names.
    @available(*, noasync)
    func get(until deadline: UInt64, timeout: Duration?) throws -> Value {
      let core = CoroutineCore.running(for: "EventLoopFuture.get()")
      let wait = OutcomeWait<Value>(of: core)
      whenComplete { _ = wait.settle($0) }
      return try wait.value(core, as: .promise, until: deadline, timeout: timeout)
    }
  }

  // MARK: - wait()

  /// `future.wait()`, for code that may run in a coroutine.
  public struct EventLoopFutureWait<Value: Sendable>: Sendable {
    fileprivate let future: EventLoopFuture<Value>

    /// Waits for the future and returns its value: see `EventLoopFuture.wait`.
    ///
    /// - Parameters:
    ///   - file: where it is called; for the report.
    ///   - line: likewise.
    /// - Throws: the future's error; in a coroutine `CancellationError`, `TimeoutError` of an enclosing timeout.
    @available(*, noasync, message: "it blocks where no coroutine runs; prefer 'await' and get()")
    public func callAsFunction(file: StaticString = #fileID, line: UInt = #line) throws -> Value {
      guard let core = CoroutineCore.current else { return try future.wait(file:line:)(file, line) }  // NIO's
      BlockingCall("EventLoopFuture.wait()", file, line).warnThatItSuspends(core, "Say get() in a coroutine.")
      return try future.get(until: WaitDeadline.never, timeout: nil)
    }
  }

  extension EventLoopFuture where Value: Sendable {
    /// Waits for the future and returns its value. In a coroutine it suspends, as `get()` does, and says once in the
    /// process that `get()` is to be said there. Elsewhere it is NIO's, and blocks the calling thread.
    ///
    /// ```swift
    /// let channel = try bootstrap.bind(host: "127.0.0.1", port: 0).wait()     // in main.swift, or in a test
    /// ```
    ///
    /// In a coroutine NIO's would block the thread of all the others: on an event loop it ends the program, on a pool it
    /// takes a thread of it, or all of them. What other modules call that do not import this one is NIO's still. As it
    /// suspends, no lock of the system's may be held around it.
    // A property, since Swift prefers those to methods of the same name. A function with NIO's parameters would be ambiguous.
    @available(*, noasync, message: "it blocks where no coroutine runs; prefer 'await' and get()")
    public var wait: EventLoopFutureWait<Value> { EventLoopFutureWait(future: self) }
  }

  // MARK: - Waiting for the first of several

  extension EventLoopFuture where Value: Sendable {
    /// A case of a `select`: waits until the future is complete, and gets its value. If it has failed, `select` throws its
    /// error, should this case be chosen; the error of a future that was not chosen is the future's own affair.
    ///
    /// In a loop make a promise once, and wait for that. A future keeps each callback until it is complete, also those of
    /// selects that have chosen another case:
    ///
    /// ```swift
    /// let closed = Promise(channel.closeFuture)
    /// while try select({
    ///   closed.onEnd { _ in false }
    ///   lines.onReceive { try handle($0) }
    /// }) {}
    /// ```
    ///
    /// - Parameter handler: gets the value. Runs after the choice, on the calling coroutine; may suspend and throw.
    public func onValue<Output>(
      _ handler: @escaping (Value) throws -> Output
    ) -> Select.Case<Select.Settlement<Value>, Output> {
      promiseForCase().onValue(handler)
    }

    /// A case of a `select`: waits until the future is complete, however it is. In a loop make a promise once, as for
    /// `onValue(_:)`.
    ///
    /// - Parameter handler: gets its value or its error. Runs after the choice, on the calling coroutine; may suspend and
    ///   throw.
    public func onEnd<Output>(
      _ handler: @escaping (Result<Value, any Error>) throws -> Output
    ) -> Select.Case<Select.Settlement<Value>, Output> {
      promiseForCase().onEnd(handler)
    }

    /// Its error is not reported where another case is chosen: the future has it, too.
    private func promiseForCase() -> Promise<Value> {
      let promise = Promise(self)
      promise.ending.whenEnded { _ in }  // counts as a reader of the error
      return promise
    }
  }

  // MARK: - From one to the other

  extension Promise {
    /// A promise that is settled as the future is: for waits for several at once, for chains (`then`), `async` code.
    ///
    /// ```swift
    /// let (user, page) = try values(of: Promise(users.find(name)), Coroutine { try render(name) })
    /// ```
    ///
    /// Cancelling it ends the waits for it; the future goes on.
    public init(_ future: EventLoopFuture<Value>) {
      let (promise, resolver) = Promise.makePromise(of: Value.self)
      self = promise
      // One that lost to a cancel is not reported.
      future.whenComplete { resolver.settle(with: $0) }
    }
  }

  extension Awaitable {
    /// A future of an event loop that is completed as this one ends, a promise or a coroutine: for handlers, and for what
    /// else is written with futures.
    ///
    /// ```swift
    /// let size = Coroutine(on: .pool) { try folder.size() }.future(on: context.eventLoop)
    /// ```
    ///
    /// Callable from anywhere. An error of the coroutine counts as taken.
    ///
    /// A loop that is shut down before the end completes nothing, and who waits for the future waits for ever: join the
    /// coroutine first.
    public func future(on eventLoop: any EventLoop) -> EventLoopFuture<Value> {
      let promise = eventLoop.makePromise(of: Value.self)
      ending.whenEnded { outcome in
        // Not right here: the future's callbacks are not to run in the middle of the code that settles this one.
        eventLoop.execute { promise.completeWith(outcome) }
      }
      return promise.futureResult
    }
  }

  extension EventLoop {
    /// Begins a coroutine on this loop, and returns its result as a future: `makeFutureWithTask`, for coroutines.
    ///
    /// ```swift
    /// func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    ///   let name = unwrapInboundIn(data)
    ///   let page = context.eventLoop.makeFutureWithCoroutine { try users.find(name).get().page }
    ///   …
    /// }
    /// ```
    ///
    /// As with `Coroutine(on:name:stackSize:_:)`, the compiler refuses a function of the main actor, or of another global
    /// actor: it would run beside its actor.
    ///
    /// - Parameters:
    ///   - name: for backtraces and dumps.
    ///   - body: runs soon, on the loop's thread. May suspend and throw; must not block.
    // An optional, which goes on as one, so that functions of actors are refused: see `missingFunction`.
    public func makeFutureWithCoroutine<Value: Sendable>(
      name: String = "", _ body: sending (() throws -> Value)?
    ) -> EventLoopFuture<Value> {
      Coroutine(on: .eventLoop(self), name: name, body).future(on: self)
    }
  }
#endif
