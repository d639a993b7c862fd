import CoroutineTestSupport
import Dispatch
import Testing

@testable import Coroutine

@Suite(.ownThreads) struct ScopeTests {
  private struct First: Error {}
  private struct Second: Error {}
  private struct Third: Error {}

  /// Runs `body` in a coroutine on a serial queue, so that the order of effects is fixed.
  private func run<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
    try await Coroutine(on: DispatchQueue(label: "serial"), body).get()
  }

  private func error(of body: () throws -> Void) -> (any Error)? {
    do {
      try body()
      return nil
    } catch {
      return error
    }
  }

  @Test func aScopeSaysWhetherItIsCancelled() async throws {
    let seen = try await Coroutine {
      try withScope(name: "session") { scope in
        let before = scope.isCancelled
        scope.cancel()
        let late = scope.launch { 1 }
        let isNeverBegun = withCancellationShield { (try? late.get()) == nil }
        return [scope.name == "session", !before, scope.isCancelled, isNeverBegun]
      }
    }.get()
    #expect(seen == [true, true, true, true])
  }

  @Test func childrenHaveEndedWhenTheScopeReturns() async throws {
    let log = Log()
    let value = try await run { () -> Int in
      let value = try withScope { scope -> Int in
        scope.launch {
          Coroutine.yield()
          log.add("first child")
        }
        scope.launch {
          scope.launch { log.add("grandchild") }
          log.add("second child")
        }
        log.add("body")
        return 7
      }
      log.add("after")
      return value
    }
    #expect(value == 7)
    #expect(log.all == ["body", "second child", "first child", "grandchild", "after"])
  }

  @Test func theFirstFailureCancelsTheSiblingsAndTheBodyAndIsThrown() async throws {
    let log = Log()
    let never = Channel<Int>()
    let thrown = try await run { [self] in
      let thrown = error {
        try withScope { scope in
          scope.launch {
            defer { log.add("sibling unwound, cancelled by \(type(of: Coroutine.cancellationReason!))") }
            _ = try never.receive()
          }
          scope.launch { throw First() }
          defer { log.add("body unwound") }
          _ = try never.receive()
        }
      }
      log.add("after, cancelled: \(Coroutine.isCancelled)")
      return "\(type(of: thrown!))"
    }
    #expect(thrown == "First")
    #expect(log.all == ["sibling unwound, cancelled by First", "body unwound", "after, cancelled: false"])
  }

  @Test func otherFailuresAreAttachedInTheirOrder() async throws {
    let thrown = try await run { [self] () -> [String] in
      let thrown = error {
        try withScope { scope in
          // All have begun when the first one fails, and none of them waits for anything that would throw.
          scope.launch {
            Coroutine.yield()
            throw First()
          }
          scope.launch {
            Coroutine.yield()
            throw Second()
          }
          scope.launch {
            Coroutine.yield()
            throw Third()
          }
        }
      }
      guard let thrown = thrown as? ScopeError else { return [] }
      return ([thrown.first] + thrown.others).map { "\(type(of: $0))" }
    }
    #expect(thrown == ["First", "Second", "Third"])
  }

  /// Errors that are equal are two nevertheless: which child failed may be the only difference.
  @Test func failuresThatSayTheSameAreAllAttached() async throws {
    let thrown = try await run { [self] () -> [String] in
      let thrown = error {
        try withScope { scope in
          let child = scope.launch { throw First() }
          _ = error { try child.get() }
          throw First()
        }
      }
      let bodyFirst = error {
        try withScope { scope in
          for _ in 1...2 {
            scope.launch {
              // It has begun when the body fails, and ignores the cancel.
              Coroutine.yield()
              throw First()
            }
          }
          Coroutine.yield()
          throw First()
        }
      }
      return [thrown, bodyFirst].map { thrown in "\(thrown!)" }
    }
    #expect(
      thrown == ["First() (and beside it: First())", "First() (and beside it: First(), First())"])
  }

  @Test func anErrorThatAnotherChildPassesOnIsOneFailure() async throws {
    let thrown = try await run { [self] () -> String in
      let thrown = error {
        try withScope { scope in
          let first = scope.launch {
            Coroutine.yield()
            throw First()
          }
          for _ in 1...2 { scope.launch { try first.get() } }
        }
      }
      return "\(thrown!)"
    }
    #expect(thrown == "First()")
  }

  @Test func anErrorIsTheSameHoweverItIsPassedOn() async throws {
    let thrown = try await run { [self] () -> String in
      let thrown = error {
        try withScope { scope in
          let child = scope.launch { throw First() }
          do {
            try withTimeout(.seconds(1_000)) { try withCancellationShield { try child.get() } }
          } catch {
            throw error
          }
        }
      }
      return "\(thrown!)"
    }
    #expect(thrown == "First()")
    await #expect(throws: First.self) {
      try await withScope { scope in
        let child = scope.launch { throw First() }
        _ = try await Task { try await values(of: [child, child]) }.value
      }
    }
  }

  @Test func aBodyThatPassesAChildsErrorOnThrowsItOnce() async throws {
    let thrown = try await run { [self] () -> String in
      let thrown = error {
        try withScope { scope in
          let child = scope.launch { throw First() }
          try child.get()
        }
      }
      return "\(thrown!)"
    }
    #expect(thrown == "First()")
  }

  @Test func aBodyThatThrowsCancelsTheChildrenAndWaitsForThem() async throws {
    let log = Log()
    let never = Channel<Int>()
    let thrown = try await run { [self] in
      let thrown = error {
        try withScope { scope in
          scope.launch {
            defer { log.add("child unwound") }
            _ = try never.receive()
          }
          Coroutine.yield()
          throw Second()
        }
      }
      log.add("after")
      return thrown is Second
    }
    #expect(thrown)
    #expect(log.all == ["child unwound", "after"])
  }

  @Test func cancellingTheOwnerCancelsTheChildren() async throws {
    let log = Log()
    let never = Channel<Int>()
    let queue = DispatchQueue(label: "serial")
    let owner = Coroutine(on: queue) {
      try withScope { scope in
        for number in 1...2 {
          scope.launch {
            defer { log.add("child \(number) unwound") }
            _ = try never.receive()
          }
        }
      }
    }
    try await Coroutine(on: queue) {}.get()
    try await Coroutine(on: queue) {}.get()
    owner.cancel(reason: Third())
    await #expect(throws: CancellationError.self) { try await owner.get() }
    #expect(log.all == ["child 1 unwound", "child 2 unwound"])
  }

  /// Each handler runs inside the cancel, those of the children before those of what is around their scope.
  @Test func aCancelReachesTheInnermostFirstAndTheOldestChildFirst() async throws {
    let log = Log()
    let never = Channel<Int>()
    try await run {
      @Sendable func wait(_ name: String) throws {
        defer { log.add("\(name) unwound") }
        try withCancellationHandler {
          _ = try never.receive()
        } onCancel: {
          log.add("\(name) told")
        }
      }
      let outer = Coroutine {
        try withCancellationHandler {
          try withScope { scope in
            scope.launch {
              try withCancellationHandler {
                try withScope { inner in
                  for name in ["a", "b"] { inner.launch { try wait(name) } }
                }
              } onCancel: {
                log.add("around a and b told")
              }
            }
            scope.launch { try wait("c") }
          }
        } onCancel: {
          log.add("outer told")
        }
      }
      for _ in 0..<4 { Coroutine.yield() }
      outer.cancel()
      log.add("cancelled")
      try? outer.join()
    }
    #expect(
      log.all == [
        "a told", "b told", "around a and b told", "c told", "outer told", "cancelled", "a unwound", "b unwound",
        "c unwound",
      ])
  }

  /// In a process of its own, which an overflow of the canceller's stack ends.
  @Test func aCancelReachesTheEndOfALongChainOfScopes() async {
    await #expect(processExitsWith: .success) {
      let (isThere, never) = (Channel<Void>(), Channel<Void>())
      @Sendable func nest(_ depth: Int) throws {
        try withScope { scope in
          if depth > 0 {
            scope.launch { try nest(depth - 1) }
          } else {
            try isThere.send(())
            try never.receive()
          }
        }
      }
      let outermost = Coroutine { try nest(2_000) }
      try await isThere.receive()
      try await Coroutine { outermost.cancel() }.get()
      await #expect(throws: CancellationError.self) { try await outermost.get() }
    }
  }

  /// In a process of its own, which an overflow of the asking coroutine's stack ends.
  @Test func aDeadlineIsSeenFromTheEndOfALongChainOfScopes() async {
    await #expect(processExitsWith: .success) {
      @Sendable func nest(_ depth: Int) throws -> Duration? {
        if depth == 0 { return Coroutine.timeRemaining }
        return try withScope { scope in try scope.launch { try nest(depth - 1) }.get() }
      }
      let left = try await Coroutine { try withTimeout(.seconds(1000)) { try nest(2_000) } }.get()
      #expect(left.map { $0 > .seconds(900) && $0 <= .seconds(1000) } == true)
    }
  }

  @Test func aCancelledScopeEndsWithWhatItsBodyReturns() async throws {
    let never = Channel<Int>()
    let value = try await run { () -> Int in
      try withScope { scope in
        let child = scope.launch { try never.receive() }
        Coroutine.yield()
        scope.cancel()
        // Launched into a cancelled scope, so it never runs.
        let late = scope.launch { 1 }
        let outcomes = withCancellationShield { [try? child.get(), try? late.get()] }
        return outcomes == [nil, nil] ? 1 : 0
      }
    }
    #expect(value == 1)
  }

  @Test func aChildThatIsCancelledAloneIsNoFailure() async throws {
    let never = Channel<Int>()
    try await run {
      try withScope { scope in
        let child = scope.launch { _ = try never.receive() }
        Coroutine.yield()
        child.cancel()
      }
    }
  }

  @Test func scopesNestAndAFailureInsideIsTheOuterOnesBodysError() async throws {
    let log = Log()
    let never = Channel<Int>()
    let thrown = try await run { [self] () -> Bool in
      let thrown = error {
        try withScope(name: "outer") { outer in
          outer.launch {
            defer { log.add("outer child unwound") }
            _ = try never.receive()
          }
          Coroutine.yield()
          _ = try withScope(name: "inner") { inner in
            inner.launch { throw First() }
          }
        }
      }
      return thrown is First
    }
    #expect(thrown)
    #expect(log.all == ["outer child unwound"])
  }

  @Test func asyncCodeHasScopesToo() async throws {
    let log = Log()
    let queue = DispatchQueue(label: "serial")
    let value = try await withScope { scope in
      scope.launch(on: queue) { log.add("child") }
      await Task.yield()
      return 3
    }
    #expect(value == 3)
    #expect(log.all == ["child"])

    let never = Channel<Int>()
    await #expect(throws: First.self) {
      try await withScope { scope in
        scope.launch { _ = try never.receive() }
        scope.launch { throw First() }
      }
    }

    // All that it does is to launch: the child may be left unused.
    try await withScope { scope in scope.launch(on: queue) { log.add("only") } }
    #expect(log.all == ["child", "only"])
    let child = try await withScope { scope in scope.launch(on: queue) { 5 } }
    #expect(child.isFinished)
    try await Coroutine {
      try withScope { scope in scope.launch(on: queue) { log.add("last") } }
      log.add("done")
    }.get()
    #expect(log.all == ["child", "only", "last", "done"])
  }

  @Test func aTaskThatIsCancelledWhileItWaitsForTheChildrenLearnsOfIt() async throws {
    let begun = Channel<Void>(capacity: .buffered(1))
    let never = Channel<Int>()
    let task = Task {
      try await withScope { scope in
        scope.launch {
          try begun.send(())
          _ = try never.receive()
        }
        return 3
      }
    }
    try await begun.receive()
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
  }

  /// The cancel counts even if the scope does not wait for them at the end.
  @Test func aCancelBeforeTheChildrenHaveEndedIsThrownInTheEnd() async throws {
    let never = Channel<Int>()
    @Sendable func begin(_ scope: CoroutineScope, _ begun: Channel<Void>) -> Coroutine<Void, any Error> {
      scope.launch {
        try begun.send(())
        _ = try never.receive()
      }
    }
    let (begun, begunInTask) = (Channel<Void>(), Channel<Void>())
    let coroutine = Coroutine { () throws -> Int in
      try withScope { scope in
        let child = begin(scope, begun)
        while !child.isFinished { Coroutine.yield() }
        return 3
      }
    }
    let task = Task {
      try await withScope { scope in
        let child = begin(scope, begunInTask)
        while !child.isFinished { await Task.yield() }
        return 3
      }
    }
    try await begun.receive()
    coroutine.cancel()
    try await begunInTask.receive()
    task.cancel()
    await #expect(throws: CancellationError.self) { try await coroutine.get() }
    await #expect(throws: CancellationError.self) { try await task.value }
  }

  @Test func aCancelBeforeTheFirstLaunchIsThrownInTheEnd() async throws {
    let (log, count) = (Log(), 50)
    let coroutine = Coroutine { () throws -> Int in
      var timeouts = 0
      for _ in 0..<count {
        do {
          try withTimeout(.zero) {
            try withScope { scope in
              let child = scope.launch { log.add("child") }
              // In half of the rounds the child has ended before the scope looks.
              while timeouts < count / 2, !child.isFinished { Coroutine.yield() }
            }
          }
        } catch is TimeoutError { timeouts += 1 }
      }
      return timeouts
    }
    #expect(try await coroutine.get() == count)
    #expect(log.all == [])
  }

  @Test func launchingAfterTheEndTrapsByName() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      try await Coroutine {
        let kept = try withScope(name: "short") { scope in scope }
        kept.launch {}
      }.get()
    }
    #expect(standardError(of: result).contains("was launched in scope \"short\", which has ended"))
  }

  @Test func tenThousandChildrenFailingAtOnceLeaveNothingBehind() async throws {
    let thrown = try await Coroutine { [self] () -> Bool in
      let thrown = error {
        try withScope { scope in
          for number in 0..<10_000 {
            scope.launch { if number.isMultiple(of: 2) { throw First() } }
          }
        }
      }
      return thrown is ScopeError || thrown is First
    }.get()
    #expect(thrown)
  }

}
