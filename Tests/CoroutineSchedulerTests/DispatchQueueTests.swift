import CoroutineTestSupport
import Dispatch
import Foundation
import Synchronization
import Testing

@testable import Coroutine

@Suite(.ownThreads, .timeLimit(.minutes(30))) struct DispatchQueueTests {
  @Test func aWakeOnItsOwnQueueMakesNoDispatchCall() async throws {
    let queue = DispatchQueue(label: "serial")
    let log = Log()
    let gate = Gate()
    queue.async { gate.pass() }
    let first = Coroutine(on: queue) {
      let ping = Channel<Int>()
      let pong = Channel<Int>()
      let partner = Coroutine {
        for value in ping.received { try pong.send(value) }
      }
      // Jobs that Dispatch gets from now on run after this block.
      queue.async { log.add("block") }
      for round in 0..<20 {
        try ping.send(round)
        log.add("\(try pong.receive())")
        Coroutine.yield()
      }
      ping.close()
      try partner.get()
    }
    gate.open()
    try await first.get()
    await withCheckedContinuation { continuation in queue.async { continuation.resume() } }
    #expect(log.all == (0..<20).map { "\($0)" } + ["block"])
  }

  /// It keeps its thread, and waits for the one behind it, for which no drain was asked.
  @Test func oneThatGoesOnIsNotLeftBehindANewOne() throws {
    let queue = DispatchQueue(label: "concurrent", attributes: .concurrent)
    let (start, answer) = (Channel<Void>(), Channel<Int>())
    let woken = Coroutine(on: queue) {
      try start.receive()
      try answer.send(7)
    }
    while woken.state != .suspended { sched_yield() }
    let (begun, gate) = (DispatchSemaphore(value: 0), Gate())
    // As many drains as are of use, with that of the new one.
    let holders = (1..<max(2, ThreadPool.processorCount)).map { _ in
      Coroutine(on: queue) {
        begun.signal()
        gate.pass()
      }
    }
    for _ in holders { begun.wait() }
    queue.suspend()
    let new = Coroutine(on: queue) { try withThreadPinned { try answer.receive() } }
    _ = start.trySend(())
    gate.open()
    for holder in holders { try holder.getBlocking() }
    queue.resume()
    #expect(try new.getBlocking() == 7)
    try woken.getBlocking()
  }

  /// A thread that a coroutine keeps while it waits is no drain that others could wait for.
  @Test func pinnedOnesThatWaitKeepNoOtherWaiting() throws {
    let queue = DispatchQueue(label: "concurrent", attributes: .concurrent)
    let (start, answers) = (Channel<Void>(), Channel<Int>())
    let count = ThreadPool.processorCount + 1
    let woken = Coroutine(on: queue) {
      try start.receive()
      for answer in 0..<count { try answers.send(answer) }
    }
    while woken.state != .suspended { sched_yield() }
    let pinned = (0..<count).map { _ in Coroutine(on: queue) { try withThreadPinned { try answers.receive() } } }
    for waiter in pinned { while waiter.state != .suspended { sched_yield() } }
    try start.sendBlocking(())
    #expect(Set(try pinned.map { try $0.getBlocking() }) == Set(0..<count))
    try woken.getBlocking()
  }

  /// The drain of the new one's launch runs one that was woken before it, and that waits for the new one.
  @Test func aPinnedOneOnANewOnesDrainDoesNotKeepItWaiting() throws {
    let queue = DispatchQueue(label: "concurrent", attributes: .concurrent)
    let (start, answer) = (Channel<Void>(), Channel<Int>())
    let woken = Coroutine(on: queue) {
      try start.receive()
      return try withThreadPinned { try answer.receive() }
    }
    while woken.state != .suspended { sched_yield() }
    let (begun, gate) = (DispatchSemaphore(value: 0), Gate())
    // So many that the wake asks for no drain.
    let holders = (0..<ThreadPool.processorCount).map { _ in
      Coroutine(on: queue) {
        begun.signal()
        gate.pass()
      }
    }
    for _ in holders { begun.wait() }
    queue.suspend()
    try start.sendBlocking(())
    let new = Coroutine(on: queue) { try answer.send(7) }
    gate.open()
    for holder in holders { try holder.getBlocking() }
    queue.resume()
    #expect(try woken.getBlocking() == 7)
    try new.getBlocking()
  }

  @Test func launchesAndBlocksOfAQueueKeepTheirOrder() async throws {
    let (queue, log) = (DispatchQueue(label: "serial"), Log())
    queue.suspend()
    for round in 0..<3 {
      for number in 0..<2 { Coroutine(on: queue) { log.add("coroutine \(round).\(number)") } }
      queue.async { log.add("block \(round)") }
    }
    let expected = (0..<3).flatMap { ["coroutine \($0).0", "coroutine \($0).1", "block \($0)"] }
    queue.resume()
    await withCheckedContinuation { continuation in queue.async { continuation.resume() } }
    #expect(log.all == expected)
  }

  @Test func whatACoroutineLaunchesOnItsQueueKeepsTheOrderToo() async throws {
    let (queue, log) = (DispatchQueue(label: "serial"), Log())
    try await Coroutine(on: queue) {
      for number in 0..<3 {
        Coroutine {
          log.add("coroutine \(number)")
          Coroutine.yield()
          log.add("again \(number)")
        }
        queue.async { log.add("block \(number)") }
      }
      Coroutine.yield()
      log.add("launcher")
    }.get()
    await withCheckedContinuation { continuation in queue.async { continuation.resume() } }
    // A coroutine that goes on keeps its place among the coroutines, as soon as the queue runs any.
    #expect(log.all.filter { $0.hasPrefix("coroutine") } == (0..<3).map { "coroutine \($0)" })
    #expect(log.all.filter { $0.hasPrefix("again") } == (0..<3).map { "again \($0)" })
    let launches = log.all.filter { !$0.hasPrefix("again") && $0 != "launcher" }
    #expect(launches == (0..<3).flatMap { ["coroutine \($0)", "block \($0)"] })
  }

  @Test func wokenOnesAmongLaunchedOnesAreNotLost() async throws {
    for attributes in [DispatchQueue.Attributes(), .concurrent] {
      let queue = DispatchQueue(label: "queue", attributes: attributes)
      let numbers = Channel<Int>()
      let receivers = (0..<4).map { _ in
        Coroutine(on: queue) { numbers.received.reduce(0) { $0 + $1 } }
      }
      let senders = (0..<2_000).map { number in
        Coroutine(on: queue) {
          Coroutine.yield()
          try numbers.send(number)
        }
      }
      for sender in senders { try await sender.get() }
      numbers.close()
      var sum = 0
      for receiver in receivers { sum += try await receiver.get() }
      #expect(sum == 1_999_000)
    }
  }

  @Test func theQueuesOtherBlocksHaveTheirTurn() async throws {
    let queue = DispatchQueue(label: "serial")
    let isOver = Holder(Atomic<Bool>(false))
    try await Coroutine(on: queue) {
      queue.async { isOver.value.store(true, ordering: .relaxed) }
      while !isOver.value.load(ordering: .relaxed) { Coroutine.yield() }
    }.get()
  }

  @Test func theMainQueueRunsThemInOrder() async throws {
    let log = Log()
    try await Coroutine(on: DispatchQueue.main) {
      let children = (0..<5).map { number in
        Coroutine {
          log.add("\(number) \(DispatchQueue.main.isCurrent)")
          Coroutine.yield()
          log.add("\(number) \(DispatchQueue.main.isCurrent)")
        }
      }
      for child in children { try child.get() }
    }.get()
    #expect(log.all == ((0..<5).map { "\($0) true" } + (0..<5).map { "\($0) true" }))
  }

  @Test func aConcurrentQueueRunsThemInParallel() async throws {
    let queue = DispatchQueue(label: "concurrent", attributes: .concurrent)
    let inside = Holder(Atomic<Int>(0))
    // Two coroutines that wait for each other without suspending: for more Dispatch may have too few threads.
    let both = (0..<min(2, ThreadPool.processorCount)).map { _ in
      Coroutine(on: queue) {
        inside.value.add(1, ordering: .relaxed)
        while inside.value.load(ordering: .relaxed) < min(2, ThreadPool.processorCount) { sched_yield() }
      }
    }
    for coroutine in both { try await coroutine.get() }
  }

  @Test func aSerialQueueRunsOneAtATime() async throws {
    let queue = DispatchQueue(label: "serial")
    let inside = Holder(Atomic<Int>(0))
    let all = (0..<50).map { _ in
      Coroutine(on: queue) { () -> Bool in
        var wasAlone = true
        for _ in 0..<20 {
          wasAlone = wasAlone && inside.value.add(1, ordering: .relaxed).newValue == 1
          inside.value.subtract(1, ordering: .relaxed)
          Coroutine.yield()
        }
        return wasAlone
      }
    }
    for coroutine in all { #expect(try await coroutine.get()) }
  }
}
