// SPDX-License-Identifier: Apache-2.0

/// Where a deadline stands, and which of several movers moves it next. Pure: no lock, no timer, no clock.
///
/// A mover looks first, and works out the new moment without a lock, since a clock of the user's may do that. If another
/// mover came in between, it looks again: so two that extend a deadline extend it by both.
struct DeadlineStateMachine<Moment> {
  /// When the time is up, or was.
  private(set) var moment: Moment
  private(set) var phase = Phase.ahead
  /// How often it was moved.
  private var moves = 0

  enum Phase {
    /// The time was not up when it was last looked at: the timer decides.
    case ahead
    /// The time is up.
    case passed
    /// Its owner needs it no more.
    case over
  }

  init(_ moment: Moment) {
    self.moment = moment
  }

  /// It begins. Before a mover knows of it.
  mutating func begin(at moment: Moment) {
    self.moment = moment
  }

  /// What a mover has seen.
  struct Look {
    let moment: Moment
    fileprivate let moves: Int
  }

  /// A mover looks where it stands; `nil`: there is nothing to move any more.
  var look: Look? { phase == .ahead ? Look(moment: moment, moves: moves) : nil }

  enum MoveAction {
    /// This mover is the first: it takes the timer back, and says how that went by `moved(to:)`, or `foundPassed()`.
    case takeTimerBack
    /// Another mover came first.
    case lookAgain
    case tooLate
  }

  /// A mover knows the new moment.
  func move(since look: Look) -> MoveAction {
    guard phase == .ahead else { return .tooLate }
    return look.moves == moves ? .takeTimerBack : .lookAgain
  }

  /// The timer was taken back before the time was up.
  ///
  /// - Returns: the moment of before.
  mutating func moved(to moment: Moment) -> Moment {
    moves += 1
    defer { self.moment = moment }
    return self.moment
  }

  /// The timer could not be taken back: the time is up.
  mutating func foundPassed() {
    if phase == .ahead { phase = .passed }
  }

  enum EndAction {
    /// The timer is to be taken back.
    case takeTimerBack
    case nothing
  }

  /// Its owner needs it no more.
  mutating func end() -> EndAction {
    defer { phase = .over }
    return phase == .ahead ? .takeTimerBack : .nothing
  }
}
