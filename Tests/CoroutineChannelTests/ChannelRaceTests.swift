import Coroutine
import CoroutineTestSupport
import Dispatch
import Synchronization
import Testing

/// Invariant 8, with everything at once: an element is received once, or is in the channel, or is back at its sender.
@Suite(.ownThreads) struct ChannelRaceTests {
  private final class Tally: Sendable {
    private let value = Atomic<Int>(0)
    func increment() { value.add(1, ordering: .relaxed) }
    var count: Int { value.load(ordering: .relaxed) }
  }

  /// Two receivers at once: what is in the buffer is one batch.
  @Test func aBatchOfAllThatIsThereHasNoGaps() async throws {
    for _ in 0..<amount(20_000, debug: 2_000, sanitized: 200) {
      let channel = Channel<Int>(capacity: .unbounded)
      for number in 0..<64 { _ = channel.trySend(number) }
      channel.close()
      let ready = Tally()
      let receivers = (0..<2).map { _ in
        Coroutine(on: .pool) { () -> [Int] in
          ready.increment()
          var looks = 0  // at the same moment, if there are two processors
          while ready.count < 2, looks < 10_000 { looks += 1 }
          return (try? channel.receiveAll()) ?? []
        }
      }
      var batches: [[Int]] = []
      for receiver in receivers { batches.append(try await receiver.get()) }
      #expect(batches.map(\.count).sorted() == [0, 64])
    }
  }

  static let capacities: [ChannelCapacity] = [.rendezvous, .buffered(1), .buffered(7), .unbounded]

  @Test(arguments: capacities)
  func manySendersAndReceivers(capacity: ChannelCapacity) async throws {
    let channel = Channel<(sender: Int, number: Int)>(capacity: capacity)
    let (perSender, parties) = (400, 5)
    let senders = (0..<parties).map { sender in
      Coroutine {
        for number in 0..<perSender {
          // In each way in turn.
          if number % 3 == 0, case .sent = channel.trySend((sender, number)) { continue }
          try channel.send((sender, number), timeout: number % 3 == 1 ? .seconds(3600) : nil)
        }
      }
    }
    let receivers = (0..<parties).map { receiver in
      Coroutine { () -> [[Int]] in
        var seen = [[Int]](repeating: [], count: parties)
        while true {
          if receiver == 0 {
            guard let batch = try? channel.receiveAll() else { return seen }
            for element in batch { seen[element.sender].append(element.number) }
          } else if case .received(let element) = channel.tryReceive() {
            seen[element.sender].append(element.number)
          } else {
            guard let element = channel.received.next() else { return seen }
            seen[element.sender].append(element.number)
          }
        }
      }
    }
    let task = Task {
      var seen = [[Int]](repeating: [], count: parties)
      for await element in channel { seen[element.sender].append(element.number) }
      return seen
    }
    for sender in senders { try await sender.get() }
    channel.close()
    var all = [[Int]](repeating: [], count: parties)
    var views = [await task.value]
    for receiver in receivers { views.append(try await receiver.get()) }
    for view in views {
      for (sender, numbers) in view.enumerated() {
        #expect(numbers == numbers.sorted(), "what one sent, one receives in that order")
        all[sender] += numbers
      }
    }
    for numbers in all { #expect(numbers.sorted() == Array(0..<perSender)) }
  }

  @Test(arguments: capacities)
  func aWakeRacesWithACancelAndATimeout(capacity: ChannelCapacity) async throws {
    let (sent, received) = (Tally(), Tally())
    for round in 0..<600 {
      let channel = Channel<Int>(capacity: capacity)
      let receivers = (0..<3).map { index in
        Coroutine {
          _ = try channel.receive(timeout: index == 0 ? .microseconds(round % 50) : nil)
          received.increment()
        }
      }
      let senders = (0..<3).map { index in
        Coroutine {
          try channel.send(index, timeout: index == 0 ? .microseconds(round % 70) : nil)
          sent.increment()
        }
      }
      let task = Task {
        try await channel.send(3, timeout: .microseconds(round % 60))
        sent.increment()
      }
      receivers[1].cancel()
      task.cancel()
      senders[1].cancel()
      _ = await task.result
      // A coroutine that is left over would wait for ever.
      for coroutine in senders + receivers { coroutine.cancel() }
      for coroutine in senders + receivers { _ = try? await coroutine.get() }
      channel.close()
      while case .received = channel.tryReceive() { received.increment() }
    }
    #expect(sent.count == received.count)
  }

  @Test(arguments: capacities)
  func aCloseRacesWithSends(capacity: ChannelCapacity) async throws {
    let (sent, received, back) = (Tally(), Tally(), Tally())
    let rounds = 400
    for _ in 0..<rounds {
      let channel = Channel<Int>(capacity: capacity)
      let senders = (0..<4).map { value in
        Coroutine {
          do {
            try channel.send(value)
            sent.increment()
          } catch let closed as ChannelClosed<Int> {
            #expect(closed.unsent == value)
            back.increment()
          }
        }
      }
      let receiver = Coroutine { for _ in channel.received { received.increment() } }
      let closers = (0..<2).map { _ in Coroutine { channel.close() } }
      var first = 0
      for closer in closers { first += try await closer.get() ? 1 : 0 }
      #expect(first == 1)
      for sender in senders { try await sender.get() }
      try await receiver.get()
      #expect(channel.tryReceive() == .closed)
    }
    #expect(sent.count == received.count)
    #expect(sent.count + back.count == 4 * rounds)
  }

  @Test(arguments: capacities)
  func theDeadlineOfABlockedThreadRacesWithAWake(capacity: ChannelCapacity) async throws {
    // Arrays: ThreadSanitizer watches the memory of an element that is passed on.
    let channel = Channel<[Int]>(capacity: capacity)
    let senders = (0..<2).map { sender in
      PlainThread {
        (0..<300).map { [sender, $0] }.filter { element in
          (try? channel.sendBlocking(element, timeout: .microseconds(element[1] % 60))) != nil
        }
      }
    }
    let receivers = (0..<2).map { receiver in
      PlainThread { () -> [[Int]] in
        var received: [[Int]] = []
        while true {
          do {
            received.append(try channel.receiveBlocking(timeout: .microseconds(30 + receiver)))
          } catch {
            guard error is TimeoutError else { return received }
          }
        }
      }
    }
    let sent = senders.flatMap { $0.join() }
    channel.close()
    let received = receivers.flatMap { $0.join() }
    #expect(Set(received) == Set(sent))
    #expect(received.count == sent.count)
  }
}
