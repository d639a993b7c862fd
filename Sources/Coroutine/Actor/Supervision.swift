// SPDX-License-Identifier: Apache-2.0

/// What happens to an actor that fails, as its parent, or a `Supervisor`, decides.
///
/// ```swift
/// let policy = Supervision(.oneForOne, restarts: 3, within: .seconds(10)) { error in
///   error is ParseError ? .resume : .restart
/// }
/// ```
public struct Supervision: Sendable {
  /// What to do about a failure.
  public enum Directive: Sendable {
    /// Go on with the next message, with the state as it is. Possible where a message is handled by
    /// `Mailbox.handleEach(_:)`, or by an actor made with a state. For a body that has thrown, and so lost its
    /// variables, it means `restart`.
    case resume
    /// Run the body again, which makes a new state, when the actor's children have ended. The messages in the mailbox stay
    /// there: a child that asks its parent in its cleanup, shielded from the cancel, would wait for ever.
    case restart
    /// End the actor.
    case stop
    /// End the actor, and fail instead of it: it is the parent's failure now.
    case escalate
  }

  /// The actors that a directive concerns.
  public enum Strategy: Sendable {
    /// The one that failed.
    case oneForOne
    /// All of the supervisor's actors, if it is `restart` or `stop`: for actors that depend on each other's state. Each is
    /// interrupted, and starts again as soon as its body has ended; or is cancelled, and none waits for another.
    case oneForAll
    /// The one that failed, and those that its supervisor has launched after it, if it is `restart` or `stop`: for actors
    /// of which each depends on those before it. They start again as with `oneForAll`.
    case restForOne
  }

  let strategy: Strategy
  let limit: Int
  let window: Duration
  let beyondLimit: Directive
  let decide: @Sendable (any Error) -> Directive

  /// A policy.
  ///
  /// - Parameters:
  ///   - strategy: the actors that a directive concerns.
  ///   - limit: how many failures within `window` are answered by starting again: of each actor with `.oneForOne`, of all
  ///     together otherwise; `nil`: all of them. One that fails before
  ///     it or a child has taken a message, by an error of its own or one that a child has escalated, is started again 10
  ///     times in a row at most.
  ///   - window: the time that counts for `limit`; `.seconds(.max)`: ever.
  ///   - beyondLimit: what happens to the failure after that, and after those 10 starts: `.stop` or `.escalate`; others trap.
  ///   - decide: what to do about an error. Called on the coroutine that failed, not under a lock; must not suspend. Without
  ///     one: start again.
  public init(
    _ strategy: Strategy = .oneForOne, restarts limit: Int? = nil, within window: Duration = .seconds(1),
    beyondLimit: Directive = .stop, decide: @escaping @Sendable (any Error) -> Directive = { _ in .restart }
  ) {
    require(limit ?? 0 >= 0, "Supervision(restarts: \(limit ?? 0)): a limit can't be negative")
    require(window >= .zero, "Supervision(within: \(window)): a time can't be negative")
    require(
      beyondLimit == .stop || beyondLimit == .escalate,
      "Supervision(beyondLimit: .\(beyondLimit)): beyond the limit of restarts use .stop or .escalate")
    self.strategy = strategy
    self.limit = limit ?? .max
    self.window = window
    self.beyondLimit = beyondLimit
    self.decide = decide
  }

  /// Ends the actor that fails.
  public static var stopping: Supervision { Supervision { _ in .stop } }
}
