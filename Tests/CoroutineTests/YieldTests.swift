import CCoroutine
import Context
import CoroutineTestSupport
import Dispatch
import Foundation
import Testing

@testable import Coroutine

/// In a serial pool a coroutine that yields goes right into the next one, past the loop, if the backend can do that.
/// Only the time that it takes may show it.
///
/// Not while times are recorded. The tests of CoroutineDebug, in the same program, turn that on, so each test here
/// has a process of its own.
@Suite(.ownThreads, .timeLimit(.minutes(30))) struct YieldTests {
  // MARK: Which coroutine comes next

  @Test func theLoopIsPassedByButHasItsTurnNowAndThen() async {
    await #expect(processExitsWith: .success) {
      recordNoTimes()
      let turns = 1_000
      // Not in a task, whose word would have to be exchanged.
      let (names, loops) = PlainThread {
        let pool = ThreadPool(callingThreadOfMainQueue: false)
        let log = Log()
        let ended = Counter()
        var loops = 0
        pool.core.runInline {
          for name in ["a", "b"] {
            Coroutine(on: pool) {
              for _ in 0..<turns {
                log.add(name)
                Coroutine.yield()
              }
              ended.add()
            }
          }
        } until: {
          loops += 1
          return ended.value == 2
        }
        return (log.all, loops)
      }.join()
      #expect(names == Array(repeating: ["a", "b"], count: turns).flatMap { $0 })
      // The loop looks for work from outside once in so many picks.
      #expect(loops > 2 * turns / WorkerQueue.globalInterval)
      if SelectedBackend.passes, !coroutine_sanitizers_active() { #expect(loops < turns / 10) }
    }
  }

  @Test func allTakeTurnsInTheOrderInWhichTheyBecameReady() async {
    await #expect(processExitsWith: .success) {
      let events = try await events { log in
        let channel = Channel<String>()
        let waiting = Coroutine { log.add("got \(try channel.receive())") }
        Coroutine.yield()
        let others = ["a", "b"].map { name in
          Coroutine {
            for turn in 1...3 {
              log.add("\(name)\(turn)")
              Coroutine.yield()
            }
          }
        }
        Coroutine.yield()
        Coroutine.yield()
        // Behind both of them. A new coroutine comes behind that.
        try channel.send("it")
        let new = Coroutine { log.add("new") }
        Coroutine.yield()
        log.add("main")
        try waiting.get()
        try new.get()
        for other in others { try other.get() }
      }
      #expect(events == ["a1", "b1", "a2", "b2", "a3", "b3", "got it", "new", "main"])
    }
  }

  @Test func oneThatRunsOnTopOfAnotherGoesBackThere() async {
    await #expect(processExitsWith: .success) {
      let events = try await events { log in
        let other = Coroutine { log.add("other") }
        let immediate = Coroutine.immediate {
          log.add("immediate")
          Coroutine.yield()
          log.add("immediate again")
          Coroutine.yield()
          log.add("immediate ends")
        }
        log.add("main goes on")
        try other.get()
        try immediate.get()
        log.add("main ends")
      }
      #expect(
        events == ["immediate", "main goes on", "other", "immediate again", "immediate ends", "main ends"])
    }
  }

  @Test func aJoinedChildThatYieldsGoesBackToItsJoiner() async {
    await #expect(processExitsWith: .success) {
      let events = try await events { log in
        let child = Coroutine {
          log.add("child")
          Coroutine { log.add("grandchild") }
          Coroutine.yield()
          log.add("child again")
        }
        // On top of this one, as nothing else is ready.
        try child.get()
        log.add("main")
      }
      #expect(events == ["child", "grandchild", "child again", "main"])
    }
  }

  // MARK: Which coroutines must not be kept waiting

  @Test func whatComesFromOutsideIsNotStarved() async {
    await #expect(processExitsWith: .success) {
      let (pool, flag, busy) = await twoThatYieldUntilTheFlagIsSet()
      // A coroutine that another thread launches.
      try await Coroutine(on: pool) { flag.set() }.get()
      for coroutine in busy { try await coroutine.get() }
    }
  }

  @Test func jobsAreNotStarved() async {
    await #expect(processExitsWith: .success) {
      let (pool, flag, busy) = await twoThatYieldUntilTheFlagIsSet()
      await Task(executorPreference: pool) { flag.set() }.value
      for coroutine in busy { try await coroutine.get() }
    }
  }

  @Test func timersAreNotStarved() async {
    await #expect(processExitsWith: .success) {
      let (pool, flag, busy) = await twoThatYieldUntilTheFlagIsSet()
      let sleeper = Coroutine(on: pool) {
        try Coroutine.sleep(for: .nanoseconds(1))
        flag.set()
      }
      try await sleeper.get()
      for coroutine in busy { try await coroutine.get() }
    }
  }

  @Test func aCancelIsSeen() async {
    await #expect(processExitsWith: .success) {
      recordNoTimes()
      let pool = ThreadPool(threads: 1)
      let (began, begin) = AsyncStream<Void>.makeStream()
      let busy = (0..<2).map { _ in
        Coroutine(on: pool) {
          begin.yield()
          while !Coroutine.isCancelled { Coroutine.yield() }
        }
      }
      for await _ in began.prefix(2) {}
      for coroutine in busy { try await coroutine.cancelAndJoin() }
    }
  }

  /// A yield is no point of cancellation: what ends such a loop is a look at the cancel, or a sleep of no time.
  @Test func aLoopOfYieldsOutlivesItsTimeout() async throws {
    let log = Log()
    try await serially {
      log.add(
        outcome {
          try withTimeout(.zero) {
            for _ in 0..<100 { Coroutine.yield() }
            log.add("yields")
            try Coroutine.checkCancellation()
            log.add("is not cancelled")
          }
        })
      log.add(
        outcome {
          try withTimeout(.milliseconds(1)) { while true { try Coroutine.sleep(for: .zero) } }
        })
    }
    #expect(log.all == ["yields", "timed out", "timed out"])
  }

  // MARK: What belongs to each coroutine

  @Test func bindingsStayWithTheirCoroutine() async {
    await #expect(processExitsWith: .success) {
      _ = try await events { log in
        let coroutines = (0..<4).map { index in
          Coroutine {
            for turn in 0..<100 {
              if index.isMultiple(of: 2) {
                Local.$number.withValue(index * 1000 + turn) {
                  Coroutine.yield()
                  #expect(Local.number == index * 1000 + turn)
                }
              }
              Coroutine.yield()
              #expect(Local.number == 0)
            }
          }
        }
        for coroutine in coroutines { try coroutine.get() }
      }
    }
  }

  @Test func anAccessThatIsOpenStaysWithItsCoroutine() async {
    await #expect(processExitsWith: .success) {
      _ = try await events { _ in
        let coroutines = (0..<3).map { index in
          Coroutine {
            let variable = Variable()
            for turn in 1...100 {
              Coroutine.yield()
              variable.change { $0 += 1 }
              #expect(variable.number == turn)
            }
          }
        }
        for coroutine in coroutines { try coroutine.get() }
      }
    }
  }

  @Test func aPinnedCoroutineKeepsItsThreadAmongOthers() async {
    await #expect(processExitsWith: .success) {
      _ = try await events { _ in
        let pinned = Coroutine {
          withThreadPinned {
            let thread = pthread_self()
            for _ in 0..<20 {
              Coroutine.yield()
              #expect(pthread_equal(thread, pthread_self()) != 0)
            }
          }
          // Its thread is a worker's again.
          for _ in 0..<20 { Coroutine.yield() }
        }
        let others = (0..<2).map { _ in
          Coroutine { for _ in 0..<100 { Coroutine.yield() } }
        }
        for other in others { try other.get() }
        try pinned.get()
      }
    }
  }

  @Test func aGeneratorsBodyYieldsOnBehalfOfItsConsumer() async {
    await #expect(processExitsWith: .success) {
      _ = try await events { _ in
        let sums = (0..<3).map { _ in
          Coroutine {
            let numbers = Generator<Int> { yield in
              for number in 1...100 {
                Coroutine.yield()
                try yield(number)
              }
            }
            return numbers.reduce(0, +)
          }
        }
        for sum in sums {
          let sum = try sum.get()
          #expect(sum == 5050)
        }
      }
    }
  }

  // MARK: Where it ends

  @Test func manyThatYieldAndWaitAllEnd() async {
    await #expect(processExitsWith: .success) { try await yieldAndWait(on: ThreadPool(threads: 1)) }
  }

  @Test func manyThatYieldAndWaitAndAreStolenAllEnd() async {
    await #expect(processExitsWith: .success) { try await yieldAndWait(on: ThreadPool(threads: 4)) }
  }

  /// Turns are passed on between looks that must not see one.
  @Test func aFreezeHoldsBetweenTurnsThatArePassedOn() async {
    await #expect(processExitsWith: .success) {
      recordNoTimes()
      let isOver = Flag()
      let turns = (0..<3).map { _ in Counter() }
      let pool = ThreadPool(threads: 1)
      let coroutines = turns.indices.map { index in
        Coroutine(on: pool, name: "\(index)") {
          while !isOver.isSet {
            turns[index].add()
            Coroutine.yield()
          }
        }
      }
      var seen = 0
      while seen < 200 {
        var ready: [(index: Int, turns: Int)] = []
        try Inspection.visitAll(
          last: { #expect(ready.allSatisfy { turns[$0.index].value == $0.turns }) },
          { found in
            guard let index = Int(found.name), found.state != .running else { return }
            #expect(found.state == .ready || found.state == .new)
            guard found.state == .ready else { return }
            ready.append((index, turns[index].value))
            // The stack pointer of its suspension.
            guard let stack = found.stack, let segment = found.segments.first else {
              Issue.record("the place of \(index) is unknown")
              return
            }
            #expect(stack.contains(segment.registers.stackPointer))
          })
        seen += ready.count
      }
      isOver.set()
      for coroutine in coroutines { try await coroutine.get() }
    }
  }

  @Test func theBlocksStateLiesWhereThePassStoresIt() {
    #expect(UInt(ControlBlock.stateOffset) == fieldOffset("state", in: ControlBlock.self))
  }
}

// MARK: - Helpers

/// The events of `main`, a coroutine of a serial pool, in order.
private func events(of main: @escaping @Sendable (Log) throws -> Void) async throws -> [String] {
  recordNoTimes()
  let log = Log()
  try await Coroutine(on: ThreadPool(threads: 1)) { try main(log) }.get()
  return log.all
}

private func recordNoTimes() { coroutine_record_times(false) }

/// A pool of one thread, and two coroutines that have begun to yield to each other there, until the flag is set.
private func twoThatYieldUntilTheFlagIsSet() async -> (ThreadPool, Flag, [Coroutine<Void, Never>]) {
  recordNoTimes()
  let pool = ThreadPool(threads: 1)
  let flag = Flag()
  let (began, begin) = AsyncStream<Void>.makeStream()
  let busy = (0..<2).map { _ in
    Coroutine(on: pool) {
      begin.yield()
      while !flag.isSet { Coroutine.yield() }
    }
  }
  for await _ in began.prefix(2) {}
  return (pool, flag, busy)
}

/// Some coroutines yield, some wait, and all of them end.
private func yieldAndWait(on pool: ThreadPool) async throws {
  recordNoTimes()
  let count = amount(2_000, debug: 500, sanitized: 100)
  let channel = Channel<Int>(capacity: .buffered(7))
  let sum = try await Coroutine(on: pool) {
    let senders = (0..<count).map { index in
      Coroutine {
        for turn in 0..<(index % 5) * 3 {
          Coroutine.yield()
          if turn.isMultiple(of: 4) { try channel.send(1) }
        }
        try channel.send(index)
      }
    }
    let closer = Coroutine {
      for sender in senders { try sender.get() }
      channel.close()
    }
    var sum = 0
    for number in channel.received {
      sum += number
      Coroutine.yield()
    }
    try closer.get()
    return sum
  }.get()
  let extras = (0..<count).reduce(0) { $0 + ($1 % 5 * 3 + 3) / 4 }
  #expect(sum == count * (count - 1) / 2 + extras)
}

private enum Local {
  @TaskLocal static var number = 0
}

/// A variable whose accesses the runtime tracks.
private final class Variable {
  var number = 0

  /// Other coroutines run in the middle of the access.
  func change(_ body: (inout Int) -> Void) {
    modify(&number, body)
  }

  @inline(never)
  private func modify(_ number: inout Int, _ body: (inout Int) -> Void) {
    Coroutine.yield()
    body(&number)
    Coroutine.yield()
  }
}
