// SPDX-License-Identifier: Apache-2.0

#if NIO
  import Coroutine
  import CoroutineIO

  /// Handles connections as they come, those of a listener or the streams of a connection, each in a coroutine of its own.
  struct Serving<Inbound: Sendable, Outbound: Sendable> {
    typealias Connection = NIOConnection<Inbound, Outbound>

    /// What is handled, for messages and dumps.
    let name: String
    let limit: Int?
    let grace: Duration
    /// How long the rest of what a handler has written may take.
    let closeTimeout: Duration
    let stackSize: Int?
    let onError: (@Sendable (any Error, Connection) -> Void)?
    /// Waits for the next one, and names its coroutine; `nil`: there will be none.
    let next: () throws -> (connection: Connection, name: String)?
    /// Closed, with the error if there is one, when no more will come and those that wait will not be handled. `nil`: only
    /// `next` knows.
    var ended: Coroutine::Channel<Void>?
    /// Whether those that run may take their time when there is no next one, and are ended by a cancel only.
    let waitsForRest: Bool
    let handler: @Sendable (Connection) throws -> Void
    /// Notifies those that run that the end has come.
    let quiesce: () -> Void

    /// Throws what `next` has thrown, a cancel for example.
    @available(*, noasync)
    func run() throws {
      let running = RunningConnections(limit: limit, name: name)
      let errors = ServingErrors(origin: "serving \(name)", onError: onError)
      defer { errors.reportRest() }
      var failure: (any Error)?
      do { try startAll(running, errors) } catch { failure = error }
      var isCancelled = failure is CancellationError
      if waitsForRest {
        // Throws at once if the caller is cancelled.
        do { try running.waitForAll() } catch {
          failure = failure ?? error
          isCancelled = true
        }
      }
      quiesce()
      try running.end(after: grace, isCancelled: isCancelled)
      if let failure { throw failure }
    }

    @available(*, noasync)
    private func startAll(_ running: RunningConnections, _ errors: ServingErrors<Connection>) throws {
      let end = ended.map { ended in
        ended.onNext { _ in
          try ended.checkEnd(.event, nil)
          return false
        }
      }
      try running.startAll(until: end, reportingTo: errors) {
        guard let (connection, name) = try next() else { return false }
        running.start(on: connection.storage.handler.scheduler, name: name, stackSize: stackSize) {
          [handler, closeTimeout] isCancelled in
          defer { connection.closeAndWait(upTo: closeTimeout) }
          do { try handler(connection) } catch {
            if !(isCancelled() && error is CancellationError) { errors.report(error, of: connection) }
          }
        } withoutStack: { error in
          errors.reportOutside(error, of: connection)
          connection.close()
        }
        return true
      }
    }
  }
#endif
