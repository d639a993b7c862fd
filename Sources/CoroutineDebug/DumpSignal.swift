// SPDX-License-Identifier: Apache-2.0

import CCoroutineSystem
import CCoroutineUnwind
import Context
public import CoroutineLibc

extension CoroutineDump {
  /// Where the dumps go that a signal asks for.
  public enum Destination: Sendable {
    /// Descriptor 2.
    case standardError
    /// Descriptor 1.
    case standardOutput
    /// One that stays open.
    case descriptor(CInt)
    /// A file, which is made, readable by its owner alone, or appended to: opened for each dump. Only a regular file, or
    /// `/dev/null`, and no symbolic link; else the dump is lost, and the standard error says why.
    case file(String)
  }

  /// Writes a dump whenever the process gets a signal: `kill -QUIT`, or Control-\ in a terminal, whose usual effect on the
  /// process it replaces.
  ///
  /// The handler only writes to a pipe. A thread of its own makes the dump, also when all others are busy, blocked or
  /// hold locks, and takes the signal, should they block it. What can't be written, into a pipe without a reader, is
  /// lost, and the process goes on. Calling it again for the same signal changes where the dumps go. A child by `fork`
  /// ignores the signal.
  ///
  /// The kernel mostly gives the signal to the main thread, and any handler ends a call that waits there, with EINTR.
  /// Most are restarted (SA_RESTART); `sleep`, `nanosleep`, `poll`, `select`, `epoll_wait` and those with a time limit
  /// return early. A program whose main ends with a `sleep` ends with it, before the dump is written: let it wait in a
  /// call that keeps waiting, such as `runUntilComplete`, `dispatchMain()`, `while true { pause() }`.
  ///
  /// - Throws: `CoroutineDumpError` if the system refuses: a signal that can't be handled, no thread; ECHILD in a child by `fork`
  ///   of a process that dumps at signals.
  public static func onSignal(
    _ signal: CInt = SIGQUIT, to destination: Destination = .standardError, options: Options = Options()
  ) throws(CoroutineDumpError) {
    try DumpSignals.add(signal, destination, options)
  }
}

/// What to do at which signal, and the thread that does it.
private enum DumpSignals {
  private struct Request {
    let signal: CInt
    var destination: CoroutineDump.Destination
    var options: CoroutineDump.Options
  }

  private static let lock = Lock()
  // Guarded by the lock, all three. A signal's index is that in `coroutine_signals_notify`.
  nonisolated(unsafe) private static var requests: [Request] = []
  nonisolated(unsafe) private static var hasThread = false
  /// Of the process that has asked first.
  nonisolated(unsafe) private static var madeIn: UInt32?

  static func add(
    _ signal: CInt, _ destination: CoroutineDump.Destination, _ options: CoroutineDump.Options
  ) throws(CoroutineDumpError) {
    lock.lock()
    defer { lock.unlock() }
    // The pipe to its thread would be the parent's.
    guard madeIn ?? Fork.count == Fork.count else {
      throw CoroutineDumpError(operation: "signals in a child of fork, whose parent dumps at them", code: ECHILD)
    }
    madeIn = Fork.count
    if let known = requests.firstIndex(where: { $0.signal == signal }) {
      requests[known].destination = destination
      requests[known].options = options
    } else {
      guard coroutine_signals_notify(signal) == requests.count else {
        throw CoroutineDumpError(operation: "signal \(signal)", code: errno)
      }
      requests.append(Request(signal: signal, destination: destination, options: options))
    }
    // What the thread is to do comes first; should there be none, the next call tries again.
    if !hasThread { try startThread() }
    hasThread = true
  }

  private static func startThread() throws(CoroutineDumpError) {
    let code = coroutine_system_start_thread({ _ in DumpSignals.serve() }, nil)
    guard code == 0 else { throw CoroutineDumpError(operation: "a thread for dumps", code: code) }
  }

  private static func serve() -> UnsafeMutableRawPointer? {
    surviveBrokenPipes()
    while true {
      let index = Int(coroutine_signals_wait())
      guard index >= 0 else { return nil }
      let request = lock.withLock { requests[index] }
      do {
        try write(request)
      } catch {
        let message = "CoroutineDump: \(error)\n"
        _ = CoroutineLibc.write(2, message, message.utf8.count)
      }
    }
  }

  private static func write(_ request: Request) throws {
    switch request.destination {
    case .standardError: try CoroutineDump.write(to: 2, options: request.options)
    case .standardOutput: try CoroutineDump.write(to: 1, options: request.options)
    case .descriptor(let descriptor): try CoroutineDump.write(to: descriptor, options: request.options)
    case .file(let path):
      let descriptor: CInt
      do {
        descriptor = try OutputFile.open(path, appends: true)
      } catch {
        throw CoroutineDumpError(operation: error.operation, code: error.code)
      }
      defer { close(descriptor) }
      try CoroutineDump.write(to: descriptor, options: request.options)
    }
  }
}
