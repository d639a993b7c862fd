import Coroutine
import CoroutineTestSupport
import CoroutineTesting
import Testing

/// Closes against sends against selects.
@Suite(.ownThreads) struct CloseTests {
  @Test(arguments: [0, 1, 2]) func whatIsSentBeforeAChannelIsClosedIsReceived(capacity: Int) throws {
    func body(senderCount: Int) throws {
      let channel = Channel<Int>(capacity: .buffered(capacity))
      let other = Channel<Int>()
      let (sent, received) = (Log<Int>(), Log<Int>())
      let senders = (0..<senderCount).map { number in
        Coroutine(name: "sender") {
          for step in 0..<2 {
            let value = 10 * number + step
            do { try channel.send(value) } catch is ChannelClosed<Int> { return }
            sent.add(value)
          }
        }
      }
      let selecting = Coroutine(name: "selecting") {
        while true {
          let isOpen = Unlocked(true)
          do {
            try select {
              channel.onReceive { received.add($0) }
              other.onReceive { _ in }
            }
          } catch is ChannelClosed<Int> { isOpen.value = false }
          if !isOpen.value { return }
        }
      }
      let closer = Coroutine(name: "closer") { channel.close() }
      for sender in senders { try sender.get() }
      let isFirst = channel.close()
      try selecting.get()
      guard try closer.get() != isFirst, received.all.sorted() == sent.all.sorted() else { throw Broken(line: #line) }
      // One sender's elements arrive in order.
      for number in 0..<senderCount {
        let own = received.all.filter { $0 / 10 == number }
        guard own == own.sorted() else { throw Broken(line: #line) }
      }
    }
    try explore(seeds: 0..<amount(500, sanitized: 50)) { try body(senderCount: 2) }
    // All, of one sender. With two there are too many.
    let report = try explore(exhaustively: .preemptions(atMost: 1), limit: amount(20_000, sanitized: 100)) {
      try body(senderCount: 1)
    }
    #expect(report.isComplete || isSanitized)
  }

  @Test func theLastSendersEndClosesOnce() throws {
    try explore(seeds: 0..<amount(500, sanitized: 50)) {
      let (sender, receiver) = Channel<Int>.makeEnds(capacity: .buffered(1))
      let received = Log<Int>()
      let senders = (0..<3).map { number in
        Coroutine { [sender] in try sender.send(number) }
      }
      let reader = Coroutine { for value in receiver.received { received.add(value) } }
      for sender in senders { try sender.get() }
      _ = consume sender
      _ = consume senders
      try reader.get()
      guard received.all.sorted() == [0, 1, 2] else { throw Broken(line: #line) }
    }
  }

  @Test func aPromiseWithoutAResolverIsRejectedOnce() throws {
    try explore(seeds: 0..<amount(300, sanitized: 50)) {
      let (promise, resolver) = Promise<Int>.makePromise()
      let holders = (0..<2).map { _ in Coroutine { [resolver] in withExtendedLifetime(resolver) { schedulingPoint() } }
      }
      let waiters = (0..<2).map { _ in Coroutine { (try? promise.get()) == nil } }
      _ = consume resolver
      for holder in holders { try holder.get() }
      _ = consume holders
      for waiter in waiters { guard try waiter.get() else { throw Broken(line: #line) } }
    }
  }

  /// Who is refused may know that the actor is at its end.
  @Test func anActorThatHasRefusedAMessageTakesNoOther() throws {
    let report = try explore(exhaustively: .preemptions(atMost: 2)) {
      let (turns, taken) = (Semaphore(permits: 0), Log<Int>())
      let actor = MessageActor<Int>(mailbox: .bounded(1)) { mailbox in
        do { try turns.acquire() } catch is CancellationError {}
        if let message = mailbox.next() { taken.add(message) }
      }
      // No asker waits for an answer to it: it would be a dead letter, which is printed.
      let answer = actor.send(1)
      let sender = Coroutine {
        do { try actor.tell(2) } catch is ActorStopped {}
        turns.release()
      }
      let stopper = Coroutine { actor.cancel() }
      try sender.get()
      try stopper.get()
      try actor.join()
      guard (try? answer.get()) == nil, taken.all.isEmpty else { throw Broken(line: #line) }
    }
    #expect(report.isComplete && report.schedules > 1)
  }
}
