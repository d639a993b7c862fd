import Coroutine
import CoroutineTesting
import Testing

@Suite(.ownThreads) struct ThrottleTests {
  /// Sends each element after the pause before it, in milliseconds.
  private func sent(_ elements: [(pause: Int, element: Int)]) -> Channel<Int> {
    let channel = Channel<Int>(capacity: .unbounded)
    Coroutine {
      defer { channel.close() }
      for (pause, element) in elements {
        try Coroutine.sleep(for: .milliseconds(pause))
        try channel.send(element)
      }
    }
    return channel
  }

  /// When each of them comes, in milliseconds.
  private func times(_ elements: some Sequence<Int>) -> [String] {
    elements.map { "\($0) at \(Int(TestClock().now.offset / .milliseconds(1)))" }
  }

  private let bursts = [(10, 1), (10, 2), (10, 3), (200, 4), (50, 5), (10, 6), (1, 7)]

  @Test func theFirstComesAtOnceAndThenTheLatestOfEachTime() throws {
    try runTest {
      let elements = sent(bursts).received.throttle(for: .milliseconds(100))
      #expect(times(elements) == ["1 at 10", "3 at 110", "4 at 230", "7 at 291"])
    }
  }

  @Test func orTheFirstOfEachTime() throws {
    try runTest {
      let elements = sent(bursts).received.throttle(for: .milliseconds(100), latest: false)
      #expect(times(elements) == ["1 at 10", "2 at 110", "4 at 230", "5 at 291"])
    }
  }

  /// The consumer was busy with another operand when the time of the one that is kept back was over.
  @Test func theFirstBehindATimeBelongsToTheNext() throws {
    try runTest {
      let numbers = sent([(0, 1), (10, 2), (140, 3), (500, 4)])
      let throttled = numbers.received.throttle(for: .milliseconds(100), latest: false)
      var found: [String] = []
      for element in merge(throttled, sent([(20, 100), (600, 101)]).received) {
        found += times([element])
        if element == 100 { try Coroutine.sleep(for: .milliseconds(200)) }
      }
      #expect(found == ["1 at 0", "100 at 20", "2 at 220", "3 at 320", "101 at 620", "4 at 650"])
    }
  }

  @Test func aLimitOfZeroDropsNone() throws {
    try runTest {
      #expect(Array(sent([(0, 1), (0, 2), (5, 3)]).received.throttle(for: .zero)) == [1, 2, 3])
    }
  }

  @Test func aReceiverThatIsSlowerThanTheTimeGetsAll() throws {
    try runTest {
      var elements = sent([(0, 1), (0, 2), (0, 3)]).received.throttle(for: .milliseconds(100))
      var all: [Int] = []
      while let element = elements.next() {
        all.append(element)
        try Coroutine.sleep(for: .milliseconds(200))
      }
      #expect(all == [1, 2, 3])
    }
  }

  @Test func aCancelKeepsWhatIsHeldBack() throws {
    try runTest {
      let channel = sent([(0, 1), (10, 2), (500, 3)])
      let rest = Coroutine { () -> [Int] in
        var elements = channel.received.throttle(for: .milliseconds(100))
        _ = elements.next()
        let early = try withTimeoutOrNil(.milliseconds(50)) { () throws -> Int? in
          let element = elements.next()
          try Coroutine.checkCancellation()
          return element
        }
        #expect(early == nil)
        return Array(elements)
      }
      let elements = try rest.get()
      #expect(elements == [2, 3])
    }
  }

  @Test func itIsAnOperandOfOthers() throws {
    try runTest {
      let throttled = sent(bursts).received.throttle(for: .milliseconds(100))
      #expect(Array(throttled.chunks(ofCount: 3)) == [[1, 3, 4], [7]])
    }
  }
}
