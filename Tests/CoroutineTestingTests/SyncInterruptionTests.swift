import Coroutine
import CoroutineTesting
import Testing

/// Locks, ends, scopes and actors: each way to wait that `CancellationPointTests` does not have, interrupted at each moment.
@Suite(.ownThreads) struct SyncInterruptionTests {
  @Test(arguments: InterruptedCase.all(of: locks)) func whatIsHeldIsGivenBackOnce(_ row: InterruptedCase) throws {
    try row.explore()
  }

  @Test(arguments: InterruptedCase.all(of: ends)) func anOutcomeIsThereForTheOthers(_ row: InterruptedCase) throws {
    try row.explore()
  }

  @Test(arguments: InterruptedCase.all(of: scopes)) func noChildIsForgotten(_ row: InterruptedCase) throws {
    try row.explore()
  }

  @Test(arguments: InterruptedCase.all(of: actors)) func anActorHandlesEachMessageOnce(_ row: InterruptedCase) throws {
    try row.explore()
  }
}

// MARK: - Locks

private let locks: [InterruptedOperation] = [
  .init("a mutex's lock", .all(preemptions: 1), inTask: true) {
    let mutex = CoroutineMutex(0)
    return Trial {
      try mutex.withLock { $0 += 1 }
    } inTask: {
      try await mutex.withLock { $0 += 1 }
    } meanwhile: {
      try mutex.withLock { _ in schedulingPoint() }
    } afterwards: { isDone in
      try require(mutex.withLockIfAvailable { $0 } == (isDone ? 1 : 0))
    }
  },
  .init("a mutex's exchange", inTask: true) {
    let mutex = CoroutineMutex(0)
    let former = Log<Int>()
    return Trial {
      former.add(try mutex.exchange(with: 1))
    } inTask: {
      former.add(try await mutex.exchange(with: 1))
    } meanwhile: {
      try mutex.withLock { _ in schedulingPoint() }
    } afterwards: { isDone in
      try require(former.all == (isDone ? [0] : []))
      try require(mutex.withLockIfAvailable { $0 } == (isDone ? 1 : 0))
    }
  },
  .init("a permit", .all(preemptions: 1), inTask: true) {
    let semaphore = Semaphore(permits: 1)
    return Trial {
      try semaphore.withPermit { schedulingPoint() }
    } inTask: {
      try await semaphore.withPermit { schedulingPoint() }
    } meanwhile: {
      try semaphore.withPermit { schedulingPoint() }
    } afterwards: { _ in
      try require(semaphore.available == 1 && semaphore.tryAcquire())
    }
  },
  .init("several permits, before one", .all(preemptions: 1), inTask: true) {
    let semaphore = Semaphore(permits: 2)
    return Trial {
      try semaphore.acquire(2)
      semaphore.release(2)
    } inTask: {
      try await semaphore.acquire(2)
      semaphore.release(2)
    } meanwhile: {
      try semaphore.acquire()
      // The victim waits for two, and a later one behind it, though one is free.
      let behind = Coroutine { try semaphore.withPermit {} }
      semaphore.release()
      // It waits for ever if the victim keeps its place.
      try behind.get()
    } afterwards: { _ in
      try require(semaphore.available == 2 && semaphore.tryAcquire(2))
    }
  },
  .init("withPermits", .all(preemptions: 1), inTask: true) {
    let semaphore = Semaphore(permits: 2)
    return Trial {
      try semaphore.withPermits(2) { schedulingPoint() }
    } inTask: {
      try await semaphore.withPermits(2) { schedulingPoint() }
    } meanwhile: {
      try semaphore.withPermit { schedulingPoint() }
    } afterwards: { _ in
      try require(semaphore.available == 2 && semaphore.tryAcquire(2))
    }
  },
  .init("a reader's lock", .all(preemptions: 1), inTask: true) {
    let lock = ReadWriteLock(0)
    let seen = Log<Int>()
    return Trial {
      try lock.withReadLock { seen.add($0) }
    } inTask: {
      try await lock.withReadLock { seen.add($0) }
    } meanwhile: {
      try lock.withWriteLock { value in
        value = 1
        schedulingPoint()
        value = 2
      }
      try lock.withWriteLock { $0 = 4 }
    } afterwards: { isDone in
      try require(seen.all.count == (isDone ? 1 : 0) && seen.all.allSatisfy { $0 != 1 })
      try require(lock.withWriteLockIfAvailable { $0 } == 4)
    }
  },
  .init("a reader's lock behind a writer", .all(preemptions: 1)) {
    let lock = ReadWriteLock(0)
    return Trial {
      try lock.withReadLock { _ in }
    } meanwhile: {
      let writer = Coroutine { try lock.withWriteLock { $0 += 1 } }
      try lock.withReadLock { _ in schedulingPoint() }
      try writer.get()
    } afterwards: { _ in
      try require(lock.withWriteLockIfAvailable { $0 } == 1)
    }
  },
  .init("a writer's lock, before readers", .all(preemptions: 1), inTask: true) {
    let lock = ReadWriteLock(0)
    return Trial {
      try lock.withWriteLock { $0 += 1 }
    } inTask: {
      try await lock.withWriteLock { $0 += 1 }
    } meanwhile: {
      let reader = Coroutine { try lock.withReadLock { _ in } }
      try lock.withReadLock { _ in schedulingPoint() }
      // Readers that came after the victim wait for ever if it keeps its place.
      try reader.get()
    } afterwards: { isDone in
      try require(lock.withWriteLockIfAvailable { $0 } == (isDone ? 1 : 0))
    }
  },
  .init("a condition without a predicate", inTask: true) {
    let mutex = CoroutineMutex(0)
    let condition = Condition(of: mutex)
    return Trial {
      try mutex.withLock { value in
        try condition.wait(&value)
        value += 1
      }
    } inTask: {
      try await mutex.withLock { value in
        try await condition.wait(&value)
        value += 1
      }
    } meanwhile: {
      // Before the victim waits this wakes no one: then it is interrupted.
      try mutex.withLock { _ in condition.signal() }
    } afterwards: { isDone in
      try require(mutex.withLockIfAvailable { $0 } == (isDone ? 1 : 0))
      try mutex.withLock { _ in condition.broadcast() }
    }
  },
  .init("a barrier", .all(preemptions: 1), inTask: true) {
    let barrier = Barrier(parties: 2)
    let last = Log<Bool>()
    return Trial {
      last.add(try barrier.wait())
    } inTask: {
      last.add(try await barrier.wait())
    } meanwhile: {
      if let isLast = try? barrier.wait(timeout: .seconds(10)) { last.add(isLast) }
    } afterwards: { isDone in
      // One of both came last, and goes on in any case; the other may give up at that moment.
      let lastOnes = last.all.filter { $0 }.count
      try require(lastOnes <= 1 && last.all.count <= 2 * lastOnes && (!isDone || lastOnes == 1))
      // The next round begins with no one.
      let next = Coroutine { try barrier.wait() }
      try require(try barrier.wait() != next.get())
    }
  },
  .init("a group", .all(preemptions: 1), inTask: true) {
    let group = WaitGroup(count: 1)
    return Trial {
      try group.wait()
    } inTask: {
      try await group.wait()
    } meanwhile: {
      group.done()
    } afterwards: { _ in
      try group.wait()
    }
  },
  .init("what is made once", .all(preemptions: 1), inTask: true) {
    let once = Once<Int>()
    let (begun, made) = (Unlocked(0), Unlocked(0))
    @Sendable func make() throws -> Int {
      begun.value += 1
      Coroutine.yield()
      try Coroutine.checkCancellation()
      made.value += 1
      return made.value
    }
    return Trial {
      try require(try once.get(make) == 1)
    } inTask: {
      try require(
        try await once.get {
          begun.value += 1
          try await Coroutine(name: "maker") {}.get()
          made.value += 1
          return made.value
        } == 1)
    } meanwhile: {
      try require(try once.get(make) == 1)
    } afterwards: { isDone in
      try require(made.value == 1 && begun.value <= 2)
    }
  },
]

// MARK: - Ends

private let ends: [InterruptedOperation] = [
  .init("a promise", inTask: true) {
    let (promise, resolver) = Promise<Int>.makePromise()
    return Trial {
      try require(try promise.get() == 7)
    } inTask: {
      try require(try await promise.get() == 7)
    } meanwhile: {
      resolver.fulfill(7)
    } afterwards: { _ in
      try require(try promise.get() == 7)
    }
  },
  .init("a promise with progress", inTask: true) {
    let (promise, resolver) = ProgressPromise<Int, Int>.makePromise(keeping: .all)
    return Trial {
      try require(try promise.get() == 7)
    } inTask: {
      try require(try await promise.get() == 7)
    } meanwhile: {
      resolver.report(1)
      resolver.fulfill(7)
    } afterwards: { _ in
      try require(try promise.get() == 7)
      try require(Array(promise.progress) == [1])
    }
  },
  .init("reports of progress", inTask: true) {
    let (promise, resolver) = ProgressPromise<Int, Int>.makePromise(keeping: .all)
    let got = Log<Int>()
    return Trial {
      for number in promise.progress { got.add(number) }
      try Coroutine.checkCancellation()
    } inTask: {
      for await number in promise { got.add(number) }
      try Task.checkCancellation()
    } meanwhile: {
      resolver.report(1)
      resolver.report(2)
      resolver.fulfill(7)
    } afterwards: { isDone in
      try require(isDone ? got.all == [1, 2] : got.all == Array([1, 2].prefix(got.all.count)))
      try require(try promise.get() == 7)
    }
  },
  .init("a coroutine's value", .all(preemptions: 1), inTask: true) {
    let worker = aWorker()
    return Trial {
      try require(try worker.get() == 7)
    } inTask: {
      try require(try await worker.get() == 7)
    } afterwards: { _ in
      try require(try worker.get() == 7)
    }
  },
  .init("a coroutine that starts on demand", .all(preemptions: 1), inTask: true) {
    let begun = Unlocked(0)
    let worker = Coroutine(start: .lazy) {
      begun.value += 1
      Coroutine.yield()
      return 7
    }
    return Trial {
      try require(try worker.get() == 7)
    } inTask: {
      try require(try await worker.get() == 7)
    } meanwhile: {
      schedulingPoint()
    } afterwards: { isDone in
      try require(begun.value <= 1 && (!isDone || begun.value == 1))
      try require(try worker.get() == 7)
      try require(begun.value == 1)
    }
  },
  .init("a join", .all(preemptions: 1), inTask: true) {
    let worker = aWorker()
    return Trial {
      try worker.join()
    } inTask: {
      try await worker.join()
    } afterwards: { isDone in
      try require(!isDone || worker.isFinished)
      try require(try worker.get() == 7)
    }
  },
  .init("a join of any", .all(preemptions: 1), inTask: true) {
    let worker = aWorker()
    return Trial {
      try AnyCoroutine(worker).join()
    } inTask: {
      try await AnyCoroutine(worker).join()
    } afterwards: { isDone in
      try require(!isDone || worker.isFinished)
      try require(try worker.get() == 7)
    }
  },
  .init("cancelAndJoin", .all(preemptions: 1), inTask: true) {
    let worker = Coroutine {
      do { try Coroutine.sleep(for: .seconds(1000)) } catch is CancellationError { Coroutine.yield() }
    }
    return Trial {
      try worker.cancelAndJoin()
    } inTask: {
      try await worker.cancelAndJoin()
    } afterwards: { isDone in
      try require(!isDone || worker.isFinished)
      try worker.cancelAndJoin()
      try require(worker.isFinished)
    }
  },
  .init("values of several", inTask: true) {
    let (promise, resolver) = Promise<Int>.makePromise()
    let all = [promise, Promise<Int> { $0.fulfill(1) }]
    return Trial {
      try require(try values(of: all) == [7, 1])
    } inTask: {
      try require(try await values(of: all) == [7, 1])
    } meanwhile: {
      resolver.fulfill(7)
    } afterwards: { _ in
      try require(try values(of: all) == [7, 1])
    }
  },
  .init("values of two kinds", .all(preemptions: 1), inTask: true) {
    let (promise, resolver) = Promise<Int>.makePromise()
    let worker = aWorker()
    return Trial {
      try require(try values(of: promise, worker) == (1, 7))
    } inTask: {
      try require(try await values(of: promise, worker) == (1, 7))
    } meanwhile: {
      resolver.fulfill(1)
    } afterwards: { _ in
      try require(try values(of: promise, worker) == (1, 7))
    }
  },
  // Cancelled between two ends it has the first one's.
  .init("results of several", ends: [.done, .interrupted], inTask: true) {
    let (promise, resolver) = Promise<Int>.makePromise()
    let (other, otherResolver) = Promise<Int>.makePromise()
    let got = Log<[Result<Int, any Error>]>()
    @Sendable func areRight(_ results: [Result<Int, any Error>]) -> Bool {
      let isFirst = if case .success(7) = results[0] { true } else { false }
      let isSecond = if case .failure(is Broken) = results[1] { true } else { false }
      return isFirst && isSecond
    }
    return Trial {
      got.add(try results(of: [promise, other]))
      if !areRight(got.all[0]) { try Coroutine.checkCancellation() }
    } inTask: {
      got.add(try await results(of: [promise, other]))
      if !areRight(got.all[0]) { try Task.checkCancellation() }
    } meanwhile: {
      resolver.fulfill(7)
      otherResolver.reject(Broken(line: 0))
    } afterwards: { isDone in
      try require(isDone ? areRight(got.all[0]) : got.all.count <= 1)
      // What has come is not lost, and what has not is the victim's cancel.
      for results in got.all {
        if case .success(let value) = results[0] { try require(value == 7) }
        if case .failure(let error) = results[1] { try require(error is Broken || error is CancellationError) }
      }
      try require(areRight(try results(of: [promise, other])))
    }
  },
  .init("the first value", inTask: true) {
    let (promise, resolver) = Promise<Int>.makePromise()
    let (loser, unused) = Promise<Int>.makePromise()
    return Trial {
      try require(try firstValue(of: [promise, loser]) == 7)
    } inTask: {
      try require(try await firstValue(of: [promise, loser]) == 7)
    } meanwhile: {
      resolver.fulfill(7)
    } afterwards: { isDone in
      try require(try promise.get() == 7)
      // The other is cancelled by a victim that was done, and goes on without one.
      try require(unused.fulfill(8) != isDone)
      try require(((try? loser.get()) == 8) != isDone)
    }
  },
  .init("the first success", inTask: true) {
    let (promise, resolver) = Promise<Int>.makePromise()
    let (loser, unused) = Promise<Int>.makePromise()
    let failed = Promise<Int> { $0.reject(Broken(line: 0)) }
    return Trial {
      try require(try firstSuccess(of: [failed, promise, loser]) == 7)
    } inTask: {
      try require(try await firstSuccess(of: [failed, promise, loser]) == 7)
    } meanwhile: {
      resolver.fulfill(7)
    } afterwards: { isDone in
      try require(try promise.get() == 7)
      try require(unused.fulfill(8) != isDone)
      try require((try? failed.get()) == nil)
    }
  },
]

private func aWorker() -> Coroutine<Int, Never> {
  Coroutine(name: "worker") {
    Coroutine.yield()
    return 7
  }
}

// MARK: - Scopes

private let scopes: [InterruptedOperation] = [
  .init("a scope with a limit", .all(preemptions: 1)) {
    let gate = Channel<Int>(capacity: .buffered(2))
    let (running, begun, done) = (Unlocked(0), Unlocked(0), Unlocked(0))
    return Trial {
      try withScope(limit: 1) { scope in
        for _ in 0..<2 {
          scope.launch {
            begun.value += 1
            running.value += 1
            defer { running.value -= 1 }
            try require(running.value == 1)
            _ = try gate.receive()
            done.value += 1
          }
        }
      }
      try require(done.value == 2)
    } meanwhile: {
      for number in 0..<2 { try gate.send(number) }
    } afterwards: { isDone in
      try require(running.value == 0 && done.value <= begun.value && (!isDone || done.value == 2))
      var left = 0
      while case .received = gate.tryReceive() { left += 1 }
      try require(left == 2 - done.value)
    }
  },
  .init("a join of a scope", .all(preemptions: 1), inTask: true) {
    let scope = CoroutineScope()
    let gate = Channel<Int>(capacity: .buffered(1))
    let ended = Unlocked(0)
    scope.launch {
      _ = try gate.receive()
      ended.value += 1
    }
    return Trial {
      try scope.join()
      try require(ended.value == 1)
    } inTask: {
      try await scope.join()
      try require(ended.value == 1)
    } meanwhile: {
      try gate.send(1)
    } afterwards: { _ in
      // One that waits for a scope is not its owner: the child goes on.
      try scope.join()
      try require(ended.value == 1 && scope.children.isEmpty)
    }
  },
  .init("a start of a child", .all(preemptions: 1), inTask: true) {
    let scope = CoroutineScope()
    let gate = Channel<Int>(capacity: .buffered(1))
    let (running, got, never) = (Unlocked(0), Log<Int>(), Channel<Int>())
    @Sendable func serve(_ ready: ReadySignal<Int>) throws {
      running.value += 1
      defer { running.value -= 1 }
      ready(try gate.receive())
      _ = try never.receive()
    }
    return Trial {
      got.add(try scope.start { ready in try serve(ready) })
    } inTask: {
      got.add(try await scope.start { ready in try serve(ready) })
    } meanwhile: {
      try gate.send(1)
    } afterwards: { isDone in
      try require(got.all == (isDone ? [1] : []))
      // The child of one that has given up ends with that, the other one is there.
      if !isDone {
        try scope.join()
        try require(running.value == 0)
      }
      try require(scope.children.count == (isDone ? 1 : 0) && running.value == (isDone ? 1 : 0))
      scope.cancel()
      try scope.join()
      try require(running.value == 0)
    }
  },
  .init("a scope whose child starts on demand", .all(preemptions: 1)) {
    let begun = Unlocked(0)
    let gate = Channel<Int>(capacity: .buffered(1))
    return Trial {
      try withScope { scope in
        let child = scope.launch(start: .lazy) {
          begun.value += 1
          return try gate.receive()
        }
        try require(try child.get() == 1)
      }
    } meanwhile: {
      try gate.send(1)
    } afterwards: { isDone in
      try require(begun.value <= 1 && (!isDone || begun.value == 1))
      if isDone { try require(gate.tryReceive() == .empty) }
    }
  },
  .init("a scope in a task", .all(preemptions: 1), inTask: true) {
    let gate = Channel<Int>(capacity: .buffered(2))
    let (running, done) = (Unlocked(0), Unlocked(0))
    @Sendable func child() throws {
      running.value += 1
      defer { running.value -= 1 }
      _ = try gate.receive()
      done.value += 1
    }
    return Trial {
      try withScope { scope in
        for _ in 0..<2 { scope.launch { try child() } }
      }
    } inTask: {
      try await withScope { scope in
        for _ in 0..<2 { scope.launch { try child() } }
      }
    } meanwhile: {
      for number in 0..<2 { try gate.send(number) }
    } afterwards: { isDone in
      try require(running.value == 0 && (!isDone || done.value == 2))
      var left = 0
      while case .received = gate.tryReceive() { left += 1 }
      try require(left == 2 - done.value)
    }
  },
]

// MARK: - Actors

private enum Message: Sendable {
  case add(Int)
  case get(Reply<Int>)
}

private func anActor(_ mailbox: MailboxPolicy = .unbounded) -> MessageActor<Message> {
  MessageActor(name: "sum", mailbox: mailbox) { mailbox in
    var sum = 0
    for message in mailbox {
      switch message {
      case .add(let number): sum += number
      case .get(let reply): reply.complete(sum)
      }
    }
  }
}

private let actors: [InterruptedOperation] = [
  .init("tell", .all(preemptions: 1), inTask: true) {
    let actor = anActor(.bounded(1))
    try actor.tell(.add(1))
    return Trial {
      try actor.tell(.add(10))
    } inTask: {
      try await actor.tell(.add(10))
    } meanwhile: {
      try actor.tell(.add(1))
    } afterwards: { isDone in
      try require(try actor.ask { .get($0) } == (isDone ? 12 : 2))
    }
  },
  .init("ask", .all(preemptions: 1), inTask: true) {
    let actor = anActor()
    let got = Log<Int>()
    return Trial {
      got.add(try actor.ask { .get($0) })
    } inTask: {
      got.add(try await actor.ask { .get($0) })
    } meanwhile: {
      try actor.tell(.add(1))
    } afterwards: { isDone in
      try require(got.all.count == (isDone ? 1 : 0) && got.all.allSatisfy { $0 == 0 || $0 == 1 })
      try require(try actor.ask { .get($0) } == 1)
    }
  },
  .init("a message's answer, as a promise", .all(preemptions: 1), inTask: true) {
    let actor = anActor()
    let answer = actor.send { .get($0) }
    return Trial {
      try require(try answer.get() == 0)
    } inTask: {
      try require(try await answer.get() == 0)
    } meanwhile: {
      try actor.tell(.add(1))
    } afterwards: { _ in
      try require(try answer.get() == 0)
      try require(try actor.ask { .get($0) } == 1)
    }
  },
  .init("a join of an actor", .all(preemptions: 1), inTask: true) {
    let handled = Unlocked(0)
    let actor = MessageActor<Int>(name: "counter") { mailbox in
      for number in mailbox {
        handled.value += number
        if number == 2 { return }
      }
    }
    return Trial {
      try actor.join()
      try require(handled.value == 3)
    } inTask: {
      try await actor.join()
      try require(handled.value == 3)
    } meanwhile: {
      for number in 1...2 { try actor.tell(number) }
    } afterwards: { _ in
      try actor.join()
      try require(handled.value == 3)
    }
  },
  // The victim stops the actor, wherever that is: in its mailbox's wait, or before a message. It handles no more.
  .init("a mailbox's next", .all(preemptions: 1)) {
    let handled = Log<Int>()
    let actor = MessageActor<Int>(name: "stopped") { mailbox in
      for number in mailbox {
        handled.add(number)
        if number == 2 { return }
      }
    }
    return Trial {
      do { try actor.join() } catch is CancellationError {
        actor.cancel()
        throw CancellationError()
      }
    } meanwhile: {
      for number in 1...2 {
        do { try actor.tell(number) } catch is ActorStopped {}
        Coroutine.yield()
      }
    } afterwards: { isDone in
      if !isDone { actor.cancel() }
      try actor.join()
      try require(handled.all == Array([1, 2].prefix(handled.all.count)) && (!isDone || handled.all.count == 2))
    }
  },
]
