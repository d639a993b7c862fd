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

/// Which handlers wait, and for how many threads there is work.
struct HandlerThreadsStateMachine {
  typealias Handler = @Sendable () -> Void

  private var waiting = FIFOQueue<Handler>()
  private var threads = 0
  /// How many there were so far, and how many of them threads have taken.
  private var (appended, taken) = (0, 0)
  private var isLookDue = false

  /// - Returns: whether it takes a thread, and whether the threads have to be looked at from now on.
  mutating func append(_ handler: @escaping Handler) -> (startsThread: Bool, startsLooks: Bool) {
    waiting.append(handler)
    appended += 1
    guard threads > 0 else {
      threads = 1
      return (true, false)
    }
    defer { isLookDue = true }
    return (false, !isLookDue)
  }

  /// What a thread does next. `nil`: it ends.
  mutating func next() -> Handler? {
    guard let handler = waiting.popFirst() else {
      threads -= 1
      return nil
    }
    taken += 1
    return handler
  }

  /// To be called now and then while handlers wait.
  ///
  /// - Parameter before: what it has returned the last time, if handlers have waited since then.
  /// - Returns: what to pass to the next call (`nil`: none waits), and whether to start a thread: some handler has waited since
  ///   the last look.
  mutating func look(knowing before: Int?) -> (appended: Int?, startsThread: Bool) {
    guard !waiting.isEmpty else {
      isLookDue = false
      return (nil, false)
    }
    let isHeldUp = taken < before ?? 0
    if isHeldUp { threads += 1 }
    return (appended, isHeldUp)
  }
}
