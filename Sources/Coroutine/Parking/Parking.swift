// SPDX-License-Identifier: Apache-2.0

import CCoroutineSystem
import Context
import CoroutineLibc
public import Synchronization

/// Why a wait ended. The first claim decides.
@usableFromInline
package struct WakeCause: RawRepresentable, Equatable, Sendable {
  @usableFromInline package let rawValue: UInt32

  @inlinable
  package init(rawValue: UInt32) { self.rawValue = rawValue }

  /// What was waited for has happened.
  @inlinable package static var event: WakeCause { WakeCause(rawValue: 0) }
  /// The waiter was cancelled.
  @inlinable package static var cancelled: WakeCause { WakeCause(rawValue: 1) }
  /// The deadline has passed.
  @inlinable package static var timedOut: WakeCause { WakeCause(rawValue: 2) }

  /// Of several waits at once, this one's event has happened.
  @inlinable package static func selected(_ index: Int) -> WakeCause { WakeCause(rawValue: UInt32(3 + index)) }

  /// Which one, if one of several.
  @inlinable package var selectedIndex: Int? { rawValue >= 3 ? Int(rawValue) - 3 : nil }
}

extension WakeCause {
  /// The error of the operation that waited, if no event has ended its wait. What an event means it knows itself, such as that
  /// a channel was closed. `timeout` is the time that it was allowed.
  // Not inlined: the errors' types would be looked up before each wait.
  @usableFromInline @inline(never)
  package func failure(_ timeout: Duration?) -> (any Error)? {
    switch self {
    case .cancelled: return CancellationError()
    case .timedOut: return TimeoutError(after: timeout)
    default: return nil
    }
  }

  /// Throws that error, if there is one.
  @inlinable
  package func check(_ timeout: Duration? = nil) throws {
    if self != .event, let failure = failure(timeout) { throw failure }
  }
}

/// Decides which waker ends a wait: one word, which each of them must claim. An event of what is waited for, a cancel,
/// a deadline and the other cases of a joint wait race for it, each on its own thread. The first wins and wakes; the
/// others look elsewhere.
///
///     awake ──prepare──> suspending ──markParked──> parked ──claim──> claimed(cause) ──prepare──> …
///       ^                    │
///       └──────abandon───────┘
///
/// `suspendingIdle` and `parkedIdle` are the same as `suspending` and `parked`, except that a waker without the lock
/// may end the wait by bringing something: `claimIdle`.
///
/// Only the waiter, or the thread that runs it, goes from `awake` to `parked`, by plain stores; only a claim goes on.
/// `suspending` lasts from before the lock of what is waited for is taken until the context is saved. No claim succeeds
/// then: it waits until the word changes, which takes no other lock than that one.
@usableFromInline
package struct Parking: ~Copyable, Sendable {
  @usableFromInline let word = Atomic<UInt32>(Parking.awake)

  @usableFromInline static var awake: UInt32 { 0 }
  @usableFromInline static var suspending: UInt32 { 1 }
  @usableFromInline static var parked: UInt32 { 2 }
  /// The same for a wait that may also be ended by `claimIdle`: without the lock of what is waited for.
  @usableFromInline static var suspendingIdle: UInt32 { 3 }
  @usableFromInline static var parkedIdle: UInt32 { 4 }
  /// `claimed + cause`.
  @usableFromInline static var claimed: UInt32 { 16 }

  @inlinable
  package init() {}

  /// A wait may follow. A canceller from here on sees it, or the later look at the flag sees the cancel.
  @inlinable @inline(__always)
  package borrowing func prepare() { word.store(Self.suspending, ordering: .relaxed) }  // litmus: timer-armed

  /// The same for a wait that others may end before it has begun: false if one of them has.
  @inlinable
  package borrowing func prepareUnlessClaimed() -> Bool {
    word.compareExchange(
      expected: Self.awake, desired: Self.suspending, successOrdering: .acquiringAndReleasing,
      failureOrdering: .acquiring
    ).exchanged
  }

  /// Any waker that brings something may end the wait that follows (`claimIdle`). After `prepare`, when it is known
  /// that a wait follows.
  @inlinable @inline(__always)
  package borrowing func prepareIdle() { word.store(Self.suspendingIdle, ordering: .relaxed) }

  /// No wait followed.
  @inlinable @inline(__always)
  package borrowing func abandon() { word.store(Self.awake, ordering: .relaxed) }

  /// The context is saved: from here on the wait may be claimed, and the waiter may be gone in the next moment.
  @inlinable @inline(__always)
  package borrowing func markParked() { word.store(Self.parked, ordering: .releasing) }  // litmus: park-claim

  /// The same after `prepare` or `prepareIdle`.
  @inlinable @inline(__always)
  // litmus: park-claim
  package borrowing func markParkedAsPrepared() { word.store(word.load(ordering: .relaxed) &+ 1, ordering: .releasing) }

  /// Whether the context is saved and no waker has ended the wait. For debuggers.
  package var isParked: Bool {
    let word = word.load(ordering: .acquiring)
    return word == Self.parked || word == Self.parkedIdle
  }

  /// The same for a wait that others could already see before: false if one of them has ended it by `claimEarly`.
  @inlinable
  package borrowing func markParkedUnlessClaimed() -> Bool {
    word.compareExchange(
      expected: Self.awake, desired: Self.parked, successOrdering: .acquiringAndReleasing, failureOrdering: .acquiring
    ).exchanged
  }

  /// Ends the wait. Returns whether this was the first to: then the caller has to wake.
  @inlinable @inline(__always)
  package borrowing func claim(_ cause: WakeCause) -> Bool {  // litmus: park-claim, freeze-ready
    let (exchanged, found) = word.compareExchange(
      expected: Self.parked, desired: Self.claimed + cause.rawValue,
      successOrdering: .acquiringAndReleasing, failureOrdering: .relaxed)
    return exchanged || found &- 1 < Self.parkedIdle && claimAfterSuspending(cause)
  }

  /// The same by one compare-and-exchange: false also where `claim` would look again, since the context is still to be
  /// saved or the wait is one for `claimIdle`.
  @inlinable @inline(__always)
  borrowing func claimParked(_ cause: WakeCause) -> Bool {
    word.compareExchange(
      expected: Self.parked, desired: Self.claimed &+ cause.rawValue,
      successOrdering: .acquiringAndReleasing, failureOrdering: .relaxed
    ).exchanged
  }

  /// Whether there is a wait that `claimIdle` would end.
  @inlinable
  package var isParkedIdle: Bool {
    @inline(__always) get { word.load(ordering: .relaxed) == Self.parkedIdle }
  }

  /// Ends a wait that was begun by `prepareIdle`, if it is one and its context is saved. Returns whether it did. Then
  /// the caller, alone, has what the waiter has laid out for it, and has to wake the waiter.
  @inlinable @inline(__always)
  package borrowing func claimIdle() -> Bool {  // litmus: park-claim
    isParkedIdle
      && word.compareExchange(
        expected: Self.parkedIdle, desired: Self.claimed + WakeCause.event.rawValue,
        successOrdering: .acquiringAndReleasing, failureOrdering: .relaxed
      ).exchanged
  }

  /// Ends a wait that may not have begun. Returns whether this was the first to, and whether to wake.
  @usableFromInline
  // litmus: park-claim
  package borrowing func claimEarly(_ cause: WakeCause) -> (isFirst: Bool, mustWake: Bool) {
    // Again where the waiter has given up what it was beginning: it may begin anew, and no other thread would end that.
    while true {
      let (exchanged, found) = word.compareExchange(
        expected: Self.awake, desired: Self.claimed + cause.rawValue,
        successOrdering: .acquiringAndReleasing, failureOrdering: .acquiring)
      if exchanged { return (true, false) }
      guard found < Self.claimed else { return (false, false) }
      if claim(cause) { return (true, true) }
    }
  }

  @usableFromInline @inline(never)
  borrowing func claimAfterSuspending(_ cause: WakeCause) -> Bool {
    var backoff = SpinBackoff()
    while true {
      let found = word.load(ordering: .relaxed)
      switch found {
      case Self.suspending, Self.suspendingIdle:
        backoff.pause()
      case Self.parked, Self.parkedIdle:
        let (exchanged, _) = word.compareExchange(
          expected: found, desired: Self.claimed + cause.rawValue,
          successOrdering: .acquiringAndReleasing, failureOrdering: .relaxed)
        if exchanged { return true }
      default:
        return false
      }
    }
  }

  /// Whether a claim has ended the latest wait, and no other has begun.
  var isClaimed: Bool { word.load(ordering: .relaxed) >= Self.claimed }

  /// Whether no wait has begun, nor been ended early.
  @inlinable
  package var isAwake: Bool { word.load(ordering: .acquiring) == Self.awake }

  /// Whether a wait is being begun: the context is still to be saved.
  var isBeginning: Bool {
    let found = word.load(ordering: .relaxed)
    return found == Self.suspending || found == Self.suspendingIdle
  }

  /// Why the last wait ended. For the waiter, once it goes on.
  @inlinable @inline(__always)
  package var cause: WakeCause { WakeCause(rawValue: word.load(ordering: .acquiring) &- Self.claimed) }
}

/// For a thread that looks again and again at what another thread is about to change. The other thread has a few
/// instructions to go, unless it was preempted; then it needs the processor.
struct SpinBackoff {
  private var spins = 0

  mutating func pause() {
    #if COROUTINE_INTERLEAVINGS
      Interleaving.explorer?.letOthersRun()
    #endif
    spins += 1
    guard spins >= 100 else { return coroutine_system_relax() }
    // A call of the kernel's takes about a microsecond.
    Fork.requireAnotherThread(waited: spins / 1000)
    sched_yield()
  }
}
