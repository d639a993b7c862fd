import CoroutineTestSupport
import Dispatch
import Synchronization
import Testing

@testable import Coroutine

/// Scopes whose children fail alone, limited scopes, scopes as objects, and children that report when they are ready.
@Suite(.ownThreads) struct ScopeKindsTests {
  private struct Broken: Error {
    var number = 0
  }

  // MARK: Failing alone

  @Test func aChildThatFailsAloneConcernsTheHandlerOnly() async throws {
    let log = Log()
    try await serially {
      let numbers = Channel<Int>()
      let result = try withScope(onChildFailure: { log.add("failed: \($0)") }) { scope in
        let failing = scope.launch { throw Broken(number: 1) }
        let sibling = scope.launch { try numbers.receive() }
        scope.launch { throw CancellationError() }
        Coroutine.yield()
        log.add(outcome { try failing.get() })
        try numbers.send(7)
        return try sibling.get()
      }
      log.add("\(result)")
    }
    #expect(log.all == ["failed: Broken(number: 1)", "failed: CancellationError()", "Broken(number: 1)", "7"])
  }

  @Test func theScopeEndsBehindItsLastHandler() async throws {
    let handled = Atomic<Int>(0)
    let count = amount(200, sanitized: 20)
    try await Coroutine {
      for round in 1...count {
        try withScope(onChildFailure: { _ in handled.add(1, ordering: .relaxed) }) { scope in
          for _ in 0..<3 { scope.launch { throw Broken() } }
        }
        #expect(handled.load(ordering: .relaxed) == 3 * round)
      }
    }.get()
  }

  @Test func anErrorOfTheBodyStillCancelsTheChildren() async throws {
    let log = Log()
    let never = Channel<Int>()
    try await serially {
      log.add(
        outcome {
          try withScope(onChildFailure: { log.add("failed: \($0)") }) { scope in
            scope.launch { log.add(outcome { _ = try never.receive() }) }
            Coroutine.yield()
            throw Broken(number: 2)
          }
        })
    }
    #expect(log.all == ["cancelled", "Broken(number: 2)"])
  }

  // MARK: Limited

  @Test func noMoreChildrenRunThanTheLimitAndTheOthersStartInOrder() async throws {
    let log = Log()
    try await serially {
      try withScope(limit: 2) { scope in
        for number in 0..<5 {
          scope.launch {
            log.add("\(number) in")
            Coroutine.yield()
            log.add("\(number) out")
          }
        }
        log.add("launched")
      }
    }
    #expect(
      log.all == [
        "launched", "0 in", "1 in", "0 out", "1 out", "2 in", "3 in", "2 out", "3 out", "4 in", "4 out",
      ])
  }

  @Test func aChildThatIsCancelledInTheQueueEndsAtOnceAndTakesNoPlace() async throws {
    let log = Log()
    try await serially {
      let release = Channel<Void>()
      try withScope(limit: 1) { scope in
        scope.launch { try release.receive() }
        let queued = (0..<3).map { number in scope.launch { log.add("ran \(number)") } }
        Coroutine.yield()
        log.add("\(queued[0].state)")
        queued[0].cancel()
        log.add(outcome { try queued[0].get() })
        log.add("\(queued[1].isFinished)")
        try release.send(())
        try queued[2].get()
      }
    }
    #expect(log.all == ["ready", "cancelled", "false", "ran 1", "ran 2"])
  }

  @Test func startDoesNotLetOneInTheQueuePassTheOthers() async throws {
    let log = Log()
    try await serially {
      let release = Channel<Void>()
      try withScope(limit: 1) { scope in
        scope.launch {
          try release.receive()
          log.add("first")
        }
        let queued = scope.launch { log.add("second") }
        log.add("\(queued.start())")
        Coroutine.yield()
        Coroutine.yield()
        try release.send(())
      }
    }
    #expect(log.all == ["false", "first", "second"])
  }

  private struct Weak: Sendable {
    // Written once, before it is shared.
    nonisolated(unsafe) weak var core: CoroutineCore?
  }

  @Test func aFullScopeDoesNotKeepThoseThatWereCancelledInTheQueue() async throws {
    let log = Log()
    let isKept = try await serially {
      let release = Channel<Void>()
      return try withScope(limit: 1) { scope -> [Bool] in
        scope.launch { try release.receive() }
        let children = (0..<10).map { number in
          let child = scope.launch { log.add("ran \(number)") }
          if number % 3 != 0 { child.cancel() }
          return Weak(core: child.storage)
        }
        Coroutine.yield()
        let isKept = children.map { $0.core != nil }
        // They take the places of others in the queue.
        for number in 10..<13 { scope.launch { log.add("ran \(number)") } }
        try release.send(())
        return isKept
      }
    }
    #expect(isKept == (0..<10).map { $0 % 3 == 0 })
    #expect(log.all == [0, 3, 6, 9, 10, 11, 12].map { "ran \($0)" })
  }

  @Test func aFailureEndsThoseInTheQueueToo() async throws {
    let log = Log()
    try await serially {
      log.add(
        outcome {
          try withScope(limit: 1) { scope in
            scope.launch { throw Broken(number: 3) }
            for _ in 0..<3 { scope.launch { log.add("ran") } }
          }
        })
    }
    #expect(log.all == ["Broken(number: 3)"])
  }

  private final class Load: Sendable {
    let running = Atomic<Int>(0)
    let most = Atomic<Int>(0)

    func run() {
      let now = running.add(1, ordering: .relaxed).newValue
      var before = most.load(ordering: .relaxed)
      while before < now {
        let (isExchanged, found) = most.compareExchange(expected: before, desired: now, ordering: .relaxed)
        before = isExchanged ? now : found
      }
      Coroutine.yield()
      running.subtract(1, ordering: .relaxed)
    }
  }

  @Test func manyChildrenOnManyThreadsKeepToTheLimit() async throws {
    let load = Load()
    let count = amount(5_000, sanitized: 500)
    try await Coroutine {
      try withScope(limit: 3) { scope in
        for number in 0..<count {
          let child = scope.launch { load.run() }
          if number.isMultiple(of: 7) { child.cancel() }
        }
      }
    }.get()
    #expect(load.running.load(ordering: .relaxed) == 0 && 1...3 ~= load.most.load(ordering: .relaxed))
  }

  @Test func aLimitOfNothingTraps() async {
    let exit = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      try await Coroutine { try withScope(name: "s", limit: 0) { _ in } }.get()
    }
    #expect(standardError(of: exit).contains("at least 1 child of scope \"s\" has to run, not 0"))
  }

  // MARK: As an object

  @Test func aScopeAsAnObjectIsJoinedAndCancelledByItsOwner() async throws {
    let log = Log()
    let never = Channel<Int>()
    try await serially {
      let scope = CoroutineScope(name: "session")
      scope.launch { log.add("first") }
      try scope.join()
      scope.launch { log.add(outcome { _ = try never.receive() }) }
      let joiners = (0..<2).map { _ in Coroutine { log.add(outcome { try scope.join() }) } }
      Coroutine.yield()
      log.add("\(joiners[0].suspension?.waitsFor ?? "")")
      log.add(outcome { try scope.join(timeout: .zero) })
      joiners[1].cancel()
      Coroutine.yield()
      scope.cancel()
      for joiner in joiners { try joiner.get() }
      let late = scope.launch { log.add("ran late") }
      log.add(outcome { try late.get() })
    }
    #expect(
      log.all == [
        "first", "the children of scope \"session\"", "timed out", "cancelled", "cancelled", "done", "cancelled",
      ])
  }

  @Test func aThreadJoinsAScopeAndGetsTheFailure() async throws {
    let go = Channel<Int>()
    let scope = CoroutineScope(name: "session")
    scope.launch { if try go.receive() == 1 { throw Broken() } }
    let early = PlainThread { Result { try scope.joinBlocking(timeout: .milliseconds(1)) } }
    #expect(throws: TimeoutError.self) { try early.join().get() }
    let joiner = PlainThread { Result { try scope.joinBlocking() } }
    try await go.send(1)
    #expect(throws: Broken.self) { try joiner.join().get() }
    let trap = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      @Sendable func join(_ scope: CoroutineScope) throws { try scope.joinBlocking() }
      try await Coroutine { try join(CoroutineScope()) }.get()
    }
    #expect(standardError(of: trap).contains("would block its whole thread: use join()"))
    // One that was never started is not waited for.
    try await MainActor.run {
      let scope = CoroutineScope()
      _ = scope.launch(start: .lazy) { @MainActor in }
      try scope.joinBlocking()
    }
    let onlyHere = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      try await MainActor.run {
        let scope = CoroutineScope()
        scope.launch(name: "here") { @MainActor in }
        try scope.joinBlocking()
      }
    }
    #expect(standardError(of: onlyHere).contains("\"here\" runs: it would wait for ever"))
  }

  @Test func theChildrenAreCancelledWithTheLastHandle() async throws {
    let log = Log()
    let never = Channel<Int>()
    try await serially {
      func launch() -> Coroutine<Void, any Error> {
        let scope = CoroutineScope()
        return scope.launch { log.add(outcome { _ = try never.receive() }) }
      }
      let child = launch()
      try? child.get()
      log.add("\(child.isCancelled)")
    }
    // Cancelled before it had begun.
    #expect(log.all == ["true"])
  }

  @Test func aChildThatWaitsIsUnwoundWithTheLastHandle() async throws {
    let log = Log()
    let never = Channel<Int>()
    try await serially {
      var scope: CoroutineScope? = CoroutineScope()
      let child = scope?.launch {
        defer { log.add("unwound") }
        log.add(outcome { _ = try never.receive() })
      }
      Coroutine.yield()
      scope = nil
      log.add("gone")
      try child?.join()
    }
    #expect(log.all == ["gone", "cancelled", "unwound"])
  }

  /// To the scope it is a child that has failed: the child was not cancelled, what it waited for was.
  @Test func aPromiseThatAnotherCancelsFailsTheChildThatWaitsForIt() async throws {
    let log = Log()
    let never = Channel<Int>()
    try await serially {
      let (promise, resolver) = Promise.makePromise(of: Int.self)
      log.add(
        outcome {
          try withScope { scope in
            scope.launch { _ = try promise.get() }
            scope.launch { log.add("sibling: " + outcome { _ = try never.receive() }) }
            Coroutine.yield()
            promise.cancel()
          }
        })
      _ = resolver
    }
    #expect(log.all == ["sibling: cancelled", "cancelled"])
  }

  @Test func aFailureIsThrownByJoinAndCancelsTheOthers() async throws {
    let never = Channel<Int>()
    let scope = CoroutineScope()
    scope.launch { throw Broken(number: 4) }
    let sibling = scope.launch { _ = try never.receive() }
    let error = await #expect(throws: Broken.self) { try await scope.join() }
    #expect(error?.number == 4 && sibling.isCancelled)
    let alone = CoroutineScope(onChildFailure: { _ in })
    alone.launch { throw Broken() }
    let other = alone.launch { 1 }
    try await alone.join()
    #expect(try await other.get() == 1)
  }

  @Test func aScopeThatIsDroppedWhileItsChildrenEndIsThereForTheLast() async throws {
    for _ in 0..<amount(1_000, sanitized: 100) {
      func launch() -> [Coroutine<Void, Never>] {
        let scope = CoroutineScope(limit: 2)
        return (0..<4).map { _ in scope.launch { Coroutine.yield() } }
      }
      for child in launch() { _ = try? await child.get() }
    }
  }

  // MARK: Ready

  @Test func aStartReturnsWhatTheChildSaysAndTheChildGoesOn() async throws {
    let log = Log()
    try await serially {
      try withScope { scope in
        let port = try scope.start(name: "server") { (ready: ReadySignal<Int>) in
          log.add("begins")
          Coroutine.yield()
          ready(8080)
          ready(8081)
          log.add("goes on")
        }
        log.add("port \(port)")
      }
      log.add("end")
    }
    #expect(
      log.all == ["begins", "goes on", "port 8080", "end"] || log.all == ["begins", "port 8080", "goes on", "end"])
  }

  @Test func aStartedChildWithoutAStackFailsTheStartOnly() async throws {
    let log = Log()
    let numbers = Channel<Int>()
    try await serially {
      try withScope { scope in
        let sibling = scope.launch { log.add("the sibling gets \(try numbers.receive())") }
        log.add("\(failure { try scope.start(stackSize: 0) { (_: ReadySignal<Void>) in } }.contains("stack"))")
        try numbers.send(7)
        try sibling.get()
      }
    }
    #expect(log.all == ["true", "the sibling gets 7"])
  }

  @Test func aChildThatFailsBeforeItIsReadyFailsTheStartOnly() async throws {
    let log = Log()
    let numbers = Channel<Int>()
    try await serially {
      try withScope { scope in
        let sibling = scope.launch { log.add("the sibling gets \(try numbers.receive())") }
        log.add(outcome { _ = try scope.start { (_: ReadySignal<Int>) in throw Broken(number: 5) } })
        log.add(outcome { try scope.start { (_: ReadySignal<Void>) in } })
        try numbers.send(7)
        try sibling.get()
      }
      log.add(
        outcome {
          try withScope { scope in
            try scope.start { ready in
              ready()
              throw Broken(number: 6)
            }
          }
        })
    }
    #expect(
      log.all == [
        "Broken(number: 5)", "the child has ended without having said that it is ready", "the sibling gets 7",
        "Broken(number: 6)",
      ])
  }

  @Test func aChildOfTheMainActorRunsThereAndSaysThatItIsReady() async throws {
    let isThere = try await Coroutine {
      try withScope { scope in
        try scope.start { @MainActor (ready: ReadySignal<Bool>) in
          MainActor.preconditionIsolated()
          ready(true)
        }
      }
    }.get()
    #expect(isThere)
    let queue = DispatchQueue(label: "children")
    let isOnQueue = try await Coroutine {
      try withScope { scope in
        try scope.start(on: queue) { (ready: ReadySignal<Bool>) in
          dispatchPrecondition(condition: .onQueue(queue))
          ready(true)
        }
      }
    }.get()
    #expect(isOnQueue)
  }

  @Test func aStartWhoseChildIsCancelledBeforeItsTurnIsCancelled() async throws {
    let log = Log()
    let never = Channel<Int>()
    try await serially {
      let scope = CoroutineScope(limit: 1)
      scope.launch { _ = try? never.receive() }
      let starter = Coroutine {
        try scope.start { (ready: ReadySignal<Void>) in
          log.add("begins")
          _ = try never.receive()
          ready()
        }
      }
      Coroutine.yield()
      scope.cancel()
      log.add(outcome { try starter.get() })
    }
    #expect(log.all == ["cancelled"])
  }

  @Test func aStarterThatIsCancelledCancelsTheChild() async throws {
    let log = Log()
    let never = Channel<Int>()
    try await serially {
      let starter = Coroutine {
        try withScope { scope in
          try scope.start { (_: ReadySignal<Void>) in log.add(outcome { _ = try never.receive() }) }
        }
      }
      Coroutine.yield()
      Coroutine.yield()
      log.add("\(starter.suspension?.waitsFor ?? "")")
      starter.cancel()
      log.add(outcome { try starter.get() })
      // The scope is cancelled already. The child begins, and reports that it is ready.
      log.add(
        outcome {
          try withScope { scope in
            scope.cancel()
            try withCancellationShield { try scope.start { (ready: ReadySignal<Void>) in ready() } }
          }
        })
    }
    #expect(log.all == ["a child to be ready", "cancelled", "cancelled", "cancelled"])
  }
  @Test func anErrorThatACancelledStarterDoesNotThrowIsOneOfTheScope() async throws {
    let log = Log()
    try await serially {
      let goOn = Channel<Void>()
      let scope = CoroutineScope(onChildFailure: { log.add("failed: \($0)") })
      let starter = Coroutine {
        try scope.start { (_: ReadySignal<Void>) in
          try withCancellationShield { try goOn.receive() }
          throw Broken(number: 8)
        }
      }
      Coroutine.yield()
      Coroutine.yield()
      starter.cancel()
      try goOn.send(())
      log.add(outcome { try starter.get() })
      try scope.join()
    }
    #expect(log.all == ["failed: Broken(number: 8)", "cancelled"])
  }

  /// What the child had taken is free again: the starter may try once more.
  @Test(arguments: [false, true]) func aStarterThatIsCancelledWaitsForItsChildsEnd(isTask: Bool) async throws {
    let (log, never) = (Log(), Channel<Int>())
    let (begun, unwinding) = (Promise<Void>.makePromise(), Promise<Void>.makePromise())
    let goOn = Channel<Void>()
    let body: @Sendable (ReadySignal<Void>) throws -> Void = { _ in
      begun.resolver.fulfill()
      defer {
        unwinding.resolver.fulfill()
        withCancellationShield { try? goOn.receive() }
        log.add("unwound")
      }
      _ = try never.receive()
    }
    let scope = CoroutineScope()
    if isTask {
      let starter = Task { try await scope.start(body) }
      try await begun.promise.get()
      starter.cancel()
      try await unwinding.promise.get()
      try await goOn.send(())
      await #expect(throws: CancellationError.self) { try await starter.value }
    } else {
      let starter = Coroutine { try scope.start(body) }
      try await begun.promise.get()
      starter.cancel()
      try await unwinding.promise.get()
      try await goOn.send(())
      await #expect(throws: CancellationError.self) { try await starter.get() }
    }
    log.add("started")
    #expect(log.all == ["unwound", "started"])
    try await scope.join()
  }

  /// Its scheduler may never come to it.
  @Test func aStarterThatIsCancelledDoesNotWaitForAChildThatHasNotBegun() async throws {
    let (log, held) = (Log(), HeldScheduler())
    try await serially {
      try withScope { scope in
        let starter = Coroutine { try scope.start(on: held) { (ready: ReadySignal<Void>) in ready() } }
        Coroutine.yield()
        starter.cancel()
        log.add(outcome { try starter.get() })
        held.run()
      }
    }
    #expect(log.all == ["cancelled"])
  }

  @Test func aChildThatJoinsItsScopeTrapsByName() async {
    let exit = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let scope = CoroutineScope(name: "s")
      try await scope.launch(name: "c") { try scope.join(timeout: .seconds(1)) }.get()
    }
    #expect(standardError(of: exit).contains("is a child of scope \"s\", and would wait for its own end"))
  }

  // MARK: The children

  @Test func itTellsWhichChildrenHaveNotEnded() async throws {
    let log = Log()
    try await serially {
      let never = Channel<Int>()
      try withScope(limit: 2) { scope in
        for name in ["a", "b", "c"] {
          scope.launch(name: name) {
            defer { log.add("\(name) ends") }
            _ = try never.receive()
          }
        }
        let done = scope.launch(name: "d") {}
        Coroutine.yield()
        log.add("\(scope.children.map(\.name)) \(scope.children.map(\.state))")
        // The last one waits for a slot: it begins when two have ended.
        for child in scope.children.prefix(2) { child.cancel() }
        try done.get()
        log.add("\(scope.children.map(\.name))")
        // It goes on, and may launch more.
        scope.launch(name: "e") { log.add("e runs") }
        try scope.children.last?.join()
        for child in scope.children { child.cancel() }
        for child in scope.children { try child.join() }
        log.add("\(scope.children.count)")
      }
    }
    #expect(
      log.all == [
        #"["a", "b", "c", "d"] \#([CoroutineState.suspended, .suspended, .ready, .ready])"#,
        "a ends", "b ends", #"["c"]"#, "e runs", "c ends", "0",
      ])
  }

  @Test func childrenAreToldOfWhileTheyEnd() async throws {
    let scope = CoroutineScope()
    let count = amount(2000, sanitized: 200)
    let watcher = Coroutine(on: .pool) {
      var most = 0
      while !Coroutine.isCancelled {
        most = max(most, scope.children.count)
        for child in scope.children.prefix(1) { child.cancel() }
        Coroutine.yield()
      }
      return most
    }
    for _ in 0..<count { scope.launch(on: .pool) { Coroutine.yield() } }
    try await scope.join()
    watcher.cancel()
    #expect(try await watcher.get() <= count)
    #expect(scope.children.isEmpty)
  }
}
