/// One way to do some work: a loop that can be run with any number of operations.
public struct Subject {
  /// What does the work: "Generator, for-in", "jump_fcontext, loop in C".
  public let system: String
  /// The context backend that it runs on, if it runs on one.
  public let backend: String?
  /// The subject of the same workload that this one is held against, by its `system`.
  public let comparedWith: String?
  /// What it must keep: a run in which it does not is a failed one.
  public let promises: Promises
  /// The number of operations is a multiple of this.
  public let granularity: Int
  /// What a run of so many operations must have computed.
  let expecting: (Int) -> Int
  /// Runs so many operations.
  let read: (Int) -> Reading

  /// - Parameter loop: runs so many operations and returns what it computed. It is timed as a whole.
  public init(
    _ system: String, backend: String? = nil, comparedWith: String? = nil, promises: Promises = [],
    granularity: Int = 1, expecting: @escaping (Int) -> Int, loop: @escaping (Int) -> Int
  ) {
    self.init(
      system, backend: backend, comparedWith: comparedWith, promises: promises, granularity: granularity,
      expecting: expecting, reading: { operations in Reading.timed { loop(operations) } })
  }

  /// - Parameter reading: runs so many operations and times the part that counts: for loops that run elsewhere, in a task
  ///   or a coroutine, whose start is no part of the work.
  public init(
    _ system: String, backend: String? = nil, comparedWith: String? = nil, promises: Promises = [],
    granularity: Int = 1, expecting: @escaping (Int) -> Int, reading: @escaping (Int) -> Reading
  ) {
    self.system = system
    self.backend = backend
    self.comparedWith = comparedWith
    self.promises = promises
    self.granularity = granularity
    self.expecting = expecting
    self.read = reading
  }
}

/// What the path of one operation must be free of. It is counted, not timed: nothing else can hold a zero.
public struct Promises: OptionSet, Sendable {
  public let rawValue: Int

  public init(rawValue: Int) {
    self.rawValue = rawValue
  }

  /// No block is allocated, on any thread.
  public static let noAllocation = Promises(rawValue: 1)
  /// No instruction outside the program and a few libraries: no call of Dispatch, of the C library, of the kernel. For
  /// loops that are timed by `Reading.timed` and stay on one thread.
  public static let noCallOut = Promises(rawValue: 2)
  /// No atomic change, so no lock, and no reference counted. Loops as above.
  public static let noLock = Promises(rawValue: 4)

  /// How the names of these few libraries begin: the one that counts references, and the one that switches for the Boost
  /// backend.
  static let allowed = ["libswiftCore.so", "libboost_context."]
}

/// What one run of a loop took, and what it computed: nobody can time a loop that the optimiser removed.
public struct Reading: Sendable {
  public let nanoseconds: Double
  public let computed: Int

  public init(nanoseconds: Double, computed: Int) {
    self.nanoseconds = nanoseconds
    self.computed = computed
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

/// Subjects that do the same work, measured in turn.
public struct Workload {
  /// What they do, with the unit of the figures: "switch, one way".
  public let name: String
  public let subjects: [Subject]
  /// Subjects that cannot run here, with the reason.
  public let missing: [(system: String, reason: String)]

  public init(_ name: String, missing: [(system: String, reason: String)] = [], subjects: [Subject]) {
    self.name = name
    self.subjects = subjects
    self.missing = missing
  }
}
