// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import Context

/// A scheduler that picks the next coroutine not only where one suspends: CoroutineTesting's, which explores schedules.
///
/// There is no test for such a scheduler. Its coroutines have a bit of their own in the word that each operation reads
/// anyway, because a cancel shows there: so it costs the others nothing.
///
/// It runs the tasks that its coroutines wait for, too.
package protocol ExploringScheduler: SharingScheduler, TaskExecutor {
  /// A coroutine of its own begins on the calling thread at once, without having been enqueued.
  func willBegin(_ core: CoroutineCore)

  /// A coroutine of its own is about to begin an operation that may suspend it. On that coroutine, without a lock: may let
  /// others run first.
  func reachOperation(_ core: CoroutineCore)

  /// A coroutine of its own is about to run on another scheduler for a while. On that coroutine; it comes back as one that
  /// becomes ready.
  func willMoveAway(_ core: CoroutineCore)

  /// A coroutine that is launched in the run is not one of its own, but another scheduler's. On the launching thread, whichever
  /// that is.
  func willRunElsewhere(_ core: CoroutineCore)

  /// A coroutine of its own waits that is pinned to the calling thread, the only one that the scheduler has: returns when that
  /// may go on. Its waker gives it the turn directly, on whichever thread.
  ///
  /// - Parameter hasTurn: whether it has; waits for that until a deadline, by the kernel's time. Once true, it is taken.
  func keepThread(for core: CoroutineCore, untilTurn hasTurn: (_ deadline: UInt64) -> Bool)

  /// Which of `count` cases a select of a coroutine of its own, or of a task of the run's, looks at first. From any thread.
  func chooseCase(of count: Int) -> Int
}

extension ExploringScheduler {
  /// Runs `body`, the run of a test. What is launched in it without a scheduler starts on this one: also by the tasks that are
  /// created in it, which are no coroutines that have a scheduler to inherit.
  package func withRun<Result>(_ body: () throws -> Result) rethrows -> Result {
    RunCount.add(1)
    defer { RunCount.add(-1) }
    // What is left over at the end refers to it, by the word of an enumeration: a search for leaks does not take that for an
    // address.
    coroutine_sanitizer_begin_kept()
    let reference = SchedulerReference(self)
    coroutine_sanitizer_end_kept()
    return try SchedulerReference.$ofTasks.withValue(reference, operation: body)
  }
}

/// How many runs there are in the process: while there is one, launches are observed.
private enum RunCount {
  // Not a `Mutex`, whose order ThreadSanitizer does not see: users' tests run beside each other.
  private static let lock = Lock()
  // Guarded by the lock.
  nonisolated(unsafe) private static var count = 0

  static func add(_ difference: Int) {
    lock.withLock {
      count += difference
      coroutine_request(COROUTINE_REQUEST_LAUNCHES, count > 0)
    }
  }
}

extension SchedulerReference {
  /// The scheduler of the run that the calling code is a part of; `nil` outside of one.
  ///
  /// A run has a virtual time: where there is none, no more is read than the flag for that.
  static var run: SchedulerReference? { TimerService.virtual == nil ? nil : ofTasks }

  /// The same scheduler, if it explores.
  var explorer: (any ExploringScheduler)? { if case .other(let other) = self { other.explorer } else { nil } }

  @TaskLocal fileprivate static var ofTasks: SchedulerReference?
}

/// The bits of `CoroutineCore.interruption`.
@usableFromInline
enum Interruption {
  /// The running code is asked to stop. See `CancellationRegion`.
  @inlinable static var cancelled: UInt32 { 1 }
  /// Its scheduler picks the next coroutine at each operation. Set before its first turn, and for ever.
  @inlinable static var explored: UInt32 { 2 }
}

extension CoroutineCore {
  /// Its operations are points of a schedule that is explored. Before its first turn, by its scheduler, an `ExploringScheduler`.
  package final func markExplored() {
    interruption.bitwiseOr(Interruption.explored, ordering: .relaxed)
  }

  /// An operation begins that is held up (`isHeldUp`), without a lock. Returns whether it may be done. On the coroutine
  /// itself.
  @usableFromInline @inline(never)
  final func mayGoOn() -> Bool {
    if let explorer, isInterruptible {
      random = RandomWord()  // the next select asks for its order
      explorer.reachOperation(self)
    }
    return !isInterrupted
  }

  /// An operation of another module begins, which may wait. On the coroutine itself, without a lock.
  package final func beginOperation() {
    if isHeldUp { _ = mayGoOn() }
  }

  /// Whether it could let others run here, as far as its state goes: it is not in the middle of a wait's beginning, which
  /// others would have to wait for, and nothing keeps it on its thread. On the coroutine itself.
  package final var isInterruptible: Bool {
    isUnrestrained && !parking.isBeginning && !coroutine_is_inside_task() && !isInsideAccess
  }

  /// Whether an access to a variable is open, of its own or of code that it runs on top of. Those of other suspended coroutines
  /// of the run do not count.
  private final var isInsideAccess: Bool {
    guard !coroutine_access_set_is_empty(), let block else { return false }
    return block.pointee.mode.contains(.onTop) || coroutine_has_accesses_of_its_own(&block.pointee.threadState)
  }

  /// The seed for the order of a select with this many cases: of the coroutine's first select, or of one whose order is
  /// explored.
  @usableFromInline @inline(never)
  final func seed(forCases count: Int) -> UInt64 {
    guard count > 1, let explorer else { return id }
    return RandomWord.seed(forFirst: explorer.chooseCase(of: count), below: count)
  }

  final var explorer: (any ExploringScheduler)? { scheduler.explorer }

  /// Whether it has had a turn, and not ended. By the thread that may touch it.
  package final var hasBegun: Bool { block != nil }

  /// Whether a task waits for its end, or a coroutine for whose number `isMember`. From any thread.
  package final func isAwaited(by isMember: (UInt64) -> Bool) -> Bool {
    lock.withLock { completion.waiters.hasWaiter(isMember) }
  }

  /// The family that waits for its end; `nil` if there is none, or it has ended. From any thread.
  package final var familyOfLiving: CoroutineFamily? {
    // An end is said under the lock, and the family learns of it after that: it is there until then.
    lock.withLock { completion.isFinished ? nil : family?.takeUnretainedValue() }
  }

  /// Where the tasks run that it begins and waits for: on its scheduler, if that explores.
  final var taskExecutor: (any TaskExecutor)? { explorer }
}

extension WaitQueue {
  /// Whether a task waits in it, or a coroutine for whose number `isMember`. Those that have given up but not yet withdrawn
  /// count, too. The caller holds its owner's lock.
  func hasWaiter(_ isMember: (UInt64) -> Bool) -> Bool {
    var next = list.first
    while let node = next {
      switch node.pointee.waiter {
      case .task: return true
      case .coroutine(let core): if core._withUnsafeGuaranteedRef({ isMember($0.id) }) { return true }
      case .thread, .listener: break
      }
      next = node.pointee.next
    }
    return false
  }
}

/// Where a task of the runtime's own runs that works for the calling code, so that it is a part of the same run: on the
/// coroutine's explorer, else where the calling task prefers to run; `nil`: on Swift's pool.
var preferredExecutor: (any TaskExecutor)? {
  CoroutineCore.current?.taskExecutor ?? withUnsafeCurrentTask { $0?.unownedTaskExecutor?.asTaskExecutor() }
}
