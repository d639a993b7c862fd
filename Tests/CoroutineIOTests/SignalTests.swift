import CoroutineIO
import CoroutineTestSupport
import Glibc
import Synchronization
import Testing

@testable import Coroutine

@Suite(.ownThreads)
struct SignalTests {
  @Test func allThatAskForASignalGetIt() async {
    await #expect(processExitsWith: .success) {
      try runInExitTest {
        let both = try Signals.received(SIGTERM, SIGINT)
        let one = try Signals.received(SIGTERM)
        kill(getpid(), SIGTERM)
        guard try both.receive() == SIGTERM, try one.receive() == SIGTERM else { exit(2) }
        kill(getpid(), SIGINT)
        guard try both.receive() == SIGINT, case .empty = one.tryReceive() else { exit(3) }
      }
      exit(0)
    }
  }

  @Test func aClosedChannelGivesTheSignalBack() async {
    await #expect(processExitsWith: .signal(SIGTERM)) {
      try runInExitTest {
        let first = try Signals.received(SIGTERM)
        let second = try Signals.received(SIGTERM)
        first.close()
        kill(getpid(), SIGTERM)
        guard try second.receive() == SIGTERM else { exit(2) }
        second.close()
        kill(getpid(), SIGTERM)
        while true { try Coroutine.sleep(for: .milliseconds(10)) }
      }
    }
  }

  @Test func aClosedChannelGivesTheSignalBackAtOnce() async {
    await #expect(processExitsWith: .success) {
      signal(SIGUSR1, SIG_IGN)
      let first = try Signals.received(SIGUSR1, SIGUSR1)
      let second = try Signals.received(SIGUSR1)
      first.close()
      if isIgnored() { exit(2) }
      second.close()
      if !isIgnored() { exit(3) }
      exit(0)
    }
  }

  @Test func aHandlerThatOtherCodeInstallsStaysWhenTheChannelCloses() async {
    await #expect(processExitsWith: .success) {
      let first = try Signals.received(SIGUSR1)
      signal(SIGUSR1, SIG_IGN)
      first.close()
      if !isIgnored() { exit(2) }
      // A new subscription gets it all the same, beside another one, too.
      let second = try Signals.received(SIGUSR1)
      signal(SIGUSR1, SIG_IGN)
      try runInExitTest {
        let third = try Signals.received(SIGUSR1)
        kill(getpid(), SIGUSR1)
        guard try second.receive() == SIGUSR1, try third.receive() == SIGUSR1 else { exit(3) }
      }
      exit(0)
    }
  }

  /// It has dealt with a signal that the library's handler, which it calls, then finds without a channel.
  @Test func aHandlerThatCallsOnIsCalledOnceForEachSignal() async {
    await #expect(processExitsWith: .success) {
      try runInExitTest {
        let (channel, fence) = (try Signals.received(SIGUSR1), try Signals.received(SIGUSR2))
        callOnAtUserSignal()
        channel.close()
        for count in 1...3 {
          kill(getpid(), SIGUSR1)
          kill(getpid(), SIGUSR2)
          // Signals are delivered in the order of their numbers.
          guard try fence.receive() == SIGUSR2, callsOn.load(ordering: .relaxed) == count else { exit(2) }
        }
      }
      exit(0)
    }
  }

  /// By a second subscription the library's handler is the first again, and knows the other one as that of before.
  @Test(.disabled(if: StackSupply.sanitizersActive, "a sanitizer's locks are not free in a child"))
  func inAChildHandlersThatCallEachOtherEnd() async {
    await #expect(processExitsWith: .success) {
      try runInExitTest {
        let first = try Signals.received(SIGUSR1)
        callOnAtUserSignal()
        let second = try Signals.received(SIGUSR1)
        let end = Child {
          var set = sigset_t()
          sigemptyset(&set)
          sigaddset(&set, SIGUSR1)
          sigprocmask(SIG_UNBLOCK, &set, nil)
          kill(getpid(), SIGUSR1)
          return 0
        }.end
        guard end == .killed(SIGUSR1) else { exit(2) }
        withExtendedLifetime((first, second)) {}
      }
      exit(0)
    }
  }

  /// As a library does that has saved it while the channel was open, and ends after that.
  @Test func aHandlerThatOtherCodePutsBackKeepsNoSignal() async {
    await #expect(processExitsWith: .signal(SIGTERM)) {
      alarm(60)
      try runInExitTest {
        let channel = try Signals.received(SIGTERM)
        var saved = sigaction()
        sigaction(SIGTERM, nil, &saved)
        channel.close()
        sigaction(SIGTERM, &saved, nil)
        kill(getpid(), SIGTERM)
        while true { try Coroutine.sleep(for: .milliseconds(10)) }
      }
    }
  }

  @Test func aHandlerThatWasPutBackIsNoFormerEffect() async {
    await #expect(processExitsWith: .success) {
      alarm(60)
      signal(SIGUSR1, SIG_IGN)
      try runInExitTest {
        let first = try Signals.received(SIGUSR1)
        var saved = sigaction()
        sigaction(SIGUSR1, nil, &saved)
        first.close()
        sigaction(SIGUSR1, &saved, nil)
        let second = try Signals.received(SIGUSR1)
        kill(getpid(), SIGUSR1)
        guard try second.receive() == SIGUSR1 else { exit(2) }
        second.close()
        if !isIgnored() { exit(3) }
      }
      exit(0)
    }
  }

  @Test func oneCanAskForASignalAgain() async {
    await #expect(processExitsWith: .success) {
      signal(SIGUSR1, SIG_IGN)
      try runInExitTest {
        for _ in 0..<3 {
          let channel = try Signals.received(SIGUSR1)
          kill(getpid(), SIGUSR1)
          guard try channel.receive() == SIGUSR1 else { exit(2) }
          channel.close()
          // Ignored again, at the latest with this signal.
          kill(getpid(), SIGUSR1)
        }
      }
      exit(0)
    }
  }

  @Test func aRefusedSubscriptionChangesNothing() async {
    await #expect(processExitsWith: .signal(SIGTERM)) {
      try runInExitTest {
        // The C library keeps 32 for itself.
        for _ in 0..<16 {
          guard (try? Signals.received(SIGTERM, 32)) == nil else { exit(2) }
        }
        kill(getpid(), SIGTERM)
        while true { try Coroutine.sleep(for: .milliseconds(10)) }
      }
    }
  }

  @Test(.disabled(if: StackSupply.sanitizersActive, "a sanitizer's locks are not free in a child"))
  func inAChildByForkASignalHasItsFormerEffect() async {
    await #expect(processExitsWith: .success) {
      try runInExitTest {
        let stop = try Signals.received(SIGTERM)
        let end = Child {
          var set = sigset_t()
          sigemptyset(&set)
          sigaddset(&set, SIGTERM)
          sigprocmask(SIG_UNBLOCK, &set, nil)
          kill(getpid(), SIGTERM)
          return 0
        }.end
        guard end == .killed(SIGTERM), case .empty = stop.tryReceive() else { exit(2) }
        kill(getpid(), SIGTERM)
        guard try stop.receive() == SIGTERM else { exit(3) }
      }
      exit(0)
    }
  }

  @Test func aFloodIsNoLoss() async {
    await #expect(processExitsWith: .success) {
      try runInExitTest {
        let flood = try Signals.received(SIGUSR1)
        let last = try Signals.received(SIGUSR2)
        for _ in 0..<100_000 { kill(getpid(), SIGUSR1) }
        kill(getpid(), SIGUSR2)
        guard try last.receive() == SIGUSR2, try flood.receive() == SIGUSR1 else { exit(2) }
      }
      exit(0)
    }
  }

  @Test func whatIsNoSignalIsRefused() {
    #expect(throws: IOError.self) { try Signals.received(0) }
    #expect(throws: IOError.self) { try Signals.received(1000) }
  }

  @Test func whatCannotBeCaughtTraps() async {
    await #expect(processExitsWith: .failure) { _ = try Signals.received(SIGKILL) }
    await #expect(processExitsWith: .failure) { _ = try Signals.received(SIGSEGV) }
  }
}

/// Whether SIGUSR1 is.
private let callsOn = Atomic<Int>(0)
/// Written before the handler is there.
nonisolated(unsafe) private var handlerBefore: sighandler_t?

/// Installs a handler of SIGUSR1 that counts, and calls that of before.
private func callOnAtUserSignal() {
  callsOn.store(0, ordering: .relaxed)
  handlerBefore = signal(SIGUSR1, SIG_IGN)
  signal(SIGUSR1) { number in
    callsOn.add(1, ordering: .relaxed)
    handlerBefore?(number)
  }
}

private func isIgnored() -> Bool {
  var action = sigaction()
  sigaction(SIGUSR1, nil, &action)
  // SIG_IGN is a number, and no function that could be compared.
  return unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self) == 1
}
