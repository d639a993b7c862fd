import CCoroutine
import CoroutineTestSupport
import Glibc
import Testing

@testable import Coroutine

/// After a hundred thousand operations of every kind that were not done (fewer in debug), the runtime's own counts
/// are what they were. In a process in which nothing else runs.
@Suite(.ownThreads) struct LeakTests {
  private typealias Kind = (name: String, run: @Sendable (Int) throws -> Void)

  /// Counted until two counts agree: a single count may be wrong, as it reads its numbers one after another.
  private static var stacksInUse: Int {
    while true {
      let count = Coroutine.statistics.stacksInUse
      if Coroutine.statistics.stacksInUse == count { return count }
    }
  }

  /// Checks each kind of operation by itself, so that a kind that leaks is named.
  private static func check(_ kinds: [Kind], _ count: Int) async throws {
    let before = Coroutine.statistics
    for kind in kinds {
      try await Coroutine(name: kind.name) { try kind.run(count) }.get()
      // Coroutines that the kind did not wait for may be about to end, on another thread. A leak stays. (A single
      // look may be wrong, as it reads its numbers one after another.)
      var after = Coroutine.statistics
      let end = ContinuousClock.now + .seconds(600)
      while after != before, ContinuousClock.now < end {
        await Task.yield()
        after = Coroutine.statistics
      }
      guard before == after else { fatalError("\(kind.name): \(before) before, \(after) after") }
    }
  }

  @Test func operationsThatCameToNothingLeaveNothingBehind() async {
    await #expect(processExitsWith: .success) {
      let count = amount(100_000, debug: 5_000, sanitized: 1_000)
      try await LeakTests.check(
        [
          ("never begun", LeakTests.neverBegun), ("closed", LeakTests.closed),
          ("dropped promises", LeakTests.droppedPromises), ("abandoned suspensions", LeakTests.abandonedSuspensions),
          ("dropped generators", LeakTests.droppedGenerators), ("failed scopes", LeakTests.failedScopes),
          ("failed hops", LeakTests.failedHops), ("async code", LeakTests.cancelledAsyncCode),
          ("blocking", LeakTests.cancelledBlockingWork),
          ("asks", LeakTests.asksWithoutAnAnswer), ("async generators", LeakTests.droppedAsyncGenerators),
        ], count)
    }
  }

  /// AddressSanitizer looks for leaks when a program ends, and makes the program fail if there are any.
  @Test func whatSuspendedFramesOwnWhenTheProgramEndsIsNoLeak() async {
    await #expect(processExitsWith: .success) {
      let inbox = Channel<Int>()
      let (isWaiting, resolver) = Promise<Void>.makePromise()
      Coroutine {
        let owned = LeakTests.Owned()
        resolver.fulfill()
        owned.numbers.append(try inbox.receive())
      }
      try await isWaiting.get()
      let generator = Generator<Int> { yield in
        let owned = LeakTests.Owned()
        while true {
          try yield(owned.numbers.count)
          owned.numbers.append(1)
        }
      }
      _ = generator.next()
      LeakTests.survivor = generator
      LeakTests.inbox = inbox
    }
  }

  private final class Owned {
    var numbers = Array(0..<100)
  }

  // Used only in the process that ends.
  nonisolated(unsafe) private static var survivor: Generator<Int>?
  nonisolated(unsafe) private static var inbox: Channel<Int>?

  /// Each kind of wait: half of the waits are cancelled, and the others time out.
  @Test func waitsThatWereEndedLeaveNoWaiterInAnyQueue() async {
    await #expect(processExitsWith: .success) {
      let count = amount(50_000, debug: 2_000, sanitized: 500)
      let operations = await WaitingOperations()
      try await LeakTests.check(
        operations.all.map { operation in
          (
            operation.name,
            { count in
              try LeakTests.cancelEach(count) { try operation.wait(nil) }
              for number in 0..<count {
                // Some really wait, which takes a timer.
                let isLong = number.isMultiple(of: 1_000)
                do {
                  if operation.hasTimeout {
                    try operation.wait(isLong ? .nanoseconds(1) : .zero)
                  } else {
                    try withTimeout(isLong ? .nanoseconds(1) : .zero) { try operation.wait(nil) }
                  }
                } catch is TimeoutError {}
              }
              guard try operation.isUntouched() else { fatalError("a waiter is left at \(operation.name)") }
            }
          )
        }, count)
      try await operations.finish()
    }
  }

  /// The same for tasks.
  @Test func waitsOfTasksThatWereEndedLeaveNoWaiterInAnyQueue() async {
    await #expect(processExitsWith: .success) {
      let count = amount(6_000, debug: 2_000, sanitized: 500)
      let operations = await WaitingOperations()
      try await LeakTests.check(
        operations.all.compactMap { operation in
          guard let wait = operation.waitInTask else { return nil }
          return (
            operation.name,
            { count in
              for _ in 0..<count / 100 {
                let tasks = (0..<100).map { number in
                  // Every other one is cancelled. Of the others, one really waits.
                  Task { try await wait(number.isMultiple(of: 2) ? nil : number == 1 ? .nanoseconds(1) : .zero) }
                }
                Coroutine.yield()
                for (number, task) in tasks.enumerated() where number.isMultiple(of: 2) || !operation.hasTimeout {
                  task.cancel()
                }
                for task in tasks {
                  do { try task.get() } catch is CancellationError {} catch is TimeoutError {}
                }
              }
              guard try operation.isUntouched() else { fatalError("a waiter is left at \(operation.name)") }
            }
          )
        }, count)
      try await operations.finish()
    }
  }

  /// A hundred thousand of each kind of generator, measured by memory that the runtime does not count. If each left
  /// the smallest possible piece of memory, that would be three times the limit. In three parts, of which the one
  /// that leaves the least counts: a leak is there each time.
  @Test(.enabled(if: !coroutine_sanitizers_active(), "a sanitizer keeps what is freed"))
  func aHundredThousandGeneratorsDroppedHalfWayLeaveNoMemory() async {
    await #expect(processExitsWith: .success) {
      let count = amount(34_000, debug: 5_000, sanitized: 0)
      let kinds: [(name: String, run: @Sendable (Int) throws -> Void)] = [
        ("one by one", LeakTests.droppedGenerators), ("many at once", LeakTests.generatorsDroppedTogether),
        ("delegating", LeakTests.droppedDelegations), ("two-way", LeakTests.droppedTwoWay),
        ("inside a timeout", LeakTests.droppedInATimeout),
      ]
      for kind in kinds {
        let grown = try await Coroutine(name: kind.name) { () throws -> Int in
          try kind.run(1_000)
          let stacks = LeakTests.stacksInUse
          let growths = try (0..<3).map { _ in
            let before = residentBytes()
            try kind.run(count)
            return residentBytes() - before
          }
          guard LeakTests.stacksInUse == stacks else { fatalError("\(kind.name): stacks are left behind") }
          return growths.min()!
        }.get()
        guard grown < 10 * count else { fatalError("\(kind.name): \(grown) bytes more") }
      }
    }
  }

  /// Stacks become spare, and are freed with their pools, during a count.
  @Test func nothingIsEverCountedAsLessThanNone() async throws {
    let isOver = Channel<Void>()
    let watcher = Coroutine(on: ThreadPool(threads: 1)) { () -> Bool in
      var least = 0
      while case .empty = isOver.tryReceive() { least = min(least, Coroutine.statistics.stacksInUse) }
      return least == 0
    }
    for _ in 0..<amount(2_000, debug: 500, sanitized: 200) {
      try await Coroutine(on: ThreadPool(threads: 2)) { Coroutine.yield() }.get()
    }
    isOver.close()
    #expect(try await watcher.get())
  }

  /// Many at a time, each in a coroutine that is cancelled while it waits.
  @Sendable private static func cancelEach(_ count: Int, _ wait: @escaping @Sendable () throws -> Void) throws {
    for _ in 0..<count / 100 {
      let waiting = (0..<100).map { _ in Coroutine { try wait() } }
      Coroutine.yield()
      for coroutine in waiting { coroutine.cancel() }
      for coroutine in waiting { try coroutine.join() }
    }
  }

  @Sendable private static func neverBegun(_ count: Int) throws {
    for _ in 0..<count {
      let coroutine = Coroutine {}
      coroutine.cancel()
      try coroutine.join()
    }
  }

  @Sendable private static func closed(_ count: Int) throws {
    for _ in 0..<count / 10 {
      let channel = Channel<Int>(capacity: .buffered(1))
      let waiting = (0..<10).map { number in Coroutine { try channel.send(number) } }
      Coroutine.yield()
      channel.close()
      for coroutine in waiting { try coroutine.join() }
    }
  }

  @Sendable private static func droppedPromises(_ count: Int) throws {
    for _ in 0..<count {
      let promise = Promise<Int> { _ in }
      do { _ = try promise.get() } catch is PromiseAbandoned {}
    }
  }

  @Sendable private static func abandonedSuspensions(_ count: Int) throws {
    for _ in 0..<count {
      do { try withSuspension { (_: Resumption<Void>) in } } catch is SuspensionAbandoned {}
    }
  }

  @Sendable private static func droppedGenerators(_ count: Int) throws {
    for _ in 0..<count {
      let numbers = Generator<Int> { yield in
        for number in 0... { try yield(number) }
      }
      _ = numbers.next()
    }
  }

  @Sendable private static func generatorsDroppedTogether(_ count: Int) throws {
    for _ in 0..<count / 1000 {
      let all = (0..<1000).map { first in
        Generator<[Int]> { yield in
          for number in first... { try yield([number]) }
        }
      }
      for numbers in all { _ = numbers.next() }
    }
  }

  @Sendable private static func droppedDelegations(_ count: Int) throws {
    for _ in 0..<count / 2 {
      let numbers = Generator<Int> { yield in
        try yield(from: Generator { yield in for number in 0... { try yield(number) } })
      }
      _ = (numbers.next(), numbers.next())
    }
  }

  @Sendable private static func droppedTwoWay(_ count: Int) throws {
    for _ in 0..<count {
      let echo = TwoWayGenerator<String, String, Void> { yield in
        var text = ""
        while true { text = try yield(text + " of more than fifteen bytes") }
      }
      _ = try (echo.next(""), echo.next("an input"))
    }
  }

  @Sendable private static func droppedInATimeout(_ count: Int) throws {
    for _ in 0..<count {
      let numbers = Generator<Int> { yield in
        try withTimeout(.seconds(1_000)) {
          for number in 0... { try yield(number) }
        }
      }
      _ = (numbers.next(), numbers.next())
    }
  }

  @Sendable private static func failedScopes(_ count: Int) throws {
    struct Failure: Error {}
    let never = Channel<Int>()
    for _ in 0..<count / 10 {
      do {
        try withScope { scope in
          for _ in 0..<9 { scope.launch { _ = try never.receive() } }
          scope.launch { throw Failure() }
        }
      } catch is Failure {}
    }
  }

  @Sendable private static func failedHops(_ count: Int) throws {
    struct Failure: Error {}
    let queue = ThreadPool(threads: 1)
    for _ in 0..<count / 10 {
      do { try on(queue) { throw Failure() } } catch is Failure {}
    }
  }

  @Sendable private static func cancelledAsyncCode(_ count: Int) throws {
    try cancelEach(count / 10) { try Coroutine.await { try await Task.sleep(for: .seconds(1_000_000)) } }
  }

  /// Some of the work begins, most of it waits for a thread.
  @Sendable private static func cancelledBlockingWork(_ count: Int) throws {
    let (threads, gate) = (BlockingPool(threadLimit: 2, idleTime: .zero), Gate())
    try cancelEach(count) { try blocking(on: threads) { gate.pass() } }
    gate.open()
    try blocking(on: threads) {}
  }

  /// Asks that get no answer: cancelled, timed out, dropped, or sent to an actor that has ended.
  @Sendable private static func asksWithoutAnAnswer(_ count: Int) throws {
    let actor = MessageActor<Reply<Int>?>(on: .pool) { mailbox in
      var kept: [Reply<Int>] = []
      for reply in mailbox { if let reply { kept.append(reply) } else { kept = [] } }
    }
    try cancelEach(count / 2) { _ = try actor.ask { .some($0) } }
    for _ in 0..<count / 4 {
      do { _ = try actor.ask(timeout: .zero) { .some($0) } } catch is TimeoutError {}
    }
    for _ in 0..<count / 100 {
      let askers = (0..<10).map { _ in Coroutine { do { _ = try actor.ask { .some($0) } } catch is ReplyDropped {} } }
      Coroutine.yield()
      for asker in askers { while asker.state == .ready { Coroutine.yield() } }
      try actor.tell(nil)
      for asker in askers { asker.cancel() }
      for asker in askers { try asker.join() }
    }
    actor.cancel()
    try? actor.join()
    for _ in 0..<count / 4 {
      do { _ = try actor.ask { .some($0) } } catch is ActorStopped {}
    }
  }

  @Sendable private static func droppedAsyncGenerators(_ count: Int) throws {
    for _ in 0..<count / 10 {
      let numbers = AsyncGenerator<Int> { yield in for number in 0... { try yield(number) } }
      _ = try numbers.next()
    }
  }
}
