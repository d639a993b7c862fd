// SPDX-License-Identifier: Apache-2.0

import CCoroutineIO
import Context
import CoroutineLibc

/// The process's standard input or output as a stream: made once, so that a second caller goes on behind what the first one
/// has read ahead.
// Unchecked: the lock guards what changes.
final class StandardStream: @unchecked Sendable {
  static let input = StandardStream(STDIN_FILENO, O_RDONLY, "standard input")
  static let output = StandardStream(STDOUT_FILENO, O_WRONLY, "standard output")
  static let error = StandardStream(STDERR_FILENO, O_WRONLY, "standard error")

  private let number: Int32
  private let mode: Int32
  private let name: String
  private let lock = Lock()
  // Guarded by the lock, both.
  private var made: StreamEndpoint?
  /// `Fork.count` of the process that has made it. A child, which can't wait for its parent's, makes one of its own where it is
  /// a file, and is refused otherwise: it has no poller.
  private var madeIn = Fork.count

  private init(_ number: Int32, _ mode: Int32, _ name: String) {
    self.number = number
    self.mode = mode
    self.name = name
    // It guards nothing that could be half done.
    lock.keepFreeInChildren()
  }

  func endpoint() throws -> StreamEndpoint {
    // Before the lock, for which a fork waits: the first poller registers handlers of `fork`, for which a fork may be waited.
    _ = try? EpollPoller.current()
    return try lock.withLock {
      if let made, !made.descriptor.isClosed, madeIn == Fork.count { return made }
      let endpoint = StreamEndpoint(try open())
      madeIn = Fork.count
      made = endpoint
      return endpoint
    }
  }

  private func open() throws -> Descriptor {
    let copy = coroutine_io_open_standard(number, mode)
    guard copy >= 0 else { throw IOError(operation: "open", code: -copy, subject: name) }
    return try SocketSetup.closingOnError(copy) { try Descriptor(adoptingAny: copy, name: name) }
  }
}
