// SPDX-License-Identifier: Apache-2.0

/// What a supervisor does about one failure after another. Pure: no lock, no clock.
struct SupervisionStateMachine {
  private let strategy: Supervision.Strategy
  private let limit: Int
  /// Nanoseconds.
  private let window: UInt64
  private let beyondLimit: Supervision.Directive
  /// When it has started actors again, oldest first. Those before `firstThatCounts` are out of the window.
  private(set) var restarts: [UInt64] = []
  private var firstThatCounts = 0

  init(_ policy: Supervision) {
    strategy = policy.strategy
    limit = policy.limit
    window = policy.window.nanosecondsRoundedUp
    beyondLimit = policy.beyondLimit
  }

  struct Decision: Equatable {
    let directive: Supervision.Directive
    let others: Others
  }

  /// The other actors that a directive concerns.
  enum Others {
    case none, all
    /// Those that were launched after it.
    case later
  }

  /// An actor has failed, `now`, for which the policy says `directive`.
  mutating func failed(_ directive: Supervision.Directive, at now: UInt64) -> Decision {
    var directive = directive
    if directive == .restart, limit != .max {
      forgetRestarts(at: now)
      if restarts.count - firstThatCounts < limit { restarts.append(now) } else { directive = beyondLimit }
    }
    guard directive == .restart || directive == .stop else { return Decision(directive: directive, others: .none) }
    switch strategy {
    case .oneForOne: return Decision(directive: directive, others: .none)
    case .oneForAll: return Decision(directive: directive, others: .all)
    case .restForOne: return Decision(directive: directive, others: .later)
    }
  }

  /// Constant time on average: half of the list goes at once.
  private mutating func forgetRestarts(at now: UInt64) {
    while firstThatCounts < restarts.count, restarts[firstThatCounts].addingSaturated(window) <= now {
      firstThatCounts += 1
    }
    guard firstThatCounts > restarts.count / 2 else { return }
    restarts.removeFirst(firstThatCounts)
    firstThatCounts = 0
  }
}
