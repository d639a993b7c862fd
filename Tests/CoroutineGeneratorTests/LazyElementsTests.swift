import CoroutineTestSupport
import Testing

@testable import Coroutine

/// `map`, `filter` and `compactMap` of what is received, as operands of operators.
@Suite(.ownThreads) struct LazyElementsTests {
  private enum Event: Equatable {
    case key(Int)
    case click(String)
  }

  @Test func elementsOfDifferentTypesAreMerged() async throws {
    let events = try await Coroutine {
      let (keys, clicks) = (filled([1, 2]).received, filled(["a", "b"]).received)
      let events = Array(merge(keys.lazy.map { Event.key($0) }, clicks.lazy.map { Event.click($0) }))
      return (events.filter { if case .key = $0 { true } else { false } } == [.key(1), .key(2)], events.count)
    }.get()
    #expect(events == (true, 4))
  }

  @Test func whatIsMadeLazilyIsAnOperandOfEach() async throws {
    let log = Log()
    try await serially {
      let even = filled(Array(1...6)).received.lazy.filter { $0.isMultiple(of: 2) }
      log.add("\(Array(even.chunks(ofCount: 2)))")
      let words = filled(["1", "x", "3"]).received.lazy.compactMap { Int($0) }.map { $0 + 1 }
      log.add("\(zip(words, filled(["a", "b", "c"]).received).map { "\($0)\($1)" })")
      log.add("\(Array(filled([1, 2, 3]).received.chunks(ofCount: 2).lazy.map(\.count).debounce(for: .seconds(1000))))")
      let several = (1...3).map { factor in filled([1]).received.lazy.map { $0 * factor } }
      log.add("\(merge(several).sorted())")
      let none = filled([1, 2, 3]).received.lazy.filter { _ in false }
      log.add("\(Array(merge(none, none)))")
    }
    #expect(log.all == ["[[2, 4], [6]]", #"["2a", "4b"]"#, "[1]", "[1, 2, 3]", "[]"])
  }

  @Test func aloneItIsAsLazyAsTheStandardLibrarys() async throws {
    let log = Log()
    try await serially {
      let numbers = Channel<Int>(capacity: .unbounded)
      for number in 1...5 { try numbers.send(number) }
      let doubled = numbers.received.lazy.map { number in
        log.add("maps \(number)")
        return 2 * number
      }
      log.add("\(Array(doubled.prefix(2)))")
      log.add("\(doubled.lazy.filter { $0 > 6 }.first { _ in true } ?? 0) \(numbers.count)")
      let optional = filled([nil, 1, nil]).received.lazy.map { $0 }
      log.add("\(Array(optional).count)")
    }
    #expect(log.all == ["maps 1", "maps 2", "[2, 4]", "maps 3", "maps 4", "8 1", "3"])
  }

  @Test func aCancelledConsumerLosesNothing() async throws {
    let log = Log()
    try await serially {
      let (numbers, others) = (Channel<Int>(capacity: .unbounded), Channel<Int>())
      let consumer = Coroutine {
        for number in merge(numbers.received.lazy.map { 2 * $0 }, others.received) { log.add("\(number)") }
      }
      Coroutine.yield()
      try numbers.send(1)
      while log.all.isEmpty { Coroutine.yield() }
      consumer.cancel()
      try consumer.join()
      try numbers.send(2)
      log.add("\(numbers.count) left")
    }
    #expect(log.all == ["2", "1 left"])
  }
}
