/// What one run of a loop took, and what it computed: nobody can time a loop that the optimiser removed.
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

  /// Runs `loop` and takes the time. On the thread on which it is called: also the place where the loop's instructions are
  /// noted, when that is wanted.
  public static func timed(_ loop: () -> Int) -> Reading {
    if let steps = Steps.wanted { return Reading(nanoseconds: 0, computed: steps.note(loop)) }
    let start = ContinuousClock.now
    let computed = loop()
    return Reading(nanoseconds: start.nanosecondsToNow, computed: computed)
  }

  /// Runs `loop` and takes the time.
  public static func timedAsync(_ loop: () async -> Int) async -> Reading {
    let start = ContinuousClock.now
    let computed = await loop()
    return Reading(nanoseconds: start.nanosecondsToNow, computed: computed)
  }

  /// Runs each of the loops, which do the same, and takes the fastest one's time.
  public static func fastest(of loops: [() -> Int]) -> Reading {
    let readings = loops.map { timed($0) }
    guard let fastest = readings.min(by: { $0.nanoseconds < $1.nanoseconds }) else { fatalError("no loop to run") }
    // All of them must have computed the same.
    return readings.first { $0.computed != fastest.computed } ?? fastest
  }
}

extension ContinuousClock.Instant {
  /// How long ago that was.
  public var nanosecondsToNow: Double {
    let (seconds, attoseconds) = duration(to: .now).components
    return Double(seconds) * 1e9 + Double(attoseconds) / 1e9
  }
}
