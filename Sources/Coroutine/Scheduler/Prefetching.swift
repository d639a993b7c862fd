// SPDX-License-Identifier: Apache-2.0

import CCoroutineSystem
import Context
import Synchronization

// Where many coroutines have their turns one after another, the memory of each has left the near caches by its next turn. A
// turn would wait for one line after the other: object, block, frames. The code here has the processor fetch them at once,
// some time before.

extension CoroutineCore {
  /// Lets the processor fetch its object, which need not be alive: nothing of it is read.
  @inline(__always)
  static func prefetch(_ core: Unmanaged<CoroutineCore>) { prefetchLines(5, at: UInt(bitPattern: core.toOpaque())) }

  /// Lets the processor fetch its block and the frames in which it waits. For the thread that may run it.
  @inline(__always)
  final func prefetchStack() {
    // One that has not begun has none: to look for a page that is not there costs more than a line.
    guard let block else { return }
    prefetchLines(9, at: UInt(bitPattern: block) &- 6 * cacheLine)
  }
}

/// Where a coroutine that waits has what its next turn needs: for a waker that has other things to do before it wakes it.
///
/// How many lines are fetched goes by today's objects and frames. Too few or too many do no harm but to speed: without any, a
/// request of HTTP with 256 connections on SwiftNIO's loop, without a codec, took 1.06 of the time.
///
/// Addresses alone, of which nothing is read: what was there may be gone, and those of two waiters may be mixed. So waiter and
/// waker may be on any threads.
package struct PrefetchHint: ~Copyable, Sendable {
  private let core = Atomic<UInt>(0)
  private let block = Atomic<UInt>(0)
  private let frame = Atomic<UInt>(0)
  /// What it waits at.
  private let waitable: UInt

  init(ofWaitersAt waitable: Waitable) {
    self.waitable = UInt(bitPattern: Unmanaged.passUnretained(waitable).toOpaque())
  }

  /// - Parameters:
  ///   - waiter: the coroutine, which runs and is going to wait.
  ///   - frame: an address in the frame of the function that waits. Those of the functions that it calls and that have called
  ///     it lie beside it.
  @inline(__always)
  package func note(_ waiter: Unmanaged<CoroutineCore>, frame: UnsafeRawPointer) {
    core.store(UInt(bitPattern: waiter.toOpaque()), ordering: .relaxed)
    block.store(waiter._withUnsafeGuaranteedRef { UInt(bitPattern: $0.block) }, ordering: .relaxed)
    self.frame.store(UInt(bitPattern: frame), ordering: .relaxed)
  }

  /// Lets the processor fetch it.
  package func prefetch() {
    prefetchLines(2, at: waitable)
    let core = core.load(ordering: .relaxed)
    guard core != 0 else { return }
    prefetchLines(5, at: core)
    prefetchLines(2, at: block.load(ordering: .relaxed))
    prefetchLines(7, at: frame.load(ordering: .relaxed) &- 3 * cacheLine)
  }
}

@inline(__always)
private func prefetchLines(_ count: UInt, at address: UInt) {
  for line in 0..<count { coroutine_system_prefetch(UnsafeRawPointer(bitPattern: address &+ line &* cacheLine)) }
}

private var cacheLine: UInt { 64 }
