// Sequential specifications of the runtime's primitives. A cancelled operation has no effect, where nothing else is said.

/// A channel. Without a buffer it holds an element for as long as its sender and its receiver take to pass it on.
struct QueueModel: DeterministicSpecification {
  enum Operation: Hashable, Sendable {
    case send(Int)
    case receive
    case trySend(Int)
    case tryReceive, close
  }

  enum Outcome: Hashable, Sendable {
    case sent
    case value(Int)
    case full, empty, closed
    case wasFirst(Bool)
  }

  let capacity: Int
  private var elements: [Int] = []
  private var isClosed = false

  init(capacity: Int) { self.capacity = capacity }

  mutating func apply(_ operation: Operation, _ outcome: Outcome) -> Bool {
    switch (operation, outcome) {
    case (.send(let value), .sent), (.trySend(let value), .sent):
      guard !isClosed, elements.count < max(capacity, 1) else { return false }
      elements.append(value)
      return true
    case (.trySend, .full): return !isClosed && elements.count >= capacity
    case (.send, .closed), (.trySend, .closed): return isClosed
    case (.receive, .value(let value)), (.tryReceive, .value(let value)):
      guard elements.first == value else { return false }
      elements.removeFirst()
      return true
    case (.tryReceive, .empty): return elements.isEmpty && !isClosed
    case (.receive, .closed), (.tryReceive, .closed): return elements.isEmpty && isClosed
    case (.close, .wasFirst(let isFirst)):
      defer { isClosed = true }
      return isFirst == !isClosed
    default: return false
    }
  }

  func mayWait(_ operations: [Operation]) -> Bool {
    let receivers = operations.count { $0 == .receive }
    let senders = operations.count { if case .send = $0 { true } else { false } }
    guard receivers + senders == operations.count, !isClosed else { return operations.isEmpty }
    return (receivers == 0 || senders == 0 && elements.isEmpty) && (senders == 0 || elements.count >= capacity)
  }
}

/// Two channels, and selects on both.
struct TwoQueuesModel: DeterministicSpecification {
  enum Operation: Hashable, Sendable {
    case first(QueueModel.Operation)
    case second(QueueModel.Operation)
    case receiveEither
    /// By a select that does not wait.
    case tryReceiveEither
    case sendEither(Int)
    case receiveFirstOrSendSecond(Int)
  }

  enum Outcome: Hashable, Sendable {
    case first(QueueModel.Outcome)
    case second(QueueModel.Outcome)
    /// A select found one of them closed. It does not say which.
    case closed
    case neither
  }

  var first: QueueModel
  var second: QueueModel

  mutating func apply(_ operation: Operation, _ outcome: Outcome) -> Bool {
    switch (operation, outcome) {
    case (.first(let operation), .first(let outcome)): return first.apply(operation, outcome)
    case (.second(let operation), .second(let outcome)): return second.apply(operation, outcome)
    case (.tryReceiveEither, .neither):
      return first.apply(.tryReceive, .empty) && second.apply(.tryReceive, .empty)
    default: break
    }
    guard let (atFirst, atSecond) = cases(operation) else { return false }
    switch outcome {
    case .first(let outcome): return first.apply(atFirst, outcome)
    case .second(let outcome): return second.apply(atSecond, outcome)
    case .closed: return first.apply(atFirst, .closed) || second.apply(atSecond, .closed)
    case .neither: return false
    }
  }

  /// What a select does at each of the two.
  private func cases(_ operation: Operation) -> (QueueModel.Operation, QueueModel.Operation)? {
    switch operation {
    case .receiveEither, .tryReceiveEither: (.receive, .receive)
    case .sendEither(let value): (.send(value), .send(value))
    case .receiveFirstOrSendSecond(let value): (.receive, .send(value))
    case .first, .second: nil
    }
  }

  /// A select waits at both of them: neither may have something for it.
  func mayWait(_ operations: [Operation]) -> Bool {
    var (atFirst, atSecond): ([QueueModel.Operation], [QueueModel.Operation]) = ([], [])
    for operation in operations {
      switch operation {
      case .first(let operation): atFirst.append(operation)
      case .second(let operation): atSecond.append(operation)
      case .tryReceiveEither: return false
      default:
        guard let (one, other) = cases(operation) else { return false }
        atFirst.append(one)
        atSecond.append(other)
      }
    }
    return first.mayWait(atFirst) && second.mayWait(atSecond)
  }
}

struct PromiseModel: DeterministicSpecification {
  enum Operation: Hashable, Sendable {
    case fulfill(Int)
    case reject, get
  }

  enum Outcome: Hashable, Sendable {
    case wasFirst(Bool)
    case value(Int)
    case rejected
  }

  private var outcome: Outcome?

  init() {}

  mutating func apply(_ operation: Operation, _ outcome: Outcome) -> Bool {
    switch (operation, outcome) {
    case (.get, let outcome): return outcome == self.outcome
    case (.fulfill(let value), .wasFirst(let isFirst)): return settle(.value(value), isFirst)
    case (.reject, .wasFirst(let isFirst)): return settle(.rejected, isFirst)
    default: return false
    }
  }

  func mayWait(_ operations: [Operation]) -> Bool {
    outcome == nil && operations.allSatisfy { $0 == .get } || operations.isEmpty
  }

  private mutating func settle(_ outcome: Outcome, _ isFirst: Bool) -> Bool {
    defer { self.outcome = self.outcome ?? outcome }
    return isFirst == (self.outcome == nil)
  }
}

/// A number that can only be added to, with a mutex around it. The operation is the amount, the outcome is the number before
/// it. No holder keeps the mutex for ever: so none waits for ever.
struct CounterModel: DeterministicSpecification {
  typealias Operation = Int
  typealias Outcome = Int

  private var total = 0

  init() {}

  mutating func apply(_ number: Int, _ before: Int) -> Bool {
    guard before == total else { return false }
    total += number
    return true
  }

  func mayWait(_ operations: [Int]) -> Bool { operations.isEmpty }
}

/// Permits that are taken one at a time. One that comes back goes to the longest waiter at once: while one is free no worker waits,
/// so a `tryAcquire` gets it.
struct SemaphoreModel: DeterministicSpecification {
  enum Operation: Hashable, Sendable {
    case acquire, tryAcquire, release
  }

  typealias Outcome = Bool

  private var permits: Int

  init(permits: Int) { self.permits = permits }

  /// - Parameter done: whether it got a permit, or gave one.
  mutating func apply(_ operation: Operation, _ done: Bool) -> Bool {
    switch (operation, done) {
    case (.release, true):
      permits += 1
      return true
    case (.acquire, true), (.tryAcquire, true):
      guard permits > 0 else { return false }
      permits -= 1
      return true
    case (.tryAcquire, false): return permits == 0
    default: return false
    }
  }

  func mayWait(_ operations: [Operation]) -> Bool {
    permits == 0 && operations.allSatisfy { $0 == .acquire } || operations.isEmpty
  }
}

/// The two ends of a pipe, or of a pair of sockets that is used in one direction. Each end has one operation at a time, and
/// may be closed.
struct PipeModel: DeterministicSpecification {
  enum Operation: Hashable, Sendable {
    /// So many bytes of this value.
    case write(UInt8, Int)
    case tryWrite(UInt8, Int)
    case read(Int)
    case tryRead(Int)
    case waitUntilReadable, waitUntilWritable
    case closeReader, closeWriter
  }

  enum Outcome: Hashable, Sendable {
    case done
    case bytes([Run])
    /// There is nothing to read, or no room to write.
    case refused
    /// The other end is closed.
    case end, broken
    case closed
    /// Another coroutine is at it, in the same direction.
    case inUse
  }

  /// Bytes of the same value, one behind the other.
  struct Run: Hashable, Sendable {
    let value: UInt8
    var count: Int
  }

  /// How many bytes it holds at most. It may hold less: a page that is read in part has no room.
  let capacity: Int
  private var bytes: [Run] = []
  private var isReaderClosed = false
  private var isWriterClosed = false
  /// Whether the other end has heard of it. The kernel does when a close has woken those that wait at its own end.
  private var isReaderGone = false
  private var isWriterGone = false
  private var wasReadable = false

  init(capacity: Int) { self.capacity = capacity }

  private var count: Int { bytes.reduce(0) { $0 + $1.count } }

  static func runs(_ bytes: [UInt8]) -> [Run] {
    var runs: [Run] = []
    for byte in bytes { append(Run(value: byte, count: 1), to: &runs) }
    return runs
  }

  mutating func apply(_ operation: Operation, _ outcome: Outcome) -> Bool {
    switch (operation, outcome) {
    case (.write, .inUse), (.tryWrite, .inUse), (.read, .inUse), (.tryRead, .inUse): return true
    case (.write(let value, let more), .done), (.tryWrite(let value, let more), .done):
      guard !isReaderGone, !isWriterClosed, count + more <= capacity else { return false }
      Self.append(Run(value: value, count: more), to: &bytes)
      wasReadable = true
      return true
    case (.tryWrite, .refused): return !bytes.isEmpty && !isReaderGone && !isWriterClosed
    case (.write, .broken), (.tryWrite, .broken):
      isReaderGone = isReaderClosed
      return isReaderGone && !isWriterClosed
    case (.write, .closed), (.tryWrite, .closed), (.waitUntilWritable, .closed): return isWriterClosed
    case (.read(let most), .bytes(let some)), (.tryRead(let most), .bytes(let some)):
      return !isReaderClosed && !some.isEmpty && take(min(most, count)) == some
    case (.tryRead, .refused): return bytes.isEmpty && !isReaderClosed && !isWriterGone
    case (.read, .end), (.tryRead, .end):
      isWriterGone = isWriterClosed
      return bytes.isEmpty && !isReaderClosed && isWriterGone
    case (.read, .closed), (.tryRead, .closed), (.waitUntilReadable, .closed): return isReaderClosed
    // An event wakes all that wait. When one of them goes on, another may have read the bytes.
    case (.waitUntilReadable, .done): return wasReadable
    case (.waitUntilWritable, .done): return true
    case (.closeReader, .done):
      isReaderClosed = true
      return true
    case (.closeWriter, .done):
      (isWriterClosed, wasReadable) = (true, true)
      return true
    default: return false
    }
  }

  func mayWait(_ operations: [Operation]) -> Bool {
    operations.allSatisfy { operation in
      switch operation {
      case .read, .waitUntilReadable: bytes.isEmpty && !isReaderClosed && !isWriterClosed
      case .write, .waitUntilWritable: !bytes.isEmpty && !isReaderClosed && !isWriterClosed
      default: false
      }
    }
  }

  private static func append(_ run: Run, to runs: inout [Run]) {
    if runs.last?.value == run.value { runs[runs.count - 1].count += run.count } else { runs.append(run) }
  }

  private mutating func take(_ count: Int) -> [Run] {
    var (taken, rest) = ([Run](), count)
    while rest > 0 {
      let some = min(rest, bytes[0].count)
      taken.append(Run(value: bytes[0].value, count: some))
      bytes[0].count -= some
      if bytes[0].count == 0 { bytes.removeFirst() }
      rest -= some
    }
    return taken
  }
}
