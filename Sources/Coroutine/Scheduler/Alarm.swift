import Context
import Synchronization

/// Where one thread sleeps, and others wake it up: a futex that remembers one wake.
struct Alarm: ~Copyable, Sendable {
  /// 1: it rang, and the sleeper has not seen it yet.
  private let hasRung = Atomic<UInt32>(0)

  /// Sleeps until it rings, or returns at once if it has.
  borrowing func sleep() {
    while hasRung.exchange(0, ordering: .acquiring) == 0 { Futex.wait(on: hasRung, while: 0) }
  }

  /// Sleeps until it rings, for so long at most. Whether it rang; may also wake up for no reason.
  borrowing func sleep(for duration: Duration) -> Bool {
    _ = Futex.wait(on: hasRung, while: 0, for: duration)
    return hasRung.exchange(0, ordering: .acquiring) != 0
  }

  /// Wakes the sleeper, now or when it is about to sleep. Whoever owns the alarm is kept alive meanwhile.
  borrowing func ring() {
    hasRung.store(1, ordering: .releasing)
    Futex.wake(1, on: hasRung)
  }
}
