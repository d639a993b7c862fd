// SPDX-License-Identifier: Apache-2.0

import CCoroutineSystem
import CoroutineLibc
import Synchronization

/// The surplus of a pool: the memory of very many idle stacks, and the page tables and guards of arenas whose stacks
/// are all clean. The pool keeps it because the program may need it again at once, and gives it up when a while has
/// passed without that. A thread does so, which exists as long as there is a surplus.
///
/// Where the owners of stacks were very many, that thread also gives back, at its end, ten seconds or more after it began, what
/// they had in `malloc`: coroutines take some 370 bytes each, which glibc would keep for ever. That locks a heap meanwhile,
/// so it is done once for all of them, and only where it makes a difference.
extension StackPool {
  /// Called without a lock.
  func startDecayIfNeeded() {
    // No thread but the explorer's runs there: see `Interleaving.explorer`. The surplus stays.
    #if !COROUTINE_INTERLEAVINGS
      let starts = lock.withLock {
        let isDue = isSurplus || idle.pointee.trimmedToRest >= Self.veryManyOwners
        guard isDue, !idle.pointee.isDecaying else { return false }
        idle.pointee.isDecaying = true
        return true
      }
      guard starts else { return }
      let pool = Unmanaged.passRetained(self)  // the thread's reference
      guard coroutine_system_start_thread(runTrimmer, pool.toOpaque()) == 0 else {
        // Only time does not make it decay then; the next inspection tries again.
        pool.release()
        return lock.withLock { idle.pointee.isDecaying = false }
      }
    #endif
  }

  /// The caller holds `lock`.
  private var isSurplus: Bool { idle.pointee.watermark.isSurplus || idle.pointee.mayRecycle }

  /// Takes the time that has passed for an epoch, and gives up the stacks that were not needed. False when there are no
  /// more of that kind: the thread's work is done.
  package func decay() -> Bool {
    let tooMany = lock.withLock {
      if idle.pointee.watermark.isSurplus { idle.pointee.endEpoch() }
      return idle.pointee.resident.count - idle.pointee.watermark.mark
    }
    // No more than there were: other threads may release stacks as fast as this one trims them.
    for _ in 0..<max(0, (tooMany + StackPool.batch - 1) / StackPool.batch) { trimBatch() }
    recycleArenas()
    let isDone = lock.withLock {
      idle.pointee.isDecaying = isSurplus
      return !idle.pointee.isDecaying
    }
    if isDone { giveBackWhatOwnersFreed() }
    return !isDone
  }

  private func giveBackWhatOwnersFreed() {
    let trimmed = lock.withLock {
      defer { idle.pointee.trimmedToRest = 0 }
      return idle.pointee.trimmedToRest
    }
    if trimmed >= Self.veryManyOwners { memory.giveBackFreedMemory() }
  }

  /// The same as when very many stacks have been trimmed, for owners that had few stacks at a time. Called without a lock.
  package func giveBackLaterWhatOwnersFreed() {
    lock.withLock { idle.pointee.trimmedToRest += Self.veryManyOwners }
    startDecayIfNeeded()
  }

  /// Fewer owners leave less than 24 MB in `malloc`.
  package static var veryManyOwners: Int { 1 << 16 }

  fileprivate func waitForPeriod() {
    let neverWoken = Atomic<UInt32>(0)
    while Futex.wait(on: neverWoken, while: 0, for: decayPeriod) {}
  }
}

private func runTrimmer(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
  coroutine_system_name_thread("coroutine-trim")
  let pool = Unmanaged<StackPool>.fromOpaque(argument!)
  pool._withUnsafeGuaranteedRef { pool in
    repeat { pool.waitForPeriod() } while pool.decay()
  }
  pool.release()
  return nil
}
