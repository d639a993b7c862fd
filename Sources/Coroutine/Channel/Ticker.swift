// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// A tick in each period, as Go's `time.Ticker`.
///
/// ```swift
/// for _ in Ticker(every: .seconds(10)) {
///   try connection.send(.ping)
/// }
/// ```
///
/// The first tick comes after one period. Ticks are due at multiples of the period, so that lateness does not add up. One
/// tick is kept for a receiver that is not there; those that come meanwhile are dropped. So a receiver that is slower than
/// the ticks gets them as fast as it can, and never a heap of old ones.
///
/// `ticks` is the receiver of a channel: it is a case of a `select`, has a timeout, and is an `AsyncSequence`. The ticker
/// stops when the last copy of it is gone. Copies are the same ticker. It costs a timer, and no coroutine.
public struct Ticker: Sendable {
  /// The channel of the ticks: the instants at which they were due, by the kernel's clock; in a test with a virtual time, by that. (They
  /// may be seen later.)
  public let ticks: ChannelReceiver<SuspendingClock.Instant>

  /// Starts a ticker.
  ///
  /// - Parameters:
  ///   - period: the time between two ticks. More than zero: traps otherwise.
  ///   - name: for backtraces and messages.
  public init(every period: Duration, name: String = "") {
    self.init(every: period, name: name, by: TimerService.virtual ?? TimerService.shared)
  }

  init(every period: Duration, name: String, by timers: TimerService) {
    require(period > .zero, "a ticker can't tick every \(period): give it more than zero")
    let name = name.isEmpty ? "ticks every \(period)" : name
    let channel = Channel<SuspendingClock.Instant>(capacity: .buffered(1), name: name)
    channel.storage.isTicking = true
    ticks = ChannelReceiver(owner: ChannelEndOwner(channel, receives: true))
    TickerTimer(every: period, into: channel, by: timers).start()
  }

  /// No more ticks: receivers learn that the channel is closed, and loops end. Callable from any thread, any number of
  /// times.
  public func stop() { ticks.close() }
}

extension Ticker: Sequence {
  /// The ticks, in a coroutine: a loop ends when the ticker is stopped, or the caller cancelled.
  ///
  /// - Precondition: its `next()` is called inside a coroutine: traps elsewhere.
  @available(*, noasync, message: "use 'for await _ in ticker.ticks' in async code")
  public func makeIterator() -> ChannelReceiver<SuspendingClock.Instant>.Elements { ticks.received }
}

/// Sends the ticks into a channel until that is closed.
///
/// The timers keep it as long as it is armed. It holds the channel, and not the receivers' end of it, whose end stops it.
///
/// The channel may have been closed with an error of the user's, whose `deinit` the timers' thread must not run. So it is let go
/// of by hand, once: by the code that closes it, or, where a tick is being sent meanwhile, behind that, on another thread.
// Unchecked: only the code that may arm the timer touches `schedule`: `start`, and then the handler of each tick, one
// at a time.
private final class TickerTimer: TimerTarget, @unchecked Sendable {
  /// Retained, until it is let go of.
  private let channel: Unmanaged<ChannelStorage<SuspendingClock.Instant>>
  private let timers: TimerService
  private var schedule: TickSchedule
  private let state = Atomic<UInt>(TickerTimer.idle)

  private static var idle: UInt { 0 }
  /// A tick is being sent: whoever closes the channel leaves it to that.
  private static var sending: UInt { 1 }
  private static var closed: UInt { 2 }

  init(every period: Duration, into channel: Channel<SuspendingClock.Instant>, by timers: TimerService) {
    self.channel = .passRetained(channel.storage)
    self.timers = timers
    schedule = TickSchedule(every: period.nanosecondsRoundedUp, from: timers.now)
  }

  func start() {
    arm()
    channel._withUnsafeGuaranteedRef { $0.whenClosed { _ in self.stop() } }
  }

  override func timerFired() {
    guard replace(Self.idle, by: Self.sending) else { return }
    var tick: SuspendingClock.Instant? =
      SuspendingClock().systemEpoch.advanced(by: .nanoseconds(Int64(clamping: schedule.due)))
    let isClosed = channel._withUnsafeGuaranteedRef { $0.trySend(&tick) }
    if !isClosed {
      schedule.advance(past: timers.now)
      arm()
    }
    if replace(Self.sending, by: Self.idle) { return }
    // Closed meanwhile, maybe when there was nothing to disarm.
    timers.disarm(self)
    letGo()
  }

  /// The channel was closed. Once.
  private func stop() {
    let before = state.exchange(Self.closed, ordering: .acquiringAndReleasing)
    timers.disarm(self)
    if before == Self.idle { letGo() }
  }

  private func replace(_ old: UInt, by new: UInt) -> Bool {
    state.compareExchange(expected: old, desired: new, ordering: .acquiringAndReleasing).exchanged
  }

  private func letGo() {
    let channel = channel
    guard TimerThread.isCurrent else { return channel.release() }
    HandlerThreads.run { channel.release() }
  }

  private func arm() {
    if schedule.due != .max { timers.arm(self, at: schedule.due) }
  }
}
