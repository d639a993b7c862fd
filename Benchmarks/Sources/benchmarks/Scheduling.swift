// SPDX-License-Identifier: Apache-2.0

import Coroutine
import CoroutineDebug
import Dispatch
import Measurement

extension Workload {
  /// Operations on the scheduler: the pool, which has as many threads as the process has processors.
  static func scheduling() -> [Workload] {
    [yielding(), spawningOne(), spawningMany()]
  }

  /// Two coroutines that yield to each other.
  private static func yielding() -> Workload {
    Workload(
      "yield, one turn of two", cores: [1, 2],
      subjects: [
        .coroutine("Coroutine.yield()", promises: .noAllocation, granularity: 2) { turns in
          let other = Coroutine { takeTurns(turns / 2) }
          return takeTurns(turns / 2) + (try? other.get()).unwrapped
        }.counted(),
        .coroutine("Coroutine.yield(), with CoroutineDebug's times", promises: .noAllocation, granularity: 2) { turns in
          CoroutineDump.recordsTimes = true
          defer { CoroutineDump.recordsTimes = false }
          let other = Coroutine { takeTurns(turns / 2) }
          return takeTurns(turns / 2) + (try? other.get()).unwrapped
        },
        .peer("Go, runtime.Gosched", .go, granularity: 2),
        .peer("Boost.Fiber, this_fiber::yield", .boostFiber, granularity: 2),
        .task("Task.yield()", granularity: 2) { turns in
          async let other = takeTurnsAsync(turns / 2)
          return await takeTurnsAsync(turns / 2) + other
        },
      ])
  }

  private static func spawningOne() -> Workload {
    Workload(
      "spawn and join, one at a time", cores: [1, 2],
      subjects: [
        .coroutine("Coroutine { }.get()") { count in
          var finished = 0
          for _ in 0..<count { finished += (try? Coroutine { 1 }.get()).unwrapped }
          return finished
        }.counted(),
        .peer("Go, go and channel", .go),
        .peer("Boost.Fiber, post and join", .boostFiber),
        .peer("Boost.Fiber, dispatch and join", .boostFiber),
        .task("Task { }.value") { count in
          var finished = 0
          for _ in 0..<count { finished += await Task { 1 }.value }
          return finished
        },
        .task("async let") { count in
          var finished = 0
          for _ in 0..<count {
            async let one = 1
            finished += await one
          }
          return finished
        },
      ])
  }

  private static func spawningMany() -> Workload {
    let batch = 10_000
    return Workload(
      "spawn 10,000, join all; one of them", cores: [1, 2],
      subjects: [
        .coroutine("Coroutine { }, then get()", granularity: batch) { count in
          var finished = 0
          for _ in 0..<count / batch {
            let coroutines = (0..<batch).map { _ in Coroutine { 1 } }
            for coroutine in coroutines { finished += (try? coroutine.get()).unwrapped }
          }
          return finished
        },
        .coroutine("scope.launch { }", granularity: batch) { count in
          let finished = Tally()
          for _ in 0..<count / batch {
            try? withScope { scope in
              for _ in 0..<batch { scope.launch { finished.add(1) } }
            }
          }
          return finished.sum
        },
        .peer("Go, go and WaitGroup", .go, granularity: batch),
        .peer("Boost.Fiber, post, then join", .boostFiber, granularity: batch),
        .task("Task { }, then value", granularity: batch) { count in
          var finished = 0
          for _ in 0..<count / batch {
            let tasks = (0..<batch).map { _ in Task { 1 } }
            for task in tasks { finished += await task.value }
          }
          return finished
        },
        .task("TaskGroup", granularity: batch) { count in
          var finished = 0
          for _ in 0..<count / batch {
            await withTaskGroup(of: Int.self) { group in
              for _ in 0..<batch { group.addTask { 1 } }
              for await one in group { finished += one }
            }
          }
          return finished
        },
        Subject("Dispatch, serial queue", role: .peer, granularity: batch) { count in
          let queue = DispatchQueue(label: "batch")
          let finished = Tally()
          for _ in 0..<count / batch {
            let group = DispatchGroup()
            for _ in 0..<batch { queue.async(group: group) { finished.add(1) } }
            group.wait()
          }
          return finished.sum
        },
      ])
  }
}

/// Yields `count` times.
@inline(never)
func takeTurns(_ count: Int) -> Int {
  for _ in 0..<count { Coroutine.yield() }
  return count
}

@inline(never)
private func takeTurnsAsync(_ count: Int) async -> Int {
  for _ in 0..<count { await Task.yield() }
  return count
}
