import Coroutine
import CoroutineTesting

/// One coroutine's random operations at channels that many others use, and the sums of what it has sent and received.
struct ChannelUser: Sendable {
  struct Sums: Sendable {
    var sent = 0
    var received = 0
    /// How many were received.
    var elements = 0
    var operations = 0
  }

  private(set) var sums = Sums()
  private let channels: [Channel<Int>]
  private var random: SplitMix

  init(of channels: [Channel<Int>], _ random: SplitMix) {
    self.channels = channels
    self.random = random
  }

  mutating func operate() throws {
    sums.operations += 1
    let channel = choose()
    let element = Int.random(in: 1...1 << 20, using: &random)
    let timeout = Duration.microseconds(Int.random(in: 1...2_000, using: &random))
    switch Int.random(in: 0..<12, using: &random) {
    case 0, 1: if case .sent = channel.trySend(element) { sums.sent &+= element }
    case 2, 3: if case .received(let element) = channel.tryReceive() { count(element) }
    case 4, 5:
      // One that times out, even at the last moment, has not sent.
      if try Self.ifInTime({ try channel.send(element, timeout: timeout) }) != nil { sums.sent &+= element }
    case 6, 7: if let element = try Self.ifInTime({ try channel.receive(timeout: timeout) }) { count(element) }
    case 8: try sendInCancelled(element, to: channel)
    case 9: if let element = try withTimeoutOrNil(timeout, { try channel.receive() }) { count(element) }
    default: try selectOfThree(element, timeout)
    }
  }

  /// Half of the operations meet at a few channels.
  private mutating func choose() -> Channel<Int> {
    let count = Bool.random(using: &random) ? min(64, channels.count) : channels.count
    return channels[Int.random(in: 0..<count, using: &random)]
  }

  private static func ifInTime<Result>(_ body: () throws -> Result) throws -> Result? {
    do {
      return try body()
    } catch is TimeoutError {
      return nil
    }
  }

  private mutating func count(_ element: Int) {
    sums.received &+= element
    sums.elements += 1
  }

  /// A child that is cancelled at about the time at which it sends: it says itself whether it did.
  private mutating func sendInCancelled(_ element: Int, to channel: Channel<Int>) throws {
    let sender = Coroutine { () -> Bool in
      do {
        try channel.send(element)
        return true
      } catch is CancellationError {
        return false
      }
    }
    if Bool.random(using: &random) { Coroutine.yield() }
    sender.cancel()
    do {
      if try sender.get() { sums.sent &+= element }
    } catch is CancellationError {}  // before it began
  }

  private mutating func selectOfThree(_ element: Int, _ limit: Duration) throws {
    let (one, two, three) = (choose(), choose(), choose())
    var sent = 0
    var received: Int?
    try select {
      one.onReceive { received = $0 }
      two.onSend(element) { sent = element }
      three.onReceive { received = $0 }
      onTimeout(limit) {}
    }
    sums.sent &+= sent
    if let received { count(received) }
  }
}
