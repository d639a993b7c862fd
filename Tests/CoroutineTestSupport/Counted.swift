import Coroutine
import Synchronization

/// How many of the objects that count themselves here are still there.
public final class Live: Sendable {
  fileprivate let count = Atomic<Int>(0)
  public init() {}
  public var now: Int { count.load(ordering: .relaxed) }

  /// Whether `wanted` are left, in the end. A dump that another test makes keeps the coroutines that it has found.
  /// Those that have ended meanwhile keep their errors until the dump is made.
  ///
  /// To be called in a coroutine, which yields meanwhile.
  public func comes(to wanted: Int) -> Bool {
    let end = ContinuousClock.now + .seconds(600)
    while now != wanted, ContinuousClock.now < end { Coroutine.yield() }
    return now == wanted
  }
}

/// Counts as live until it is released for the last time.
public final class Counted: Sendable {
  private let live: Live
  public init(_ live: Live) {
    self.live = live
    live.count.add(1, ordering: .relaxed)
  }
  deinit { live.count.subtract(1, ordering: .relaxed) }
}
