import Coroutine
import CoroutineTesting
import Glibc
import Synchronization
import Testing

/// Callbacks, asynchronous generators, tasks, and what runs elsewhere: each way to wait is interrupted at each moment.
@Suite(.ownThreads) struct InteropInterruptionTests {
  @Test(arguments: InterruptedCase.all(of: callbacks)) func aCallbackKnowsWhetherItCounted(_ row: InterruptedCase)
    throws
  {
    try row.explore()
  }

  @Test(arguments: InterruptedCase.all(of: generators)) func eachElementIsMadeForOneConsumer(_ row: InterruptedCase)
    throws
  {
    try row.explore()
  }

  @Test(arguments: InterruptedCase.all(of: elsewhere)) func whatRunsElsewhereRunsOnceOrNot(_ row: InterruptedCase)
    throws
  {
    try row.explore()
  }
}

// MARK: - Callbacks

/// A callback with a value is called beside the victim, which waits for it as `wait` does.
private func callback(
  _ name: String,
  _ wait:
    @escaping @Sendable (
      _ start: (@escaping @Sendable (Int) -> Void) -> Void, _ onCancel: () -> Void
    ) throws -> Int
) -> InterruptedOperation {
  .init(name) {
    let started = Channel<@Sendable (Int) -> Void>(capacity: .buffered(1))
    let (got, cancels) = (Log<Int>(), Unlocked(0))
    return Trial {
      got.add(try wait({ _ = started.trySend($0) }, { cancels.value += 1 }))
    } meanwhile: {
      if let done = try? started.receive(timeout: .seconds(10)) { done(7) }
    } afterwards: { isDone in
      try require(got.all == (isDone ? [7] : []) && cancels.value <= (isDone ? 0 : 1))
    }
  }
}

private let callbacks: [InterruptedOperation] = [
  .init("withSuspension, with what to do when it is cancelled") {
    let given = Channel<Resumption<Int>>(capacity: .buffered(1))
    let cancels = Unlocked(0)
    return Trial {
      let number = try withSuspension { (resume: Resumption<Int>) in
        _ = given.trySend(resume)
      } onCancel: {
        cancels.value += 1
      }
      try require(number == 7)
    } meanwhile: {
      let resumer = Coroutine { () -> Bool? in
        guard let resume = try? given.receive(timeout: .seconds(10)) else { return nil }
        return resume.returning(7)
      }
      let counted = try resumer.get()
      // One that was resumed has that, and one that was not has been told so.
      try require(counted != true || cancels.value == 0)
    } afterwards: { isDone in
      try require(cancels.value <= (isDone ? 0 : 1))
    }
  },
  callback("a callback with a value or an error") { start, onCancel in
    try awaitCallback({ done in start { done($0, nil) } }, onCancel: onCancel)
  },
  callback("a callback with a result") { start, onCancel in
    try awaitCallback(
      { (done: @escaping @Sendable (Result<Int, any Error>) -> Void) in
        start { done(.success($0)) }
      }, onCancel: onCancel)
  },
  callback("a callback with an error or none") { start, onCancel in
    try awaitCallback(
      { (done: @escaping @Sendable ((any Error)?) -> Void) in start { _ in done(nil) } }, onCancel: onCancel)
    return 7
  },
]

// MARK: - Asynchronous generators

private let generators: [InterruptedOperation] = [
  .init("next", .all(preemptions: 1), inTask: true) {
    let (made, got) = (Log<Int>(), Log<Int>())
    let generator = AsyncGenerator<Int> { yield in
      for number in 1...2 {
        made.add(number)
        try yield(number)
      }
    }
    return Trial {
      while let number = try generator.next() { got.add(number) }
    } inTask: {
      while let number = try await generator.next() { got.add(number) }
    } afterwards: { isDone in
      if isDone { try require(got.all == [1, 2]) }
      while let number = try generator.next() { got.add(number) }
      try require(got.all == [1, 2] && made.all == [1, 2])
      try generator.join()
    }
  },
  .init("take", .all(preemptions: 1), inTask: true) {
    let generator = AsyncGenerator<Int> { yield in for number in 1...3 { try yield(number) } }
    let got = Log<Int>()
    return Trial {
      for number in try generator.take(1) { got.add(number) }
    } inTask: {
      for number in try await generator.take(1) { got.add(number) }
    } afterwards: { isDone in
      try require(got.all == (isDone ? [1] : []))
      while let number = try generator.next() { got.add(number) }
      try require(got.all == [1, 2, 3])
    }
  },
  .init("a loop over a generator", .all(preemptions: 1), inTask: true) {
    let generator = AsyncGenerator<Int> { yield in for number in 1...2 { try yield(number) } }
    let got = Log<Int>()
    return Trial {
      for number in generator.elements { got.add(number) }
      try Coroutine.checkCancellation()
    } inTask: {
      for try await number in generator { got.add(number) }
    } afterwards: { isDone in
      try require(!isDone || got.all == [1, 2])
      while let number = try generator.next() { got.add(number) }
      try require(got.all == [1, 2])
    }
  },
  .init("a generator's join", .all(preemptions: 1), inTask: true) {
    let open = Unlocked(0)
    let generator = aGenerator(open)
    return Trial {
      try generator.join()
      try require(open.value == 0)
    } inTask: {
      try await generator.join()
      try require(open.value == 0)
    } meanwhile: {
      try require(try generator.next() == 1)
      generator.cancel()
    } afterwards: { _ in
      try generator.join()
      try require(open.value == 0)
    }
  },
  // The body is in its `yield`, or before it, when the victim ends the sequence.
  .init("a generator's yield", .all(preemptions: 1)) {
    let (open, got) = (Unlocked(0), Log<Int>())
    let generator = aGenerator(open)
    return Trial {
      do { try generator.join() } catch is CancellationError {
        generator.cancel()
        throw CancellationError()
      }
    } meanwhile: {
      while let number = try generator.next() { got.add(number) }
    } afterwards: { isDone in
      generator.cancel()
      try generator.join()
      try require(open.value == 0 && (got.all == [1] || got.all == [] && !isDone))
    }
  },
  // A consumer whose time is up takes back nothing of what the body has yielded.
  .init("a yield with a deadline", .all(preemptions: 1), anytime: true) {
    let got = Log<Int>()
    let generator = AsyncGenerator<Int> { yield in
      do { try withTimeout(.milliseconds(500)) { try yield(1) } } catch is TimeoutError {}
      try yield(2)
    }
    return Trial {
      if let number = try generator.next() { got.add(number) }
    } afterwards: { isDone in
      try require(got.all.count == (isDone ? 1 : 0))
      while let number = try generator.next() { got.add(number) }
      try require(got.all == [1, 2] || got.all == [2])
    }
  },
]

private func aGenerator(_ open: Unlocked<Int>) -> AsyncGenerator<Int> {
  AsyncGenerator { yield in
    open.value += 1
    defer { open.value -= 1 }
    try yield(1)
  }
}

// MARK: - Elsewhere

// What other threads bring comes at any moment: no schedule can be repeated, and how a victim ends depends on them.
private let elsewhere: [InterruptedOperation] = [
  .init("work that blocks", .some(seeds: 30), ends: [], inTask: true) {
    let work = Work()
    return Trial {
      try require(try blocking { work.run() } == 7)
    } inTask: {
      try require(try await blocking { work.run() } == 7)
    } meanwhile: {
      schedulingPoint()
    } afterwards: { isDone in
      // It runs to its end if it has begun, though no one waits for it.
      while work.begun > work.ended { try blocking { _ = sched_yield() } }
      try require(work.begun <= 1 && (!isDone || work.ended == 1))
    }
  },
  .init("on another scheduler", .some(seeds: 30), ends: []) {
    let channel = Channel<Int>(capacity: .buffered(1))
    let received = Channel<Int>(capacity: .buffered(1))
    return Trial {
      try on(ThreadPool.shared) { _ = received.trySend(try channel.receive()) }
    } meanwhile: {
      try channel.send(1)
    } afterwards: { isDone in
      try require((received.tryReceive() == .received(1)) == isDone)
      try require((channel.tryReceive() == .received(1)) != isDone && channel.waitingReceiverCount == 0)
    }
  },
  .init("Coroutine.await", .all(preemptions: 1)) {
    let channel = Channel<Int>(capacity: .buffered(1))
    let (running, received) = (Unlocked(0), Log<Int>())
    return Trial {
      try Coroutine.await {
        running.value += 1
        defer { running.value -= 1 }
        received.add(try await channel.receive())
      }
    } meanwhile: {
      try channel.send(1)
    } afterwards: { isDone in
      // Nothing of it is left, however it ended.
      try require(running.value == 0 && received.all == (isDone ? [1] : []))
      try require((channel.tryReceive() == .received(1)) != isDone)
    }
  },
  .init("a task's value", .some(seeds: 30), ends: []) {
    let (promise, resolver) = Promise<Int>.makePromise()
    let task = Task { try await promise.get() }
    return Trial {
      try require(try task.get() == 7)
    } meanwhile: {
      resolver.fulfill(7)
    } afterwards: { _ in
      // The task goes on.
      try require(!task.isCancelled)
      try require(try task.get() == 7)
    }
  },
  .init("an asynchronous sequence", .some(seeds: 30), ends: []) {
    let (stream, continuation) = AsyncThrowingStream<Int, any Error>.makeStream()
    let (elements, got) = (Unlocked(stream.elements), Log<Int>())
    return Trial {
      while let number = try elements.value.next() { got.add(number) }
    } meanwhile: {
      continuation.yield(1)
      continuation.yield(2)
      continuation.finish()
    } afterwards: { isDone in
      try require(got.all == Array([1, 2].prefix(got.all.count)) && (!isDone || got.all.count == 2))
      // It has ended for all, as its consumer was cancelled.
      if !isDone, !got.all.isEmpty { try require(try elements.value.next() == nil) }
    }
  },
]

/// Counts what runs on other threads.
private final class Work: Sendable {
  private let beginnings = Synchronization.Atomic(0)
  private let ends = Synchronization.Atomic(0)

  var begun: Int { beginnings.load(ordering: .sequentiallyConsistent) }
  var ended: Int { ends.load(ordering: .sequentiallyConsistent) }

  func run() -> Int {
    beginnings.add(1, ordering: .sequentiallyConsistent)
    defer { ends.add(1, ordering: .sequentiallyConsistent) }
    return 7
  }
}
