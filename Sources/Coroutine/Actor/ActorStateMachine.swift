// SPDX-License-Identifier: Apache-2.0

/// How an actor has ended.
public enum ActorEnd: Sendable {
  /// Its body returned: of its own accord, or because no handle was left that could send to it.
  case finished
  /// It was cancelled, or stopped with its parent or by its supervisor.
  case cancelled
  /// It failed, and was not started again.
  case failed(any Error)
}

extension ActorEnd: CustomStringConvertible {
  public var description: String {
    switch self {
    case .finished: "finished"
    case .cancelled: "cancelled"
    case .failed(let error): "failed: \(error)"
    }
  }
}

/// Decides about an actor's next run, and how the actor ends. Pure: no lock, no switch.
///
/// An actor runs its body, perhaps several times; meanwhile others may request that it stops, starts again, or fails with
/// an error that one of its children has escalated. The strongest request counts, when the body has ended.
struct ActorStateMachine {
  /// A request to a running actor. From the weakest to the strongest.
  enum Request {
    case restart
    case fail(any Error)
    case stop

    fileprivate var strength: Int {
      switch self {
      case .restart: 1
      case .fail: 2
      case .stop: 3
      }
    }
  }

  private(set) var request: Request?
  private(set) var end: ActorEnd?
  private(set) var isRunning = false
  /// Whether the body has taken a message since it was started.
  private(set) var hasTakenMessage = false
  /// How often in a row it has failed, by an error of its own or of a child, without a message that it or a child has taken.
  private(set) var failedStarts = 0

  /// Whether a stop was requested before it had ended.
  var isStopped: Bool { if case .stop = request { true } else { false } }

  /// A request comes.
  ///
  /// - Returns: whether to interrupt the body: it runs, and no request came before; and the request that does not count, this one
  ///   or the one before. Its error may be the last copy, so it is let go of without a lock.
  mutating func request(_ new: Request) -> (interrupts: Bool, outdone: Request?) {
    guard end == nil, new.strength > request?.strength ?? 0 else { return (false, new) }
    let old = request
    request = new
    return (isRunning && old == nil, old)
  }

  /// The body is about to be run. Returns whether it may: not if the actor has to end first.
  mutating func begin() -> Bool {
    switch request {
    case .stop, .fail: return false
    case .restart, nil: break
    }
    request = nil
    isRunning = true
    hasTakenMessage = false
    return true
  }

  /// The body takes its first message.
  mutating func noteMessage() {
    hasTakenMessage = true
    noteProgress()
  }

  /// It was started for something: a child has taken a message.
  mutating func noteProgress() { failedStarts = 0 }

  enum Outcome {
    /// Run the body again.
    case restart
    case end(ActorEnd)
    /// Ask the supervisor about a failure: the body's own, or the error that a child has escalated.
    case judge(any Error, isEscalated: Bool, mayRestart: Bool)
  }

  /// The body has ended, or was not begun.
  mutating func bodyEnded(_ failure: (any Error)?) -> Outcome {
    // A run counts once, though another child may escalate what keeps the next one from beginning.
    let isFailedStart = isRunning && !hasTakenMessage
    isRunning = false
    switch request {
    case .stop: return .end(.cancelled)
    case .restart: return .restart
    case .fail(let error):
      request = nil
      // The child may fail at its start, in each run again.
      if isFailedStart { failedStarts += 1 }
      return .judge(error, isEscalated: true, mayRestart: failedStarts <= Self.startAttempts)
    case nil:
      guard let failure else { return .end(.finished) }
      if isFailedStart { failedStarts += 1 }
      return .judge(failure, isEscalated: false, mayRestart: failedStarts <= Self.startAttempts)
    }
  }

  /// The actor has ended.
  ///
  /// - Returns: the error that a child has escalated behind the end of the body, while the children were stopped: it decides
  ///   about nothing any more. It may be the last copy, so it is let go of without a lock.
  mutating func finish(_ end: ActorEnd) -> (any Error)? {
    self.end = end
    guard case .fail(let error)? = request else { return nil }
    request = nil
    return error
  }

  /// One that fails, or one of whose children fails, before it takes a message would be started again and again, with nothing
  /// ever gained.
  static var startAttempts: Int { 10 }
}
