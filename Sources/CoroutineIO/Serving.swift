// SPDX-License-Identifier: Apache-2.0

import Coroutine

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
  ///     number of the others; in the run of a test each fails the run.
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
      try connections.startAll(until: ended, reportingTo: errors) {
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
        return true
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
