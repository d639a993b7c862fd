// SPDX-License-Identifier: Apache-2.0

import Coroutine
import CoroutineDebug
import Measurement

extension Workload {
  /// Work that is one large piece: very many coroutines at once.
  static func masses() -> [Workload] {
    let timers = 100_000
    let (few, leaves) = (100_000, 1_000_000)
    return [
      sleeping(
        "100,000 timers of 10 ms, all of them", cores: [1, 2],
        .fixed(operations: timers, units: 1, warmUp: timers, quick: 3, full: 15)),
      sleeping(
        "100,000 timers of 10 ms in a new process, one of them", cores: [1],
        .fixedInNewProcess(operations: timers, quick: 2, full: 7)),
      skynet(
        "skynet of a million, all of it", cores: [1],
        .fixed(operations: leaves, units: 1, warmUp: leaves, quick: 2, full: 11)),
      skynet(
        "skynet of a million, all of it", cores: [2],
        .fixed(operations: leaves, units: 1, warmUp: leaves, quick: 0, full: 11)),
      skynet(
        "skynet of a million in a new process, one leaf", cores: [1],
        .fixedInNewProcess(operations: leaves, quick: 1, full: 3)),
      skynetOverChannels(
        "skynet of 100,000 over channels, all of it",
        .fixed(operations: few, units: 1, warmUp: few, quick: 3, full: 11)),
      skynetOverChannels(
        "skynet of 100,000 over channels in a new process, one leaf",
        .fixedInNewProcess(operations: few, quick: 2, full: 7)),
      dump(),
    ]
  }

  /// As many coroutines as there are timers, all of which wait at once.
  private static func sleeping(_ name: String, cores: [Int], _ extent: Extent) -> Workload {
    Workload(
      name, cores: cores, extent: extent,
      subjects: [
        .coroutine("Coroutine.sleep") { count in
          let woken = Tally()
          let sleepers = (0..<count).map { _ in
            Coroutine(stackSize: 64 << 10) {
              try Coroutine.sleep(for: .milliseconds(10))
              woken.add(1)
            }
          }
          for sleeper in sleepers { try? sleeper.get() }
          return woken.sum
        },
        .peer("Go, time.Sleep", .go),
        .peer("Boost.Fiber, sleep_for", .boostFiber),
        .task("Task.sleep") { count in
          let woken = Tally()
          let sleepers = (0..<count).map { _ in
            Task {
              try await Task.sleep(for: .milliseconds(10))
              woken.add(1)
            }
          }
          for sleeper in sleepers { try? await sleeper.value }
          return woken.sum
        },
      ])
  }

  /// A tree of coroutines, with ten below each and a million leaves. Each has the sum of what is below it.
  private static func skynet(_ name: String, cores: [Int], _ extent: Extent) -> Workload {
    Workload(
      name, cores: cores, extent: extent,
      subjects: [
        .coroutine("Coroutine { }.get()", expecting: sum) { count in sumOfTree(0, count) },
        .peer("Go, channel", .go, expecting: sum),
        .peer("Boost.Fiber, post, then join", .boostFiber, expecting: sum).inFullFormOnly(),
        .task("TaskGroup", expecting: sum) { count in await sumOfTasks(0, count) }.inFullFormOnly(),
      ])
  }

  /// The same, but each sends its sum through a channel that it shares with its siblings. They start in the order of
  /// their launches: nearly all of them exist, on stacks of their own, before the first leaf's sum is received.
  private static func skynetOverChannels(_ name: String, _ extent: Extent) -> Workload {
    Workload(
      name, extent: extent,
      subjects: [
        .coroutine("Channel", expecting: sum) { count in
          let results = Channel<Int>()
          launchTree(0, count, results)
          return (try? results.receive()).unwrapped
        },
        .peer("Go, channel", .go, expecting: sum),
        .peer("Boost.Fiber, unbuffered_channel", .boostFiber, expecting: sum),
      ])
  }

  /// The sum of the leaves' numbers.
  private static func sum(_ leaves: Int) -> Int { leaves * (leaves - 1) / 2 }

  /// They are created before the measurement, and end after it.
  private static func dump() -> Workload {
    let count = 100_000
    let subject = { (system: String, options: CoroutineDump.Options, count: @escaping (String) -> Int) in
      Subject(system, backend: Coroutine.backendName, role: .runtime) { coroutines in
        whileSuspended(coroutines) { dumped(options, count) }
      }
    }
    return Workload(
      "dump of 100,000 coroutines, one of them",
      extent: .fixed(operations: count, units: count, warmUp: count / 100, quick: 2, full: 11),
      subjects: [
        subject("CoroutineDump, text in groups", CoroutineDump.Options(), numberAtTheBeginning),
        subject("CoroutineDump, JSON", CoroutineDump.Options(format: .json)) { text in
          text.split(separator: "\"state\":", omittingEmptySubsequences: false).count - 1
        },
        .peer("Go, runtime.Stack", .go),
      ])
  }
}

private func launchTree(_ first: Int, _ leaves: Int, _ results: Channel<Int>) {
  Coroutine(stackSize: 64 << 10) {
    if leaves == 1 {
      try results.send(first)
    } else {
      let below = Channel<Int>()
      for part in 0..<10 { launchTree(first + part * (leaves / 10), leaves / 10, below) }
      var sum = 0
      for _ in 0..<10 { sum += try below.receive() }
      try results.send(sum)
    }
  }
}

private func sumOfTree(_ first: Int, _ leaves: Int) -> Int {
  if leaves == 1 { return first }
  let parts = (0..<10).map { part in
    Coroutine(stackSize: 64 << 10) { sumOfTree(first + part * (leaves / 10), leaves / 10) }
  }
  return parts.reduce(0) { sum, part in sum + (try? part.get()).unwrapped }
}

private func sumOfTasks(_ first: Int, _ leaves: Int) async -> Int {
  if leaves == 1 { return first }
  return await withTaskGroup(of: Int.self) { group in
    for part in 0..<10 {
      group.addTask { await sumOfTasks(first + part * (leaves / 10), leaves / 10) }
    }
    return await group.reduce(0, +)
  }
}
