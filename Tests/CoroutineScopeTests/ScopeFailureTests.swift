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
