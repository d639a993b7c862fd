import CoroutineTestSupport
import Synchronization
import Testing

@testable import Coroutine

/// Which failures a scope throws, and what becomes of those that it does not.
@Suite(.ownThreads) struct ScopeFailureTests {
  private struct Broken: Error {
    var number = 0
  }

  private struct CleanupFailed: Error {}

  // MARK: A scope that is an object

  /// In a process of its own, since the handler is the process's.
  @Test func aFailureThatNoJoinHasThrownIsReported() async {
    await #expect(processExitsWith: .success) {
      let log = Log()
      CoroutineErrors.unhandled = { error, _ in log.add("\(error)") }
      try await serially {
        let scope = CoroutineScope()
        scope.launch { throw Broken(number: 1) }
        Coroutine.yield()
        log.add("is dropped")
        withExtendedLifetime(scope) {}
      }
      #expect(log.all == ["is dropped", "Broken(number: 1)"])
    }
  }

  @Test func aFailureIsNotReportedThatSomeCodeHasBeenToldOf() async {
    await #expect(processExitsWith: .success) {
      let log = Log()
      CoroutineErrors.unhandled = { error, _ in log.add("reported: \(error)") }
      try await serially {
        let joined = CoroutineScope()
        joined.launch { throw Broken(number: 1) }
        log.add(outcome { try joined.join() })
        log.add(outcome { try joined.join() })
        let asked = CoroutineScope()
        let child = asked.launch { throw Broken(number: 2) }
        log.add(outcome { try child.get() })
        let supervised = CoroutineScope(onChildFailure: { log.add("\($0)") })
        supervised.launch { throw Broken(number: 3) }
        let cancelled = CoroutineScope()
        cancelled.launch { try Coroutine.sleep(for: .seconds(1000)) }
        Coroutine.yield()
        cancelled.cancel()
        try cancelled.join()
        withExtendedLifetime((joined, asked, supervised, cancelled)) {}
      }
      #expect(
        log.all == ["Broken(number: 1)", "Broken(number: 1)", "Broken(number: 2)", "Broken(number: 3)"])
    }
  }

  /// It fails behind the end of the join, and of the scope's last handle.
  @Test func aLateFailureIsReportedToo() async {
    await #expect(processExitsWith: .success) {
      let log = Log()
      CoroutineErrors.unhandled = { error, _ in log.add("reported: \(error)") }
      try await serially {
        let scope = CoroutineScope()
        scope.launch { do { try Coroutine.sleep(for: .seconds(1000)) } catch { throw CleanupFailed() } }
        Coroutine.yield()
        log.add(outcome { try scope.join(timeout: .zero) })
      }
      // On the same queue, behind what the scope's end has woken.
      try await serially { while log.all.count < 2 { Coroutine.yield() } }
      #expect(log.all == ["timed out", "reported: CleanupFailed()"])
    }
  }

  // MARK: Behind a cancel

  /// A body that was cancelled has nothing to tell, whether it ends first or last.
  @Test(arguments: [true, false])
  func afterACancelTheChildsFailureIsTheScopes(bodyIsFirst: Bool) async throws {
    let log = Log()
    try await serially {
      let scope = Coroutine {
        let bodyHasEnded = Channel<Void>(capacity: .buffered(1))
        try withScope { scope in
          defer { _ = bodyHasEnded.trySend(()) }
          let child = scope.launch {
            do {
              try Coroutine.sleep(for: .seconds(1000))
            } catch {
              if bodyIsFirst { withCancellationShield { try? bodyHasEnded.receive() } }
              throw CleanupFailed()
            }
          }
          do {
            try Coroutine.sleep(for: .seconds(1000))
          } catch {
            if !bodyIsFirst { withCancellationShield { try? child.join() } }
            throw error
          }
        }
      }
      Coroutine.yield()
      Coroutine.yield()
      scope.cancel()
      log.add(outcome { try scope.get() })
    }
    #expect(log.all == ["CleanupFailed()"])
  }

  // MARK: What the body waits for

  /// A child's handler runs while its siblings are cancelled: what it does must not reach the body any more.
  @Test(arguments: [true, false])
  func theBodysWaitEndsBeforeTheChildrenAreCancelled(fails: Bool) async throws {
    let log = Log()
    try await serially {
      let (answers, never) = (Channel<Int>(capacity: .buffered(1)), Channel<Void>())
      log.add(
        outcome {
          try withScope { scope in
            scope.launch {
              try withCancellationHandler {
                try never.receive()
              } onCancel: {
                _ = answers.trySend(1)
              }
            }
            scope.launch {
              guard fails else { return scope.cancel() }
              throw Broken(number: 1)
            }
            log.add(outcome { _ = try answers.receive() })
          }
        })
      log.add("\(answers.count)")
    }
    #expect(log.all.first == "cancelled")
    #expect(log.all.last == "1")
  }

  /// A body that runs sees the cancel at once. What it does then must find that the scope is cancelled, and why.
  @Test func aBodyThatSeesTheCancelFirstChangesNothingAboutIt() async throws {
    let (otherReasons, late) = (Counter(), Counter())
    try await Coroutine(on: ThreadPool(threads: 2)) {
      for _ in 0..<2000 {
        _ = outcome {
          try withScope { scope in
            let never = Channel<Void>()
            scope.launch {
              defer { if !(Coroutine.cancellationReason is Broken) { otherReasons.add() } }
              try never.receive()
            }
            scope.launch { throw Broken() }
            while !Coroutine.isCancelled {}
            scope.launch { late.add() }
            throw CancellationError()
          }
        }
      }
    }.get()
    #expect(otherReasons.value == 0)
    #expect(late.value == 0)
  }

  /// The body's own, for whatever reason: no code has cancelled it.
  @Test func aCancellationErrorOfTheBodyAloneIsItsOwn() async throws {
    let log = Log()
    try await serially {
      log.add(
        outcome {
          try withScope { scope in
            scope.launch { do { try Coroutine.sleep(for: .seconds(1000)) } catch { throw CleanupFailed() } }
            Coroutine.yield()
            throw CancellationError()
          }
        })
    }
    #expect(log.all.first?.contains("CleanupFailed") == true)
    #expect(log.all.first?.contains("CancellationError") == true)
  }
}
