import Coroutine
import CoroutineTestSupport
import Dispatch
import Glibc
import Testing

/// Operations that never suspend: they return at once, may be called from everywhere, or block a thread.
@Suite(.ownThreads) struct ChannelNowTests {
  @Test func aTrySendGivesTheElementBackUnlessItWasTaken() async throws {
    let rendezvous = Channel<String>()
    #expect(rendezvous.trySend("nobody waits") == .full("nobody waits"))
    let receiver = Coroutine.immediate { try rendezvous.receive() }
    #expect(rendezvous.trySend("handed over") == .sent)
    #expect(try await receiver.get() == "handed over")
    rendezvous.close()
    #expect(rendezvous.trySend("late") == .closed("late"))

    let buffered = Channel<String>(capacity: .buffered(1))
    #expect(buffered.trySend("kept").isSent)
    #expect(buffered.trySend("too much") == .full("too much"))
    #expect(!buffered.trySend("too much").isSent)
    #expect(buffered.count == 1)
  }

  @Test func aTryReceiveTellsEmptyFromClosed() async throws {
    let channel = Channel<Int?>(capacity: .buffered(1))
    #expect(channel.tryReceive() == .empty)
    #expect(channel.trySend(nil) == .sent)
    #expect(channel.tryReceive() == .received(nil), "nil is an element")
    #expect(channel.tryReceive() == .empty)
    channel.close()
    #expect(channel.tryReceive() == .closed)
  }

  @Test func aTryReceiveTakesFromASenderThatWaits() async throws {
    let channel = Channel<Int>()
    let sender = Coroutine.immediate { try channel.send(3) }
    #expect(!sender.isFinished)
    #expect(channel.tryReceive() == .received(3))
    try await sender.get()
    #expect(channel.tryReceive() == .empty)
  }

  @Test func aCallbackOfACLibrarySends() async throws {
    // `qsort` calls a C function, on top of a frame of the C library.
    var numbers: [Int32] = [3, 1, 2]
    let channel = Channel<Int32>(capacity: .unbounded)
    seen = channel
    qsort(&numbers, 3, MemoryLayout<Int32>.size) { left, right in
      let (left, right) = (left!.load(as: Int32.self), right!.load(as: Int32.self))
      _ = seen.trySend(left)
      return left - right
    }
    channel.close()
    let compared = await channel.reduce(into: []) { $0.append($1) }
    #expect(numbers == [1, 2, 3] && compared.count >= 2)
  }

  @Test func threadsSendAndReceiveBlocking() async throws {
    let there = Channel<Int>()
    let back = Channel<Int>(capacity: .buffered(1))
    let echo = Coroutine { for value in there.received { try back.send(value * 2) } }
    let sum = await onThread {
      var sum = 0
      for value in 1...100 {
        try there.sendBlocking(value)
        sum += try back.receiveBlocking()
      }
      there.close()
      return sum
    }
    #expect(try sum.get() == 10_100)
    try await echo.get()
  }

  @Test func aBlockedThreadLearnsOfTheEnd() async throws {
    let channel = Channel<Int>()
    let began = Channel<Void>()
    async let receiving = onThread {
      try began.sendBlocking(())
      return try channel.receiveBlocking()
    }
    try await began.receive()
    channel.close()
    let received = await receiving
    #expect(throws: ChannelClosed<Int>.self) { try received.get() }
    let sent = await onThread { try channel.sendBlocking(4) }
    do { try sent.get() } catch let closed as ChannelClosed<Int> { #expect(closed.unsent == 4) }
  }

  @Test func aBlockedThreadGivesUpWhenTimeIsUp() async throws {
    let channel = Channel<Int>()
    let results = await onThread {
      [
        Result { _ = try channel.receiveBlocking(timeout: .zero) },
        Result { _ = try channel.receiveBlocking(timeout: .microseconds(1)) },
        Result { try channel.sendBlocking(1, timeout: .microseconds(1)) },
      ]
    }
    for result in try results.get() { #expect(throws: TimeoutError.self) { try result.get() } }
    let unsent = await onThread { channel.sendBlocking(orReturn: 2, timeout: .zero) }
    #expect(try unsent.get() == .timedOut(2))
    #expect(channel.tryReceive() == .empty, "no waiter is left in the queue")
  }

  @Test func blockingInACoroutineTraps() async {
    let exit1 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      try await Coroutine { _ = try Channel<Int>().receiveBlocking() }.get()
    }
    #expect(standardError(of: exit1).contains("would block its whole thread: use receive()"))
    let exit2 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      try await Coroutine { try Channel<Int>(capacity: .unbounded).sendBlocking(1) }.get()
    }
    #expect(standardError(of: exit2).contains("would block its whole thread: use send(_:)"))
  }

  /// On a thread of its own, since it blocks.
  private func onThread<Value: Sendable>(
    _ body: @escaping @Sendable () throws -> Value
  ) async -> Result<Value, any Error> {
    await withCheckedContinuation { continuation in
      DispatchQueue(label: "thread").async { continuation.resume(returning: Result { try body() }) }
    }
  }
}

// A C function captures nothing. One test alone uses this.
nonisolated(unsafe) private var seen = Channel<Int32>()
