// SPDX-License-Identifier: Apache-2.0

/// How many threads an elastic pool of blocking work has, and which of them are idle. Pure: no lock, no thread.
struct BlockingStateMachine<Thread: Equatable, Work> {
  /// At most this many threads work at a time; more work waits. After it was lowered there may be more threads, which
  /// are idle.
  private(set) var limit: Int
  private(set) var threads = 0
  /// The idle threads. The last one that came is taken first, so that those that are not needed grow old.
  private(set) var idle: [Thread] = []
  private(set) var waiting = FIFOQueue<Work>()
  /// How many calls of `withdraw` there have been since the last look at all that waits.
  private var withdrawals = 0

  init(limit: Int) {
    self.limit = limit
  }

  enum SubmitAction {
    /// An idle thread: give it the work and wake it.
    case give(Thread, Work)
    /// A new thread is to begin with it. It counts already.
    case start(Work)
    /// It waits for a thread.
    case wait
  }

  mutating func submit(_ work: Work) -> SubmitAction {
    // Some may wait although there is room: the system had no thread for them.
    waiting.append(work)
    guard busy < limit, let first = waiting.popFirst() else { return .wait }
    return assign(first)
  }

  /// Some work, which may wait, is wanted no more. Returns what has left the queue. Looks when that may be half of it: so it takes
  /// constant time on average.
  mutating func withdraw(isWanted: (Work) -> Bool) -> [Work] {
    withdrawals += 1
    guard withdrawals * 2 >= waiting.count else { return [] }
    withdrawals = 0
    return waiting.removeAll { !isWanted($0) }
  }

  enum RefusedAction {
    /// An idle thread: give it the work and wake it.
    case give(Thread, Work)
    /// It waits for one of the existing threads.
    case wait
    /// There is no thread at all: the work that can't be done.
    case fail([Work])
  }

  /// The system has refused the thread that was to begin with `work`.
  mutating func startRefused(_ work: Work) -> RefusedAction {
    threads -= 1
    waiting.prepend(work)
    if let thread = idle.popLast(), let first = waiting.popFirst() { return .give(thread, first) }
    guard threads == 0 else { return .wait }
    var all: [Work] = []
    while let work = waiting.popFirst() { all.append(work) }
    return .fail(all)
  }

  /// How many threads have work.
  private var busy: Int { threads - idle.count }

  /// Fewer than the limit are busy.
  private mutating func assign(_ work: Work) -> SubmitAction {
    if let thread = idle.popLast() { return .give(thread, work) }
    threads += 1
    return .start(work)
  }

  enum DoneAction {
    case run(Work)
    /// It is idle, until it is given something or has waited for long enough.
    case park
    /// There are too many of them. It does not count any more.
    case end
  }

  /// A thread has done its work.
  mutating func done(_ thread: Thread) -> DoneAction {
    // Of a limit that was lowered there may be too many.
    if busy <= limit, let work = waiting.popFirst() { return .run(work) }
    guard threads <= limit else {
      threads -= 1
      return .end
    }
    idle.append(thread)
    return .park
  }

  /// Returns the actions for work that waited.
  mutating func changeLimit(_ limit: Int) -> [SubmitAction] {
    self.limit = limit
    var actions: [SubmitAction] = []
    while busy < limit, let work = waiting.popFirst() { actions.append(assign(work)) }
    return actions
  }

  /// An idle thread has waited for long enough. Whether it ends; if not, it was given something meanwhile.
  mutating func timedOut(_ thread: Thread) -> Bool {
    guard let index = idle.firstIndex(of: thread) else { return false }
    idle.remove(at: index)
    threads -= 1
    return true
  }
}
