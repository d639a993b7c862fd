import Coroutine
import CoroutineTestSupport
import Dispatch
import Testing

/// Several elements at once, in coroutines and in tasks.
@Suite(.ownThreads) struct ChannelBatchTests {
  private func run(_ body: sending @escaping () throws -> Void) async throws {
    try await Coroutine(on: DispatchQueue(label: "serial"), body).get()
  }

  @Test func receiveAllWaitsForOneAndDrainsBufferAndWaiters() async throws {
    let log = Log()
    try await run {
      let channel = Channel<Int>(capacity: .buffered(2))
      let receiver = Coroutine { log.add("\(try channel.receiveAll())") }
      Coroutine.yield()
      let senders = (1...6).map { value in
        Coroutine {
          try channel.send(value)
          log.add("sent \(value)")
        }
      }
      try receiver.get()
      for sender in senders { try sender.get() }
      #expect(channel.isEmpty)
    }
    // 1 meets the receiver, which runs behind the senders. 2 and 3 find room. 4, 5 and 6 wait.
    #expect(log.all == ["sent 1", "sent 2", "sent 3", "[1, 2, 3, 4, 5, 6]", "sent 4", "sent 5", "sent 6"])
  }

  @Test func receiveAllAtARendezvousTakesFromAllSendersThatWait() async throws {
    try await run {
      let channel = Channel<Int>()
      let senders = (1...4).map { value in Coroutine { try channel.send(value) } }
      Coroutine.yield()
      #expect(try channel.receiveAll() == [1, 2, 3, 4])
      for sender in senders { try sender.get() }
    }
  }

  @Test func receivingACountWaitsUntilSoManyHaveComeAndLeavesTheRest() async throws {
    let log = Log()
    try await run {
      let channel = Channel<Int>(capacity: .buffered(10))
      let receiver = Coroutine { log.add("\(try channel.receive(count: 3))") }
      for value in 1...5 {
        Coroutine.yield()
        log.add("send \(value)")
        try channel.send(value)
      }
      try receiver.get()
      #expect(try channel.receive(count: 0) == [])
      #expect(try channel.receive(count: 2) == [4, 5])
    }
    #expect(log.all == ["send 1", "send 2", "send 3", "[1, 2, 3]", "send 4", "send 5"])
  }

  @Test func theEndInBetweenHandsBackWhatHasCome() async throws {
    try await run {
      let channel = Channel<Int>(capacity: .unbounded)
      let receiver = Coroutine { () -> (Int, Bool) in
        let first = try channel.receive(count: 5)
        return (first.count, (try? channel.receive(count: 5)) == nil)
      }
      for value in 1...3 { try channel.send(value) }
      Coroutine.yield()
      channel.close()
      #expect(try receiver.get() == (3, true))
      #expect((try? channel.receiveAll()) == nil)
      #expect(try channel.receive(count: 0) == [], "nothing was asked for, so nothing is missing")
    }
  }

  @Test func aCancelInBetweenHandsBackWhatHasComeThenThrows() async throws {
    let log = Log()
    try await run {
      let channel = Channel<Int>(capacity: .unbounded)
      let receiver = Coroutine {
        log.add("\(try channel.receive(count: 5, onCancel: { log.add("cancelled") }))")
        do { log.add("\(try channel.receive())") } catch { log.add("\(type(of: error))") }
        do { log.add("\(try channel.receiveAll())") } catch { log.add("\(type(of: error))") }
      }
      for value in 1...3 { try channel.send(value) }
      Coroutine.yield()
      receiver.cancel()
      try channel.send(4)
      try receiver.get()
      #expect(channel.tryReceive() == .received(4), "not taken by a cancelled receiver")
    }
    #expect(log.all == ["cancelled", "[1, 2, 3]", "CancellationError", "CancellationError"])
  }

  @Test func aTimeoutHandsBackWhatHasComeAndThrowsOnlyWhereThatIsNothing() async throws {
    try await run {
      let channel = Channel<Int>(capacity: .unbounded)
      try channel.send(1)
      #expect(try channel.receive(count: 2, timeout: .zero) == [1])
      #expect(channel.isEmpty)
      do {
        _ = try channel.receive(count: 2, timeout: .microseconds(1))
        Issue.record("it came to nothing")
      } catch { #expect(error is TimeoutError) }
      do {
        _ = try channel.receiveAll(timeout: .zero)
        Issue.record("it came to nothing")
      } catch { #expect(error is TimeoutError) }
    }
  }

  @Test func tasksReceiveBatchesToo() async throws {
    let channel = Channel<Int>(capacity: .buffered(2))
    let sender = Coroutine {
      for value in 1...10 { try channel.send(value) }
      channel.close()
    }
    #expect(try await channel.receive(count: 7) == Array(1...7))
    var rest: [Int] = []
    while let batch = try? await channel.receiveAll() { rest += batch }
    #expect(rest == [8, 9, 10])
    try await sender.get()
    await #expect(throws: ChannelClosed<Int>.self) { _ = try await channel.receive(count: 1) }

    let quiet = Channel<Int>(capacity: .unbounded)
    try await quiet.send(1)
    let task = Task { try await quiet.receive(count: 2) }
    // A receiver that is cancelled before it has taken an element would throw.
    while !quiet.isEmpty { await Task.yield() }
    task.cancel()
    #expect(try await task.value == [1])
  }

  @Test func aNegativeCountTraps() async {
    let exit1 = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      _ = try await Channel<Int>(capacity: .unbounded).receive(count: -1)
    }
    #expect(standardError(of: exit1).contains("can't give -1 elements"))
  }
}
