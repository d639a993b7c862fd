// SPDX-License-Identifier: Apache-2.0

import CCoroutineSystem
import Context
import CoroutineLibc
import Synchronization

/// How much freed memory the C library keeps for what comes next: the program's choice, or its operator's.
///
/// glibc gives freed memory back to the kernel from 128 KiB on. Where ten thousand coroutines begin and end together again
/// and again, they and what their bodies capture are some megabytes, and the page faults would take as long as all the rest
/// (`docs/performance/spawning-and-joining.md`). Where very many have ended it is the other way round: glibc would keep what lies
/// in the midst of its heaps for ever, and the thread of the pool of stacks gives it back (`StackPool.decay`). But `malloc` is the
/// whole program's: so the program may say no to both.
enum MallocTuning {
  static let variable = "COROUTINE_KEPT_MEMORY"
  static let most = 32 << 20

  /// Whether the program leaves `malloc` to the runtime. The choice is applied by the first one that asks: the first pool, or very
  /// many coroutines elsewhere that have ended. Ends the program where the variable is no size.
  static let isAllowed: Bool = {
    let choice = chosen.exchange(tooLate, ordering: .relaxed)
    let bytes = fromEnvironment() ?? choice
    if bytes > 0 { coroutine_system_keep_freed_memory(bytes) }
    return bytes > 0
  }()

  // MARK: - After very many coroutines

  /// After how many endings on a worker, or elsewhere, `lookAtEndings` is called: so 64 workers have ended no more than
  /// `StackPool.veryManyOwners` from one look to the next. A power of two.
  static var endingsBetweenLooks: UInt64 { 1024 }

  /// Counts the coroutines that are alive. If there were very many more before, `malloc` has what they had. (Stacks that are
  /// trimmed do not tell of all: of coroutines that end one after another each gets the stack of the one before.)
  ///
  /// Called without a lock.
  @inline(never)
  static func lookAtEndings() {
    let live = CoroutineCore.liveCount
    let known = mostAlive.load(ordering: .relaxed)
    guard live > known || known - live >= StackPool.veryManyOwners else { return }
    let isFirst = mostAlive.compareExchange(expected: known, desired: live, ordering: .relaxed).exchanged
    if isFirst, live < known, isAllowed { StackPool.default.giveBackLaterWhatOwnersFreed() }
  }

  /// The most coroutines that were alive at a look since freed memory was last asked for. Relaxed: it guards nothing else.
  private static let mostAlive = Atomic<Int>(0)

  // MARK: - The choice

  /// What the program has chosen, until it is applied. Relaxed: it guards nothing else.
  private static let chosen = Atomic<Int>(4 << 20)
  private static let tooLate = -1

  /// Returns whether it is in time.
  static func set(_ bytes: Int) -> Bool {
    var found = chosen.load(ordering: .relaxed)
    while found != tooLate {
      let (exchanged, now) = chosen.compareExchange(expected: found, desired: bytes, ordering: .relaxed)
      if exchanged { return true }
      found = now
    }
    return false
  }

  /// 0: what the C library does by itself.
  static func fromEnvironment() -> Int? {
    guard let value = getenv(variable) else { return nil }
    let text = String(cString: value)
    guard let bytes = ByteCount.parse(text), bytes <= most else {
      fatalError(
        "the environment variable \(variable) must be how many bytes of freed memory the C library keeps, up to 32M, as a "
          + "number or as 256K or 4M; 0 leaves that to the library. It is \"\(text)\"")
    }
    return bytes
  }
}

extension ThreadPool {
  /// How much freed memory the C library keeps for the next coroutines, in the whole process: 4 MiB without this call.
  ///
  /// glibc by itself gives freed memory back to the kernel from 128 KiB on. Where ten thousand coroutines end together
  /// again and again, the page faults then take as long as all the rest. And where there are 65,536 coroutines fewer than there
  /// were, what those had goes to the kernel, ten seconds later or more, which stops code that allocates for some 0.1 seconds. But
  /// `malloc` is the whole program's: 0 leaves it alone, in both. `COROUTINE_KEPT_MEMORY` in the environment, such as `16M`, takes
  /// precedence over this call.
  ///
  /// ```swift
  /// ThreadPool.keepFreedMemory(0)
  /// ```
  ///
  /// Callable on any thread. Constant time.
  ///
  /// - Parameter bytes: from 0 to 32 MiB.
  /// - Precondition: no pool was made yet, not even the shared one, as by the first `Coroutine { }`; nor have 65,536 coroutines or
  ///   more ended on queues and schedulers of the program's own: traps otherwise. At the program's start it is in time.
  public static func keepFreedMemory(_ bytes: Int) {
    require(
      0...MallocTuning.most ~= bytes,
      "ThreadPool.keepFreedMemory(_:) takes from 0 to 32 MiB of freed memory, not \(bytes) bytes")
    require(
      MallocTuning.set(bytes),
      "ThreadPool.keepFreedMemory(_:) comes too late: the first pool has been made, or very many coroutines on queues have "
        + "ended. Call it before that")
  }
}
