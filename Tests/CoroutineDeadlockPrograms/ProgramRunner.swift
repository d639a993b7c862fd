import Context
import Coroutine
import CoroutineDebug

/// Runs the programs one after the other, while the detector watches.
enum ProgramRunner {
  private static let lock = Lock()
  // Both guarded by the lock.
  nonisolated(unsafe) private static var context: ProgramContext?
  nonisolated(unsafe) private static var reports: [DeadlockReport] = []

  private static func open() throws {
    try DeadlockDetector.start(every: .milliseconds(2)) { report in
      let context = lock.withLock {
        reports.append(report)
        return self.context
      }
      context?.rescue()
    }
  }

  /// Runs one program until it ends or was rescued. Returns what the detector found.
  private static func run(
    isLeaky: Bool = false, _ body: @escaping @Sendable (ProgramContext) throws -> Void
  ) throws -> (reports: [DeadlockReport], error: (any Error)?) {
    let context = ProgramContext()
    lock.withLock {
      self.context = context
      reports = []
    }
    // What earlier programs have leaked.
    let leftovers = Set(try CoroutineDump.capture().coroutines.map(\.id))
    var failure: (any Error)?
    do {
      try runUntilComplete(name: "main") {
        defer {
          // Everything has to end here: a leftover would run on a Dispatch queue, whose threads have a timer.
          if !isLeaky {
            context.rescue()
            while Inspection.liveCount > leftovers.count + 1 { Coroutine.yield() }
          }
        }
        context.enlist()
        try body(context)
      }
    } catch {
      failure = error
    }
    lock.withLock { self.context = nil }
    let leak = isLeaky ? try DeadlockDetector.findLeaks(timeout: .seconds(60)) { leftovers.contains($0.id) } : nil
    return (lock.withLock { reports } + (leak.map { [$0] } ?? []), failure)
  }

  /// Prints each fault that the detector did not find as expected. Returns whether there was none.
  static func run(_ programs: [FaultyProgram], shows: Bool) throws -> Bool {
    try open()
    var isRight = true
    for program in programs {
      let isLeaky = if case .leak = program.verdict { true } else { false }
      let (reports, error) = try run(isLeaky: isLeaky, program.body)
      var verdicts = reports.map { FaultyProgram.Verdict($0) }
      if let error, reports.isEmpty { verdicts = [.error("\(type(of: error))")] }
      if shows {
        let found = reports.isEmpty ? "\(error.map { "\($0)" } ?? "nothing")" : reports.map { "\($0)" }.joined()
        print("# \(program.name)\n\n\(found)\n")
      }
      // Of one that blocks its thread, too, it is told where it stands.
      let isWhereTold = reports.allSatisfy { report in
        report.coroutines.allSatisfy { $0.state != .running || $0.frames.contains { !$0.isRuntime } }
      }
      guard verdicts != [program.verdict] || !isWhereTold else { continue }
      isRight = false
      print("\(program.name): \(program.verdict) expected, \(verdicts) found\n\(reports)")
    }
    return isRight
  }

  /// Prints what the detector reported, or went wrong. Returns whether there was nothing.
  static func run(_ programs: [HealthyProgram]) throws -> Bool {
    try open()
    var isRight = true
    for program in programs {
      let (reports, error) = try run(program.body)
      guard !reports.isEmpty || error != nil else { continue }
      isRight = false
      print("\(program.name): \(error.map { "\($0)" } ?? "no error")\n\(reports)")
    }
    return isRight
  }
}
