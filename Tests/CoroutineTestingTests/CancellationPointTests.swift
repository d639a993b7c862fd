import Coroutine
import CoroutineTesting
import Testing

/// Each operation is cancelled, or times out, at each possible moment. No element is lost or there twice, and all
/// other coroutines go on.
@Suite(.ownThreads) struct CancellationPointTests {
  // MARK: Channels

  @Test(arguments: Interruption.allCases, [0, 1])
  func aSendIsDoneOrNot(interruption: Interruption, capacity: Int) throws {
    try exploreInterruptions(by: interruption) { launch in
      let channel = Channel<Int>(capacity: .buffered(capacity))
      // A buffer is full.
      if capacity > 0 { try channel.send(0) }
      let victim = launch { try channel.send(1) }
      var received: [Int] = []
      for _ in 0...capacity {
        if let value = try? channel.receive(timeout: .seconds(10)) { received.append(value) }
      }
      let isSent = try wasDone(victim)
      while case .received(let value) = channel.tryReceive() { received.append(value) }
      try require(received.filter { $0 == 1 }.count == (isSent ? 1 : 0))
      try require(received.filter { $0 == 0 }.count == capacity)
      try require(channel.waitingSenderCount == 0 && channel.waitingReceiverCount == 0)
    }
  }

  @Test(arguments: Interruption.allCases, [0, 1])
  func anElementIsReceivedOrStays(interruption: Interruption, capacity: Int) throws {
    try exploreInterruptions(by: interruption) { launch in
      let channel = Channel<Int>(capacity: .buffered(capacity))
      let received = Log<Int>()
      let victim = launch { received.add(try channel.receive()) }
      let isSent = (try? channel.send(1, timeout: .seconds(10))) != nil
      let isReceived = try wasDone(victim)
      while case .received(let value) = channel.tryReceive() { received.add(value) }
      try require(received.all == (isSent ? [1] : []))
      try require(isSent || !isReceived)
    }
  }

  @Test(arguments: Interruption.allCases) func aSelectDoesOneOrNone(interruption: Interruption) throws {
    try exploreInterruptions(by: interruption) { launch in
      let (first, second) = (Channel<Int>(), Channel<Int>(capacity: .buffered(1)))
      let received = Log<Int>()
      let victim = launch {
        try select {
          first.onReceive { received.add($0) }
          second.onReceive { received.add($0) }
        }
      }
      let sent = Log<Int>()
      let sender = Coroutine { if (try? first.send(1, timeout: .seconds(10))) != nil { sent.add(1) } }
      if (try? second.send(2, timeout: .seconds(10))) != nil { sent.add(2) }
      try sender.get()
      let isDone = try wasDone(victim)
      try require(received.all.count == (isDone ? 1 : 0))
      while case .received(let value) = second.tryReceive() { received.add(value) }
      try require(first.tryReceive() == .empty)
      try require(received.all.sorted() == sent.all.sorted())
    }
  }

  @Test(arguments: Interruption.allCases) func aSelectThatSendsDoesOneOrNone(interruption: Interruption) throws {
    try exploreInterruptions(by: interruption, .all(preemptions: 1)) { launch in
      let (first, second) = (Channel<Int>(), Channel<Int>())
      let victim = launch {
        try select {
          first.onSend(1) {}
          second.onSend(2) {}
        }
      }
      let received = Log<Int>()
      let receiver = Coroutine { if let value = try? first.receive(timeout: .seconds(10)) { received.add(value) } }
      if let value = try? second.receive(timeout: .seconds(10)) { received.add(value) }
      try receiver.get()
      try require(received.all.count == (try wasDone(victim) ? 1 : 0))
    }
  }

  @Test(arguments: Interruption.allCases) func aBroadcastsElementStaysForItsReceiver(interruption: Interruption) throws
  {
    try exploreInterruptions(by: interruption) { launch in
      let broadcast = BroadcastChannel<Int>(capacity: 1)
      let (own, other) = (broadcast.subscribe(), broadcast.subscribe())
      let received = Log<Int>()
      let victim = launch { received.add(try own.receive()) }
      try broadcast.send(1)
      try require(try other.receive() == 1)
      _ = try wasDone(victim)
      if case .received(let value) = own.tryReceive() { received.add(value) }
      try require(received.all == [1])
    }
  }

  // MARK: Locks

  @Test(arguments: Interruption.allCases) func aMutexGoesToTheNext(interruption: Interruption) throws {
    try exploreInterruptions(by: interruption) { launch in
      let mutex = CoroutineMutex(0)
      let inside = Unlocked(0)
      @Sendable func enter() throws {
        try mutex.withLock { value in
          inside.value += 1
          schedulingPoint()
          if inside.value != 1 { throw Broken(line: #line) }
          inside.value -= 1
          value += 1
        }
      }
      let other = Coroutine { try enter() }
      let victim = launch { try enter() }
      try enter()
      try other.get()
      let expected = try wasDone(victim) ? 3 : 2
      try require(mutex.withLockIfAvailable { $0 } == expected)
    }
  }

  @Test(arguments: Interruption.allCases) func noPermitIsLost(interruption: Interruption) throws {
    try exploreInterruptions(by: interruption) { launch in
      let semaphore = Semaphore(permits: 1)
      let other = Coroutine { try semaphore.withPermit { schedulingPoint() } }
      let victim = launch { try semaphore.withPermit { schedulingPoint() } }
      try semaphore.withPermit { schedulingPoint() }
      try other.get()
      _ = try wasDone(victim)
      try require(semaphore.tryAcquire() && !semaphore.tryAcquire())
    }
  }

  @Test(arguments: Interruption.allCases) func aReadWriteLockIsFreeAgain(interruption: Interruption) throws {
    try exploreInterruptions(by: interruption) { launch in
      let lock = ReadWriteLock(0)
      let reader = Coroutine { try lock.withReadLock { _ in schedulingPoint() } }
      let victim = launch { try lock.withWriteLock { $0 += 1 } }
      try lock.withReadLock { _ in schedulingPoint() }
      try reader.get()
      let expected = try wasDone(victim) ? 1 : 0
      try require(lock.withWriteLockIfAvailable { $0 } == expected)
    }
  }

  @Test(arguments: Interruption.allCases) func aSignalIsNotLost(interruption: Interruption) throws {
    try exploreInterruptions(by: interruption) { launch in
      let items = CoroutineMutex(0)
      let added = Condition(of: items)
      @Sendable func take() throws {
        try items.withLock { count in
          try added.wait(&count) { $0 > 0 }
          count -= 1
        }
      }
      let victim = launch { try take() }
      let other = Coroutine(name: "other") { try take() }
      try items.withLock { $0 += 1 }
      added.signal()
      if try wasDone(victim) {
        try items.withLock { $0 += 1 }
        added.signal()
      }
      // This waits for ever if the victim has taken the signal with it.
      try other.get()
      try require(items.withLockIfAvailable { $0 } == 0)
    }
  }

  @Test func partiesOfABarrierGoOnInPairs() throws {
    try exploreInterruptions(by: .cancel, .all(preemptions: 1)) { launch in
      let barrier = Barrier(parties: 2)
      // Of those that have gone on, whether they came last.
      let passed = Log<Bool>()
      let victim = launch { passed.add(try barrier.wait()) }
      let others = (0..<2).map { _ in
        Coroutine { if let isLast = try? barrier.wait(timeout: .seconds(10)) { passed.add(isLast) } }
      }
      for other in others { try other.get() }
      victim.cancel()
      let isDone = try wasDone(victim)
      let last = passed.all.filter { $0 }.count
      // One of each pair came last. Where the victim gave up at that moment it was the other one, which goes on.
      try require(last <= 1 && passed.all.count - last <= last)
      try require(passed.all.count == 2 * last || !isDone)
      // No one else has arrived: two more make a round.
      let next = Coroutine { try barrier.wait() }
      try require(try barrier.wait() != next.get())
    }
  }

  @Test(arguments: Interruption.allCases) func othersWaitForAGroupNevertheless(interruption: Interruption) throws {
    try exploreInterruptions(by: interruption, .all(preemptions: 1)) { launch in
      let group = WaitGroup(count: 2)
      let victim = launch { try group.wait() }
      let other = Coroutine { try group.wait() }
      group.done()
      Coroutine { group.done() }
      try other.get()
      _ = try wasDone(victim)
      try group.wait()
    }
  }

  @Test(arguments: Interruption.allCases) func anotherMakesWhatIsMadeOnce(interruption: Interruption) throws {
    try exploreInterruptions(by: interruption) { launch in
      let once = Once<Int>()
      let made = Unlocked(0)
      let gate = Channel<Int>(capacity: .buffered(2))
      @Sendable func make() throws -> Int {
        _ = try gate.receive()
        made.value += 1
        return made.value
      }
      let victim = launch { _ = try once.get(make) }
      let other = Coroutine { try once.get(make) }
      for number in 0..<2 { try gate.send(number) }
      try require(try other.get() == 1)
      _ = try wasDone(victim)
      try require(made.value == 1)
    }
  }

  // MARK: Ends and answers

  @Test(arguments: Interruption.allCases) func aPromiseKeepsItsValueForOthers(interruption: Interruption) throws {
    try exploreInterruptions(by: interruption, .all(preemptions: 1)) { launch in
      let (promise, resolver) = Promise<Int>.makePromise()
      let victim = launch { _ = try promise.get() }
      let other = Coroutine { try promise.get() }
      Coroutine { resolver.fulfill(7) }
      try require(try other.get() == 7)
      _ = try wasDone(victim)
      try require(try promise.get() == 7)
    }
  }

  @Test(arguments: Interruption.allCases) func aCoroutineKeepsItsResultForOthers(interruption: Interruption) throws {
    try exploreInterruptions(by: interruption) { launch in
      let worker = Coroutine {
        Coroutine.yield()
        return 7
      }
      let victim = launch { _ = try worker.get() }
      try require(try worker.get() == 7)
      _ = try wasDone(victim)
    }
  }

  @Test(arguments: Interruption.allCases) func aResumptionKnowsWhetherItCounted(interruption: Interruption) throws {
    try exploreInterruptions(by: interruption) { launch in
      let given = Channel<Resumption<Int>>(capacity: .buffered(1))
      let victim = launch { _ = try withSuspension { (resume: Resumption<Int>) in _ = given.trySend(resume) } }
      let resumer = Coroutine { () -> Bool in
        guard let resume = try? given.receive(timeout: .seconds(10)) else { return false }
        return resume.returning(1)
      }
      let counted = try resumer.get()
      try require(try wasDone(victim) == counted)
    }
  }

  @Test(arguments: Interruption.allCases) func aMessageIsToldOnceOrNot(interruption: Interruption) throws {
    try exploreInterruptions(by: interruption, .all(preemptions: 1)) { launch in
      let actor = MessageActor<Tell>(mailbox: .bounded(1)) { mailbox in
        var sum = 0
        for message in mailbox {
          switch message {
          case .add(let number): sum += number
          case .get(let reply): reply.complete(sum)
          }
        }
      }
      try actor.tell(.add(1))
      let victim = launch { try actor.tell(.add(10)) }
      try actor.tell(.add(1))
      let isTold = try wasDone(victim)
      try require(try actor.ask { .get($0) } == (isTold ? 12 : 2))
    }
  }

  @Test(arguments: Interruption.allCases) func anActorGoesOnWithoutItsAsker(interruption: Interruption) throws {
    try exploreInterruptions(by: interruption, .all(preemptions: 1)) { launch in
      let actor = MessageActor<Reply<Int>>(name: "counter") { mailbox in
        var count = 0
        for reply in mailbox {
          count += 1
          schedulingPoint()
          reply.complete(count)
        }
      }
      let victim = launch { _ = try actor.ask { $0 } }
      let first = try actor.ask { $0 }
      let isDone = try wasDone(victim)
      let last = try actor.ask { $0 }
      // The victim's message is the first, the second, none, or, if it was cancelled behind it, one that no one waits for.
      try require(first == 1 || first == 2)
      try require(isDone ? last == 3 : last == first + 1 || last == 3)
    }
  }

  @Test(arguments: Interruption.allCases) func noChildOutlivesItsScope(interruption: Interruption) throws {
    try exploreInterruptions(by: interruption, .all(preemptions: 1)) { launch in
      let channel = Channel<Int>(capacity: .buffered(2))
      let children = Unlocked(0)
      let victim = launch {
        try withScope { scope in
          for _ in 0..<2 {
            scope.launch {
              children.value += 1
              defer { children.value -= 1 }
              _ = try channel.receive()
            }
          }
        }
        if children.value != 0 { throw Broken(line: #line) }
      }
      for number in 0..<2 { try channel.send(number) }
      _ = try wasDone(victim)
      try require(children.value == 0)
    }
  }

  @Test(arguments: Interruption.allCases) func severalValuesAreGotOrNot(interruption: Interruption) throws {
    try exploreInterruptions(by: interruption, .all(preemptions: 1)) { launch in
      let (promise, resolver) = Promise<Int>.makePromise()
      let worker = Coroutine { 2 }
      let got = Unlocked(0)
      let victim = launch {
        let (first, second) = try values(of: promise, worker)
        got.value = first + second
      }
      Coroutine { resolver.fulfill(1) }
      try require(try values(of: promise, worker) == (1, 2))
      try require(try wasDone(victim) ? got.value == 3 : true)
    }
  }
}

private enum Tell: Sendable {
  case add(Int)
  case get(Reply<Int>)
}
