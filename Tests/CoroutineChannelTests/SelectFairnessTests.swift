import CoroutineTestSupport
import Dispatch
import Testing

@testable import Coroutine

/// Each ready case is chosen equally often, whatever stands between the ready ones. With fixed seeds.
@Suite(.ownThreads) struct SelectFairnessTests {
  /// How far the counts are from equal: chi squared, with `counts.count - 1` degrees of freedom.
  private func deviation(_ counts: [Int]) -> Double {
    let expected = Double(counts.reduce(0, +)) / Double(counts.count)
    return counts.reduce(0) { $0 + (Double($1) - expected) * (Double($1) - expected) / expected }
  }

  @Test func everyPermutationIsDrawnEquallyOften() {
    var random = RandomWord(seed: 42)
    var counts: [[Int]: Int] = [:]
    for _ in 0..<24_000 {
      var order = PollOrder(of: 4, random)
      counts[(0..<4).map { order.draw($0) }, default: 0] += 1
      random = order.random
    }
    #expect(counts.count == 24)
    #expect(counts.keys.allSatisfy { $0.sorted() == [0, 1, 2, 3] })
    // 23 degrees of freedom: a value above 49.7 comes once in a thousand runs.
    #expect(deviation(Array(counts.values)) < 49.7)
  }

  @Test func aTableIsDrawnLikeAWord() {
    for count in [1, 2, 7, 16, 17, 100] {
      let table = UnsafeMutablePointer<UInt32>.allocate(capacity: count)
      defer { table.deallocate() }
      var inTable = PollOrder(of: count, RandomWord(seed: 7), table: table)
      let drawn = (0..<count).map { inTable.draw($0) }
      #expect(drawn.sorted() == Array(0..<count))
      #expect((0..<count).map { inTable[$0] } == drawn)
      guard count <= PollOrder.wordCapacity else { continue }
      var inWord = PollOrder(of: count, RandomWord(seed: 7))
      #expect((0..<count).map { inWord.draw($0) } == drawn)
      #expect((0..<count).map { inWord[$0] } == drawn)
    }
  }

  /// Zero, less, a time that is over and `otherwise` are all at once.
  @Test func casesOfNoTimeAreChosenEquallyOftenAndInABiasedSelectTheFirst() async throws {
    let counts = try await Coroutine { () throws -> [Int] in
      CoroutineCore.current?.random = RandomWord(seed: 42)
      var counts = [0, 0, 0, 0, 0]
      for _ in 0..<8_000 {
        let chosen = try select {
          onTimeout(.milliseconds(-1)) { 0 }
          onTimeout(.zero) { 1 }
          onTimeout(.milliseconds(1)) { 4 }
          onTimeout(until: ContinuousClock.now - .seconds(1), clock: .continuous) { 2 }
          otherwise { 3 }
        }
        counts[chosen] += 1
      }
      return counts
    }.get()
    let firsts = try await Coroutine { () throws -> [String] in
      let zero = try selectBiased {
        onTimeout(.zero) { "first" }
        onTimeout(.milliseconds(-1)) { "second" }
      }
      let none = try selectBiased {
        otherwise { "first" }
        onTimeout(.milliseconds(-1)) { "second" }
      }
      let passed = try selectBiased {
        onTimeout(until: ContinuousClock.now - .seconds(1), clock: .continuous) { "first" }
        onTimeout(.zero) { "second" }
      }
      return [zero, none, passed]
    }.get()
    #expect(counts[4] == 0 && deviation(Array(counts[..<4])) < 16.3, "\(counts)")
    #expect(firsts == ["first", "first", "first"])
  }

  @Test func theFirstNumbersOfNeighbouringSeedsAreEven() {
    var counts = [Int](repeating: 0, count: 8)
    for seed in 0..<16_000 {
      var random = RandomWord(seed: UInt64(seed))
      counts[random.next(below: 8)] += 1
    }
    #expect(deviation(counts) < 24.3)
  }

  @Test func eachReadyCaseIsChosenEquallyOftenWhereverItStands() async throws {
    let rounds = 3_000
    // The ready ones of four cases.
    for ready in [[0, 1], [0, 3], [1, 2], [0, 1, 2], [1, 2, 3], [0, 1, 2, 3]] {
      let coroutine = Coroutine(on: DispatchQueue(label: "serial")) { () throws -> [Int] in
        CoroutineCore.current?.random = RandomWord(seed: 1)
        let channels = (0..<4).map { _ in Channel<Int>() }
        for index in ready { channels[index].close() }
        var counts = [Int](repeating: 0, count: 4)
        for _ in 0..<rounds {
          let chosen = try select {
            channels[0].onNext { _ in 0 }
            channels[1].onNext { _ in 1 }
            channels[2].onNext { _ in 2 }
            channels[3].onNext { _ in 3 }
          }
          counts[chosen] += 1
        }
        return counts
      }
      let counts = try await coroutine.get()
      #expect((0..<4).allSatisfy { ready.contains($0) || counts[$0] == 0 })
      // At most 3 degrees of freedom: a value above 16.3 comes once in a thousand runs.
      #expect(deviation(ready.map { counts[$0] }) < 16.3, "\(ready): \(counts)")
    }
  }

  /// After Go's TestPseudoRandomSend: also for the cases of one channel, if the select has to wait for it.
  @Test func eachOfSeveralCasesAtOneChannelIsServedEquallyOften() async throws {
    let coroutine = Coroutine(on: DispatchQueue(label: "serial")) { () throws -> [Int] in
      CoroutineCore.current?.random = RandomWord(seed: 5)
      let channel = Channel<Int>()
      let receiver = Coroutine { () throws -> [Int] in
        var counts = [Int](repeating: 0, count: 3)
        // The select always finds the sender waiting.
        for _ in 0..<3_000 {
          counts[try channel.receive()] += 1
          Coroutine.yield()
        }
        return counts
      }
      for _ in 0..<3_000 {
        try select {
          channel.onSend(0)
          channel.onSend(1)
          channel.onSend(2)
        }
      }
      return try receiver.get()
    }
    // 2 degrees of freedom.
    let counts = try await coroutine.get()
    #expect(deviation(counts) < 13.8, "\(counts)")
  }

  /// After Go's chan/fifo and chan/select: two senders that always send are both served.
  @Test func noneOfManySendersIsStarved() async throws {
    let coroutine = Coroutine(on: DispatchQueue(label: "serial")) { () throws -> [Int] in
      CoroutineCore.current?.random = RandomWord(seed: 3)
      let channels = (0..<8).map { _ in Channel<Int>() }
      let senders = channels.enumerated().map { index, channel in
        Coroutine { while true { try channel.send(index) } }
      }
      Coroutine.yield()
      var counts = [Int](repeating: 0, count: 8)
      for _ in 0..<8_000 {
        counts[try select(channels.map { channel in channel.onReceive { $0 } })] += 1
        // The sender is back in the queue before the next choice.
        Coroutine.yield()
      }
      for sender in senders {
        sender.cancel()
        _ = try? sender.get()
      }
      return counts
    }
    // 7 degrees of freedom.
    #expect(deviation(try await coroutine.get()) < 24.3)
  }
}
