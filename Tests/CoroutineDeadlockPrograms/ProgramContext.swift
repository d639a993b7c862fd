import Context
import Coroutine
import CoroutineDebug

/// What one program of the suite runs in. It knows the program's coroutines, so that it can end a program that hangs.
final class ProgramContext: Sendable {
  private let lock = Lock()
  // All guarded by the lock.
  nonisolated(unsafe) private var cores: [CoroutineCore] = []
  nonisolated(unsafe) private var launched: [Coroutine<Void, any Error>] = []
  nonisolated(unsafe) private var rescues: [@Sendable () -> Void] = []

  /// Adds the calling coroutine to the program's.
  func enlist() {
    let core = CoroutineCore.running(for: "enlist()")
    lock.withLock { cores.append(core) }
  }

  /// Starts a coroutine where the caller runs, or on `pool`.
  @discardableResult
  func launch(
    _ name: String, on pool: ThreadPool? = nil, _ body: @escaping @Sendable () throws -> Void
  ) -> Coroutine<Void, any Error> {
    let enlisting: @Sendable () throws -> Void = { [self] in
      enlist()
      try body()
    }
    let coroutine =
      if let pool { Coroutine(on: pool, name: name, enlisting) } else { Coroutine(name: name, enlisting) }
    lock.withLock { launched.append(coroutine) }
    return coroutine
  }

  /// Waits for all coroutines that were launched.
  func joinAll() throws {
    for coroutine in lock.withLock({ launched }) { try coroutine.join() }
  }

  /// Adds what ends the program, beside the cancellation of its coroutines.
  func onRescue(_ rescue: @escaping @Sendable () -> Void) {
    lock.withLock { rescues.append(rescue) }
  }

  /// Ends the program.
  func rescue() {
    let (cores, rescues) = lock.withLock { (self.cores, self.rescues) }
    for rescue in rescues { rescue() }
    // The last one first, so that the coroutine that runs the program ends last.
    for core in cores.reversed() { core.cancel(reason: nil) }
  }
}

/// A program with a fault, and what the detector should find.
struct FaultyProgram: Sendable {
  enum Verdict: Equatable, Sendable {
    /// The names of the coroutines that wait for each other, in order.
    case cycle([String])
    /// The name of the coroutine that is suspended where a variable is initialised.
    case initialiser([String])
    /// The names of the coroutines that are left when nothing can go on.
    case standstill([String])
    /// The names of the coroutines that are left when the program has ended.
    case leak([String])
    /// The error that the runtime throws instead of waiting.
    case error(String)
  }

  let name: String
  let verdict: Verdict
  let body: @Sendable (ProgramContext) throws -> Void

  init(_ name: String, _ verdict: Verdict, _ body: @escaping @Sendable (ProgramContext) throws -> Void) {
    (self.name, self.verdict, self.body) = (name, verdict, body)
  }
}

/// A program without a fault that looks like a faulty one.
struct HealthyProgram: Sendable {
  let name: String
  let body: @Sendable (ProgramContext) throws -> Void

  init(_ name: String, _ body: @escaping @Sendable (ProgramContext) throws -> Void) {
    (self.name, self.body) = (name, body)
  }
}

extension FaultyProgram.Verdict {
  init(_ report: DeadlockReport) {
    let names = report.coroutines.map(\.name)
    switch report.kind {
    case .cycle: self = .cycle(names)
    case .initialiser: self = .initialiser(names)
    case .standstill: self = .standstill(names)
    case .leak: self = .leak(names)
    }
  }
}
