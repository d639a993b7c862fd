import Coroutine
import CoroutineTestSupport
import CoroutineTesting
import Testing

// How operations are interrupted at each possible moment, and how a table of them drives a test.

/// What ends an operation from outside.
enum Interruption: CaseIterable, Sendable {
  case cancel
  case timeout
}

/// Which moments are tried.
enum Moments: Sendable {
  /// Those of all schedules with at most so many preemptions.
  case all(preemptions: Int)
  /// Those of so many schedules by chance: for what has too many, or endlessly many.
  case some(seeds: Int)

  /// Where a coroutine waits for a task that does the same: there are more schedules then.
  var ofTask: Self {
    switch self {
    case .all(let preemptions): .all(preemptions: max(0, preemptions - 1))
    case .some: self
    }
  }
}

/// How a victim may end.
enum VictimEnd: Sendable {
  case done
  /// It was cancelled while it waited, or its time was up. (Cancelled before it waits anything may end: that is no test of
  /// its wait, and does not count.)
  case interrupted
}

typealias Victim = Coroutine<Bool, any Error>

/// Runs the body by many schedules. The body gets a function that launches an operation, which is interrupted. The result
/// is whether the operation was done.
///
/// These have to be all schedules within the bound. The operation has to end in each way that is possible, by one
/// schedule at least: otherwise nothing was tried.
func exploreInterruptions(
  by interruption: Interruption, _ moments: Moments = .all(preemptions: 2),
  ends: Set<VictimEnd> = [.done, .interrupted],
  anytime: Bool = false, sourceLocation: SourceLocation = #_sourceLocation,
  _ body: @escaping (_ victim: (@escaping @Sendable () throws -> Void) -> Victim) throws -> Void
) throws {
  // How many victims of the exploration ended how.
  let ended = Unlocked<[VictimEnd: Int]>([:])
  let run: () throws -> Void = {
    try body { operation in
      let isWaiting = Unlocked(interruption == .timeout)
      let victim = Victim(name: "victim") {
        do {
          switch interruption {
          case .cancel: try operation()
          case .timeout: try withTimeout(.seconds(1)) { try operation() }
          }
          ended.value[.done, default: 0] += 1
          return true
        } catch is CancellationError {
          if isWaiting.value { ended.value[.interrupted, default: 0] += 1 }
        } catch is TimeoutError { ended.value[.interrupted, default: 0] += 1 }
        return false
      }
      if interruption == .cancel {
        Coroutine(name: "canceller") {
          isWaiting.value = victim.state == .suspended
          victim.cancel()
        }
      }
      return victim
    }
  }
  let options = ExplorationOptions(time: interruption == .timeout || anytime ? .anytime : .whenIdle)
  switch moments {
  case .all(let preemptions):
    let report = try explore(
      exhaustively: .preemptions(atMost: preemptions), limit: amount(20_000, sanitized: 100), options: options, run)
    #expect(report.isComplete || isSanitized, sourceLocation: sourceLocation)
  case .some(let seeds):
    try explore(seeds: 0..<amount(seeds, sanitized: min(seeds, 100)), options: options, run)
  }
  // The first schedules of an exhaustive search are alike.
  guard !isSanitized else { return }
  for end in ends { #expect(ended.value[end] != nil, "\(end)", sourceLocation: sourceLocation) }
}

/// Whether the victim has done its operation. A victim that was cancelled before it began has not.
func wasDone(_ victim: Victim) throws -> Bool {
  do { return try victim.get() } catch is CancellationError { return false }
}

func require(_ condition: Bool, line: Int = #line) throws {
  if !condition { throw Broken(line: line) }
}

struct Broken: Error {
  let line: Int
}

// MARK: - Tables

/// One run of an operation that is interrupted: made anew for each schedule.
struct Trial {
  let operation: @Sendable () throws -> Void
  let taskOperation: (@Sendable () async throws -> Void)?
  let meanwhile: () throws -> Void
  let afterwards: (_ isDone: Bool) throws -> Void

  /// - Parameters:
  ///   - operation: what the victim does.
  ///   - inTask: the same in `async` code.
  ///   - meanwhile: what the body does beside it.
  ///   - afterwards: what must hold when the victim has ended; throws otherwise.
  init(
    _ operation: @escaping @Sendable () throws -> Void, inTask: (@Sendable () async throws -> Void)? = nil,
    meanwhile: @escaping () throws -> Void = {}, afterwards: @escaping (_ isDone: Bool) throws -> Void
  ) {
    self.operation = operation
    self.taskOperation = inTask
    self.meanwhile = meanwhile
    self.afterwards = afterwards
  }
}

/// A row of a table: an operation, and what must hold when it has been interrupted.
struct InterruptedOperation: Sendable {
  let name: String
  let moments: Moments
  let ends: Set<VictimEnd>
  let anytime: Bool
  let hasTaskForm: Bool
  let make: @Sendable () throws -> Trial

  /// - Parameters:
  ///   - name: what it is called in reports.
  ///   - moments: which are tried.
  ///   - ends: how it may end, both by a cancel and by a timeout, whatever other threads do.
  ///   - anytime: whether the time passes at any moment also where the victim is cancelled: for what waits for the time.
  ///   - inTask: whether the trial has a form for `async` code.
  init(
    _ name: String, _ moments: Moments = .all(preemptions: 2), ends: Set<VictimEnd> = [.done, .interrupted],
    anytime: Bool = false, inTask: Bool = false, _ make: @escaping @Sendable () throws -> Trial
  ) {
    self.name = name
    self.moments = moments
    self.ends = ends
    self.anytime = anytime
    self.hasTaskForm = inTask
    self.make = make
  }
}

/// A row, with what interrupts its operation: an argument of a test.
struct InterruptedCase: Sendable, CustomTestStringConvertible {
  let operation: InterruptedOperation
  let interruption: Interruption
  /// The victim is a task, which a cancelled coroutine cancels.
  let isTask: Bool

  var testDescription: String { "\(operation.name), \(isTask ? "a task's " : "")\(interruption)" }

  /// All of a table.
  static func all(of table: [InterruptedOperation]) -> [Self] {
    table.flatMap { operation in
      (operation.hasTaskForm ? [false, true] : [false]).flatMap { isTask in
        Interruption.allCases.map { Self(operation: operation, interruption: $0, isTask: isTask) }
      }
    }
  }

  func explore() throws {
    let make = operation.make
    try exploreInterruptions(
      by: interruption, isTask ? operation.moments.ofTask : operation.moments, ends: operation.ends,
      anytime: operation.anytime
    ) { launch in
      let trial = try make()
      let victim: Victim
      if isTask {
        guard let operation = trial.taskOperation else { throw Broken(line: #line) }
        victim = launch { try Coroutine.await(operation) }
      } else {
        victim = launch(trial.operation)
      }
      try trial.meanwhile()
      try trial.afterwards(try wasDone(victim))
    }
  }
}
