// SPDX-License-Identifier: Apache-2.0

/// A run went wrong: what happened, and the schedule that leads to it.
///
/// Its description ends with the line that repeats it:
///
///     deadlock: no coroutine can go on (run 14, seed 13)
///       coroutine 1 "body": the end of coroutine 2 "left"
///       coroutine 2 "left": mutex "a", held by coroutine 3 "right"
///       coroutine 3 "right": mutex "b", held by coroutine 2 "left"
///     replay("1:1 2:2 6:1")
///
/// The numbers are those of the run, in the order of the launches.
public struct ScheduleFailure: Error, Sendable {
  /// What a run can fail by.
  public enum Kind: String, Hashable, Sendable {
    /// The body has not ended, and no coroutine can go on.
    case deadlock
    /// The body has ended, and others wait for what never comes. (Its time stands still then: a sleeping coroutine is
    /// one of them.)
    case leftOver
    /// The body has thrown: `error`.
    case thrown
    /// Another coroutine, or a generator, has thrown an error that no caller got: `error`.
    case unhandledError
    /// An expectation of Swift Testing's has failed, in a test with the trait for it.
    case expectation
    /// It has taken more turns than `ExplorationOptions.turnLimit`.
    case endless
  }

  /// What it failed by.
  public let kind: Kind
  /// What was thrown, if that is how it failed.
  public let error: (any Error)?
  /// What `replay` takes.
  public let schedule: String
  /// Those that had not ended, and what they waited for.
  public let waiting: [String]
  /// Which run it was, counted from 1.
  public internal(set) var run: Int
  /// With which seed, if it was one of `explore(seeds:)`.
  public internal(set) var seed: Int?
  /// Whether another run by the same schedule failed in the same way. If not, or if none was tried, since other threads had a
  /// part in this one, the body depends on something else: those, the real time, the order of a `Set`.
  public let isRepeatable: Bool

  let text: String

  init(_ problem: ScheduleProblem, _ schedule: Schedule, run: Int, seed: Int?, isRepeatable: Bool) {
    kind = problem.kind
    error = problem.error
    text = problem.text
    waiting = problem.waiting
    self.schedule = schedule.text
    self.run = run
    self.seed = seed
    self.isRepeatable = isRepeatable
  }
}

extension ScheduleFailure: CustomStringConvertible {
  public var description: String {
    var lines = ["\(heading) (run \(run)\(seed.map { ", seed \($0)" } ?? ""))"]
    lines += waiting.map { "  " + $0 }
    if !isRepeatable {
      lines.append(
        "  The same schedule need not fail again: the body depends on other threads, on the real time, or on chance.")
    }
    lines.append("replay(\"\(schedule)\")")
    return lines.joined(separator: "\n")
  }

  private var heading: String {
    switch kind {
    case .deadlock: "deadlock: no coroutine can go on"
    case .leftOver: "left over: the body has ended, and these wait"
    case .thrown: "the body threw \(error.map { "\($0)" } ?? "an error")"
    case .unhandledError: "\(text): no caller handled the error: \(error.map { "\($0)" } ?? "")"
    case .expectation: text
    case .endless: "no end after as many turns as are allowed"
    }
  }
}

/// The same without its schedule.
struct ScheduleProblem: Sendable {
  let kind: ScheduleFailure.Kind
  var error: (any Error)?
  var text = ""
  let waiting: [String]

  /// Whether it is taken for the same bug.
  func resembles(_ other: ScheduleProblem) -> Bool {
    guard kind == other.kind else { return false }
    guard let error, let otherError = other.error else { return true }
    return type(of: error) == type(of: otherError)
  }
}
