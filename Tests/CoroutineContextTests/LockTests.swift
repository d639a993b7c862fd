import CCoroutineSystem
import CoroutineTestSupport
import Glibc
import Synchronization
import Testing

@testable import Context

/// What `Lock` guards here. Plain memory, so that ThreadSanitizer sees every access that the lock fails to order.
private final class Guarded: Sendable {
  let lock = Lock()
  nonisolated(unsafe) var value = 0  // guarded by `lock`
}

/// Whether this thread of the process sleeps in the kernel.
private func isAsleep(_ thread: CInt) -> Bool {
  guard let file = fopen("/proc/self/task/\(thread)/stat", "r") else { return false }
  defer { fclose(file) }
  // The file has "number (name) state ...". The names of these threads have no parenthesis.
  while true {
    let byte = getc(file)
    if byte == EOF { return false }
    if byte == UInt8(ascii: ")") { break }
  }
  _ = getc(file)
  return getc(file) == UInt8(ascii: "S")
}

/// Runs `wait` on one thread and `act` on another one, with the lock held. `act` begins once the first thread has
/// marked the lock as contended and fallen asleep. The lock is free at the end.
private func onceAsleep(
  at guarded: Guarded, wait: @escaping @Sendable () -> Void, act: @escaping @Sendable () -> Void
) {
  let sleeper = Atomic<CInt>(0)
  guarded.lock.lock()
  onThreads(2) { thread in
    if thread == 0 {
      sleeper.store(coroutine_system_thread_id(), ordering: .releasing)
      wait()
    } else {
      while guarded.lock.state.load(ordering: .relaxed) != 2 { sched_yield() }
      while !isAsleep(sleeper.load(ordering: .acquiring)) { sched_yield() }
      act()
    }
  }
  let isFree = guarded.lock.tryLock()
  #expect(isFree)
  guarded.lock.unlock()
}

@Suite(.ownThreads) struct LockTests {
  @Test func contendingThreadsLoseNoUpdate() {
    let guarded = Guarded()
    onThreads(4) { _ in
      for _ in 0..<20_000 {
        guarded.lock.withLock { guarded.value += 1 }
      }
    }
    #expect(guarded.value == 80_000)
  }

  /// The holder does not unlock until the others have had every chance to sleep on the futex.
  @Test func sleepersAreWokenOneAfterAnother() {
    let guarded = Guarded()
    let arrived = Atomic<Int>(0)
    guarded.lock.lock()
    let contenders = 4
    onThreads(contenders + 1) { thread in
      if thread == contenders {
        while arrived.load(ordering: .acquiring) < contenders || guarded.lock.tryLock() { sched_yield() }
        for _ in 0..<1000 { sched_yield() }
        guarded.lock.unlock()
      } else {
        arrived.add(1, ordering: .acquiringAndReleasing)
        guarded.lock.withLock { guarded.value += 1 }
      }
    }
    #expect(guarded.value == contenders)
  }

  /// A thread in `Lock.lock` would look again by itself. This one sleeps until it is woken.
  @Test func anUnlockWakesASleeper() {
    let guarded = Guarded()
    onceAsleep(at: guarded) {
      guarded.lock.state.store(2, ordering: .relaxed)
      while guarded.lock.state.load(ordering: .relaxed) == 2 { Futex.wait(on: guarded.lock.state, while: 2) }
    } act: {
      guarded.lock.unlock()
    }
  }

  /// An unlock that looked for sleepers before there was one overwrites the mark of the first sleeper. The test
  /// overwrites it when the thread sleeps already, as if the holder had been preempted in between.
  @Test func aSleeperWhoseWakeIsLostGoesOn() {
    let guarded = Guarded()
    onceAsleep(at: guarded) {
      guarded.lock.withLock {
        guarded.value += 1
        #expect(guarded.lock.state.load(ordering: .relaxed) == 2, "other threads may sleep")
      }
    } act: {
      guarded.value += 1
      guarded.lock.state.store(0, ordering: .releasing)
    }
    #expect(guarded.value == 2)
  }

  /// A coroutine that migrates unlocks on another thread: the lock belongs to no thread.
  @Test func unlockedOnAnotherThread() {
    let guarded = Guarded()
    guarded.lock.lock()
    guarded.value = 1
    onThreads(1) { _ in
      guarded.value += 1
      guarded.lock.unlock()
    }
    let isFree = guarded.lock.tryLock()
    #expect(isFree)
    #expect(guarded.value == 2)
    guarded.lock.unlock()
  }

  @Test func tryLockFailsWhileHeld() {
    let lock = Lock()
    let isTaken = lock.tryLock()
    let isTakenTwice = lock.tryLock()
    #expect(isTaken && !isTakenTwice)
    lock.unlock()
    let isTakenAgain = lock.tryLock()
    #expect(isTakenAgain)
    lock.unlock()
  }

  @Test func errorLeavesTheLockFree() {
    struct Refused: Error {}
    let lock = Lock()
    #expect(throws: Refused.self) {
      try lock.withLock { () throws(Refused) in throw Refused() }
    }
    let isFree = lock.tryLock()
    #expect(isFree)
    lock.unlock()
  }

  @Test func unlockOfAFreeLockTraps() async {
    await #expect(processExitsWith: .failure) {
      Lock().unlock()
    }
  }

  /// The next owner may free the lock's memory as soon as the unlock has stored its word.
  @Test func lockIsFreedRightAfterTheUnlock() {
    for _ in 0..<500 {
      let lock = UnsafeMutablePointer<Lock>.allocate(capacity: 1)
      lock.initialize(to: Lock())
      lock.pointee.lock()
      nonisolated(unsafe) let shared = lock  // freed by the thread that locks it last
      onThreads(2) { thread in
        if thread == 0 {
          shared.pointee.unlock()
        } else {
          shared.pointee.lock()
          shared.deinitialize(count: 1).deallocate()
        }
      }
    }
  }
}

@Suite(.ownThreads) struct FutexTests {
  @Test func doesNotSleepWhenTheValueDiffers() {
    let word = Atomic<UInt32>(1)
    Futex.wait(on: word, while: 0)
  }

  @Test func deadlineEndsTheWait() {
    let word = Atomic<UInt32>(0)
    let past = timespec(tv_sec: 1, tv_nsec: 0)
    let isInTime = Futex.wait(on: word, while: 0, until: past)
    #expect(!isInTime)
    let isTold = Futex.wait(on: word, while: 1, until: past)
    #expect(isTold, "the value differs: that is no timeout")
  }

  @Test func wakesThoseThatSleepOnTheWord() {
    let word = Atomic<UInt32>(0)
    let wokenBefore = Futex.wake(1, on: word)
    #expect(wokenBefore == 0)
    onThreads(2) { thread in
      if thread == 0 {
        while word.load(ordering: .acquiring) == 0 { Futex.wait(on: word, while: 0) }
      } else {
        word.store(1, ordering: .releasing)
        Futex.wake(.max, on: word)
      }
    }
  }

  @Test func barrierOnAllThreadsAfterRegistration() {
    let registered = coroutine_system_membarrier_register()
    #expect(registered == 0 || registered == -ENOSYS || registered == -EPERM)
    if registered == 0 { #expect(coroutine_system_membarrier() == 0) }
  }
}
