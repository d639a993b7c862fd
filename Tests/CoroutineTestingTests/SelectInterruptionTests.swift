import Coroutine
import CoroutineTesting
import Testing

/// Each kind of case of a select, beside a receive: interrupted at each moment, the select does one of them or none.
@Suite(.ownThreads) struct SelectInterruptionTests {
  @Test(arguments: InterruptedCase.all(of: selects)) func aSelectDoesOneOfItsCasesOrNone(_ row: InterruptedCase) throws
  {
    try row.explore()
  }
}

/// A case of a select, and what belongs to it: made anew for each run.
private struct Kind {
  /// Its handler calls the parameter.
  let makeCase: @Sendable (_ chosen: @escaping @Sendable () -> Void) -> any SelectCase<Void>
  /// What makes the case possible.
  var meanwhile: () throws -> Void = {}
  /// What must hold then: the case was chosen, or not.
  var afterwards: (_ isChosen: Bool) throws -> Void = { _ in }
}

/// Which of the two comes first, if both can be done at once.
private enum Order {
  case any, caseFirst, receiveFirst
}

private func selecting(
  _ name: String, _ order: Order = .any, _ moments: Moments = .all(preemptions: 1), anytime: Bool = false,
  _ make: @escaping @Sendable () throws -> Kind
) -> InterruptedOperation {
  .init(name, moments, anytime: anytime, inTask: true) {
    let kind = try make()
    let makeCase = kind.makeCase
    let other = Channel<Int>(capacity: .buffered(1))
    let chosen = Log<String>()
    @Sendable func theCase() -> [any SelectCase<Void>] { [makeCase { chosen.add("case") }] }
    @Sendable func theReceive() -> [any SelectCase<Void>] { [other.onReceive { _ in chosen.add("other") }] }
    return Trial {
      switch order {
      case .any: try select(theCase() + theReceive())
      case .caseFirst: try selectBiased(theCase() + theReceive())
      case .receiveFirst: try selectBiased(theReceive() + theCase())
      }
    } inTask: {
      switch order {
      case .any: try await select(theCase() + theReceive())
      case .caseFirst: try await selectBiased(theCase() + theReceive())
      case .receiveFirst: try await selectBiased(theReceive() + theCase())
      }
    } meanwhile: {
      try kind.meanwhile()
      try other.send(1)
    } afterwards: { isDone in
      try require(chosen.all.count == (isDone ? 1 : 0))
      try require((other.tryReceive() == .received(1)) == (chosen.all != ["other"]))
      try require(other.waitingReceiverCount == 0)
      try kind.afterwards(chosen.all == ["case"])
    }
  }
}

private let selects: [InterruptedOperation] = [
  selecting("receive") { aReceive() },
  selecting("receive first", .caseFirst) { aReceive() },
  selecting("receive second", .receiveFirst) { aReceive() },
  selecting("send") { try aSend() },
  selecting("send first", .caseFirst) { try aSend() },
  selecting("an end's receive") {
    let (sender, receiver) = Channel<Int>.makeEnds(capacity: .buffered(1))
    return Kind(
      makeCase: { chosen in receiver.onReceive { _ in chosen() } }, meanwhile: { try sender.send(1) },
      afterwards: { isChosen in try require((receiver.tryReceive() == .received(1)) != isChosen) })
  },
  selecting("an end's send") {
    let (sender, receiver) = Channel<Int>.makeEnds(capacity: .buffered(1))
    try sender.send(0)
    return Kind(
      makeCase: { chosen in sender.onSend(1) { chosen() } },
      meanwhile: { try require(try receiver.receive() == 0) },
      afterwards: { isChosen in try require((receiver.tryReceive() == .received(1)) == isChosen) })
  },
  selecting("a channel's end") {
    let channel = Channel<Int>()
    return Kind(
      makeCase: { chosen in channel.onNext { if $0 == nil { chosen() } } }, meanwhile: { channel.close() },
      afterwards: { _ in try require(channel.waitingReceiverCount == 0) })
  },
  selecting("a mutex") {
    let mutex = CoroutineMutex(0)
    return Kind(
      makeCase: { chosen in
        mutex.onLock {
          $0 += 1
          chosen()
        }
      },
      meanwhile: { try mutex.withLock { _ in schedulingPoint() } },
      afterwards: { isChosen in try require(mutex.withLockIfAvailable { $0 } == (isChosen ? 1 : 0)) })
  },
  selecting("permits") {
    let semaphore = Semaphore(permits: 2)
    return Kind(
      makeCase: { chosen in
        semaphore.onAcquire(2) {
          chosen()
          semaphore.release(2)
        }
      },
      meanwhile: { try semaphore.withPermit { schedulingPoint() } },
      afterwards: { _ in try require(semaphore.available == 2 && semaphore.tryAcquire(2)) })
  },
  selecting("a group") {
    let group = WaitGroup(count: 1)
    return Kind(
      makeCase: { chosen in group.onZero { chosen() } }, meanwhile: { group.done() },
      afterwards: { _ in try group.wait() })
  },
  selecting("a promise's value") {
    let (promise, resolver) = Promise<Int>.makePromise()
    return Kind(
      makeCase: { chosen in promise.onValue { if $0 == 7 { chosen() } } },
      meanwhile: { resolver.fulfill(7) }, afterwards: { _ in try require(try promise.get() == 7) })
  },
  selecting("a promise's end") {
    let (promise, resolver) = Promise<Int>.makePromise()
    return Kind(
      makeCase: { chosen in promise.onEnd { if case .failure(is Broken) = $0 { chosen() } } },
      meanwhile: { resolver.reject(Broken(line: 0)) },
      afterwards: { _ in
        do { _ = try promise.get() } catch is Broken { return }
        throw Broken(line: #line)
      })
  },
  selecting("a coroutine's value") {
    let worker = Coroutine {
      Coroutine.yield()
      return 7
    }
    return Kind(
      makeCase: { chosen in worker.onValue { if $0 == 7 { chosen() } } },
      afterwards: { _ in
        try require(try worker.get() == 7)
      })
  },
  selecting("the end of a coroutine that is not started") {
    let begun = Unlocked(0)
    let worker = Coroutine(start: .lazy) {
      begun.value += 1
      return 7
    }
    return Kind(
      makeCase: { chosen in worker.onEnd { if case .success(7) = $0 { chosen() } } },
      afterwards: { isChosen in
        try require(begun.value == 1 || !isChosen)
        try require(try worker.get() == 7)
        try require(begun.value == 1)
      })
  },
  selecting("an asynchronous generator's next") {
    let generator = AsyncGenerator<Int> { yield in for number in 1...2 { try yield(number) } }
    let got = Log<Int?>()
    return Kind(
      makeCase: { chosen in
        generator.onNext {
          got.add($0)
          chosen()
        }
      },
      afterwards: { isChosen in
        try require(got.all.count == (isChosen ? 1 : 0))
        while let number = try generator.next() { got.add(number) }
        try require(got.all == [1, 2])
        try generator.join()
      })
  },
  selecting("a broadcast's receive") {
    let broadcast = BroadcastChannel<Int>(capacity: 1)
    let subscription = broadcast.subscribe()
    return Kind(
      makeCase: { chosen in subscription.onReceive { if $0 == 1 { chosen() } } }, meanwhile: { try broadcast.send(1) },
      afterwards: { isChosen in try require((subscription.tryReceive() == .received(1)) != isChosen) })
  },
  selecting("a broadcast's send") {
    let broadcast = BroadcastChannel<Int>(capacity: 1)
    let subscription = broadcast.subscribe()
    try broadcast.send(0)
    return Kind(
      makeCase: { chosen in broadcast.onSend(1) { chosen() } },
      meanwhile: { try require(try subscription.receive() == 0) },
      afterwards: { isChosen in try require((subscription.tryReceive() == .received(1)) == isChosen) })
  },
  selecting("a timeout", anytime: true) {
    let start = TestClock().now
    return Kind(
      makeCase: { chosen in onTimeout(.milliseconds(1500)) { chosen() } },
      afterwards: { isChosen in
        try require(!isChosen || start.duration(to: TestClock().now) >= .milliseconds(1500))
      })
  },
  selecting("an instant", anytime: true) {
    let instant = TestClock().now.advanced(by: .milliseconds(1500))
    return Kind(
      makeCase: { chosen in onTimeout(until: instant, clock: .test) { chosen() } },
      afterwards: { isChosen in
        try require(!isChosen || TestClock().now >= instant)
      })
  },
  // A select inside of a wait for a condition.
  .init("a condition's signal or a receive", .all(preemptions: 1)) {
    let items = CoroutineMutex(0)
    let (added, other) = (Condition(of: items), Channel<Int>(capacity: .buffered(1)))
    let chosen = Log<String>()
    return Trial {
      try items.withLock { items in
        let isOther = try added.wait(&items, orSelect: { other.onReceive { _ in true } })
        chosen.add(isOther == true ? "other" : "signal")
      }
    } meanwhile: {
      try items.withLock { _ in added.signal() }
      try other.send(1)
    } afterwards: { isDone in
      try require(chosen.all.count == (isDone ? 1 : 0))
      try require((other.tryReceive() == .received(1)) == (chosen.all != ["other"]))
      try require(items.withLockIfAvailable { $0 } == 0)
    }
  },
]

private func aReceive() -> Kind {
  let channel = Channel<Int>(capacity: .buffered(1))
  return Kind(
    makeCase: { chosen in channel.onReceive { _ in chosen() } }, meanwhile: { try channel.send(1) },
    afterwards: { isChosen in
      try require((channel.tryReceive() == .received(1)) != isChosen && channel.waitingReceiverCount == 0)
    })
}

private func aSend() throws -> Kind {
  let channel = Channel<Int>(capacity: .buffered(1))
  try channel.send(0)
  return Kind(
    makeCase: { chosen in channel.onSend(1) { chosen() } },
    meanwhile: { try require(try channel.receive() == 0) },
    afterwards: { isChosen in
      try require((channel.tryReceive() == .received(1)) == isChosen && channel.waitingSenderCount == 0)
    })
}
