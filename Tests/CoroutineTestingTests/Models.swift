// Sequential specifications of the runtime's primitives. A cancelled operation has no effect.

/// A channel. Without a buffer it holds an element for as long as its sender and its receiver take to pass it on.
struct QueueModel: SequentialSpecification {
  enum Operation: Hashable, Sendable {
    case send(Int)
    case receive
    case trySend(Int)
    case tryReceive, close
  }

  enum Outcome: Hashable, Sendable {
    case sent
    case value(Int)
    case full, empty, closed, cancelled
    case wasFirst(Bool)
  }

  let capacity: Int
  private var elements: [Int] = []
  private var isClosed = false

  init(capacity: Int) { self.capacity = capacity }

  mutating func apply(_ operation: Operation, _ outcome: Outcome) -> Bool {
    switch (operation, outcome) {
    case (.send, .cancelled), (.receive, .cancelled): return true
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
}

/// Two channels, and selects on both.
struct TwoQueuesModel: SequentialSpecification {
  enum Operation: Hashable, Sendable {
    case first(QueueModel.Operation)
    case second(QueueModel.Operation)
    case receiveEither
    case receiveFirstOrSendSecond(Int)
  }

  enum Outcome: Hashable, Sendable {
    case first(QueueModel.Outcome)
    case second(QueueModel.Outcome)
  }

  var first: QueueModel
  var second: QueueModel

  mutating func apply(_ operation: Operation, _ outcome: Outcome) -> Bool {
    switch (operation, outcome) {
    case (.first(let operation), .first(let outcome)): first.apply(operation, outcome)
    case (.second(let operation), .second(let outcome)): second.apply(operation, outcome)
    case (.receiveEither, .first(let outcome)): first.apply(.receive, outcome)
    case (.receiveEither, .second(let outcome)): second.apply(.receive, outcome)
    case (.receiveFirstOrSendSecond, .first(let outcome)): first.apply(.receive, outcome)
    case (.receiveFirstOrSendSecond(let value), .second(let outcome)): second.apply(.send(value), outcome)
    default: false
    }
  }
}

struct PromiseModel: SequentialSpecification {
  enum Operation: Hashable, Sendable {
    case fulfill(Int)
    case reject, get
  }

  enum Outcome: Hashable, Sendable {
    case wasFirst(Bool)
    case value(Int)
    case rejected, cancelled
  }

  private var outcome: Outcome?

  init() {}

  mutating func apply(_ operation: Operation, _ outcome: Outcome) -> Bool {
    switch (operation, outcome) {
    case (.get, .cancelled): return true
    case (.get, let outcome): return outcome == self.outcome
    case (.fulfill(let value), .wasFirst(let isFirst)): return settle(.value(value), isFirst)
    case (.reject, .wasFirst(let isFirst)): return settle(.rejected, isFirst)
    default: return false
    }
  }

  private mutating func settle(_ outcome: Outcome, _ isFirst: Bool) -> Bool {
    defer { self.outcome = self.outcome ?? outcome }
    return isFirst == (self.outcome == nil)
  }
}

/// A number that can only be added to. The operation is the amount, the outcome is the number before it.
struct CounterModel: SequentialSpecification {
  private var total = 0

  init() {}

  mutating func apply(_ number: Int, _ before: Int) -> Bool {
    guard before == total else { return false }
    total += number
    return true
  }

  mutating func applyUnseen(_ number: Int) { total += number }
}

struct SemaphoreModel: SequentialSpecification {
  enum Operation: Hashable, Sendable {
    case acquire, tryAcquire, release
  }

  private var permits: Int

  init(permits: Int) { self.permits = permits }

  mutating func apply(_ operation: Operation, _ done: Bool) -> Bool {
    switch operation {
    case .release: permits += 1
    case .acquire where done, .tryAcquire where done:
      guard permits > 0 else { return false }
      permits -= 1
    case .acquire: break
    // The permits may be kept for waiters.
    case .tryAcquire: break
    }
    return true
  }
}
