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
/// in the midst of its heaps for ever, and the pool of stacks gives it back (`StackPool.decay`). But `malloc` is the whole
/// program's: so the program may say no to both.
enum MallocTuning {
  static let variable = "COROUTINE_KEPT_MEMORY"
  static let most = 32 << 20

  /// Once in the process, when its first pool is made. Ends the program where the variable is no size.
  static let applyOnce: Void = {
    let choice = chosen.exchange(tooLate, ordering: .relaxed)
    let bytes = fromEnvironment() ?? choice
    if bytes > 0 { coroutine_system_keep_freed_memory(bytes) }
  }()

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
  /// again and again, the page faults then take as long as all the rest. And where 65,536 coroutines have ended and their stacks
  /// have been given back, what else they had goes to the kernel ten seconds later or more, which stops code that allocates for
  /// some 0.1 seconds. But `malloc` is the whole program's: 0 leaves it alone, in both. `COROUTINE_KEPT_MEMORY` in the environment, such as
  /// `16M`, takes precedence over this call.
  ///
  /// ```swift
  /// ThreadPool.keepFreedMemory(0)
  /// ```
  ///
  /// Callable on any thread. Constant time.
  ///
  /// - Parameter bytes: from 0 to 32 MiB.
  /// - Precondition: no pool was made yet, not even the shared one, as by the first `Coroutine { }`: traps otherwise.
  public static func keepFreedMemory(_ bytes: Int) {
    require(
      0...MallocTuning.most ~= bytes,
      "ThreadPool.keepFreedMemory(_:) takes from 0 to 32 MiB of freed memory, not \(bytes) bytes")
    require(
      MallocTuning.set(bytes),
      "ThreadPool.keepFreedMemory(_:) comes too late: the first pool has been made. Call it before that")
  }
}
