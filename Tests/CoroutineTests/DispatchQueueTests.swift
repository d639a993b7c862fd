import Dispatch
import Foundation
import Synchronization
import Testing

@testable import Coroutine

@Suite(.timeLimit(.minutes(10))) struct DispatchQueueTests {
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
      // Whatever Dispatch is asked for from now on comes behind this.
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
    // Two that wait for each other without suspending: with more, Dispatch may have too few threads.
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
