import CoroutineTestSupport
import Dispatch
import Testing

@testable import Coroutine

/// What operators make, as the operand of another operator.
@Suite(.ownThreads) struct OperandTests {
  @Test func whatAnOperatorMakesIsAnOperandOfEach() async throws {
    let log = Log()
    try await serially {
      let chunks = merge(filled([1, 2, 3]).received.chunks(ofCount: 2), filled([[9]]).received)
      log.add("\(Array(chunks).sorted { $0[0] < $1[0] })")
      let numbers = merge(merge(filled([1, 2]).received, filled([3]).received), filled([4]).received)
      log.add("\(Array(numbers).sorted())")
      log.add("\(Array(merge([numbers, numbers])).isEmpty)")
      let pairs = zip(zip(filled([1, 2]).received, filled(["a", "b"]).received), filled([true, false]).received)
      log.add("\(pairs.map { "\($0.0)\($0.1) \($1)" })")
      let latest = combineLatest(filled([1, 2, 3]).received.debounce(for: .seconds(1000)), filled([7]).received)
      log.add("\(latest.map { "\($0) \($1)" })")
      let nested = filled([1, 2, 3]).received.chunks(ofCount: 2).debounce(for: .seconds(1000)).chunks(ofCount: 5)
      log.add("\(Array(nested))")
      let several = (1...3).map { filled([$0]).received.chunks(ofCount: 2) }
      log.add("\(Array(merge(several)).count)")
    }
    #expect(
      log.all == [
        "[[1, 2], [3], [9]]", "[1, 2, 3, 4]", "true", #"["1a true", "2b false"]"#, #"["3 7"]"#, "[[[3]]]", "3",
      ])
  }

  @Test func aChunkThatIsNotFullWaitsWhileOthersCome() async throws {
    let log = Log()
    try await serially {
      let (numbers, words) = (Channel<Int>(), Channel<[Int]>())
      Coroutine {
        for number in 1...3 {
          try numbers.send(number)
          log.add("sent \(number)")
          try words.send([-number])
        }
        numbers.close()
        words.close()
      }
      for element in merge(numbers.received.chunks(ofCount: 2), words.received) { log.add("\(element)") }
    }
    let all = log.all
    #expect(all.filter { !$0.hasPrefix("sent") }.sorted() == ["[-1]", "[-2]", "[-3]", "[1, 2]", "[3]"])
    let places = ["sent 1", "[-1]", "[1, 2]", "[-2]", "[-3]"].map { all.firstIndex(of: $0) ?? -1 }
    #expect(places == places.sorted(), "\(all)")
  }

  @Test func aZipEndsWithTheFirstOfBothThatEnds() async throws {
    let log = Log()
    try await serially {
      // The first one never has another element: Swift's own `zip` would wait for it.
      let (never, ended) = (Channel<Int>(capacity: .buffered(1)), filled(["a"]))
      try never.send(1)
      var pairs = zip(never.received, ended.received)
      if let (number, letter) = pairs.next() { log.add("\(number)\(letter)") }
      log.add("\(pairs.next() == nil) \(pairs.next() == nil)")
    }
    #expect(log.all == ["1a", "true true"])
  }

  /// Each element takes three steps.
  @Test func aLimitOfZeroTakesTheWholesThatAreThere() async throws {
    let counts = try await Coroutine {
      let numbers = (0..<3).map { _ in filled(Array(0..<100)).received }
      return zip(numbers[0], numbers[1], numbers[2]).chunks(ofCount: 1000, within: .zero).map(\.count)
    }.get()
    #expect(counts == [100])
  }

  @Test func aChunkThatIsLateComesThoughAnotherIsAlwaysReady() async throws {
    let all = try await Coroutine { () -> [[Int]] in
      let numbers = Channel<Int>(capacity: .unbounded)
      try numbers.send(1)
      let others = filled((0..<500).map { _ in [0] })
      var merged = merge(numbers.received.chunks(ofCount: 2, within: .zero), others.received)
      var all: [[Int]] = []
      while all.count < 501, let next = merged.next() { all.append(next) }
      return all
    }.get()
    // Whenever the other is ready the late one is as likely as that: once in 2^400 it would be later.
    #expect((all.firstIndex(of: [1]) ?? .max) < 450)
  }

  @Test func quietComesThoughAnotherOperandIsAlwaysReady() async throws {
    let all = try await Coroutine { () -> [Int] in
      let numbers = Channel<Int>(capacity: .unbounded)
      try numbers.send(1)
      var merged = merge(
        numbers.received.debounce(for: .zero), filled(Array(repeating: 0, count: 500)).received)
      var all: [Int] = []
      while all.count < 501, let next = merged.next() { all.append(next) }
      return all
    }.get()
    #expect((all.firstIndex(of: 1) ?? .max) < 450)
  }

  @Test func aLimitOfZeroTakesWhatIsThereAtOnce() async throws {
    let chunks = try await Coroutine { () -> [Int] in
      let numbers = Channel<Int>(capacity: .unbounded)
      for number in 1...100 { try numbers.send(number) }
      var chunks = numbers.received.chunks(ofCount: 1000, within: .zero)
      return chunks.next() ?? []
    }.get()
    #expect(chunks == Array(1...100))
  }

  @Test func aCancelInsideOfOperatorsLosesNothing() async throws {
    let log = Log()
    try await serially {
      let (numbers, letters, never) = (Channel<Int>(), Channel<String>(), Channel<[(Int, String)]>())
      let waiting = Coroutine {
        var merged = merge(zip(numbers.received, letters.received).chunks(ofCount: 2), never.received)
        log.add("cancelled: \(merged.next() == nil)")
        withCancellationShield {
          for (number, letter) in merged.next() ?? [] { log.add("\(number)\(letter)") }
        }
      }
      try numbers.send(1)
      try letters.send("a")
      try numbers.send(2)
      Coroutine.yield()
      waiting.cancel()
      try letters.send("b")
      try waiting.get()
      log.add("\(numbers.waitingReceiverCount) \(letters.waitingReceiverCount) \(never.waitingReceiverCount)")
    }
    #expect(log.all == ["cancelled: true", "1a", "2b", "0 0 0"])
  }

  @Test func nothingIsTakenAheadByOperatorsInsideOfOthers() async throws {
    let log = Log()
    try await serially {
      let numbers = [Channel<Int>(capacity: .buffered(8)), Channel<Int>(capacity: .buffered(8))]
      for channel in numbers { for number in 1...8 { try channel.send(number) } }
      var merged = merge(numbers[0].received.chunks(ofCount: 4), numbers[1].received.chunks(ofCount: 4))
      let first = merged.next() ?? []
      // Of the one that is not full yet at most three were taken.
      let left = numbers.map(\.count).sorted()
      log.add("\(first) \(left[0]) \(left[1] >= 5)")
      for channel in numbers { channel.close() }
      log.add("\(Array(merged).flatMap(\.self).count)")
    }
    #expect(log.all == ["[1, 2, 3, 4] 4 true", "12"])
  }

  @Test func operatorsForwardIntoAChannelForASelect() async throws {
    let log = Log()
    try await serially {
      let (numbers, stop) = (filled([1, 2, 3]), Channel<Void>())
      let chunks = Channel<[Int]>()
      Coroutine {
        defer { chunks.close() }
        for chunk in numbers.received.chunks(ofCount: 2) { try chunks.send(chunk) }
      }
      var isAtEnd = false
      while !isAtEnd {
        try select {
          chunks.onNext { chunk in if let chunk { log.add("\(chunk)") } else { isAtEnd = true } }
          stop.onReceive { _ in isAtEnd = true }
        }
      }
    }
    #expect(log.all == ["[1, 2]", "[3]"])
  }
}
