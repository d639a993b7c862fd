// SPDX-License-Identifier: Apache-2.0

import Coroutine
import CoroutineDebug
import Measurement

extension Workload {
  /// The cost of a dump, and the cost of being found by one.
  static func looking() -> [Workload] {
    [dumpInNewProcess(), unwinding(), registering()]
  }

  /// With the most memory that the process takes during the dump. The text is not kept.
  private static func dumpInNewProcess() -> Workload {
    Workload(
      "dump of 100,000 coroutines and its memory, one of them",
      extent: .fixedInNewProcess(operations: 100_000, quick: 3, full: 7),
      subjects: [
        looked("CoroutineDump, text in groups") { count in
          whileSuspended(count) { readingOfMemory(of: CoroutineDump.Options()) }
        },
        looked("CoroutineDump, JSON") { count in
          whileSuspended(count) { readingOfMemory(of: CoroutineDump.Options(format: .json)) }
        },
      ])
  }

  /// Without names, so that where stacks are deep nearly all of the time is the walk.
  private static func unwinding() -> Workload {
    let (coroutines, depth) = (1000, 100)
    return Workload(
      "backtraces without names, one frame",
      extent: .fixed(operations: coroutines, units: coroutines * depth, warmUp: coroutines, quick: 7, full: 31),
      subjects: [
        looked("CoroutineDump, stacks of more than 100 frames") { count in
          var options = CoroutineDump.Options()
          options.names = false
          return whileSuspended(count, depth: depth) { dumped(options, numberAtTheBeginning) }
        }
      ])
  }

  /// What a coroutine keeps for dumps: a record by which it is found, and the time since when it waits. (The first
  /// can't be turned off.)
  private static func registering() -> Workload {
    func subject(_ system: String, recordsTimes: Bool) -> Subject {
      .coroutine(system) { count in
        CoroutineDump.recordsTimes = recordsTimes
        defer { CoroutineDump.recordsTimes = false }
        var sum = 0
        for _ in 0..<count { sum += (try? Coroutine { 1 }.get()).unwrapped }
        return sum
      }
    }
    return Workload(
      "spawn and join, known to dumps",
      subjects: [
        subject("Coroutine { }.get(), since when is noted", recordsTimes: true),
        subject("Coroutine { }.get(), no times", recordsTimes: false),
      ])
  }

  private static func looked(_ system: String, _ read: @escaping (Int) -> Reading) -> Subject {
    Subject(system, backend: Coroutine.backendName, role: .runtime, reading: read)
  }
}

@inline(never)
private func descend(_ depth: Int, _ channel: Channel<Int>) -> Int {
  depth > 0 ? descend(depth - 1, channel) + 1 : channel.received.next() ?? 0
}

/// Measures while `count` coroutines wait for a channel, at the given depth of calls.
func whileSuspended(_ count: Int, depth: Int = 0, _ reading: () -> Reading) -> Reading {
  // One thread, first in, first out: once a coroutine that was started last has run, all others have.
  let pool = ThreadPool(threads: 1)
  let channel = Channel<Int>(name: "nobody sends")
  for _ in 0..<count {
    Coroutine(on: pool, stackSize: 64 << 10) { _ = descend(depth, channel) }
  }
  try? Coroutine(on: pool) {}.getBlocking()
  defer {
    channel.close()
    try? Coroutine(on: pool) {}.getBlocking()
  }
  return reading()
}

/// Makes a dump in memory.
///
/// - Parameter count: reads the number of coroutines from the text.
func dumped(_ options: CoroutineDump.Options, _ count: (String) -> Int) -> Reading {
  var text: [UInt8] = []
  let start = ContinuousClock.now
  do {
    try CoroutineDump.write(options: options) { text += $0 }
  } catch {
    fatalError("no dump: \(error)")
  }
  return Reading(nanoseconds: start.nanosecondsToNow, computed: count(String(decoding: text, as: UTF8.self)))
}

/// The number in "100,000 coroutines: …".
func numberAtTheBeginning(_ text: String) -> Int {
  text.split(separator: " ").first.flatMap { Int($0.filter(\.isNumber)) } ?? 0
}

private func readingOfMemory(of options: CoroutineDump.Options) -> Reading {
  do {
    var ends: [UInt8] = []
    ends.reserveCapacity(1 << 20)
    let before = try ProcessMemory.now()
    try ProcessMemory.restartPeak()
    let start = ContinuousClock.now
    try CoroutineDump.write(options: options) { piece in
      if ends.isEmpty { ends += piece.prefix(64) }
      ends += piece.suffix(64)
      if ends.count > 256 { ends.removeSubrange(64..<ends.count - 64) }
    }
    let time = start.nanosecondsToNow
    let text = String(decoding: ends, as: UTF8.self)
    // JSON ends with the number.
    let count = text.hasPrefix("{") ? text.split(separator: ":").last.map(String.init) ?? "" : text
    return Reading(
      nanoseconds: time, computed: numberAtTheBeginning(count), bytes: try ProcessMemory.peak() - before.resident)
  } catch {
    fatalError("no dump: \(error)")
  }
}
