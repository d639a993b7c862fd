/// A clock that a test moves.
final class ManualClock: Clock, Sendable {
  typealias Duration = Swift.Duration
  struct Instant: InstantProtocol {
    var offset: Swift.Duration
    func advanced(by duration: Swift.Duration) -> Instant { Instant(offset: offset + duration) }
    func duration(to other: Instant) -> Swift.Duration { other.offset - offset }
    static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
  }

  let asked = AsyncStream<Instant>.makeStream()
  let opened = AsyncStream<Void>.makeStream()
  var now: Instant { Instant(offset: .zero) }
  var minimumResolution: Swift.Duration { .nanoseconds(1) }

  /// One element of `opened` wakes the sleeper.
  func sleep(until deadline: Instant, tolerance: Swift.Duration?) async throws {
    asked.continuation.yield(deadline)
    for await _ in opened.stream { return }
    throw CancellationError()
  }
}
