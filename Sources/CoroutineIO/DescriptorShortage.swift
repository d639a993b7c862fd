// SPDX-License-Identifier: Apache-2.0

import CCoroutineIO
import Context
import Coroutine
import Synchronization

/// Where the process, or the system, has no descriptor or memory left for another connection: how a listener waits until
/// it has.
///
/// The kernel does not report that. So the listener tries again ten times a second, and as soon as this module has closed a
/// descriptor.
enum DescriptorShortage {
  /// `Fork.count` of the process whose listeners wait. Known before the first of them does.
  private static let madeIn = Fork.count
  /// How many listeners wait.
  private static let waiters = Atomic<Int>(0)
  /// Has an element once one of the module's descriptors was closed for a listener that waits.
  static let closed = Channel<Void>(capacity: .conflated, name: "a closed descriptor")

  /// Closes a descriptor, and notifies a listener that waits for one. One load where none does.
  ///
  /// - Returns: as `coroutine_io_close`.
  @discardableResult
  static func close(_ number: Int32) -> Int32 {
    let result = coroutine_io_close(number)
    noteClose()
    return result
  }

  /// A descriptor of this module was closed.
  static func noteClose() {
    // The kernel's lock of the process's table stands between a listener's refusal and the close that it has to hear of. The
    // limits of the system and of memory have no such lock: there a close may go unnoticed, and the next try finds out.
    // litmus: look-locked
    if waiters.load(ordering: .relaxed) > 0, madeIn == Fork.count { _ = closed.trySend(()) }
  }

  /// A listener that was refused, until it is not any more.
  struct Waiter: ~Copyable {
    private var isCounted = false

    deinit { if isCounted { waiters.subtract(1, ordering: .relaxed) } }

    /// Suspends the calling coroutine until it is worth another try. Not the first time, which only lets it learn of closes
    /// from here on: one that has come between the refusal and this would go unnoticed.
    ///
    /// - Throws: `TimeoutError` when the deadline has passed; `CancellationError`.
    mutating func wait(_ limit: WaitLimit) throws {
      guard isCounted else {
        isCounted = true
        _ = madeIn
        _ = waiters.add(1, ordering: .relaxed)  // litmus: look-locked
        return
      }
      let now = WaitDeadline.after(.nanoseconds(1))
      guard now < limit.deadline else { throw TimeoutError(after: limit.timeout) }
      do {
        try closed.receive(timeout: min(.milliseconds(100), .nanoseconds(limit.deadline - now)))
      } catch is TimeoutError {
        return
      }
    }

    /// It was not refused this time.
    mutating func end() {
      guard isCounted else { return }
      isCounted = false
      waiters.subtract(1, ordering: .relaxed)
    }
  }
}

/// A listener can't accept connections for now. Reported to `CoroutineErrors.unhandled`, at most once a minute for each
/// listener, which goes on trying; clients wait in its queue meanwhile.
public struct AcceptSuspended: Error, Equatable, CustomStringConvertible {
  /// What the kernel says, such as EMFILE: too many open files.
  public let cause: IOError

  package init(cause: IOError) { self.cause = cause }

  public var description: String { "no connection can be accepted for now, and it is tried again: \(cause)" }
}
