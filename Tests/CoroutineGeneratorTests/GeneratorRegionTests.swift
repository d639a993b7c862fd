import CoroutineTestSupport
import Synchronization
import Testing

@testable import Coroutine

/// Timeouts, shields, scopes and cancellation handlers that are open where a generator's body yields. They are the
/// body's alone.
@Suite(.ownThreads) struct GeneratorRegionTests {
  /// Whether a cancellation has ended `wait`. (Instead of `#expect(throws:)`, which inside closures crashes the
  /// compiler of Swift 6.3.)
  private static func wasCancelled(_ wait: () throws -> Void) -> Bool {
    do {
      try wait()
      return false
    } catch {
      return error is CancellationError
    }
  }

  /// What the calling code sees of its own cancellation: by the flag, and by a short wait.
  private static var seen: String {
    let waits = !wasCancelled { try Coroutine.sleep(for: .nanoseconds(1)) }
    return Coroutine.isCancelled ? (waits ? "cancelled, but waits" : "cancelled") : (waits ? "goes on" : "waits not")
  }

  @Test func whatABodyHasOpenAtAYieldDoesNotReachItsConsumer() async throws {
    let log = Log()
    try await Coroutine {
      let timed = Generator<Int> { yield in
        try withTimeout(.zero) {
          try yield(1)
          log.add("timed body: \(Self.seen)")
        }
      }
      _ = timed.next()
      log.add("its consumer: \(Self.seen)")
      _ = timed.next()
      let shielded = Generator<Int> { yield in
        try withCancellationShield {
          try yield(1)
          log.add("shielded body: \(Self.seen)")
        }
      }
      try withTimeout(.zero) {
        _ = shielded.next()
        log.add("its consumer: \(Self.seen)")
        _ = shielded.next()
      }
    }.get()
    #expect(
      log.all == [
        "its consumer: goes on", "timed body: cancelled",
        "its consumer: cancelled", "shielded body: goes on",
      ])
  }

  @Test func aTimeoutOfASuspendedBodyLeavesTheConsumersWaitAlone() async throws {
    let log = Log()
    let sum = try await Coroutine { () throws -> Int in
      let (fired, resolver) = Promise.makePromise(of: Void.self)
      let numbers = ThrowingGenerator<Int> { yield in
        try withTimeout(.milliseconds(1)) {
          try withCancellationHandler {
            try yield(1)
            log.add("body: \(Self.seen)")
            // A body that ignores the timeout goes on.
            try yield(2)
            log.add("body: \(Self.seen)")
            try Coroutine.checkCancellation()
          } onCancel: {
            log.add("handler")
            resolver.fulfill(())
          }
        }
      }
      var sum = try numbers.next() ?? 0
      // The body's timer fires during this wait.
      try fired.get()
      log.add("consumer: \(Self.seen)")
      sum += try numbers.next() ?? 0
      log.add("consumer: \(Self.seen)")
      do {
        _ = try numbers.next()
      } catch {
        log.add("\(type(of: error)), consumer: \(Self.seen)")
      }
      return sum
    }.get()
    #expect(sum == 3)
    #expect(
      log.all == [
        "handler", "consumer: goes on", "body: cancelled", "consumer: goes on", "body: cancelled",
        "TimeoutError, consumer: goes on",
      ])
  }

  @Test func aConsumersCancellationReachesTheBodyWhereItGoesOnInsideOfIt() async throws {
    let log = Log()
    try await Coroutine {
      let numbers = Generator<Int> { yield in
        try withTimeout(.seconds(1000)) {
          var number = 0
          while true {
            try yield(number)
            number += 1
            log.add("body: \(Self.seen)")
          }
        }
      }
      _ = numbers.next()
      try withTimeout(.zero) { _ = numbers.next() }
      _ = numbers.next()
      // The body's own deadline is on top of it all the while.
      try withTimeout(.zero) {
        log.add("consumer: \(Self.seen)")
        withCancellationShield { _ = numbers.next() }
        _ = numbers.next()
      }
    }.get()
    #expect(
      log.all == [
        "body: cancelled", "body: goes on", "consumer: cancelled", "body: goes on", "body: cancelled",
      ])
  }

  @Test func aHandlerOfTheBodyRunsOnceWhenItGoesOnCancelled() async throws {
    let log = Log()
    try await Coroutine {
      func make(_ name: String) -> Generator<Int> {
        Generator<Int> { yield in
          try withCancellationHandler {
            var number = 0
            while true {
              try yield(number)
              number += 1
              log.add("\(name) goes on")
            }
          } onCancel: {
            log.add("\(name)'s handler")
          }
        }
      }
      let first = make("first")
      let second = make("second")
      let inner = Generator<Int> { yield in
        try withCancellationShield {
          try withCancellationHandler {
            try yield(1)
            log.add("inner goes on")
          } onCancel: {
            log.add("inner's handler")
          }
        }
      }
      _ = (first.next(), second.next(), inner.next())
      try withTimeout(.zero) {
        log.add("cancelled")
        _ = first.next()
        _ = first.next()
        _ = inner.next()
      }
      // It was cancelled before, and no longer is.
      _ = second.next()
    }.get()
    #expect(
      log.all == [
        "cancelled", "first's handler", "first goes on", "first goes on", "inner goes on", "second goes on",
      ])
  }

  @Test func aScopeOfTheBodyIsCancelledWhereverTheBodyIs() async throws {
    let log = Log()
    try await Coroutine {
      let (started, gate) = (Channel<Void>(), Channel<Void>())
      nonisolated(unsafe) var current: CoroutineScope?
      let numbers = ThrowingGenerator<Int> { yield in
        try withScope { scope in
          current = scope
          scope.launch {
            try started.send(())
            defer { log.add("child ends") }
            try gate.receive()
          }
          try yield(1)
          log.add("body: \(Self.seen)")
          try yield(2)
        }
      }
      let first = try numbers.next()
      try started.receive()
      log.add("cancel after \(first ?? 0)")
      current?.cancel()
      log.add("consumer: \(Self.seen)")
      let second = try numbers.next()
      log.add("consumer has \(second ?? 0): \(Self.seen)")
      let third = try numbers.next()
      log.add("consumer has \(third ?? 0): \(Self.seen)")
    }.get()
    // The child is cancelled at once, and ends on a thread of its own.
    #expect(
      log.all.filter { $0 != "child ends" } == [
        "cancel after 1", "consumer: goes on", "body: cancelled", "consumer has 2: goes on",
        "consumer has 0: goes on",
      ])
    #expect(log.all.filter { $0 == "child ends" }.count == 1)
  }

  @Test func aGeneratorIsMovedToAnotherCoroutineWithItsRegions() async throws {
    let log = Log()
    nonisolated(unsafe) var scope: CoroutineScope?
    nonisolated(unsafe) let numbers = ThrowingGenerator<Int> { yield in
      try withTimeout(.seconds(1000)) {
        try withScope { opened in
          scope = opened
          try yield(1)
          log.add("second: \(Self.seen)")
          try yield(2)
          log.add("third, cancelled itself: \(Self.seen)")
          try yield(3)
          log.add("fourth, its scope cancelled: \(Self.seen)")
          opened.launch { log.add("child") }
        }
        log.add("behind the scope: \(Self.seen)")
      }
      try yield(4)
    }
    let first = Coroutine { try numbers.next() }
    #expect(try await first.get() == 1)
    // It has ended: its cancel does not reach the body.
    first.cancel()
    let second = Coroutine { try numbers.next() }
    #expect(try await second.get() == 2)
    let third = Coroutine.immediate { @Sendable () throws -> Int? in
      try withTimeout(.zero) { try numbers.next() }
    }
    #expect(try await third.get() == 3)
    scope?.cancel()
    let fourth = Coroutine { () throws -> Int? in
      defer { log.add("fourth: \(Self.seen)") }
      return try numbers.next()
    }
    #expect(try await fourth.get() == 4)
    #expect(
      log.all == [
        "second: goes on", "third, cancelled itself: cancelled", "fourth, its scope cancelled: cancelled",
        "behind the scope: goes on", "fourth: goes on",
      ])
  }

  @Test func outsideOfCoroutinesABodyIsNeverCancelled() async throws {
    let log = Log()
    nonisolated(unsafe) var scope: CoroutineScope?
    nonisolated(unsafe) let numbers = ThrowingGenerator<Int> { yield in
      try withScope { opened in
        scope = opened
        for number in 1...4 {
          try yield(number)
          log.add("\(number): \(Coroutine.isCancelled)")
        }
      }
      try withCancellationShield {
        try yield(5)
      }
    }
    let inCoroutine = { try await Coroutine { try numbers.next() }.get() }
    let first = try await inCoroutine()
    scope?.cancel()
    let second = PlainThread { try? numbers.next() }.join()
    let third = try await Task { try numbers.next() }.value
    // Back in a coroutine, the body is cancelled as it was.
    let fourth = try await inCoroutine()
    let fifth = PlainThread { try? numbers.next() }.join()
    let end = try await inCoroutine()
    #expect([first, second, third, fourth, fifth, end] == [1, 2, 3, 4, 5, nil])
    #expect(log.all == ["1: false", "2: false", "3: true", "4: false"])
  }

  @Test func nestedGeneratorsKeepTheirRegionsApart() async throws {
    let log = Log()
    try await Coroutine {
      let inner = Generator<Int> { yield in
        try withCancellationShield {
          try yield(1)
          log.add("inner: \(Self.seen)")
          try yield(2)
          log.add("inner: \(Self.seen)")
        }
      }
      let outer = Generator<Int> { yield in
        try withTimeout(.zero) {
          for number in inner {
            log.add("outer \(number): \(Self.seen)")
            try yield(number)
          }
          log.add("outer: \(Self.seen)")
        }
      }
      while let number = outer.next() { log.add("consumer \(number): \(Self.seen)") }
      log.add("consumer: \(Self.seen)")
    }.get()
    #expect(
      log.all == [
        "outer 1: cancelled", "consumer 1: goes on", "inner: goes on",
        "outer 2: cancelled", "consumer 2: goes on", "inner: goes on",
        "outer: cancelled", "consumer: goes on",
      ])
  }

  @Test func theOuterOnesYieldFromInsideTheInnerOneTakesBothRegionsAlong() async throws {
    let log = Log()
    nonisolated(unsafe) let outer = Generator<Int> { yield in
      let inner = Generator<Never> { _ in
        try withCancellationShield {
          try yield(1)
          log.add("inside the shield: \(Self.seen)")
        }
        log.add("inside the timeout: \(Self.seen)")
        try yield(2)
        log.add("inside the timeout: \(Self.seen)")
      }
      try withTimeout(.zero) {
        while inner.next() != nil {}
      }
      try yield(3)
    }
    // First only the inner body has a scope open, and then only the outer one; each time in another coroutine.
    for _ in 0..<3 {
      let seen = try await Coroutine { () -> String in
        let number = outer.next() ?? 0
        return "consumer \(number): \(Self.seen)"
      }.get()
      log.add(seen)
    }
    #expect(
      log.all == [
        "consumer 1: goes on", "inside the shield: goes on", "inside the timeout: cancelled", "consumer 2: goes on",
        "inside the timeout: cancelled", "consumer 3: goes on",
      ])
  }

  @Test func aBodyThatIsDroppedInItsRegionsUnwindsInThem() async throws {
    let log = Log()
    try await Coroutine {
      let (started, gate) = (Channel<Void>(), Channel<Void>())
      func consume() {
        let numbers = Generator<Int> { yield in
          try withCancellationShield {
            try withScope { scope in
              scope.launch {
                try started.send(())
                defer { log.add("child ends") }
                try gate.receive()
              }
              defer { log.add("body unwinds: \(Self.seen)") }
              try yield(1)
            }
          }
        }
        _ = numbers.next()
        withCancellationShield { try? started.receive() }
        log.add("dropped by a consumer that is: \(Self.seen)")
      }
      try withTimeout(.zero) { consume() }
      log.add("consumer: \(Self.seen)")
    }.get()
    #expect(
      log.all == [
        "dropped by a consumer that is: cancelled", "body unwinds: goes on", "child ends", "consumer: goes on",
      ])
  }

  @Test func bodiesThatAreDroppedInATimeoutLeaveNothingBehind() async throws {
    final class Witness: Sendable {}
    weak var gone: Witness?
    do {
      let witness = Witness()
      gone = witness
      try await Coroutine {
        for _ in 0..<100 {
          let numbers = Generator<Int> { yield in
            try withTimeout(.seconds(1000)) {
              try withCancellationHandler {
                try yield(1)
              } onCancel: {
                withExtendedLifetime(witness) {}
              }
            }
          }
          _ = numbers.next()
        }
      }.get()
    }
    #expect(gone == nil)
  }

  @Test func whatABodyYieldsFromRunsInsideOfItsRegions() async throws {
    let log = Log()
    try await Coroutine {
      let leaf = Generator<Int> { yield in
        try withCancellationShield { try yield(1) }
        log.add("leaf: \(Self.seen)")
        try yield(2)
        log.add("leaf: \(Self.seen)")
      }
      let middle = Generator<Int> { yield in
        try withTimeout(.zero) { try yield(from: leaf) }
        log.add("middle: \(Self.seen)")
      }
      let top = Generator<Int> { yield in try yield(from: middle) }
      while let number = top.next() { log.add("consumer \(number): \(Self.seen)") }
    }.get()
    #expect(
      log.all == [
        "consumer 1: goes on", "leaf: cancelled", "consumer 2: goes on", "leaf: cancelled", "middle: goes on",
      ])
  }

  @Test func aDelegatesRegionsAreItsOwn() async throws {
    let log = Log()
    try await Coroutine {
      let leaf = Generator<Int> { yield in
        try withTimeout(.zero) {
          try yield(1)
          log.add("leaf: \(Self.seen)")
        }
      }
      let top = Generator<Int> { yield in
        try yield(from: leaf)
        log.add("top: \(Self.seen)")
      }
      while let number = top.next() { log.add("consumer \(number): \(Self.seen)") }
    }.get()
    #expect(log.all == ["consumer 1: goes on", "leaf: cancelled", "top: goes on"])
  }

  @Test func anAsyncGeneratorsDeadlineEndsItsYieldAndNotTheConsumersWait() async throws {
    let log = Log()
    let clock = ManualClock()
    let (isOver, resolver) = Promise<Void>.makePromise()
    let numbers = AsyncGenerator<Int> { yield in
      do {
        try withTimeout(until: clock.now.advanced(by: .seconds(1)), clock: clock) {
          defer { log.add("body: \(Coroutine.isCancelled)") }
          try yield(1)
        }
      } catch {
        log.add("\(type(of: error))")
      }
      resolver.fulfill(())
      try yield(2)
    }
    try await Coroutine {
      while let number = try numbers.next() {
        log.add("consumer \(number): \(Self.seen)")
        // The body is inside its `yield`, or about to wait in it. The next element is asked for only after that.
        clock.opened.continuation.yield()
        try isOver.get()
      }
    }.get()
    #expect(log.all.filter { $0.hasPrefix("consumer") } == ["consumer 1: goes on", "consumer 2: goes on"])
    #expect(log.all.filter { !$0.hasPrefix("consumer") } == ["body: true", "TimeoutError"])
  }

  @Test func behindItsRegionsABodyIsOnThePlainWayAgain() async throws {
    let waysAreRight = try await Coroutine { () -> [Bool] in
      let numbers = Generator<Int> { yield in
        try yield(1)
        try withCancellationShield { try yield(2) }
        try yield(3)
        withCancellationShield {}
        try yield(4)
        try yield(5)
      }
      var isPlain: [Bool] = []
      while numbers.next() != nil { isPlain.append(numbers.storage.plainBlock == numbers.storage.block) }
      return isPlain
    }.get()
    // Never under a sanitizer, which must be told of each switch.
    #expect(waysAreRight == [true, false, true, true, true] || waysAreRight == [false, false, false, false, false])
  }

  /// The end of the body's operation waits for the handler, but not inside of it.
  @Test func aHandlerMayEndTheGeneratorWhoseBodyHasIt() async throws {
    let log = Log()
    try await Coroutine {
      let (opened, resolver) = Promise.makePromise(of: CoroutineScope.self)
      // The handler reads it on this coroutine, which cancels.
      nonisolated(unsafe) var numbers: ThrowingGenerator<Int>?
      numbers = ThrowingGenerator<Int> { yield in
        try withScope { scope in
          try withCancellationHandler {
            resolver.fulfill(scope)
            try yield(1)
          } onCancel: {
            log.add("handler")
            numbers?.cancel()
            log.add("ended")
          }
        }
      }
      _ = try numbers?.next()
      try opened.get().cancel()
      log.add("goes on")
    }.get()
    #expect(log.all == ["handler", "ended", "goes on"])
  }

  @Test func aCancelRacesWithTheMovesOfTheRegion() async throws {
    for _ in 0..<200 {
      let handled = Guarded(0)
      let (opened, resolver) = Promise.makePromise(of: CoroutineScope.self)
      let consumer = Coroutine { () throws -> Bool in
        let numbers = ThrowingGenerator<Int> { yield in
          try withScope { scope in
            try withCancellationHandler {
              resolver.fulfill(scope)
              var number = 0
              while !Coroutine.isCancelled {
                try yield(number)
                number += 1
              }
            } onCancel: {
              handled.withLock { $0 += 1 }
            }
          }
        }
        var turns = 0
        while try numbers.next() != nil {
          if Coroutine.isCancelled { return false }
          // The pool may have only one thread. The task that cancels may get it only by other coroutines' yields.
          turns += 1
          if turns % 64 == 0 { Coroutine.yield() }
        }
        return true
      }
      try await opened.get().cancel()
      #expect(try await consumer.get())
      #expect(handled.withLock { $0 } == 1)
    }
  }

  /// A child of the body's scope asks for the deadlines around it, while the body goes from one coroutine to another. (It is
  /// ThreadSanitizer that sees a look without the lock.)
  @Test func aLookAtTheDeadlinesRacesWithTheMovesOfTheRegion() async throws {
    let (isOver, missed) = (Holder(Atomic<Bool>(false)), Holder(Atomic<Int>(0)))
    let count = amount(20_000, sanitized: 2000)
    nonisolated(unsafe) let numbers = ThrowingGenerator<Int> { yield in
      try withTimeout(.seconds(1000)) {
        try withScope { scope in
          scope.launch {
            while !isOver.value.load(ordering: .acquiring) {
              let isMissing = Coroutine.timeRemaining == nil
              if isMissing, !isOver.value.load(ordering: .acquiring) { missed.value.add(1, ordering: .relaxed) }
              Coroutine.yield()
            }
          }
          for number in 0..<count { try yield(number) }
          isOver.value.store(true, ordering: .releasing)
        }
      }
    }
    let turns = [Semaphore(permits: 1), Semaphore(permits: 0)]
    let consumers = (0..<2).map { index in
      Coroutine { () throws -> Int in
        var taken = 0
        while true {
          try turns[index].acquire()
          let isNumber = try numbers.next() != nil
          turns[1 - index].release()
          guard isNumber else { return taken }
          taken += 1
        }
      }
    }
    let taken = [try await consumers[0].get(), try await consumers[1].get()]
    #expect(taken == [count / 2, count / 2])
    #expect(missed.value.load(ordering: .relaxed) == 0)
  }

  @Test func aScopeWithChildrenThatIsLeftOutsideOfCoroutinesTrapsByName() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      nonisolated(unsafe) let numbers = Generator<Int> { yield in
        try withScope(name: "pages") { scope in
          let (begun, gate) = (Channel<Void>(), Channel<Void>())
          scope.launch {
            try begun.send(())
            withCancellationShield { try? gate.receive() }
          }
          try begun.receive()  // one that is cancelled before does not run at all
          try yield(1)
        }
      }
      _ = try await Coroutine { numbers.next() }.get()
      numbers.cancel()
    }
    #expect(standardError(of: result).contains("pages"))
    #expect(standardError(of: result).contains("ends outside of coroutines, before its children"))
  }

  @Test func aBodyThatVisitsAnotherSchedulerIsNotMovedMeanwhile() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      nonisolated(unsafe) let numbers = Generator<Int> { yield in
        // Otherwise the compiler refuses this.
        nonisolated(unsafe) let yield = yield
        try on(.pool) { try yield(1) }
      }
      _ = try await Coroutine { numbers.next() }.get()
      _ = try await Coroutine { numbers.next() }.get()
    }
    #expect(standardError(of: result).contains("a generator inside of it was moved to another coroutine"))
  }
}
