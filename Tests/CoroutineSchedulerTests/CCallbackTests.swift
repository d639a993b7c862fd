import CCoroutineTests
import Coroutine
import CoroutineTestSupport
import Glibc
import Testing

/// What a callback may do on a thread that a library in C has made, and that neither Swift nor Dispatch knows.
@Suite(.ownThreads) struct CCallbackTests {
  /// What the callback gets as its `context`.
  private final class Callback: Sendable {
    let body: @Sendable () -> Void
    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
  }

  /// Runs `body` as the callback, and returns when the thread has ended. The thread drops what `body` has captured.
  private func callBack(_ body: @escaping @Sendable () -> Void) {
    var thread = pthread_t()
    let callback: @convention(c) (UnsafeMutableRawPointer?) -> Void = { context in
      Unmanaged<Callback>.fromOpaque(context!).takeRetainedValue().body()
    }
    let code = coroutine_test_call_on_thread(
      &thread, callback, Unmanaged.passRetained(Callback(body)).toOpaque())
    #expect(code == 0)
    if code == 0 { pthread_join(thread, nil) }
  }

  @Test(arguments: [true, false]) func aThreadOfCSendsResumesAndSettles(waitersComeFirst: Bool) async throws {
    for round in 0..<amount(300, sanitized: 30) {
      let (waited, buffered) = (Channel<Int>(), Channel<Int>(capacity: .buffered(1)))
      let (promise, resolver) = Promise.makePromise(of: Int.self)
      let resumption = Guarded<Resumption<Int>?>(nil)
      let kept = Gate()
      let suspended = Coroutine {
        try withSuspension { (resume: Resumption<Int>) in
          resumption.withLock { $0 = resume }
          kept.open()
        }
      }
      let others = [
        Coroutine { try waited.receive() }, Coroutine { try buffered.receive() }, Coroutine { try promise.get() },
      ]
      kept.pass()
      if waitersComeFirst {
        for waiter in others + [suspended] { while waiter.state != .suspended { sched_yield() } }
      }
      let answers = Guarded<[Bool]>([])
      callBack {
        let resume = resumption.withLock { $0.take()! }
        let sent = (try? waited.sendBlocking(round)) != nil
        let all = [
          sent, buffered.trySend(round + 1).isSent, resolver.fulfill(round + 2), resume.returning(round + 3),
        ]
        answers.withLock { $0 = all }
      }
      #expect(answers.withLock { $0 } == [true, true, true, true])
      var values: [Int] = []
      for waiter in others + [suspended] { values.append(try await waiter.get()) }
      #expect(values == [round, round + 1, round + 2, round + 3])
    }
  }

  @Test func aThreadOfCStartsCoroutinesAndWaitsForThem() {
    let value = Guarded(0)
    callBack {
      let channel = Channel<Int>()
      let sender = Coroutine { for number in 1...10 { try channel.send(number) } }
      let sum = Coroutine { try (1...10).reduce(0) { sum, _ in sum + (try channel.receive()) } }
      let result = (try? sum.getBlocking()) ?? -1
      _ = try? sender.getBlocking()
      value.withLock { $0 = result }
    }
    #expect(value.withLock { $0 } == 55)
  }

  /// A cancel lost nothing, and is no mistake of the callback's.
  @Test func afterACancelACallbackIsWithoutEffect() async throws {
    let reports = Log()
    let name = "cancelled before C called back"
    await LostErrors.observe { error, origin in
      guard origin.contains(name) else { return false }
      reports.add("\(error)")
      return true
    } during: {
      let channel = Channel<Int>(name: name)
      let (promise, resolver) = Promise.makePromise(of: Int.self, name: name)
      let resumption = Guarded<Resumption<Int>?>(nil)
      let kept = Gate()
      let suspended = Coroutine(name: name) {
        try withSuspension { (resume: Resumption<Int>) in
          resumption.withLock { $0 = resume }
          kept.open()
        }
      }
      let waiters = [
        suspended, Coroutine(name: name) { try channel.receive() }, Coroutine(name: name) { try promise.get() },
      ]
      kept.pass()
      for waiter in waiters {
        waiter.cancel()
        await #expect(throws: CancellationError.self) { try await waiter.get() }
      }
      promise.cancel()
      channel.close()
      let answers = Guarded<[Bool]>([])
      callBack {
        let resume = resumption.withLock { $0.take()! }
        let unsent = Result { try channel.sendBlocking(7) }
        let all = [
          channel.trySend(6) == .closed(6), Self.unsent(of: unsent) == 7, !resolver.fulfill(8), !resume.returning(9),
        ]
        answers.withLock { $0 = all }
      }
      #expect(answers.withLock { $0 } == [true, true, true, true])
    }
    #expect(reports.all == [])
  }

  private static func unsent(of result: Result<Void, any Error>) -> Int? {
    guard case .failure(let closed as ChannelClosed<Int>) = result else { return nil }
    return closed.unsent
  }

  /// The second call of a callback that was to come once: nothing is changed, and each handle says so once.
  @Test func aSecondCallbackAfterTheEndIsReportedOnce() async throws {
    let reports = Log()
    let name = "settled before C called back"
    try await LostErrors.observe { error, origin in
      guard origin.contains(name), error is SettledTwice else { return false }
      reports.add(origin)
      return true
    } during: {
      let (promise, resolver) = Promise.makePromise(of: Int.self, name: name)
      let resumption = Guarded<Resumption<Int>?>(nil)
      let waiter = Coroutine(name: name) { () throws -> Int in
        let first = try withSuspension { (resume: Resumption<Int>) in
          resumption.withLock { $0 = resume }
          resume.returning(1)
        }
        return first + (try promise.get())
      }
      callBack { resolver.fulfill(2) }
      let sum = try await waiter.get()
      #expect(sum == 3)
      for _ in 0..<3 {
        let answers = Guarded<[Bool]>([])
        callBack {
          let resume = resumption.withLock { $0! }
          answers.withLock { $0 = [resolver.fulfill(20), resume.returning(10)] }
        }
        #expect(answers.withLock { $0 } == [false, false])
      }
      let kept = try await promise.get()
      #expect(kept == 2)
    }
    #expect(reports.all.count == 2)
  }

  /// The thread's end drops the last handles: a waiter learns that it will not be woken.
  @Test func aThreadOfCThatForgetsItsHandlesTellsTheWaiters() async throws {
    let kept = Guarded<(resume: Resumption<Int>?, resolver: Promise<Int>.Resolver?)>((nil, nil))
    let began = Gate()
    let suspended = Coroutine {
      try withSuspension { (resume: Resumption<Int>) in
        kept.withLock { $0.resume = resume }
        began.open()
      }
    }
    func make() -> Promise<Int> {
      let (promise, resolver) = Promise.makePromise(of: Int.self)
      kept.withLock { $0.resolver = resolver }
      return promise
    }
    let promise = make()
    let waiter = Coroutine { try promise.get() }
    began.pass()
    callBack { kept.withLock { $0 = (nil, nil) } }
    await #expect(throws: SuspensionAbandoned.self) { try await suspended.get() }
    await #expect(throws: PromiseAbandoned.self) { try await waiter.get() }
  }
}
