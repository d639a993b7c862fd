/// A clock that a test moves.
public final class ManualClock: Clock, Sendable {
  public typealias Duration = Swift.Duration
  public struct Instant: InstantProtocol {
    public var offset: Swift.Duration
    public init(offset: Swift.Duration) { self.offset = offset }
    public func advanced(by duration: Swift.Duration) -> Instant { Instant(offset: offset + duration) }
    public func duration(to other: Instant) -> Swift.Duration { other.offset - offset }
    public static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
  }

  public let asked = AsyncStream<Instant>.makeStream()
  public let opened = AsyncStream<Void>.makeStream()
  public init() {}

  public var now: Instant { Instant(offset: .zero) }
  public var minimumResolution: Swift.Duration { .nanoseconds(1) }

  /// One element of `opened` wakes the sleeper.
  public func sleep(until deadline: Instant, tolerance: Swift.Duration?) async throws {
    asked.continuation.yield(deadline)
    for await _ in opened.stream { return }
    throw CancellationError()
  }
}
