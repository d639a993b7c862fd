// SPDX-License-Identifier: Apache-2.0

/// Runs a body by one schedule after another until one fails; that one is made shorter.
struct Explorer {
  let options: ExplorationOptions
  let body: () throws -> Void
  private(set) var report = ExplorationReport()

  init(_ options: ExplorationOptions, _ body: @escaping () throws -> Void) {
    self.options = options
    self.body = body
  }

  mutating func explore(seeds: Range<Int>, by strategy: ExplorationStrategy) throws {
    for number in seeds {
      let seed = UInt64(bitPattern: Int64(number))
      let source: any ScheduleSource
      switch strategy {
      case .random: source = RandomSource(seed: seed)
      case .pct(let depth): source = PrioritySource(seed: seed, depth: depth)
      case .mixed where seed.isMultiple(of: 2): source = RandomSource(seed: seed)
      case .mixed: source = PrioritySource(seed: seed, depth: 3)
      }
      try run(source, seed: number)
    }
  }

  mutating func explore(exhaustively bound: ExhaustiveBound, limit: Int) throws {
    let source = ExhaustiveSource(bound)
    while report.schedules < limit {
      try run(source, seed: nil)
      if !source.advance() {
        report.isComplete = true
        return
      }
    }
  }

  private mutating func run(_ source: any ScheduleSource, seed: Int?) throws {
    let result = once(source)
    report.schedules += 1
    report.longestSchedule = max(report.longestSchedule, result.decisions)
    guard let problem = result.problem else { return }
    throw failure(problem, result, run: report.schedules, seed: seed)
  }

  private func once(_ source: any ScheduleSource) -> TestRun.Result {
    let patience = TestRun.Patience(awaitsCallbacks: false, limit: .seconds(10), courtesy: .zero, grace: .zero)
    return TestRun(source, options, patience: patience).run(body)
  }

  /// - Returns: the failure with the shortest schedule that could be found.
  private func failure(
    _ problem: ScheduleProblem, _ result: TestRun.Result, run: Int, seed: Int?
  ) -> ScheduleFailure {
    var found = (problem: problem, choices: result.choices)
    func fails(by choices: [Int: Int]) -> Bool {
      let again = once(ReplaySource(choices))
      guard let other = again.problem, other.resembles(problem) else { return false }
      found = (other, again.choices)
      return true
    }
    let isRepeatable = !result.hadHelp && fails(by: result.choices)
    // One that waits in real time does so each time.
    if isRepeatable, options.shrinks, !result.hasWaited { ScheduleShrinker.shrink(from: { found.choices }, fails) }
    return ScheduleFailure(
      found.problem, Schedule(found.choices, options), run: run, seed: seed, isRepeatable: isRepeatable)
  }

  /// Runs the body by a schedule that is known.
  mutating func replay(_ choices: [Int: Int]) throws {
    let source = ReplaySource(choices)
    let result = once(source)
    report.schedules = 1
    report.longestSchedule = result.decisions
    if source.isForeign || choices.keys.contains(where: { $0 >= result.decisions }) {
      throw ForeignSchedule(problem: result.problem.map { "\($0.kind)" })
    }
    guard let problem = result.problem else { return }
    throw ScheduleFailure(
      problem, Schedule(result.choices, options), run: 1, seed: nil, isRepeatable: !result.hadHelp)
  }
}

/// A schedule asks for decisions that the body did not come to: it was found with another body.
public struct ForeignSchedule: Error, CustomStringConvertible {
  /// What the run failed by nevertheless, if it did.
  let problem: String?

  public var description: String {
    "the schedule is not one of this body, which has changed or depends on chance"
      + (problem.map { " (the run failed nevertheless: \($0))" } ?? "")
  }
}

/// What is run.
enum Exploration: Sendable {
  case seeds(Range<Int>, ExplorationStrategy)
  case exhaustively(ExhaustiveBound, limit: Int)
  case replay(String)
}

@discardableResult
func explore(
  _ exploration: Exploration, _ options: ExplorationOptions, _ body: @escaping () throws -> Void
) throws -> ExplorationReport {
  requireOutside(of: "explore")
  ExplorationPlan.current?.use?.note()
  var options = options
  switch exploration {
  case .seeds(let seeds, let strategy):
    var explorer = Explorer(options, body)
    try explorer.explore(seeds: seeds, by: strategy)
    return explorer.report
  case .exhaustively(let bound, let limit):
    var explorer = Explorer(options, body)
    try explorer.explore(exhaustively: bound, limit: limit)
    return explorer.report
  case .replay(let text):
    guard let schedule = Schedule(text: text) else { fatalError("not a schedule: \"\(text)\"") }
    options.preemption = schedule.preemption
    options.time = schedule.time
    var explorer = Explorer(options, body)
    try explorer.replay(schedule.choices)
    return explorer.report
  }
}
