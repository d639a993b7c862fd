import Context
import Coroutine
import CoroutineTestSupport
import Dispatch
import Foundation
import Testing

/// What coobjc's actors do, and what these do better.
@Suite(.ownThreads) struct ActorTests {
  private enum Counting: Sendable {
    case increment, decrement
    case get(Reply<Int>)
  }

  private struct Failure: Error, Equatable {}

  /// The last handle goes while the actor makes another one.
  @Test func anActorThatHasAHandleOfItsOwnGoesOn() async throws {
    for _ in 0..<amount(1000, sanitized: 200) {
      let told = Channel<Bool>(capacity: .buffered(1))
      do {
        let actor = MessageActor<Int> { mailbox in
          for message in mailbox where message == 1 {
            let me = mailbox.actor
            Coroutine { told.trySend((try? me.tell(2)) != nil) }
          }
        }
        try await actor.tell(1)
      }
      #expect(try await told.receive())
    }
  }

  private func counter(on queue: DispatchQueue, _ log: Log) -> MessageActor<Counting> {
    MessageActor<Counting>(on: queue, name: "counter") { mailbox in
      var count = 0
      for message in mailbox {
        switch message {
        case .increment:
          count += 1
          log.add("the count is \(count) now")
        case .decrement:
          count -= 1
          log.add("the count is \(count) now")
        case .get(let reply):
          log.add("get the count \(count)")
          reply.complete(count)
        }
      }
      log.add("the loop has ended")
    }
  }

  // MARK: The documents' examples

  @Test func theCounterOfTheDocuments() async throws {
    let queue = DispatchQueue(label: "serial")
    let log = Log()
    try await Coroutine(on: queue) {
      let counter = counter(on: queue, log)
      try counter.tell(.increment)
      try counter.tell(.increment)
      log.add("sent")
      log.add("answer \(try counter.ask { .get($0) })")
      counter.cancel()
      log.add("cancelled")
      try counter.join()
    }.get()
    #expect(
      log.all == [
        "sent", "the count is 1 now", "the count is 2 now", "get the count 2", "answer 2", "cancelled",
        "the loop has ended",
      ])
  }

  /// coobjc's "next in chan": the mailbox read by hand, an answer awaited, a cancel at the end.
  @Test func theMailboxIsReadByHand() async throws {
    let queue = DispatchQueue(label: "serial")
    let answer = try await Coroutine(on: queue) { () -> Int in
      let actor = MessageActor<Counting> { mailbox in
        var value = 0
        while let message = mailbox.next() {
          switch message {
          case .increment: value += 1
          case .decrement: value -= 1
          case .get(let reply): reply.complete(value)
          }
        }
      }
      for _ in 0..<6 { actor.send(.increment) }
      actor.send(.decrement)
      let completable = actor.send { .get($0) }
      let result = try completable.get()
      actor.cancel()
      return result
    }.get()
    #expect(answer == 5)
  }

  /// coobjc's "error example": what the body waits for fails, and the message's sender gets the error.
  @Test func anErrorInTheBodyReachesTheSender() async throws {
    let actor = MessageActor<Reply<Int>>(on: .pool, name: "failing") { mailbox in
      for reply in mailbox {
        reply.complete(try Promise<Int>(error: Failure()).get())
      }
    }
    await #expect(throws: Failure.self) { try await actor.ask { $0 } }
    await #expect(throws: Failure.self) { try await actor.join() }
    await #expect(throws: ActorStopped(actor: "failing")) { try await actor.ask { $0 } }
  }

  @Test func theBodyBeginsWithoutAMessageAndTheSenderGoesOnFirst() async throws {
    let queue = DispatchQueue(label: "serial")
    let log = Log()
    try await Coroutine(on: queue) {
      let actor = MessageActor<Int>(on: queue) { mailbox in
        log.add("begins")
        for message in mailbox { log.add("\(message)") }
      }
      try actor.tell(1)
      log.add("sent 1")
      Coroutine.yield()
      try actor.tell(2)
      log.add("sent 2")
      Coroutine.yield()
      actor.cancel()
    }.get()
    #expect(log.all == ["sent 1", "begins", "1", "sent 2", "2"])
  }

  // MARK: Where it runs

  private enum Asking: Sendable {
    case isThere(Reply<Bool>)
    case isChildThere(Reply<Bool>)
    case fail
  }

  /// Checks where the body runs: when it begins, at a message, after a wait, and in a second run. Also where a child
  /// of the same scheduler runs.
  private func expectEverything<Place: Scheduler>(
    on scheduler: Place, _ isThere: @escaping @Sendable () -> Bool
  ) async throws {
    #expect(!isThere())
    let name = "on \(type(of: scheduler))"
    let beginnings = Log()
    let body: @Sendable (Mailbox<Asking>) throws -> Void = { mailbox in
      beginnings.add("\(isThere())")
      var child: MessageActor<Reply<Bool>>?
      for message in mailbox {
        switch message {
        case .isThere(let reply):
          try Promise<Void> { resolver in DispatchQueue.global().async { resolver.fulfill(()) } }.get()
          reply.complete(isThere())
        case .isChildThere(let reply):
          let there: MessageActor<Reply<Bool>> =
            child ?? mailbox.launch(on: scheduler) { for asked in $0 { asked.complete(isThere()) } }
          child = there
          try there.tell(reply.handedOn())
        case .fail: throw Failure()
        }
      }
    }
    try await SharedDeadLetters.observe(name) { _ in
    } during: { () async throws -> Void in
      let alone = MessageActor<Asking>(on: scheduler, name: name, body)
      #expect(try await alone.ask { .isThere($0) })
      #expect(try await alone.ask { .isChildThere($0) })
      alone.cancel()
      try await alone.join()
      let supervisor = Supervisor()
      let supervised = supervisor.launch(on: scheduler, name: name, body)
      for _ in 0..<3 {
        #expect(try await supervised.ask { .isThere($0) })
        #expect(try await supervised.ask { .isChildThere($0) })
        try await supervised.tell(.fail)
      }
      #expect(try await supervised.ask { .isThere($0) })
      await supervisor.stop()
    }
    #expect(beginnings.all == ["true", "true", "true", "true", "true"])
  }

  @Test func theBodyRunsOnTheQueueThatWasSaidAlsoAgain() async throws {
    let queue = DispatchQueue(label: "said")
    try await expectEverything(on: queue) { queue.isCurrent }
  }

  @Test func theBodyRunsOnAnOwnSchedulerThatWasSaidAlsoAgain() async throws {
    let loop = OneThread()
    try await expectEverything(on: loop) { loop.isCurrent }
    loop.stop()
  }

  // MARK: One at a time, several at once

  @Test func oneMessageAtATimeAlsoWhereOneWaits() async throws {
    let log = Log()
    let gate = Channel<Void>()
    let actor = MessageActor<Int>(on: .pool) { mailbox in
      for message in mailbox {
        log.add("begin \(message)")
        try gate.receive()
        log.add("end \(message)")
      }
    }
    let handled = (1...3).map { actor.send($0) }
    for _ in 1...3 { try await gate.send(()) }
    for promise in handled { try await promise.get() }
    #expect(log.all == ["begin 1", "end 1", "begin 2", "end 2", "begin 3", "end 3"])
  }

  @Test func differentActorsRunInParallel() async throws {
    // Each waits, on its thread, for the other one to get to the same line.
    let pool = ThreadPool(threads: 2)
    let (first, second) = (Gate(), Gate())
    let left = MessageActor<Void>(on: pool) { mailbox in
      for _ in mailbox {
        first.open()
        second.pass()
      }
    }
    let right = MessageActor<Void>(on: pool) { mailbox in
      for _ in mailbox {
        second.open()
        first.pass()
      }
    }
    let promises = [left.send(()), right.send(())]
    for promise in promises { try await promise.get() }
  }

  @Test func eachSendersMessagesStayInOrder() async throws {
    let senders = 8
    let count = 2000
    let actor = MessageActor<(sender: Int, number: Int)>(on: .pool) { mailbox in
      var last = [Int](repeating: -1, count: senders)
      for (sender, number) in mailbox {
        #expect(number == last[sender] + 1)
        last[sender] = number
      }
      #expect(last.allSatisfy { $0 >= count - 1 })
    }
    let all = (0..<senders).map { sender in
      Coroutine(on: .pool) { for number in 0..<count { try actor.tell((sender, number)) } }
    }
    for sender in all { try await sender.get() }
    try await actor.send((0, count)).get()
    actor.cancel()
  }

  @Test func everyQuestionGetsItsOwnAnswer() async throws {
    enum Doubling: Sendable { case double(Int, Reply<Int>) }
    let actor = MessageActor<Doubling>(on: .pool) { mailbox in
      for case .double(let number, let reply) in mailbox {
        if number % 7 == 0 { Coroutine.yield() }
        reply.complete(2 * number)
      }
    }
    let askers = (0..<8).map { asker in
      Coroutine(on: .pool) {
        for number in 0..<2000 {
          let answer = try actor.ask { .double(asker * 10_000 + number, $0) }
          #expect(answer == 2 * (asker * 10_000 + number))
        }
      }
    }
    for asker in askers { try await asker.get() }
    let fromTask = try await actor.ask { .double(4, $0) }
    #expect(fromTask == 8)
  }

  @Test func aPlainThreadAsksToo() async throws {
    let actor = MessageActor<Counting>(
      on: .pool, state: { 40 },
      handle: { count, message in
        switch message {
        case .increment: count += 1
        case .decrement: count -= 1
        case .get(let reply): reply.complete(count)
        }
      })
    let answer = await withCheckedContinuation { continuation in
      DispatchQueue.global().async {
        continuation.resume(
          returning: Result {
            try actor.tellBlocking(.increment)
            try actor.tell(.increment)
            return try actor.askBlocking(timeout: .seconds(3600)) { .get($0) }
          })
      }
    }
    #expect(try answer.get() == 42)
  }

  // MARK: The end

  @Test func aDeadlineEndsTheWaitForItsEnd() async throws {
    let actor = MessageActor<Int> { mailbox in for _ in mailbox {} }
    let time = Duration.milliseconds(1)
    func block(_ time: Duration) throws { try actor.joinBlocking(timeout: time) }
    #expect(throws: TimeoutError(after: time)) { try block(time) }
    await #expect(throws: TimeoutError(after: time)) { try await actor.join(timeout: time) }
    let inside = Coroutine { try actor.join(timeout: time) }
    await #expect(throws: TimeoutError(after: time)) { try await inside.get() }
    actor.cancel()
    try await actor.join(timeout: .seconds(1_000))
    try block(.zero)
  }

  @Test func cancellingEndsTheLoopAndRunsWhatIsBehindIt() async throws {
    let queue = DispatchQueue(label: "serial")
    let log = Log()
    try await Coroutine(on: queue) {
      let gate = Channel<Void>()
      let actor = MessageActor<Int>(on: queue, name: "busy") { mailbox in
        defer { log.add("unwound") }
        for message in mailbox {
          log.add("\(message)")
          do { try gate.receive() } catch { log.add("\(error is CancellationError)") }
        }
        log.add("behind the loop, \(Coroutine.isCancelled)")
      }
      let promises = (1...3).map { actor.send($0) }
      Coroutine.yield()
      actor.cancel()
      actor.cancel()
      do { try actor.tell(4) } catch { log.add("\(error as? ActorStopped == ActorStopped(actor: "busy"))") }
      try actor.join()
      for promise in promises { log.add(failure { try promise.get() }) }
      if case .cancelled? = actor.end {} else { Issue.record("it ended otherwise") }
    }.get()
    #expect(
      log.all == [
        "1", "true", "true", "behind the loop, true", "unwound", "no error",
        "\(ActorStopped(actor: "busy"))", "\(ActorStopped(actor: "busy"))",
      ])
  }

  @Test func aCancelInsideAMessageEndsTheLoopAndAnswersTheAsker() async throws {
    let queue = DispatchQueue(label: "serial")
    let log = Log()
    try await Coroutine(on: queue) {
      let gate = Channel<Void>()
      let actor = MessageActor<Reply<Int>>(on: queue, name: "busy") { mailbox in
        for reply in mailbox {
          try gate.receive()
          reply.complete(1)
        }
      }
      let asker = Coroutine { failure { _ = try actor.ask { $0 } } }
      let next = Coroutine { failure { _ = try actor.ask { $0 } } }
      Coroutine.yield()
      Coroutine.yield()
      actor.cancel()
      log.add(try asker.get())
      log.add(try next.get())
    }.get()
    #expect(log.all == [String](repeating: "\(ActorStopped(actor: "busy"))", count: 2))
  }

  @Test func oneThatIsCancelledBeforeItBeganNeverRunsAndAnswersAll() async throws {
    let queue = DispatchQueue(label: "serial")
    let log = Log()
    try await Coroutine(on: queue) {
      let actor = MessageActor<Int>(on: queue, name: "unborn") { _ in log.add("ran") }
      let promise = actor.send(1)
      actor.cancel()
      log.add(failure { try promise.get() })
      try actor.join()
    }.get()
    #expect(log.all == ["\(ActorStopped(actor: "unborn"))"])
  }

  @Test func withoutSendersItHandlesTheRestAndEnds() async throws {
    let log = Log()
    let ended = Channel<Void>(capacity: .unbounded)
    do {
      let actor = MessageActor<Int>(on: .pool) { mailbox in
        for message in mailbox { log.add("\(message)") }
        log.add("end")
        _ = ended.trySend(())
      }
      for number in 1...3 { try await actor.tell(number) }
    }
    try await ended.receive()
    #expect(log.all == ["1", "2", "3", "end"])
  }

  @Test func oneThatKnowsItselfGoesOn() async throws {
    let log = Log()
    let ended = Channel<Void>(capacity: .unbounded)
    do {
      _ = MessageActor<Int>(on: .pool) { mailbox in
        let myself = mailbox.actor
        try myself.tell(3)
        for message in mailbox {
          log.add("\(message)")
          if message > 0 { try myself.tell(message - 1) } else { break }
        }
        _ = ended.trySend(())
      }
    }
    try await ended.receive()
    #expect(log.all == ["3", "2", "1", "0"])
  }

  @Test func aBodyThatReturnsEndsTheActor() async throws {
    let queue = DispatchQueue(label: "serial")
    let log = Log()
    try await Coroutine(on: queue) {
      let actor = MessageActor<Int>(on: queue, name: "short") { mailbox in log.add("\(mailbox.next() ?? 0)") }
      actor.watch { end in log.add("\(end)") }
      let promises = (1...2).map { actor.send($0) }
      try actor.join()
      for promise in promises { log.add(failure { try promise.get() }) }
      actor.watch { end in log.add("late \(end)") }
    }.get()
    #expect(log.all == ["1", "finished", "no error", "\(ActorStopped(actor: "short"))", "late finished"])
  }

  @Test func anActorWithoutAStackAnswersEachSender() async throws {
    let actor = MessageActor<Int>(name: "huge", stackSize: 1 << 50) { mailbox in for _ in mailbox {} }
    await #expect(throws: ActorStopped(actor: "huge")) { try await actor.send(1).get() }
    await #expect(throws: StackError.self) { try await actor.join() }
  }
}

/// A thread that runs ready coroutines, and nothing else.
private final class OneThread: Scheduler {
  private let ready = CoroutineJobQueue()
  /// Signalled when there is something to run, and when the thread is to stop.
  private let isTold = DispatchSemaphore(value: 0)
  private let isStopped = Guarded(false)
  private let identity = Guarded<pthread_t?>(nil)
  private let end = Gate()

  init() {
    Thread.detachNewThread { [self] in
      identity.withLock { $0 = pthread_self() }
      while !isStopped.withLock({ $0 }) {
        isTold.wait()
        while ready.run() {}
      }
      end.open()
    }
  }

  func enqueue(_ job: consuming CoroutineJob) {
    if ready.append(job) { isTold.signal() }
  }

  var isCurrent: Bool { identity.withLock { $0.map { pthread_equal($0, pthread_self()) != 0 } ?? false } }
  var isSerial: Bool { true }

  func stop() {
    isStopped.withLock { $0 = true }
    isTold.signal()
    end.pass()
  }
}
