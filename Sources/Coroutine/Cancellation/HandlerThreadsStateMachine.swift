// SPDX-License-Identifier: Apache-2.0

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
