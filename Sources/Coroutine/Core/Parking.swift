import CSystem
import Glibc
public import Synchronization

/// Why a wait ended. The first claim decides.
@usableFromInline
package struct WakeCause: RawRepresentable, Equatable, Sendable {
  @usableFromInline package let rawValue: UInt32

  @inlinable
  package init(rawValue: UInt32) { self.rawValue = rawValue }

  /// What was waited for has happened.
  @inlinable package static var event: WakeCause { WakeCause(rawValue: 0) }
  /// Whoever waits was cancelled.
  @inlinable package static var cancelled: WakeCause { WakeCause(rawValue: 1) }
  /// The deadline has passed.
  @inlinable package static var timedOut: WakeCause { WakeCause(rawValue: 2) }

  /// Of several waits at once, this one's event has happened.
  @inlinable package static func selected(_ index: Int) -> WakeCause { WakeCause(rawValue: UInt32(3 + index)) }

  /// Which one, if one of several.
  @inlinable package var selectedIndex: Int? { rawValue >= 3 ? Int(rawValue) - 3 : nil }
}

extension WakeCause {
  /// Throws what the operation that waited has to, unless its event has happened. `timeout` is what it was allowed.
  @inlinable
  package func check(_ timeout: Duration? = nil) throws {
    if self == .cancelled { throw CancellationError() }
    if self == .timedOut { throw TimeoutError(after: timeout) }
  }
}

/// Who ends a wait: one word, that everybody who could must claim. An event of what is waited for, a cancel, a deadline
/// and the other cases of a select race for it, on as many threads; the first wins and wakes, the others look elsewhere.
///
///     awake ──prepare──> departing ──park──> parked ──claim──> claimed(cause) ──prepare──> …
///       ^                    │
///       └──────abandon───────┘
///
/// Only whoever waits, or the thread that runs it, goes from `awake` to `parked`, by plain stores; only a claim goes on.
/// `departing` lasts from before the lock of what is waited for is taken until the context is saved. No claim succeeds
/// then: it waits until the word changes, which takes no other lock than that one.
@usableFromInline
package struct Parking: ~Copyable, Sendable {
  @usableFromInline let word = Atomic<UInt32>(Parking.awake)

  @usableFromInline static var awake: UInt32 { 0 }
  @usableFromInline static var departing: UInt32 { 1 }
  @usableFromInline static var parked: UInt32 { 2 }
  /// `claimed + cause`.
  @usableFromInline static var claimed: UInt32 { 16 }

  @inlinable
  package init() {}

  /// A wait may follow. Whoever cancels from here on sees it, or is seen by the look at the flag that comes later.
  @inlinable @inline(__always)
  package borrowing func prepare() { word.store(Self.departing, ordering: .relaxed) }

  /// The same for a wait that others may end before it has begun: false if one of them has.
  @inlinable
  package borrowing func prepareUnlessClaimed() -> Bool {
    word.compareExchange(
      expected: Self.awake, desired: Self.departing, successOrdering: .acquiringAndReleasing,
      failureOrdering: .acquiring
    ).exchanged
  }

  /// None followed.
  @inlinable @inline(__always)
  package borrowing func abandon() { word.store(Self.awake, ordering: .relaxed) }

  /// The context is saved: the wait may be claimed from here on, and whoever waits be gone in the next moment.
  @inlinable @inline(__always)
  package borrowing func park() { word.store(Self.parked, ordering: .releasing) }

  /// The same for a wait that others could already see before: false if one of them has ended it by `claimEarly`.
  @inlinable
  package borrowing func parkUnlessClaimed() -> Bool {
    word.compareExchange(
      expected: Self.awake, desired: Self.parked, successOrdering: .acquiringAndReleasing, failureOrdering: .acquiring
    ).exchanged
  }

  /// Ends the wait. Whether this was the first to: then the caller has to wake.
  @inlinable @inline(__always)
  package borrowing func claim(_ cause: WakeCause) -> Bool {
    let (exchanged, found) = word.compareExchange(
      expected: Self.parked, desired: Self.claimed + cause.rawValue,
      successOrdering: .acquiringAndReleasing, failureOrdering: .relaxed)
    return exchanged || found == Self.departing && claimAfterDeparture(cause)
  }

  /// Ends a wait that may not have begun. Whether this was the first to, and whether to wake.
  @usableFromInline
  package borrowing func claimEarly(_ cause: WakeCause) -> (isFirst: Bool, mustWake: Bool) {
    let early = word.compareExchange(
      expected: Self.awake, desired: Self.claimed + cause.rawValue,
      successOrdering: .acquiringAndReleasing, failureOrdering: .acquiring)
    if early.exchanged { return (true, false) }
    let isFirst = claim(cause)
    return (isFirst, isFirst)
  }

  @usableFromInline @inline(never)
  borrowing func claimAfterDeparture(_ cause: WakeCause) -> Bool {
    var spins = 0
    while word.load(ordering: .relaxed) == Self.departing {
      spins += 1
      // A few instructions more, unless the thread was preempted: then it needs the processor.
      if spins < 100 { csystem_relax() } else { sched_yield() }
    }
    return claim(cause)
  }

  /// Whether no wait has begun, nor been ended early.
  @inlinable
  package var isAwake: Bool { word.load(ordering: .acquiring) == Self.awake }

  /// Why the last wait ended. For whoever waited, once it goes on.
  @inlinable @inline(__always)
  package var cause: WakeCause { WakeCause(rawValue: word.load(ordering: .acquiring) &- Self.claimed) }
}
