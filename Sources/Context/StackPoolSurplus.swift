import CSystem
import Glibc
import Synchronization

/// A pool that keeps the memory of many idle stacks, because the program wanted them back again and again, gives it up in
/// some seconds when the program does not do so any more: a thread that exists for so long ends an epoch each second.
extension StackPool {
  private static var period: time_t { 1 }  // second

  /// Called without a lock, by whoever has set `isSinking`.
  func startSinking() {
    var thread = pthread_t()
    let pool = Unmanaged.passRetained(self)  // the thread's reference
    guard pthread_create(&thread, nil, runTrimmer, pool.toOpaque()) == 0 else {
      // Only time does not make it sink then; the next inspection tries again.
      pool.release()
      return lock.withLock { idle.pointee.isSinking = false }
    }
    pthread_detach(thread)
  }

  /// Takes the time that has passed for an epoch, and trims what the watermark does not cover any more. False when it has
  /// sunk to what lasts: the thread's work is done.
  package func sink() -> Bool {
    let (surplus, goesOn) = lock.withLock {
      if idle.pointee.watermark.isSurplus { idle.pointee.endEpoch() }
      idle.pointee.isSinking = idle.pointee.watermark.isSurplus
      return (idle.pointee.resident.count - idle.pointee.watermark.mark, idle.pointee.isSinking)
    }
    // No more than there were: other threads may release stacks as fast as this one trims them.
    for _ in 0..<max(0, (surplus + StackPool.batch - 1) / StackPool.batch) { trimBatch() }
    return goesOn
  }

  fileprivate static func waitForPeriod() {
    var deadline = timespec()
    clock_gettime(CLOCK_MONOTONIC, &deadline)
    deadline.tv_sec += period
    let nobodyWakesIt = Atomic<UInt32>(0)
    while Futex.wait(on: nobodyWakesIt, while: 0, until: deadline) {}
  }
}

private func runTrimmer(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
  csystem_name_thread("coroutine-trim")
  let pool = Unmanaged<StackPool>.fromOpaque(argument!)
  pool._withUnsafeGuaranteedRef { pool in
    repeat { StackPool.waitForPeriod() } while pool.sink()
  }
  pool.release()
  return nil
}
