import Coroutine
import CoroutineTesting

// Small primitives with the classic defects, each with a switch that corrects it. They have a `schedulingPoint()`
// where several threads would be preempted between two accesses to memory.
//
// All are `@unchecked Sendable`: a run has one thread.

/// A queue of waiters.
final class ToyWaiters<Value: Sendable>: @unchecked Sendable {
  var all: [Resumption<Value>] = []

  func wait() throws -> Value { try withSuspension { (resume: Resumption<Value>) in all.append(resume) } }

  func popFirst() -> Resumption<Value>? { all.isEmpty ? nil : all.removeFirst() }
}

/// Lost wake-up: the waiter has looked, and is not in the queue yet.
final class ToyEvent: @unchecked Sendable {
  private let isSound: Bool
  private var isSet = false
  private let waiters = ToyWaiters<Void>()

  init(isSound: Bool) { self.isSound = isSound }

  func wait() throws {
    guard !isSet else { return }
    if !isSound { schedulingPoint() }
    try waiters.wait()
  }

  func set() {
    isSet = true
    while let waiter = waiters.popFirst() { waiter.returning(()) }
  }
}

/// Early publish: the cell says that it is full before the value is there.
final class ToyCell: @unchecked Sendable {
  private let isSound: Bool
  private var isFull = false
  private var value: Int?

  init(isSound: Bool) { self.isSound = isSound }

  func put(_ value: Int) {
    if isSound { self.value = value }
    isFull = true
    schedulingPoint()
    self.value = value
  }

  /// Whether the cell is full, and its value.
  func look() -> (isFull: Bool, value: Int?) { isFull ? (true, value) : (false, nil) }
}

/// Double resume: two wakers find the same waiter in the queue.
final class ToyGate: @unchecked Sendable {
  private let isSound: Bool
  let waiters = ToyWaiters<Void>()

  init(isSound: Bool) { self.isSound = isSound }

  /// Wakes one waiter. False if the waiter was already awake.
  func signal() -> Bool {
    guard let first = waiters.all.first else { return true }
    if !isSound { schedulingPoint() }
    _ = waiters.popFirst()
    return first.returning(())
  }
}

/// Dropped value: a receiver that is cancelled at the moment of a send takes the value with it.
final class ToyMailbox: @unchecked Sendable {
  private let isSound: Bool
  private(set) var values: [Int] = []
  private let waiters = ToyWaiters<Int>()

  init(isSound: Bool) { self.isSound = isSound }

  func receive() throws -> Int { values.isEmpty ? try waiters.wait() : values.removeFirst() }

  func send(_ value: Int) {
    while let waiter = waiters.popFirst() {
      if waiter.returning(value) || !isSound { return }
    }
    values.append(value)
  }
}

/// Unfair select: it always takes from the first queue that is not empty.
struct ToySelect {
  let isSound: Bool
  private var turn = 0

  init(isSound: Bool) { self.isSound = isSound }

  mutating func take(_ first: Unlocked<Int>, _ second: Unlocked<Int>) -> Int? {
    let queues = isSound && turn % 2 == 1 ? [second, first] : [first, second]
    turn += 1
    for queue in queues where queue.value > 0 {
      queue.value -= 1
      return queue === first ? 0 : 1
    }
    return nil
  }
}

/// Barging: a waiter that is woken believes that it owns the lock, which another coroutine has taken meanwhile.
final class ToyLock: @unchecked Sendable {
  private let isSound: Bool
  private var isHeld = false
  private let waiters = ToyWaiters<Void>()

  init(isSound: Bool) { self.isSound = isSound }

  func lock() throws {
    if isSound {
      while isHeld { try waiters.wait() }
    } else if isHeld {
      try waiters.wait()
    }
    isHeld = true
  }

  func unlock() {
    isHeld = false
    waiters.popFirst()?.returning(())
  }
}

/// A close that wakes one waiter, though there are several.
final class ToyClosable: @unchecked Sendable {
  private let isSound: Bool
  private var isClosed = false
  private let waiters = ToyWaiters<Void>()

  init(isSound: Bool) { self.isSound = isSound }

  func waitForClose() throws {
    guard !isClosed else { return }
    try waiters.wait()
  }

  func close() {
    isClosed = true
    repeat { waiters.popFirst()?.returning(()) } while isSound && !waiters.all.isEmpty
  }
}

/// A lock-free stack that reuses its nodes. A node that was popped and pushed again looks as if it had never left
/// (ABA).
final class ToyStack: @unchecked Sendable {
  private let isSound: Bool
  private var head = (node: 0, version: 0)
  /// The next node of each; 0 is the end.
  private var next: [Int]

  init(_ nodes: Int, isSound: Bool) {
    self.isSound = isSound
    next = [0] + Array(0..<nodes)
    head.node = nodes
  }

  /// Compare and exchange.
  private func exchange(_ expected: (node: Int, version: Int), for node: Int) -> Bool {
    guard head.node == expected.node, !isSound || head.version == expected.version else { return false }
    head = (node, head.version + 1)
    return true
  }

  func pop() -> Int? {
    while true {
      let found = head
      guard found.node != 0 else { return nil }
      let next = next[found.node]
      schedulingPoint()
      if exchange(found, for: next) { return found.node }
    }
  }

  func push(_ node: Int) {
    repeat { next[node] = head.node } while !exchange(head, for: node)
  }
}

/// A timeout whose timer outlives its body, and cancels whatever the coroutine does next.
struct ToyTimeout {
  let isSound: Bool

  func callAsFunction(_ duration: Duration, _ body: () throws -> Void) throws {
    guard let own = Coroutine.current else { return }
    let timer = Coroutine {
      try Coroutine.sleep(for: duration)
      own.cancel()
    }
    try body()
    if isSound {
      timer.cancel()
      try? timer.join()
    }
  }
}
