// SPDX-License-Identifier: Apache-2.0

/// What one run of a loop took, and what it computed: so the optimiser can't remove the loop unnoticed.
public struct Reading: Sendable {
  public let nanoseconds: Double
  public let computed: Int
  /// By how many bytes the process grew, where memory is measured.
  public let bytes: Int?

  public init(nanoseconds: Double, computed: Int, bytes: Int? = nil) {
    self.nanoseconds = nanoseconds
    self.computed = computed
    self.bytes = bytes
  }

  /// Runs `loop` on the calling thread and measures its time. If the loop's instructions are wanted, they are
  /// recorded here.
  public static func timed(_ loop: () -> Int) -> Reading {
    if let steps = Steps.wanted { return Reading(nanoseconds: 0, computed: steps.note(loop)) }
    let start = ContinuousClock.now
    let computed = loop()
    return Reading(nanoseconds: start.nanosecondsToNow, computed: computed)
  }

  /// Runs `loop` and measures its time.
  public static func timedAsync(_ loop: () async -> Int) async -> Reading {
    let start = ContinuousClock.now
    let computed = await loop()
    return Reading(nanoseconds: start.nanosecondsToNow, computed: computed)
  }

  /// Runs each of the loops, which do the same, and takes the time of the fastest one.
  public static func fastest(of loops: [() -> Int]) -> Reading {
    let readings = loops.map { timed($0) }
    guard let fastest = readings.min(by: { $0.nanoseconds < $1.nanoseconds }) else { fatalError("no loop to run") }
    // All of them must have computed the same.
    return readings.first { $0.computed != fastest.computed } ?? fastest
  }
}

extension ContinuousClock.Instant {
  /// The nanoseconds since this instant.
  public var nanosecondsToNow: Double {
    let (seconds, attoseconds) = duration(to: .now).components
    return Double(seconds) * 1e9 + Double(attoseconds) / 1e9
  }
}
