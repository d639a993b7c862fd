// SPDX-License-Identifier: Apache-2.0

import Context
import Dispatch

/// Runs users' code that the timers' thread must not wait for, on threads of Dispatch's: the handlers of what a deadline has
/// cancelled, and a `deinit` that would be the timers' thread's to call.
///
/// One thread runs them in order, as long as it gets on. Where one handler holds it up, perhaps until another one has run,
/// another thread takes the next. So five hundred deadlines at once take one thread, and no handler waits for one that blocks.
enum HandlerThreads {
  // Never locked while users' code runs.
  private static let lock = Lock()
  nonisolated(unsafe) private static var state = HandlerThreadsStateMachine()  // guarded by `lock`

  private static let watch = DispatchQueue(label: "coroutine-cancel-watch", qos: .userInitiated)
  /// How long the threads may take no handler before there is another thread.
  private static var patience: DispatchTimeInterval { .milliseconds(2) }

  static func run(_ handler: @escaping @Sendable () -> Void) {
    let (startsThread, startsWatch) = lock.withLock { state.append(handler) }
    if startsThread { startThread() }
    if startsWatch { lookLater(knowing: nil) }
  }

  /// Each by a queue of its own: Dispatch gives such a queue a thread also where the program blocks all those of the global
  /// queues.
  private static func startThread() {
    DispatchQueue(label: "coroutine-cancel", qos: .userInitiated).async {
      while let handler = lock.withLock({ state.next() }) { handler() }
    }
  }

  /// - Parameter taken: what `look` has returned, if it was called before.
  private static func lookLater(knowing taken: Int?) {
    watch.asyncAfter(deadline: .now() + patience) {
      let (goesOn, startsThread) = lock.withLock { state.look(knowing: taken) }
      if startsThread { startThread() }
      if let goesOn { lookLater(knowing: goesOn) }
    }
  }
}

/// Which handlers wait, and for how many threads there is work.
struct HandlerThreadsStateMachine {
  typealias Handler = @Sendable () -> Void

  private var waiting = FIFOQueue<Handler>()
  private var threads = 0
  /// How many handlers threads have taken: it stands still where all threads are held up.
  private var taken = 0
  private var isWatched = false

  /// - Returns: whether it takes a thread, and whether the threads have to be looked at from now on.
  mutating func append(_ handler: @escaping Handler) -> (startsThread: Bool, startsWatch: Bool) {
    waiting.append(handler)
    guard threads > 0 else {
      threads = 1
      return (true, false)
    }
    defer { isWatched = true }
    return (false, !isWatched)
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
  /// - Parameter before: what it has returned the last time, if it was called since there are threads.
  /// - Returns: what to pass the next time, `nil` where none waits any more; and whether it takes another thread.
  mutating func look(knowing before: Int?) -> (goesOn: Int?, startsThread: Bool) {
    guard !waiting.isEmpty else {
      isWatched = false
      return (nil, false)
    }
    let isHeldUp = taken == before
    if isHeldUp { threads += 1 }
    return (taken, isHeldUp)
  }
}
