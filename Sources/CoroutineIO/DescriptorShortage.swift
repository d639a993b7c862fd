// SPDX-License-Identifier: Apache-2.0

import Coroutine
import Synchronization

/// Where the process, or the system, has no descriptor or memory left for another connection: how a listener waits until
/// it has.
///
/// The kernel does not report that. So the listener tries again ten times a second, and as soon as a stream of this
/// module is closed.
enum DescriptorShortage {
  /// How many listeners wait.
  private static let waiters = Atomic<Int>(0)
  private static let closed = Channel<Void>(capacity: .conflated, name: "a closed stream")

  /// Told of each stream that is closed. One load where no listener waits.
  static func descriptorWasClosed() {
    if waiters.load(ordering: .relaxed) > 0 { _ = closed.trySend(()) }
  }

  /// Suspends the calling coroutine until it is worth another try.
  ///
  /// - Throws: `TimeoutError` when the deadline has passed; `CancellationError`.
  static func wait(_ limit: WaitLimit) throws {
    guard WaitDeadline.after(.nanoseconds(1)) < limit.deadline else { throw TimeoutError(after: limit.timeout) }
    waiters.add(1, ordering: .relaxed)
    defer { waiters.subtract(1, ordering: .relaxed) }
    do {
      try closed.receive(timeout: .milliseconds(100))
    } catch is TimeoutError {
      return
    }
  }
}

/// A listener can't accept connections for now. Reported to `CoroutineErrors.unhandled`, at most once a minute for each
/// listener, which goes on trying; clients wait in its queue meanwhile.
public struct AcceptSuspended: Error, Equatable, CustomStringConvertible {
  /// What the kernel says, such as EMFILE: too many open files.
  public let cause: IOError

  public var description: String { "no connection can be accepted for now, and it is tried again: \(cause)" }
}
