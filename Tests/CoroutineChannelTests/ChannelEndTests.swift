import Coroutine
import CoroutineTestSupport
import Dispatch
import Testing

/// How an operation ends without being done: its time is up, or the caller is cancelled.
@Suite(.ownThreads) struct ChannelEndTests {
  private func run(_ body: sending @escaping () throws -> Void) async throws {
    try await Coroutine(on: DispatchQueue(label: "serial"), body).get()
  }

  @Test func aTimeoutLeavesNoWaiterInTheQueue() async throws {
    let log = Log()
    try await run {
      let channel = Channel<Int>()
      do { log.add("\(try channel.receive(timeout: .microseconds(10)))") } catch { log.add("\(error)") }
      do { try channel.send(1, timeout: .microseconds(10)) } catch { log.add("\(error)") }
      log.add("\(channel.tryReceive()) \(channel.trySend(2))")
      // The time is not up: the event comes first.
      let sender = Coroutine { try channel.send(3, timeout: .seconds(3600)) }
      log.add("\(try channel.receive(timeout: .seconds(3600)))")
      try sender.get()
    }
    #expect(log.all == ["timed out after 1e-05 seconds", "timed out after 1e-05 seconds", "empty full(2)", "3"])
  }

  @Test func aTimeoutOfZeroTriesWithoutWaiting() async throws {
    let log = Log()
    try await run {
      let channel = Channel<Int>(capacity: .buffered(1))
      try channel.send(1, timeout: .zero)
      let other = Coroutine { log.add("others run") }
      do { try channel.send(2, timeout: .zero) } catch { log.add("\(error is TimeoutError)") }
      log.add("\(try channel.receive(timeout: .zero))")
      do { _ = try channel.receive(timeout: .zero) } catch { log.add("\(error is TimeoutError)") }
      try other.get()
    }
    #expect(log.all == ["true", "1", "true", "others run"])
  }

  @Test func aNegativeTimeoutIsAsZero() async {
    await #expect(processExitsWith: .success) {
      let channel = Channel<Int>(capacity: .buffered(2))
      try await channel.send(1, timeout: .seconds(-1))
      try await Coroutine { try channel.send(2, timeout: .seconds(-1)) }.get()
      do {
        try await channel.send(3, timeout: .seconds(-1))
        fatalError("sent")
      } catch is TimeoutError {}
    }
  }

  @Test func aCancelRunsTheHandlerBeforeTheErrorIsThrown() async throws {
    let log = Log()
    try await run {
      let channel = Channel<Int>()
      let receiver = Coroutine {
        let id = Coroutine.currentID
        do { _ = try channel.receive(onCancel: { log.add("receive, here: \(Coroutine.currentID == id)") }) } catch {
          log.add("\(type(of: error))")
        }
      }
      Coroutine.yield()
      receiver.cancel()
      log.add("cancelled")
      try receiver.get()
      let sender = Coroutine {
        do { try channel.send(1, onCancel: { log.add("send") }) } catch { log.add("\(type(of: error))") }
      }
      Coroutine.yield()
      sender.cancel()
      try sender.get()
      // The handler does not run if the wait ends for another reason.
      #expect((try? channel.receive(timeout: .zero, onCancel: { log.add("never") })) == nil)
      channel.close()
      #expect((try? channel.receive(onCancel: { log.add("never") })) == nil)
      #expect((try? channel.send(1, onCancel: { log.add("never") })) == nil)
    }
    #expect(log.all == ["cancelled", "receive, here: true", "CancellationError", "send", "CancellationError"])
  }

  @Test func aCancelledCallerNeitherTakesNorSendsWithoutWaiting() async throws {
    let log = Log()
    try await run {
      let channel = Channel<Int>(capacity: .buffered(2))
      try channel.send(1)
      let cancelled = Coroutine {
        do { try channel.send(2) } catch { log.add("\(type(of: error))") }
        do { _ = try channel.receive() } catch { log.add("\(type(of: error))") }
        for element in channel.received { log.add("\(element)") }
        log.add("\(channel.trySend(3)), \(channel.tryReceive())")
      }
      cancelled.cancel()
      #expect(cancelled.isCancelled)
      try? cancelled.get()
    }
    #expect(log.all == [], "cancelled before it began, it never ran")

    try await run {
      let channel = Channel<Int>(capacity: .buffered(2))
      try channel.send(1)
      let cancelled = Coroutine {
        Coroutine.yield()
        do { try channel.send(2) } catch { log.add("\(type(of: error))") }
        do { _ = try channel.receive() } catch { log.add("\(type(of: error))") }
        for element in channel.received { log.add("\(element)") }
        // These operations don't wait, so a cancel does not matter to them.
        log.add("\(channel.trySend(3)), \(channel.tryReceive())")
      }
      Coroutine.yield()
      cancelled.cancel()
      try cancelled.get()
    }
    #expect(log.all == ["CancellationError", "CancellationError", "sent, received(1)"])
  }

  @Test func aCancelledTaskNeitherTakesNorSendsWithoutWaiting() async throws {
    let log = Log()
    let channel = Channel<Int>(capacity: .buffered(2))
    try await channel.send(1)
    await Task {
      withUnsafeCurrentTask { $0?.cancel() }
      do { try await channel.send(2) } catch { log.add("\(type(of: error))") }
      do { _ = try await channel.receive() } catch { log.add("\(type(of: error))") }
      for await element in channel { log.add("\(element)") }
    }.value
    #expect(log.all == ["CancellationError", "CancellationError"])
    #expect(channel.tryReceive() == .received(1) && channel.isEmpty)
  }

  @Test func aCancelledSendersPlaceInTheLineIsGone() async throws {
    try await run {
      let channel = Channel<Int>(capacity: .buffered(1))
      let senders = (0..<4).map { value in Coroutine { try channel.send(value) } }
      Coroutine.yield()
      senders[2].cancel()
      // The sender has not run since, and is still in the queue: 1 enters, then 3.
      let received = try (0..<3).map { _ in try channel.receive() }
      #expect(received == [0, 1, 3])
      #expect(channel.tryReceive() == .empty)
      for (index, sender) in senders.enumerated() { #expect(((try? sender.get()) == nil) == (index == 2)) }
    }
  }

  @Test func tasksHaveDeadlinesAndHandlersToo() async throws {
    let log = Log()
    let channel = Channel<Int>()
    await #expect(throws: TimeoutError.self) { _ = try await channel.receive(timeout: .microseconds(10)) }
    await #expect(throws: TimeoutError.self) { try await channel.send(1, timeout: .zero) }
    let gate = Channel<Void>()
    let task = Task {
      try await gate.send(())
      return try await channel.receive(onCancel: { log.add("handler") })
    }
    try await gate.receive()
    task.cancel()
    await #expect(throws: CancellationError.self) { _ = try await task.value }
    #expect(log.all == ["handler"])
    #expect(channel.trySend(1) == .full(1), "no waiter is left in the queue")
  }

  @Test func asyncIterationEndsWithTheChannelOrTheTask() async throws {
    let channel = Channel<Int>(capacity: .buffered(3))
    let sender = Coroutine {
      for value in 1...20 { try channel.send(value) }
      channel.close()
    }
    var sum = 0
    for await value in channel { sum += value }
    #expect(sum == 210)
    try await sender.get()

    let endless = Channel<Int>(capacity: .unbounded)
    let (first, log) = (Channel<Void>(), Log())
    let task = Task {
      for await value in endless {
        log.add("\(value)")
        try await first.send(())
      }
      do { _ = try await endless.receive() } catch { log.add("\(type(of: error))") }
    }
    try await endless.send(1)
    try await first.receive()
    task.cancel()
    try await task.value
    try await endless.send(2)
    #expect(log.all == ["1", "CancellationError"])
    #expect(endless.tryReceive() == .received(2), "a cancelled task takes nothing")
  }

  @Test func leavingALoopEarlyLeavesTheRestInTheChannel() async throws {
    let channel = Channel<Int>(capacity: .unbounded)
    for value in 1...6 { try await channel.send(value) }
    for await value in channel where value == 2 { break }
    try await Coroutine { for value in channel.received where value == 4 { break } }.get()
    #expect(await channel.first { $0 > 5 } == 6)
  }
}
