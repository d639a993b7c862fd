import Context
import Synchronization

/// Where one thread sleeps, and others wake it up: a futex that remembers one wake.
struct Parker: ~Copyable, Sendable {
  /// 1: it was unparked, and the sleeper has not seen it yet.
  private let isUnparked = Atomic<UInt32>(0)

  /// Sleeps until it is unparked, or returns at once if it has been.
  borrowing func park() {
    while isUnparked.exchange(0, ordering: .acquiring) == 0 { Futex.wait(on: isUnparked, while: 0) }
  }

  /// Sleeps until it is unparked, for so long at most. Whether it was; may also wake up for no reason.
  borrowing func park(for duration: Duration) -> Bool {
    _ = Futex.wait(on: isUnparked, while: 0, for: duration)
    return isUnparked.exchange(0, ordering: .acquiring) != 0
  }

  /// Wakes the sleeper, now or when it is about to sleep. The owner of the parker is kept alive meanwhile.
  borrowing func unpark() {
    isUnparked.store(1, ordering: .releasing)
    Futex.wake(1, on: isUnparked)
  }
}
