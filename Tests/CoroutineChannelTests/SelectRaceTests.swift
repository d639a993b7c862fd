import CCoroutine
import CoroutineTestSupport
import Dispatch
import Synchronization
import Testing

@testable import Coroutine

/// Many selects on many threads. Sums are conserved, none is left waiting, and none is woken twice (which traps).
@Suite(.ownThreads) struct SelectRaceTests {
  /// In release builds enough to see a wake-up that is lost once in ten thousand.
  private static let rounds = 100_000 / (coroutine_sanitizers_active() ? 50 : _isDebugAssertConfiguration() ? 5 : 1)

  @Test func noWakeUpIsLostAmongManySelectsAtManyChannels() async throws {
    let channels = (0..<4).map { _ in Channel<Int>() }
    let perSender = Self.rounds / 8
    let senders = (0..<8).map { number in
      Coroutine { () throws -> Int in
        var sum = 0
        for round in 0..<perSender {
          let (first, second) = (channels[(number + round) % 4], channels[(number + 3 * round + 1) % 4])
          let value = number &* 1_000_003 &+ round
          sum &+= value
          if round.isMultiple(of: 3) {
            try first.send(value)
          } else {
            // Both may be the same channel.
            try select {
              first.onSend(value)
              second.onSend(value)
            }
          }
        }
        return sum
      }
    }
    let receivers = (0..<8).map { number in
      Coroutine { () throws -> Int in
        var sum = 0
        var open = number.isMultiple(of: 4) ? [channels[0], channels[2]] : channels
        while !open.isEmpty {
          let (index, value) = try select(
            open.enumerated().map { index, channel in channel.onNext { (index, $0) } })
          if let value { sum &+= value } else { open.remove(at: index) }
        }
        return sum
      }
    }
    var (sent, received) = (0, 0)
    for sender in senders { sent &+= try await sender.get() }
    for channel in channels { channel.close() }
    for receiver in receivers { received &+= try await receiver.get() }
    #expect(sent == received)
  }

  /// After Go's chan/doubleselect (its issue 43). A sender selects among four channels, and so do the receivers. Each
  /// number arrives once, and each receiver gets its numbers in the order of sending.
  @Test func selectsThatFaceEachOtherDeliverEachElementOnce() async throws {
    let channels = (0..<4).map { _ in Channel<Int>() }
    let (collected, done) = (Channel<Int>(), Channel<Void>())
    let count = Self.rounds / 4
    let sender = Coroutine {
      for value in 0..<count {
        try select {
          channels[0].onSend(value)
          channels[1].onSend(value)
          channels[2].onSend(value)
          channels[3].onSend(value)
        }
      }
      for channel in channels { channel.close() }
    }
    for channel in channels {
      Coroutine {
        for value in channel.received { try collected.send(value) }
        try done.send(())
      }
    }
    var seen = [Bool](repeating: false, count: count)
    var ended = 0
    while ended < 4 {
      let value = try await select {
        collected.onReceive { Optional($0) }
        done.onReceive { nil }
      }
      guard let value else {
        ended += 1
        continue
      }
      #expect(!seen[value], "received twice")
      seen[value] = true
    }
    try await sender.get()
    #expect(seen.allSatisfy { $0 })
  }

  /// Both sides send and receive at the same channels. Claims decide, and a claim waits for a party that is about to
  /// park.
  @Test func selectsThatSendAndReceiveAtTheSameChannelsMeetEachOther() async throws {
    let (left, right) = (Channel<Int>(), Channel<Int>())
    let rounds = Self.rounds / 10
    let balance = Atomic<Int>(0)
    let parties = (0..<6).map { number in
      Coroutine {
        for _ in 0..<rounds {
          let change = try select {
            if number.isMultiple(of: 2) {
              left.onSend(1) { 1 }
              right.onSend(1) { 1 }
              right.onNext { -($0 ?? 0) }
              left.onNext { -($0 ?? 0) }
            } else {
              right.onNext { -($0 ?? 0) }
              left.onSend(1) { 1 }
              left.onNext { -($0 ?? 0) }
              right.onSend(1) { 1 }
            }
          }
          balance.add(change, ordering: .relaxed)
        }
      }
    }
    // With an odd number, one party may be left over when the others have finished.
    let closer = Coroutine {
      while parties.filter({ !$0.isFinished }).count > 1 { Coroutine.yield() }
      left.close()
      right.close()
    }
    for party in parties { _ = try? await party.get() }
    try await closer.get()
    #expect(balance.load(ordering: .relaxed) == 0)
  }

  @Test func cancelsAndTimeoutsRaceWithEventsAndNothingIsLost() async throws {
    let rounds = Self.rounds / 20
    for asTask in [false, true] {
      let (sent, received) = (Guarded(0), Guarded(0))
      let (first, second) = (Channel<Int>(), Channel<Int>())
      @Sendable func receive() throws {
        try select {
          first.onReceive { value in received.withLock { $0 += value } }
          second.onReceive { value in received.withLock { $0 += value } }
          onTimeout(.microseconds(5)) {}
        }
      }
      @Sendable nonisolated(nonsending) func receive() async throws {
        try await select {
          first.onReceive { value in received.withLock { $0 += value } }
          second.onReceive { value in received.withLock { $0 += value } }
          onTimeout(.microseconds(5)) {}
        }
      }
      for round in 1...rounds {
        let sender = Coroutine {
          try select {
            first.onSend(round) { sent.withLock { $0 += round } }
            second.onSend(round) { sent.withLock { $0 += round } }
            onTimeout(.microseconds(8)) {}
          }
        }
        if asTask {
          let receiver = Task { try await receive() }
          if round.isMultiple(of: 2) { receiver.cancel() }
          if round.isMultiple(of: 3) { sender.cancel() }
          _ = try? await receiver.value
        } else {
          let receiver = Coroutine { try receive() }
          if round.isMultiple(of: 2) { receiver.cancel() }
          if round.isMultiple(of: 3) { sender.cancel() }
          _ = try? await receiver.get()
        }
        _ = try? await sender.get()
      }
      #expect(sent.withLock { $0 } == received.withLock { $0 })
      #expect(first.storage.machine.senders.isEmpty && first.storage.machine.receivers.isEmpty)
      #expect(second.storage.machine.senders.isEmpty && second.storage.machine.receivers.isEmpty)
    }
  }

  @Test func aCoroutinesEndRacesWithAnElement() async throws {
    let channel = Channel<Int>()
    for round in 0..<Self.rounds / 20 {
      let worker = Coroutine { round }
      let sender = Coroutine { try channel.send(-1) }
      let selecting = Coroutine { () throws -> Int in
        try select {
          worker.onValue { $0 }
          channel.onReceive { $0 }
        }
      }
      let value = try await selecting.get()
      #expect(value == round || value == -1)
      sender.cancel()
      _ = try? await sender.get()
      #expect(try await worker.get() == round)
    }
  }

  @Test func nothingIsLeftBehindByManyAbandonedSelects() async throws {
    let (first, second, third) = (Channel<String>(), Channel<[Int]>(), Channel<Int>())
    let rounds = Self.rounds
    try await Coroutine(on: DispatchQueue(label: "serial")) {
      for batch in 0..<rounds / 100 {
        let waiting = (0..<100).map { index in
          Coroutine {
            try select {
              first.onSend("\(index)")
              second.onReceive { _ in }
              third.onSend(index)
              onTimeout(.seconds(3600)) {}
            }
          }
        }
        Coroutine.yield()
        for coroutine in waiting { coroutine.cancel() }
        for coroutine in waiting { _ = try? coroutine.get() }
        guard batch.isMultiple(of: 100) else { continue }
        #expect(first.storage.machine.senders.isEmpty)
        #expect(second.storage.machine.receivers.isEmpty && third.storage.machine.senders.isEmpty)
      }
    }.get()
  }
}
