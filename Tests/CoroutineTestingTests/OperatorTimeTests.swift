import Coroutine
import CoroutineTesting
import Testing

/// When `chunks(ofCount:within:)` and `debounce(for:)` give what they have kept back.
@Suite(.ownThreads) struct OperatorTimeTests {
  private var milliseconds: Int { Int(TestClock().now.offset / .milliseconds(1)) }

  @Test func aChunkEndsWithItsTimeThoughTheChannelIsOpen() throws {
    try runTest {
      let channel = Channel<Int>()
      let sender = Coroutine {
        for element in 1...3 {
          try channel.send(element)
          try Coroutine.sleep(for: .milliseconds(40))
        }
      }
      var chunks = channel.received.chunks(ofCount: 3, within: .milliseconds(50))
      var found: [String] = []
      for _ in 0..<2 { found.append("\(chunks.next() ?? []) at \(milliseconds)") }
      #expect(found == ["[1, 2] at 50", "[3] at 130"])
      try sender.join()
    }
  }

  /// Each of its elements takes a millisecond.
  @Test func aChunkEndsWithItsTimeThoughThereIsAlwaysAnElement() throws {
    try runTest {
      let channel = Channel<Int>(capacity: .unbounded)
      for element in 0..<10_000 { _ = channel.trySend(element) }
      var chunks = channel.received.lazy
        .map { element in
          try? Coroutine.sleep(for: .milliseconds(1))
          return element
        }
        .chunks(ofCount: .max, within: .milliseconds(10))
      let count = chunks.next()?.count ?? 0
      // Behind the time's end both are ready, and chance decides.
      #expect(10..<200 ~= count, "\(count)")
    }
  }

  /// The form that the documentation of `chunks(ofCount:within:)` shows.
  @Test func whatAChunkHasTakenIsToBeHadBehindACancel() throws {
    try runTest {
      let channel = Channel<Int>(capacity: .unbounded)
      let stored = Log<[Int]>()
      let consumer = Coroutine {
        var chunks = channel.received.chunks(ofCount: 3, within: .milliseconds(50))
        while let chunk = chunks.next() { stored.add(chunk) }
        withCancellationShield {
          if let rest = chunks.next() { stored.add(rest) }
        }
      }
      for element in 1...5 { try channel.send(element) }
      try Coroutine.sleep(for: .milliseconds(10))
      #expect(stored.all == [[1, 2, 3]])
      consumer.cancel()
      try consumer.join()
      #expect(stored.all == [[1, 2, 3], [4, 5]])
      #expect(milliseconds == 50)
    }
  }

  @Test func noTimeAtAllTakesWhatIsThereAtOnce() throws {
    try runTest {
      let channel = Channel<Int>(capacity: .unbounded)
      for element in 0..<1000 { _ = channel.trySend(element) }
      var chunks = channel.received.chunks(ofCount: .max, within: .zero)
      #expect(chunks.next()?.count == 1000)
    }
  }

  @Test func debouncedElementsComeWhenItHasBeenQuiet() throws {
    try runTest {
      let channel = Channel<Int>()
      Coroutine {
        for (pause, element) in [(0, 1), (20, 2), (100, 3), (10, 4)] {
          try Coroutine.sleep(for: .milliseconds(pause))
          try channel.send(element)
        }
        try Coroutine.sleep(for: .milliseconds(500))
        channel.close()
      }
      var found: [String] = []
      for element in channel.received.debounce(for: .milliseconds(50)) { found.append("\(element) at \(milliseconds)") }
      #expect(found == ["2 at 70", "4 at 180"])
    }
  }

  /// Its consumer was busy with another operand while it was quiet, and until the next one had come.
  @Test func anElementThatQuietHasFollowedIsNotDropped() throws {
    try runTest {
      let (channel, other) = (Channel<Int>(capacity: .unbounded), Channel<Int>(capacity: .unbounded))
      Coroutine {
        try channel.send(1)
        try Coroutine.sleep(for: .milliseconds(10))
        try other.send(100)
        try Coroutine.sleep(for: .milliseconds(90))
        try channel.send(2)
        try Coroutine.sleep(for: .milliseconds(400))
        channel.close()
        other.close()
      }
      var found: [String] = []
      for element in merge(channel.received.debounce(for: .milliseconds(50)), other.received) {
        found.append("\(element) at \(milliseconds)")
        if element == 100 { try Coroutine.sleep(for: .milliseconds(150)) }
      }
      #expect(found == ["100 at 10", "1 at 160", "2 at 210"])
    }
  }
}
