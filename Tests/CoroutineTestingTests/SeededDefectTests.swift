import Coroutine
import CoroutineTestSupport
import CoroutineTesting
import Testing

/// The explorer finds each of these defects, and can repeat what it found. It finds nothing once the defect is
/// corrected.
@Suite(.ownThreads) struct SeededDefectTests {
  private func expectFound(
    _ kinds: Set<ScheduleFailure.Kind>, options: ExplorationOptions = ExplorationOptions(),
    _ body: @escaping (_ isSound: Bool) throws -> Void
  ) throws {
    let failure = try #require(throws: ScheduleFailure.self) {
      try explore(seeds: 0..<1000, options: options) { try body(false) }
    }
    #expect(kinds.contains(failure.kind), "\(failure)")
    #expect(failure.isRepeatable)
    let again = try #require(throws: ScheduleFailure.self) {
      try replay(failure.schedule, options: options) { try body(false) }
    }
    #expect(again.kind == failure.kind)
    try explore(seeds: 0..<300, options: options) { try body(true) }
  }

  @Test func aLostWakeUp() throws {
    try expectFound([.deadlock]) { isSound in
      let event = ToyEvent(isSound: isSound)
      let waiter = Coroutine { try event.wait() }
      event.set()
      try waiter.get()
    }
  }

  @Test func anEarlyPublish() throws {
    try expectFound([.thrown]) { isSound in
      let cell = ToyCell(isSound: isSound)
      let reader = Coroutine {
        let (isFull, value) = cell.look()
        if isFull, value == nil { throw Broken(line: #line) }
      }
      cell.put(1)
      try reader.get()
    }
  }

  @Test func aDoubleResume() throws {
    try expectFound([.unhandledError]) { isSound in
      let gate = ToyGate(isSound: isSound)
      let waiters = (0..<2).map { _ in Coroutine { try gate.waiters.wait() } }
      while gate.waiters.all.count < 2 { Coroutine.yield() }
      let wakers = (0..<2).map { _ in Coroutine { gate.signal() } }
      for waker in wakers { _ = try waker.get() }
      for waiter in waiters { try waiter.get() }
    }
  }

  @Test func aValueThatIsDroppedOnCancel() throws {
    try expectFound([.thrown]) { isSound in
      let mailbox = ToyMailbox(isSound: isSound)
      let receiver = Coroutine { try mailbox.receive() }
      let sender = Coroutine { mailbox.send(1) }
      receiver.cancel()
      try sender.get()
      let received = try? receiver.get()
      if received == nil, mailbox.values.isEmpty { throw Broken(line: #line) }
    }
  }

  @Test func anUnfairSelect() throws {
    let options = ExplorationOptions(turnLimit: 400, shrinks: false)
    try expectFound([.endless], options: options) { isSound in
      let (first, second) = (Unlocked(1), Unlocked(1))
      var select = ToySelect(isSound: isSound)
      // A queue that was served is full again at once.
      while let served = select.take(first, second), served == 0 {
        let again = Coroutine { first.value += 1 }
        try again.get()
      }
    }
  }

  @Test func aLostUpdate() throws {
    try expectFound([.thrown]) { isSound in
      let (counter, mutex) = (Unlocked(0), CoroutineMutex(()))
      @Sendable func add() {
        let before = counter.value
        schedulingPoint()
        counter.value = before + 1
      }
      let all = (0..<2).map { _ in Coroutine { isSound ? try mutex.withLock { _ in add() } : add() } }
      for coroutine in all { try coroutine.get() }
      if counter.value != 2 { throw Broken(line: #line) }
    }
  }

  @Test func locksInDifferentOrders() throws {
    try expectFound([.deadlock]) { isSound in
      let (left, right) = (CoroutineMutex((), name: "left"), CoroutineMutex((), name: "right"))
      let (first, second) = isSound ? (left, right) : (right, left)
      let other = Coroutine { try first.withLock { _ in try second.withLock { _ in } } }
      try left.withLock { _ in try right.withLock { _ in } }
      try other.get()
    }
  }

  @Test func aLockThatTwoHold() throws {
    try expectFound([.thrown, .unhandledError]) { isSound in
      let (lock, inside) = (ToyLock(isSound: isSound), Unlocked(0))
      let all = (0..<3).map { _ in
        Coroutine {
          try lock.lock()
          inside.value += 1
          schedulingPoint()
          if inside.value != 1 { throw Broken(line: #line) }
          inside.value -= 1
          lock.unlock()
        }
      }
      for coroutine in all { try coroutine.get() }
    }
  }

  @Test func aCloseThatWakesOne() throws {
    try expectFound([.leftOver]) { isSound in
      let closable = ToyClosable(isSound: isSound)
      for _ in 0..<2 { Coroutine { try closable.waitForClose() } }
      closable.close()
    }
  }

  @Test func aNodeThatIsThereAgain() throws {
    try expectFound([.thrown]) { isSound in
      let (stack, taken) = (ToyStack(2, isSound: isSound), Unlocked<Set<Int>>([]))
      @Sendable func take() throws -> Int? {
        guard let node = stack.pop() else { return nil }
        guard taken.value.insert(node).inserted else { throw Broken(line: #line) }
        return node
      }
      let first = Coroutine { _ = try take() }
      let second = Coroutine {
        guard let one = try take() else { return }
        schedulingPoint()
        _ = try take()
        schedulingPoint()
        taken.value.remove(one)
        stack.push(one)
      }
      try first.get()
      try second.get()
      _ = try take()
      _ = try take()
    }
  }

  @Test func aTimerThatOutlivesItsTimeout() throws {
    try expectFound([.thrown]) { isSound in
      let timeout = ToyTimeout(isSound: isSound)
      let worker = Coroutine {
        try timeout(.seconds(1)) { try Coroutine.sleep(for: .milliseconds(10)) }
        try Coroutine.sleep(for: .seconds(10))
      }
      try worker.get()
    }
  }

  /// Found only if the time may pass at any moment.
  @Test func aTimeoutThatComesBeforeTheLock() throws {
    try expectFound([.thrown], options: ExplorationOptions(time: .anytime)) { isSound in
      let (mutex, isDone) = (CoroutineMutex(0), Unlocked(false))
      let worker = Coroutine {
        defer { isDone.value = true }
        if isSound {
          try mutex.withLock { $0 += 1 }
        } else {
          try? withTimeout(.seconds(1)) { try mutex.withLock { $0 += 1 } }
        }
      }
      try worker.get()
      if isDone.value, mutex.withLockIfAvailable({ $0 }) != 1 { throw Broken(line: #line) }
    }
  }
}
