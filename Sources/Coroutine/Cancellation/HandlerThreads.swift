// SPDX-License-Identifier: Apache-2.0

import Context
import Dispatch

/// Runs users' code that the timers' thread must not wait for, on threads of Dispatch's: the handlers of what a deadline has
/// cancelled, and a `deinit` that would be the timers' thread's to call.
///
/// One thread runs them in order, as long as none has to wait for it. Where one does, since those before it take long, or block
/// until another one has run, another thread takes it. So hundreds of deadlines at once take a few threads, and no handler waits
/// for one that blocks.
enum HandlerThreads {
  // Never locked while users' code runs.
  private static let lock = Lock()
  /// Guarded by the lock.
  nonisolated(unsafe) private static var state = HandlerThreadsStateMachine()

  private static let looks = DispatchQueue(label: "coroutine-cancel-watch", qos: .userInitiated)
  /// How often to look. Each look that finds a handler waiting since the one before adds one thread: many handlers that block get
  /// theirs one by one.
  private static var patience: DispatchTimeInterval { .milliseconds(2) }

  /// The calling thread lets go of the closure as well, maybe after that has run: so what is a user's has to be captured by its
  /// address, for the closure to release.
  static func run(_ handler: @escaping @Sendable () -> Void) {
    let (startsThread, startsLooks) = lock.withLock { state.append(handler) }
    if startsThread { startThread() }
    if startsLooks { lookLater(knowing: nil) }
  }

  /// Each by a queue of its own: Dispatch gives such a queue a thread also where the program blocks all those of the global
  /// queues.
  private static func startThread() {
    DispatchQueue(label: "coroutine-cancel", qos: .userInitiated).async {
      while let handler = lock.withLock({ state.next() }) { handler() }
    }
  }

  /// - Parameter appended: what `look` has returned, if it was called before.
  private static func lookLater(knowing appended: Int?) {
    looks.asyncAfter(deadline: .now() + patience) {
      let (appended, startsThread) = lock.withLock { state.look(knowing: appended) }
      if startsThread { startThread() }
      if let appended { lookLater(knowing: appended) }
    }
  }
}
