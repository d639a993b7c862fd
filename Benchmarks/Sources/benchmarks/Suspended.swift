// SPDX-License-Identifier: Apache-2.0

import Context
import Coroutine
import Foundation
import Measurement
import Synchronization

extension Workload {
  /// Very many coroutines that are all suspended at once, each number of them in a process of its own. Measured is
  /// what one takes, in time and in memory, page tables included, and what is left of it when all have ended.
  static func suspended() -> [Workload] {
    [(1_000, 5), (10_000, 5), (100_000, 3), (1_000_000, 1)].flatMap { count, quick in
      let name = count.formatted(.number.locale(Locale(identifier: "en")))
      // A million of each of these take half a minute, and more where the machine has to fetch the memory.
      let rarely = { (peer: Subject) in count < 1_000_000 ? peer : peer.inFullFormOnly() }
      let creating = Workload(
        "\(name) created and suspended, one of them",
        extent: .fixedInNewProcess(operations: count, quick: quick, full: Swift.max(3, quick * 2)),
        subjects: [
          subject("Channel.receive(), 64 KiB stacks with guards") { $0.suspending },
          rarely(.peer("Go, channel", .go)),
          .peer("Go, channel, GOGC=off", .go),
          rarely(.peer("Boost.Fiber, unbuffered_channel, 16 KiB without guards", .boostFiber)),
          rarely(Subject("Task, continuation", role: .peer) { count in Tasks.suspending(count) }),
        ])
      let ending = Workload(
        "\(name) suspended ended and trimmed, one of them",
        // Twice as long as the other one: those that end must be created first.
        extent: .fixedInNewProcess(operations: count, quick: count < 1_000_000 ? 2 : 0, full: 3),
        subjects: [
          subject("Channel.close(), 64 KiB stacks with guards") { $0.finishing },
          .peer("Go, close of a channel", .go),
        ])
      return count < 100_000 ? [creating] : [creating, ending]
    }
  }

  private static func subject(_ system: String, _ part: @escaping (Suspended) -> Reading) -> Subject {
    Subject(system, backend: Coroutine.backendName, role: .runtime) { count in
      do {
        return part(try Suspended(measuring: count))
      } catch {
        fatalError("\(count) suspended coroutines: \(error)")
      }
    }
  }
}

/// Creates many coroutines, lets them all wait for a channel, and lets them end.
private struct Suspended {
  /// Until all were suspended.
  let suspending: Reading
  /// From the close of their channel until all had ended. The memory is what the process has more than at the start,
  /// after the pool of stacks and `malloc` were told to give back what they keep.
  let finishing: Reading

  private static let stackSize = 64 << 10

  init(measuring count: Int) throws {
    let stacks = try StackPool.shared(stackSize: Self.stackSize)
    // One thread, first in, first out: once a coroutine that was started last has run, all others have.
    let pool = ThreadPool(threads: 1)
    let channel = Channel<Int>(name: "nobody sends")
    let begun = Tally()
    let closed = Tally()
    try Coroutine(on: pool) {}.getBlocking()

    let before = try ProcessMemory.now()
    var start = ContinuousClock.now
    for _ in 0..<count {
      Coroutine(on: pool, stackSize: Self.stackSize) {
        begun.add(1)
        do { _ = try channel.receive() } catch is ChannelClosed<Int> { closed.add(1) }
      }
    }
    try Coroutine(on: pool) {}.getBlocking()
    suspending = Reading(
      nanoseconds: start.nanosecondsToNow, computed: begun.sum,
      bytes: try ProcessMemory.now().total - before.total)

    start = ContinuousClock.now
    channel.close()
    try Coroutine(on: pool) {}.getBlocking()
    let time = start.nanosecondsToNow
    stacks.trim()
    ProcessMemory.trim()
    finishing = Reading(
      nanoseconds: time, computed: closed.sum, bytes: try ProcessMemory.now().total - before.total)
  }
}

/// The same with Swift's own tasks, which wait for a continuation.
private enum Tasks {
  static func suspending(_ count: Int) -> Reading {
    Surroundings.task {
      let waiting = Waiting(count)
      guard let before = try? ProcessMemory.now() else { return Reading(nanoseconds: 0, computed: -1) }
      let start = ContinuousClock.now
      let tasks = (0..<count).map { _ in
        Task { await withUnsafeContinuation { waiting.add($0) } }
      }
      while waiting.count < count { await Task.yield() }
      let time = start.nanosecondsToNow
      let after = try? ProcessMemory.now()
      waiting.resumeAll()
      var ended = 0
      for task in tasks {
        await task.value
        ended += 1
      }
      return Reading(nanoseconds: time, computed: ended, bytes: after.map { $0.total - before.total })
    }
  }

  private final class Waiting: Sendable {
    private let continuations: Mutex<[UnsafeContinuation<Void, Never>]>

    init(_ count: Int) {
      var empty: [UnsafeContinuation<Void, Never>] = []
      empty.reserveCapacity(count)
      continuations = Mutex(empty)
    }

    var count: Int { continuations.withLock { $0.count } }

    func add(_ continuation: UnsafeContinuation<Void, Never>) {
      continuations.withLock { $0.append(continuation) }
    }

    func resumeAll() {
      for continuation in continuations.withLock({ $0 }) { continuation.resume() }
    }
  }
}
