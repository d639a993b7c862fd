// SPDX-License-Identifier: Apache-2.0

public import Synchronization

/// Whether a created coroutine still has to be scheduled, and how it begins. One byte, whose lowest bit is cleared once: the
/// caller that clears it schedules the coroutine.
@usableFromInline
package struct StartMode: OptionSet, Sendable {
  @usableFromInline package let rawValue: UInt8

  @inlinable
  package init(rawValue: UInt8) { self.rawValue = rawValue }

  /// It is not scheduled: a claimer is still to start it.
  @inlinable static var held: StartMode { StartMode(rawValue: 1) }
  /// A waiter for its end starts it.
  @inlinable static var onDemand: StartMode { StartMode(rawValue: 2) }
  /// It begins even if it was cancelled before.
  @inlinable static var atomic: StartMode { StartMode(rawValue: 4) }
  /// Its canceller started it, in order to end it, before it would have begun.
  @inlinable static var byCanceller: StartMode { StartMode(rawValue: 8) }
  /// It is not scheduled, and a waiter for its end is the one to start it.
  @inlinable static var heldOnDemand: StartMode { StartMode(rawValue: held.rawValue | onDemand.rawValue) }
}

extension CoroutineCore {
  /// Whether a waiter for its result starts it.
  @inlinable @inline(__always)
  final var isHeldOnDemand: Bool {
    StartMode(rawValue: startMode.load(ordering: .relaxed)).isSuperset(of: .heldOnDemand)
  }

  /// Claims the start of one that is held: the first caller to do so schedules it, when it holds no lock.
  ///
  /// - Parameters:
  ///   - how: what is noted of how it begins.
  ///   - kind: `.onDemand`: only if no caller has started it yet, and its family has not queued it since.
  /// - Returns: how it was to begin until now; `nil`: it was not held.
  // litmus: look-locked, end-result
  final func claimStart(_ how: StartMode = [], ifHeld kind: StartMode = []) -> StartMode? {
    var mode = StartMode(rawValue: startMode.load(ordering: .relaxed))
    while mode.isSuperset(of: kind.union(.held)) {
      let next = mode.subtracting(.held).union(how)
      let (exchanged, now) = startMode.compareExchange(
        expected: mode.rawValue, desired: next.rawValue, ordering: .acquiringAndReleasing)
      if exchanged {
        // From here on it keeps itself alive, as others do from their creation.
        if mode.contains(.onDemand) { _ = Unmanaged.passRetained(self) }
        return mode
      }
      mode = StartMode(rawValue: now)
    }
    return nil
  }

  /// Schedules it, if it is held. Returns whether it was.
  @usableFromInline @discardableResult
  final func startHeld(_ how: StartMode = []) -> Bool {
    guard let mode = claimStart(how) else { return false }
    // Its family lives until it has ended, which it can't before it is scheduled.
    if mode.contains(.onDemand), let family,
      !family._withUnsafeGuaranteedRef({ $0.childStarts(self) })
    {
      return true
    }
    schedule()
    return true
  }

  /// Whether its canceller has started it, so that it ends past the order of its family.
  final var wasStartedByCanceller: Bool {
    StartMode(rawValue: startMode.load(ordering: .relaxed)).contains(.byCanceller)
  }
}

extension CoroutineCore {
  /// In place of `keepAlive`: the first caller that starts it or waits for its end schedules it; otherwise it goes with
  /// its last handle. Once, before another thread can know of it.
  @usableFromInline
  final func holdOnDemand() {
    noteOrigin()
    addToStartMode(.heldOnDemand)
  }

  /// Its family claims its start and so schedules it. After `keepAlive`, before another thread can know of it. Debuggers
  /// find it as one that has not begun.
  final func holdInQueue() {
    addToStartMode(.held)
    unstartedSlot = UnstartedCoroutines.add(self)
  }

  /// Back to held: its start was claimed on demand, but its family, a scope, is at its limit. That claims it again when there
  /// is room. The caller holds the family's lock; a cancel may come meanwhile, so the family looks for one after its unlock.
  final func holdInQueueOnceMore() {
    unstartedSlot = UnstartedCoroutines.add(self)
    var mode = StartMode(rawValue: startMode.load(ordering: .relaxed))
    while true {
      let next = mode.subtracting(.onDemand).union(.held)  // litmus: look-locked, end-result
      let (exchanged, now) = startMode.compareExchange(
        expected: mode.rawValue, desired: next.rawValue, ordering: .acquiringAndReleasing)
      if exchanged { return }
      mode = StartMode(rawValue: now)
    }
  }

  /// Completes it without a run. A waiter for its result would have started it, so only listeners (`finally`) are left to
  /// wake.
  @inline(never)
  final func leaveUnstarted() {
    dropInheritedBindings()
    _ = Self.addEndings(1)
    let waiters = lock.withLock { completion.complete() }
    waiters.wakeAll()
  }

  /// Whether it begins even if it was cancelled before.
  final var isStartedAtomically: Bool {
    StartMode(rawValue: startMode.load(ordering: .relaxed)).contains(.atomic)
  }

  /// It begins even if it is cancelled before. Before another thread can know of it.
  @usableFromInline
  final func setStartsAtomically() { addToStartMode(.atomic) }

  /// In addition to how it begins so far: one that begins atomically may be held, too. Before another thread can know of it.
  private final func addToStartMode(_ mode: StartMode) {
    startMode.store(startMode.load(ordering: .relaxed) | mode.rawValue, ordering: .relaxed)
  }
}
