import CoroutineTestSupport
import Dispatch
import Testing

@testable import Coroutine

@Suite(.ownThreads) struct OperatorTests {
  @Test func mergedElementsComeFromAllInTheOrderOfEach() async throws {
    let (odd, even) = (filled([1, 3, 5]), filled([2, 4, 6, 8]))
    let merged = try await Coroutine { Array(merge(odd.received, even.received)) }.get()
    #expect(merged.sorted() == [1, 2, 3, 4, 5, 6, 8])
    #expect(merged.filter { !$0.isMultiple(of: 2) } == [1, 3, 5])
    let channels = (0..<20).map { filled([$0]) }
    let all = try await Coroutine { Array(merge(channels.map(\.received))) }.get()
    #expect(all.sorted() == Array(0..<20))
    #expect(try await Coroutine { Array(merge([ReceivedElements<Int>]())) }.get() == [])
  }

  @Test func elementsOfAGeneratorAreMerged() async throws {
    let log = Log()
    try await serially {
      let generator = AsyncGenerator<Int> { yield in
        for number in [1, 3, 5] {
          log.add("yields \(number)")
          try yield(number)
        }
      }
      var merged = merge(generator.elements, filled([2, 4]).received)
      var all: [Int] = []
      while let element = merged.next() { all.append(element) }
      log.add("\(all.sorted()) \(all.filter { !$0.isMultiple(of: 2) })")
      log.add("\(Array(AsyncGenerator { yield in try yield(7) }.elements.chunks(ofCount: 2)))")
    }
    #expect(log.all == ["yields 1", "yields 3", "yields 5", "[1, 2, 3, 4, 5] [1, 3, 5]", "[[7]]"])
  }

  @Test func anErrorOfAMergedGeneratorIsTheEndAndIsReported() async throws {
    struct Broken: Error {}
    let log = Log()
    try await serially {
      CoroutineErrors.withTaker({ error, _ in
        log.add("\(error)")
        return true
      }) {
        func make() -> AsyncGenerator<Int> {
          AsyncGenerator { yield in
            try yield(1)
            throw Broken()
          }
        }
        log.add("\(Array(make().elements))")
        log.add("\(Array(merge(make().elements, filled([Int]()).received)))")
      }
    }
    #expect(log.all == ["Broken()", "[1]", "Broken()", "[1]"])
  }

  /// A cancel of what the body waits for is an error of the body's, and no cancel of the consumer.
  @Test func aCancelThatTheBodyMeetsIsReported() async throws {
    let log = Log()
    try await serially {
      CoroutineErrors.withTaker({ error, _ in
        log.add("\(error)")
        return true
      }) {
        let promise = Promise<Int>(error: CancellationError())
        let generator = AsyncGenerator { yield in
          try yield(1)
          try yield(promise.get())
        }
        log.add("\(Array(generator.elements))")
      }
    }
    #expect(log.all == ["CancellationError()", "[1]"])
  }

  @Test func zippedElementsComeInPairs() async throws {
    let pairs = try await Coroutine {
      zip(filled([1, 2, 3]).received, filled(["a", "b"]).received).map { "\($0)\($1)" }
    }.get()
    #expect(pairs == ["1a", "2b"])
  }

  @Test func threeAreOperandsToo() async throws {
    let merged = try await Coroutine {
      Array(merge(filled([1, 4]).received, filled([2]).received, filled([Int]()).received)).sorted()
    }.get()
    #expect(merged == [1, 2, 4])
    let zipped = try await Coroutine {
      zip(filled([1, 2]).received, filled(["a", "b"]).received, filled([true]).received).map { "\($0)\($1)\($2)" }
    }.get()
    #expect(zipped == ["1atrue"])
    let log = Log()
    try await serially {
      let all = zip(filled([1]).received, filled([2]).received, filled([3]).received).map { $0 + $1 + $2 }
      log.add("\(all.count) \(all)")
      let (numbers, names, flags) = (Channel<Int>(), Channel<String>(), Channel<Bool>())
      Coroutine {
        try numbers.send(1)
        try names.send("a")
        try numbers.send(2)
        try flags.send(true)
        try numbers.send(3)
        numbers.close()
        try flags.send(false)
        names.close()
        flags.close()
      }
      for (number, name, flag) in combineLatest(numbers.received, names.received, flags.received) {
        log.add("\(number)\(name)\(flag)")
      }
      let (ended, open) = (Channel<Int>(), Channel<Int>())
      ended.close()
      log.add("\(Array(combineLatest(open.received, ended.received, open.received)).count)")
    }
    #expect(log.all == ["1 [6]", "2atrue", "3atrue", "3afalse", "0"])
  }

  @Test func aMergeTakesNothingAhead() async throws {
    let log = Log()
    try await serially {
      let (first, second) = (Channel<Int>(capacity: .buffered(3)), Channel<Int>())
      for element in 1...3 { try first.send(element) }
      var merged = merge(first.received, second.received)
      log.add("\(merged.next()!) \(first.count)")
      let sender = Coroutine { try second.send(9) }
      var rest = [merged.next()!, merged.next()!, merged.next()!]
      try sender.get()
      first.close()
      second.close()
      if let more = merged.next() { rest.append(more) }
      log.add("\(rest.sorted())")
    }
    #expect(log.all == ["1 2", "[2, 3, 9]"])
  }

  @Test func aCancelEndsEachAndLosesNothing() async throws {
    let log = Log()
    try await serially {
      let (numbers, never) = (Channel<Int>(), Channel<Int>())
      let waiting = [
        Coroutine { log.add("\(Array(merge(numbers.received, never.received)))") },
        Coroutine { log.add("\(Array(combineLatest(numbers.received, never.received)).count)") },
        Coroutine { log.add("\(Array(numbers.received.debounce(for: .seconds(1000))))") },
        Coroutine { log.add("\(Array(numbers.received.chunks(ofCount: 2)))") },
        Coroutine { log.add("\(zip(numbers.received, never.received).map(\.0))") },
      ]
      Coroutine.yield()
      for coroutine in waiting { coroutine.cancel() }
      for coroutine in waiting { try coroutine.get() }
      log.add("\(numbers.waitingReceiverCount) \(never.waitingReceiverCount)")
    }
    #expect(log.all == ["[]", "0", "[]", "[]", "[]", "0 0"])
  }

  @Test func theLatestOfBothComeAsPairs() async throws {
    let log = Log()
    try await serially {
      let (numbers, names) = (Channel<Int>(), Channel<String>())
      Coroutine {
        try numbers.send(1)
        try numbers.send(2)
        try names.send("a")
        try numbers.send(3)
        numbers.close()
        try names.send("b")
        names.close()
      }
      for (number, name) in combineLatest(numbers.received, names.received) { log.add("\(number)\(name)") }
      let (ended, open) = (Channel<Int>(), Channel<Int>())
      ended.close()
      log.add("\(Array(combineLatest(ended.received, open.received)).count)")
    }
    #expect(log.all == ["2a", "3a", "3b", "0"])
  }

  @Test func anElementThatIsFollowedByAnotherIsDropped() async throws {
    let elements = try await Coroutine { () throws -> [Int] in
      let channel = Channel<Int>()
      Coroutine {
        // Sent at once, as the receiver does not run before that.
        for element in 1...3 { try channel.send(element) }
        channel.close()
      }
      return Array(channel.received.debounce(for: .seconds(1000)))
    }.get()
    #expect(elements == [3])
    let quiet = Channel<Int>()
    #expect(
      try await Coroutine { () throws -> [Int] in
        let numbers = Channel<Int>(capacity: .unbounded)
        for number in 1...3 { try numbers.send(number) }
        numbers.close()
        return Array(numbers.received.debounce(for: .zero))
      }.get() == [1, 2, 3])
    let debounced = Coroutine { () -> Int? in
      var elements = quiet.received.debounce(for: .milliseconds(1))
      return elements.next()
    }
    try await quiet.send(7)
    #expect(try await debounced.get() == 7)
  }

  @Test func elementsComeInChunks() async throws {
    let all = filled(Array(1...7))
    let chunks = try await Coroutine { Array(all.received.chunks(ofCount: 3)) }.get()
    #expect(chunks == [[1, 2, 3], [4, 5, 6], [7]])
    let slow = Channel<Int>()
    let late = Coroutine { () -> [[Int]] in
      var chunks = slow.received.chunks(ofCount: 3, within: .milliseconds(1))
      return [chunks.next() ?? [], chunks.next() ?? []]
    }
    try await slow.send(1)
    slow.close()
    #expect(try await late.get().first == [1])
  }

  /// Without end there are elements that the filter leaves out.
  @Test func whatIsLeftOutDoesNotKeepAChunkBack() async throws {
    let numbers = Channel<Int>(capacity: .unbounded)
    for number in [0, 1, 1] { _ = numbers.trySend(number) }
    let chunk = try await Coroutine {
      var chunks = numbers.received.lazy.filter { number in
        if number == 1 { _ = numbers.trySend(1) }
        return number == 0
      }.chunks(ofCount: 2, within: .zero)
      return chunks.next()
    }.get()
    #expect(chunk == [0])
  }

  @Test func operatorsTakeSubscriptionsEndsAndTickers() async throws {
    let broadcast = BroadcastChannel<Int>()
    let (sender, receiver) = Channel<Int>.makeEnds(capacity: .unbounded)
    let subscription = broadcast.subscribe()
    try await broadcast.send(1)
    _ = sender.trySend(2)
    broadcast.close()
    sender.close()
    #expect(
      try await Coroutine { Array(merge(subscription.received, receiver.received)).sorted() }.get() == [1, 2])
    let ticker = Ticker(every: .milliseconds(1))
    let pairs = Coroutine { zip(ticker, 1...3).map(\.1) }
    #expect(try await pairs.get() == [1, 2, 3])
  }
}
