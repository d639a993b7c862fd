import Context
import Coroutine

/// What is wrong on purpose in a run, to see that it is found.
enum Defect: String, CaseIterable, Sendable {
  /// A receiver that is cancelled takes an element with it.
  case losesOnCancel
  /// An element is received twice.
  case deliversTwice
  /// An element overtakes the one before it.
  case reorders
  /// A receiver waits where no sender looks for it.
  case forgetsReceivers
  /// A close of a channel at which coroutines wait does not reach them.
  case forgetsClose
  /// A close throws away what is in the buffer.
  case losesAtClose
  /// A `trySend` gives back what it has sent.
  case givesBackWhatIsSent
  /// A `trySend` says that it has sent what did not fit.
  case losesWhenFull
  /// A send that takes its time says that it was cancelled.
  case cancelsWhatIsSent
  /// An element that was received is kept for ever.
  case keeps
  /// A mutex has several holders.
  case letsAllIn
  /// An acquirer that gives up has taken a permit.
  case losesPermits

  /// What is said where it is found. (It may do other harm before.)
  var finding: String {
    switch self {
    case .losesOnCancel, .losesAtClose, .losesWhenFull: "is lost"
    case .deliversTwice: "was received by worker"
    case .reorders: "element of worker"
    case .forgetsReceivers: "which knows of 0 receivers"
    case .forgetsClose: "no worker has gone on"
    case .givesBackWhatIsSent, .cancelsWhatIsSent: "came back to its sender, too"
    case .keeps: "are left over"
    case .letsAllIn: "workers hold the mutex"
    case .losesPermits: "permits are free"
    }
  }
}

/// A channel of a run, with a defect perhaps.
struct TestedChannel: Sendable {
  let channel: Channel<Token>
  private let defect: Defect?
  /// What a defect keeps for later.
  private let kept = Kept()
  /// Where a receiver waits that was forgotten.
  private let elsewhere = Channel<Token>()

  init(_ capacity: ChannelCapacity, _ number: Int, _ defect: Defect?) {
    channel = Channel(capacity: capacity, name: "\(number)")
    self.defect = defect
  }

  private final class Kept: @unchecked Sendable {
    private let lock = Lock()
    private var tokens: [Token] = []  // guarded by `lock`

    @inline(never) func put(_ token: Token) { lock.withLock { tokens.append(token) } }
    @inline(never) func take() -> Token? { lock.withLock { tokens.popLast() } }
  }

  func send(_ token: Token, within limit: Duration?) throws {
    try channel.send(token, timeout: limit)
    if defect == .cancelsWhatIsSent, token.order % 4 == 3 { throw CancellationError() }
  }

  func offer(_ token: Token, within limit: Duration?) -> SendOutcome<Token> {
    channel.send(orReturn: token, timeout: limit)
  }

  func trySend(_ token: Token) -> SendResult<Token> {
    let result = channel.trySend(token)
    switch result {
    case .sent where defect == .givesBackWhatIsSent: return .full(token)
    case .full where defect == .losesWhenFull: return .sent
    default: return result
    }
  }

  func receive(within limit: Duration?) throws -> Token {
    if defect == .deliversTwice, let token = kept.take() { return token }
    if defect == .reorders, let token = kept.take() { return token }
    if defect == .forgetsReceivers {
      if case .received(let token) = channel.tryReceive() { return token }
      return try elsewhere.receive(timeout: limit)
    }
    let token: Token
    do {
      token = try channel.receive(timeout: limit)
    } catch is CancellationError {
      if defect == .losesOnCancel { _ = channel.tryReceive() }
      throw CancellationError()
    }
    if defect == .deliversTwice, token.order % 2 == 1 { kept.put(token) }
    if defect == .keeps { KeptForEver.tokens.put(token) }
    if defect == .reorders, case .received(let next) = channel.tryReceive() {
      kept.put(token)
      return next
    }
    return token
  }

  private enum KeptForEver {
    static let tokens = Kept()
  }

  func tryReceive() -> ReceiveResult<Token> {
    if defect == .reorders, let token = kept.take() { return .received(token) }
    return channel.tryReceive()
  }

  func close() -> Bool {
    if defect == .forgetsClose, channel.waitingReceiverCount > 0 { return true }
    let isFirst = channel.close()
    if defect == .losesAtClose { _ = channel.tryReceive() }
    return isFirst
  }
}

/// What a mutex guards.
// Unchecked: the mutex lets one coroutine at a time in, unless it has a defect; then the run has one thread.
final class Guarded: @unchecked Sendable {
  var count = 0
}

/// The mutex of a run, with a defect perhaps.
struct TestedMutex: Sendable {
  private let guarded: Guarded
  private let mutex: CoroutineMutex<Guarded>
  private let defect: Defect?

  init(_ defect: Defect?) {
    guarded = Guarded()
    mutex = CoroutineMutex(guarded)
    self.defect = defect
  }

  func withLock(_ body: (Guarded) throws -> Void) throws {
    if defect == .letsAllIn { return try body(guarded) }
    try mutex.withLock { try body($0) }
  }

  /// When no worker holds it any more.
  var count: Int? { mutex.withLockIfAvailable { $0.count } }
}

/// The semaphore of a run, with a defect perhaps.
struct TestedSemaphore: Sendable {
  let semaphore: Semaphore
  private let defect: Defect?

  init(permits: Int, _ defect: Defect?) {
    semaphore = Semaphore(permits: permits)
    self.defect = defect
  }

  func withPermit(_ body: () throws -> Void) throws {
    var isAcquired = false
    do {
      try semaphore.withPermit {
        isAcquired = true
        try body()
      }
    } catch is CancellationError {
      if defect == .losesPermits, !isAcquired { _ = semaphore.tryAcquire() }
      throw CancellationError()
    }
  }
}
