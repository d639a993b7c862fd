// SPDX-License-Identifier: Apache-2.0

import Coroutine
import Foundation
import Measurement

extension Workload {
  /// What one operation takes while very many other coroutines are suspended, beside what it takes while a thousand
  /// are. Nothing that all of them use (the pool, the timers, the list for dumps, `malloc`) may become slow.
  ///
  /// The many and the few wait in two processes of the same program, which take turns. To create a million and to end
  /// them takes seconds, and a measurement right after that would meet its traces in the caches.
  static func crowded() -> [Workload] {
    // On all backends at once a million would take fifteen gigabytes.
    [crowded(100_000, backends: nil), crowded(1_000_000, backends: ["ASM"])]
  }

  private static func crowded(_ many: Int, backends: [String]?) -> Workload {
    let few = 1_000
    let crowds = [few, many].map { count in (count, Lazy { Crowd(count) }) }
    let subjects = operations.flatMap { operation in
      crowds.map { count, crowd in
        let beside = { "\(operation.name), beside \(grouped($0))" }
        let subject = Subject(
          beside(count), backend: Coroutine.backendName, role: .runtime, promises: operation.promises,
          granularity: operation.granularity
        ) { operations in
          crowd.value.whileSuspended { .timed { operation.run(operations) } }
        }
        // Counted only beside the largest number: that takes some seconds, and gives the same for all.
        return (backends == nil ? subject : subject.counted())
          .running(in: grouped(count), comparedWith: beside(few))
      }
    }
    return Workload(
      "one operation beside \(grouped(few)) and beside \(grouped(many)) suspended", backends: backends,
      subjects: subjects)
  }

  private struct Operation: Sendable {
    let name: String
    var promises: Promises = []
    var granularity = 1
    let run: @Sendable (Int) -> Int
  }

  /// All of them run on the pool in which the others wait, and take new stacks from the same pool as those have.
  private static let operations = [
    Operation(name: "Coroutine.yield(), one turn of two", promises: .noAllocation, granularity: 2) { turns in
      let other = Coroutine { takeTurns(turns / 2) }
      return takeTurns(turns / 2) + (try? other.get()).unwrapped
    },
    Operation(name: "Channel, 1 to 1, one message", promises: .noAllocation) { count in
      receivedByChannel(.rendezvous, 1, count)
    },
    Operation(name: "Coroutine { }.get()") { count in
      var finished = 0
      for _ in 0..<count { finished += (try? Coroutine(stackSize: Crowd.stackSize) { 1 }.get()).unwrapped }
      return finished
    },
    Operation(name: "withTimeout, not reached") { count in
      var finished = 0
      for _ in 0..<count { finished += (try? withTimeout(.seconds(3600)) { 1 }).unwrapped }
      return finished
    },
  ]

  /// "1,000,000".
  private static func grouped(_ count: Int) -> String {
    count.formatted(.number.locale(Locale(identifier: "en")))
  }
}

/// Coroutines that are suspended for as long as the process lives. Half of them wait for a channel, half for a timer.
private final class Crowd: Sendable {
  static let stackSize = 64 << 10

  private let woken = Tally()

  init(_ count: Int) {
    let channel = Channel<Int>(name: "nobody sends")
    let (begun, woken) = (Tally(), woken)
    for index in 0..<count {
      Coroutine(stackSize: Self.stackSize) {
        begun.add(1)
        if index.isMultiple(of: 2) {
          _ = try? channel.receive()
        } else {
          try? Coroutine.sleep(for: .seconds(86_400))
        }
        woken.add(1)
      }
    }
    // One that is launched now runs after all those that were launched before.
    while begun.sum < count { try? Coroutine {}.getBlocking() }
  }

  /// Measures inside a coroutine. The result is wrong if one of the others did not wait all the time.
  func whileSuspended(_ reading: @escaping @Sendable () -> Reading) -> Reading {
    let taken = Surroundings.coroutine(reading)
    return woken.sum == 0 ? taken : Reading(nanoseconds: taken.nanoseconds, computed: -1)
  }
}
