// SPDX-License-Identifier: Apache-2.0

/// How schedules are chosen where there are too many for all of them.
public enum ExplorationStrategy: Hashable, Sendable {
  /// Each decision by chance, all possibilities alike.
  case random
  /// By priorities, after Burckhardt and others ("A Randomized Scheduler with Probabilistic Guarantees of Finding
  /// Bugs", 2010): each coroutine has one by chance, the highest goes on, and `depth - 1` times in a run the coroutine
  /// that has it gets the lowest. It finds what takes a long run with few, but certain, preemptions; a bug of that
  /// depth with a known probability. A depth below 1 counts as 1, and one above 1,024 as that: no more changes are made.
  case pct(depth: Int)
  /// Both alternately: `random` for even seeds, `pct(depth: 3)` for odd ones.
  case mixed
}

/// What `explore(exhaustively:)` goes through.
public enum ExhaustiveBound: Hashable, Sendable {
  /// Every schedule.
  case everything
  /// Those in which at most this number of coroutines lose their turn though they could go on. Most bugs need one or
  /// two.
  case preemptions(atMost: Int)
}

/// What a schedule may decide, and how long a run may take.
public struct ExplorationOptions: Sendable {
  /// Where a coroutine may lose its turn to another one.
  public enum Preemption: Hashable, Sendable {
    /// Before each operation that may suspend, and after each launch and each wake. As on several threads, but for what
    /// lies between two accesses to memory.
    ///
    /// Locks that are not the runtime's must not be held there: another coroutine would block the thread that it needs.
    /// `withoutSuspension { }` keeps a coroutine going.
    case atOperations
    /// Where it suspends, or calls `yield()`. As in a pool of one thread.
    case atSuspensions
  }

  /// When the virtual time goes on.
  public enum Time: Hashable, Sendable {
    /// When no coroutine can do anything else: a computation takes no time, and no timeout comes too early.
    case whenIdle
    /// At any time, as on a machine that is late: a timeout may come before what would have been done at once.
    case anytime
  }

  /// Where a coroutine may lose its turn.
  public var preemption: Preemption
  /// When the virtual time goes on.
  public var time: Time
  /// A run that takes more turns is taken for one that never ends.
  public var turnLimit: Int
  /// Whether a schedule that fails is made shorter, by up to some hundred more runs.
  public var shrinks: Bool
  /// Errors that no caller gets and that are no failure of the run; such as `SettledTwice`, where a second call is
  /// meant to lose.
  public var isExpected: @Sendable (any Error) -> Bool

  /// The usual ones, but for those that are named.
  public init(
    preemption: Preemption = .atOperations, time: Time = .whenIdle, turnLimit: Int = 100_000, shrinks: Bool = true,
    isExpected: @escaping @Sendable (any Error) -> Bool = { _ in false }
  ) {
    self.preemption = preemption
    self.time = time
    self.turnLimit = turnLimit
    self.shrinks = shrinks
    self.isExpected = isExpected
  }
}

/// What was explored, where no schedule failed.
public struct ExplorationReport: Hashable, Sendable {
  /// How many runs there were.
  public internal(set) var schedules = 0
  /// The most decisions that one of them took.
  public internal(set) var longestSchedule = 0
  /// Whether these were all that the bound allows: of an exhaustive exploration that was not cut short.
  public internal(set) var isComplete = false
}
