import Context
import Coroutine
import Foundation
import Measurement

/// Very many coroutines that are all suspended at once, in a process of its own: only there does its memory say what they
/// take.
struct Suspended: Codable {
  /// What the process had, in order: before, with all of them suspended, when they had finished, when the pool of stacks and
  /// `malloc` had been told to give back what they keep for the next ones.
  private let before: ProcessMemory
  private let suspended: ProcessMemory
  private let finished: ProcessMemory
  private let trimmed: ProcessMemory
  /// Nanoseconds until all were suspended, and from the close of their channel until all had finished.
  private let suspending: Double
  private let finishing: Double
  /// Bytes of the guard below each stack.
  private let guardSize: Int

  /// What it is called among the workloads.
  static let name = "suspended"
  private static let stackSize = 64 << 10

  // MARK: In the process of its own

  /// Creates so many, lets them all wait for a channel, and lets them finish.
  init(measuring count: Int) throws {
    let stacks = try StackPool.shared(stackSize: Self.stackSize)
    guardSize = stacks.guardSize
    // One thread, first in, first out: when a coroutine that was started last has run, all others have.
    let pool = ThreadPool(threads: 1)
    let channel = Channel<Int>(name: "nobody sends")
    let outcome = Outcome()
    try Coroutine(on: pool) {}.getBlocking()

    before = try ProcessMemory.now()
    var start = ContinuousClock.now
    for _ in 0..<count {
      Coroutine(on: pool, stackSize: Self.stackSize) {
        do { _ = try channel.receive() } catch is ChannelClosed<Int> { outcome.closed += 1 }
      }
    }
    try Coroutine(on: pool) {}.getBlocking()
    suspending = start.nanosecondsToNow
    suspended = try ProcessMemory.now()

    start = ContinuousClock.now
    channel.close()
    try Coroutine(on: pool) {}.getBlocking()
    finishing = start.nanosecondsToNow
    finished = try ProcessMemory.now()
    stacks.trim()
    ProcessMemory.trim()
    trimmed = try ProcessMemory.now()
    guard outcome.closed == count else {
      throw Failure(description: "\(outcome.closed) of \(count) coroutines saw the channel close")
    }
  }

  /// Touched by the pool's one thread, and read when all that it ran has been joined.
  private final class Outcome: @unchecked Sendable {
    var closed = 0
  }

  struct Failure: Error, CustomStringConvertible {
    let description: String
  }

  // MARK: In the process that asks

  /// Has it measured `runs` times, for a million coroutines or as many as there is memory for.
  static func records(runs: Int, cores: Int) throws -> [Record] {
    let count = try affordableCount()
    let readings = try (0..<runs).map { _ in try inOwnProcess(count) }
    let number = count.formatted(.number.locale(Locale(identifier: "en")))
    let guardSize = readings[0].guardSize >> 10
    let workload =
      "\(number) \(name) in Channel.receive(), \(stackSize >> 10) KiB stacks, "
      + (guardSize == 0 ? "WITHOUT guards" : "\(guardSize) KiB guards") + ", each"
    func record(_ system: String, _ times: ((Suspended) -> Double)?, _ bytes: (Suspended) -> Int) -> Record {
      let times = times.map { time in Distribution(readings.map { time($0) / Double(count) }) }
      let bytes = Distribution(readings.map { Double(bytes($0)) / Double(count) }).median
      return Record(
        workload: workload, system: system, backend: Coroutine.backendName, cores: cores, times: times,
        bytes: Int(bytes.rounded()), runs: runs)
    }
    return [
      record("created and suspended", \.suspending) { $0.suspended.resident - $0.before.resident },
      record("their page tables", nil) { $0.suspended.pageTables - $0.before.pageTables },
      record("finished", \.finishing) { $0.finished.resident - $0.before.resident },
      record("finished; pool of stacks and malloc trimmed", nil) { $0.trimmed.resident - $0.before.resident },
      record("page tables after that", nil) { $0.trimmed.pageTables - $0.before.pageTables },
    ]
  }

  /// The largest power of ten, up to a million, that surely fits: 6 KiB each, page tables included.
  private static func affordableCount() throws -> Int {
    let text = try String(contentsOfFile: "/proc/meminfo", encoding: .utf8)
    let line = text.split(separator: "\n").first { $0.hasPrefix("MemAvailable:") }
    let available = line?.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
    return [1_000_000, 100_000].first { $0 * 6 < available } ?? 10_000
  }

  private static func inOwnProcess(_ count: Int) throws -> Suspended {
    let child = Process()
    let output = Pipe()
    child.executableURL = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
    child.arguments = ["--suspended", String(count)]
    child.standardOutput = output
    try child.run()
    let data = output.fileHandleForReading.readDataToEndOfFile()
    child.waitUntilExit()
    guard child.terminationStatus == 0 else {
      throw Failure(description: "the process with \(count) suspended coroutines ended with \(child.terminationStatus)")
    }
    return try JSONDecoder().decode(Suspended.self, from: data)
  }
}
