// SPDX-License-Identifier: Apache-2.0

#if Observability
  public import Coroutine
  public import Logging
  import Synchronization

  /// Logs problems of the process's coroutines, by swift-log: coroutines that were ready and found no thread.
  ///
  /// ```swift
  /// let logger = Logger(label: "coroutines")
  /// CoroutineLog.logLostErrors(to: logger)
  /// CoroutineObservation.install(CoroutineLog(logger, queueLimit: .milliseconds(100)))
  /// ```
  public final class CoroutineLog: CoroutineObserver {
    private let logger: Logger
    private let limit: UInt64
    private let interval: UInt64
    /// When it last logged.
    private let last = Atomic<UInt64>(0)
    private let unlogged = Atomic<Int>(0)

    /// Logs a warning when a coroutine begins its turn later than `queueLimit` after it became ready: threads compute
    /// for long, or block. The thread that runs the coroutine logs it, so the log handler must be quick.
    ///
    /// - Parameters:
    ///   - logger: what logs them.
    ///   - queueLimit: how late a turn may begin without a warning.
    ///   - interval: at most one warning in this time; it says how many were left out.
    /// - Precondition: neither is negative: traps otherwise.
    public init(_ logger: Logger, queueLimit: Duration, interval: Duration = .seconds(1)) {
      self.logger = logger
      limit = Self.nanoseconds(queueLimit)
      self.interval = Self.nanoseconds(interval)
    }

    public func observe(_ event: borrowing CoroutineEvent) {
      guard case .resumed(let queued?) = event.kind, queued > limit else { return }
      let before = last.load(ordering: .relaxed)
      guard before == 0 || event.time > before + interval,
        last.compareExchange(expected: before, desired: event.time, ordering: .relaxed).exchanged
      else {
        unlogged.wrappingAdd(1, ordering: .relaxed)
        return
      }
      logger.warning(
        "a coroutine was ready and found no thread",
        metadata: [
          "coroutine": "\(event.id)", "name": "\(event.name)", "scheduler": "\(event.scheduler)",
          "queued": "\(Duration.nanoseconds(Int64(clamping: queued)))",
          "others": "\(unlogged.exchange(0, ordering: .relaxed))",
        ])
    }

    /// Logs unhandled errors, in place of a line on the standard error: `CoroutineErrors.unhandled`.
    public static func logLostErrors(to logger: Logger) {
      CoroutineErrors.unhandled = { error, origin in
        logger.error("an error was not handled", metadata: ["origin": "\(origin)", "error": "\(error)"])
      }
    }

    private static func nanoseconds(_ duration: Duration) -> UInt64 {
      let (seconds, attoseconds) = duration.components
      guard seconds >= 0, attoseconds >= 0 else { fatalError("CoroutineLog: \(duration) is negative") }
      let (product, overflow) = UInt64(seconds).multipliedReportingOverflow(by: 1_000_000_000)
      // A limit of centuries is none.
      return overflow || product > .max / 4 ? .max / 4 : product + UInt64(attoseconds / 1_000_000_000)
    }
  }
#endif
