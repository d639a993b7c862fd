// SPDX-License-Identifier: Apache-2.0

import CCoroutineSystem
import CoroutineLibc
import Synchronization

/// Where a thread of the runtime sleeps and is woken: the only way from `Lock` to the kernel. Hence the seam at which a
/// seeded scheduler decides which thread waits and which goes on.
package enum Futex {
  /// Sleeps while `word` holds `expected`. Returns after a wake, when the value differs, or for no reason at all:
  /// callers look at the word again.
  // litmus: futex
  package static func wait(on word: borrowing Atomic<UInt32>, while expected: UInt32) {
    withAddress(of: word) { address in
      #if COROUTINE_INTERLEAVINGS
        if Interleaving.sleep(at: address, while: expected, isTimed: false) != nil { return }
      #endif
      _ = coroutine_system_futex_wait(address, expected, nil, true)
    }
  }

  /// As `wait(on:while:)`, but no longer than until `deadline` on the monotonic clock. False if the time was up.
  /// `isIdle`: the end of this wait makes nothing happen in the program, so a thread that waits like this does not keep
  /// it from standing still.
  package static func wait(
    on word: borrowing Atomic<UInt32>, while expected: UInt32, until deadline: timespec, isIdle: Bool = true
  ) -> Bool {
    withAddress(of: word) { address in
      #if COROUTINE_INTERLEAVINGS
        if let sleep = Interleaving.sleep(at: address, while: expected, isTimed: true) { return sleep == .woken }
      #endif
      return withUnsafePointer(to: deadline) {
        coroutine_system_futex_wait(address, expected, $0, isIdle) != -ETIMEDOUT
      }
    }
  }

  /// As `wait(on:while:)`, but no longer than `duration`, which is not negative. False if the time was up.
  package static func wait(
    on word: borrowing Atomic<UInt32>, while expected: UInt32, for duration: Duration, isIdle: Bool = true
  ) -> Bool {
    var deadline = timespec()
    clock_gettime(CLOCK_MONOTONIC, &deadline)
    // Those of a longer one could not be distinguished: they trap beyond `Int64.max` seconds.
    let (seconds, attoseconds) = min(duration, .seconds(1 << 30)).components
    deadline.tv_sec += Int(seconds)
    deadline.tv_nsec += Int(attoseconds / 1_000_000_000)
    if deadline.tv_nsec >= 1_000_000_000 {
      deadline.tv_nsec -= 1_000_000_000
      deadline.tv_sec += 1
    }
    return wait(on: word, while: expected, until: deadline, isIdle: isIdle)
  }

  /// What a debugger sees where a thread waits here and is idle.
  package static var idleMark: UnsafeRawPointer { coroutine_system_idle_mark() }

  /// Wakes at most `count` of the threads that sleep on `word` and returns how many it woke.
  @discardableResult
  // litmus: futex
  package static func wake(_ count: UInt32, on word: borrowing Atomic<UInt32>) -> Int {
    withAddress(of: word) { address in
      #if COROUTINE_INTERLEAVINGS
        // Between a store and the wake that follows another thread may do much.
        Interleaving.explorer?.reachAccess()
        if let woken = Interleaving.explorer?.wake(Int(count), at: address), woken > 0 { return woken }
      #endif
      return Int(coroutine_system_futex_wake(address, count))
    }
  }

  /// The address of the atomic's own storage. An `Atomic` is never copied or moved while it is borrowed, and its layout is
  /// that of its value, so this is the word that its operations work on.
  private static func withAddress<Result>(
    of word: borrowing Atomic<UInt32>, _ body: (UnsafePointer<UInt32>) -> Result
  ) -> Result {
    withUnsafePointer(to: word) { pointer in
      body(UnsafeRawPointer(pointer).assumingMemoryBound(to: UInt32.self))
    }
  }
}
