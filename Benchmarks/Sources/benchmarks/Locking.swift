// SPDX-License-Identifier: Apache-2.0

import Coroutine
import Measurement

extension Workload {
  /// A mutex without contention, and one that four coroutines want all the time, each of which yields inside.
  static func locking() -> [Workload] {
    [
      Workload(
        "mutex, uncontended",
        subjects: [
          .coroutine("CoroutineMutex", promises: .noAllocation) { count in
            let mutex = CoroutineMutex(0)
            for _ in 0..<count { try? mutex.withLock { $0 += 1 } }
            return (try? mutex.withLock { $0 }).unwrapped
          },
          .peer("Go, sync.Mutex", .go),
          .peer("Boost.Fiber, fibers::mutex", .boostFiber),
          .task("Swift's actor, awaited") { count in
            let counter = CountingActor()
            var last = 0
            for _ in 0..<count { last = seen(await counter.increment()) }
            return last
          },
        ]),
      Workload(
        "mutex, wanted by four that yield inside", cores: [1, 2],
        subjects: [
          .coroutine("CoroutineMutex", promises: .hardlyAnyAllocation, granularity: 4) { count in
            let mutex = CoroutineMutex(0)
            let four = (0..<4).map { _ in
              Coroutine {
                for _ in 0..<count / 4 {
                  try mutex.withLock { sum in
                    sum += 1
                    Coroutine.yield()
                  }
                }
              }
            }
            for one in four { try? one.get() }
            return (try? mutex.withLock { $0 }).unwrapped
          },
          .peer("Go, sync.Mutex", .go, granularity: 4),
          .peer("Boost.Fiber, fibers::mutex", .boostFiber, granularity: 4),
        ]),
    ]
  }
}

/// Uses an actor's answer where the caller runs. Not inlined: a caller that does nothing between two calls need not
/// leave the actor, and then a call costs it nothing.
@inline(never)
func seen(_ answer: Int) -> Int { answer }

/// The state that a Swift actor guards.
actor CountingActor {
  private(set) var count = 0

  func note() { count += 1 }

  func increment() -> Int {
    count += 1
    return count
  }
}
