// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import Context
import Synchronization

/// A part of a coroutine's run that reacts to cancellation by itself: the body of a shield, of a timeout, of a scope, of
/// a cancellation handler. They nest: each coroutine has a list of them, innermost first.
///
/// Those that a generator's body has open at a `yield` leave that list meanwhile, for the generator's `DetachedRegions`,
/// and may come back to another coroutine's. So the fields that are not constant are guarded by the lock of the list that
/// it is in: a coroutine's `cancellationLock`, or that of the detached ones.
// Unchecked: that lock guards what changes.
package final class CancellationRegion: HiddenFromMirrors, @unchecked Sendable {
  /// The list that a region is in.
  enum List {
    /// Kept alive: a deadline may still be on its way when the coroutine has ended.
    case coroutine(CoroutineCore)
    case generator(DetachedRegions)
    /// It is closed.
    case none
  }

  /// Cancellation from outside stops here.
  let isShield: Bool
  /// The deadline that is going to cancel it, if it has one. Not counted: its owner keeps that until the region is closed.
  let deadline: Unmanaged<DeadlineTimer>?
  /// Where on a stack it was opened: by this a generator knows its own ones.
  let frameAddress: UInt
  /// Written only by the code inside the region, which takes the old list's lock, the new list's, and `listLock` last. So that
  /// code may read it without a lock; all others hold `listLock`.
  private var list: List
  private let listLock = Lock()
  /// The next one outwards. Written by the code that runs in it, which reads it without a lock.
  var outer: CancellationRegion?
  /// Why what runs inside is to stop, if it is. What runs outside may go on.
  fileprivate var reason: (any Error)?
  /// Whether something around it had been cancelled before, which reached it. Guarded as the reason.
  private(set) fileprivate var cameLate = false
  /// What was thrown inside instead of `CancellationError`. Of the code that runs in it.
  fileprivate var cause: (any Error)?
  /// Called with the reason when a cancellation reaches the region, once.
  fileprivate var onCancel: Handler?
  /// Whether a canceller has taken that, to call it. Constant once it is closed.
  private(set) var handlerWasTaken = false

  /// Returns the coroutines that are to be cancelled for the same reason, which its caller does.
  package typealias Handler = @Sendable (any Error) -> [CoroutineCore]

  /// Opens a region of the running coroutine `core`, innermost of all.
  ///
  /// - Parameters:
  ///   - deadline: what is going to cancel it, which lives as long as it is open: then a waiter inside is in no deadlock.
  ///   - onCancel: runs at most once, on the thread that cancels, not under a lock. If the code here is cancelled already,
  ///     it runs at once. If the consumer is cancelled while the region is in a suspended generator's body, it runs when
  ///     that body resumes.
  package init(
    of core: CoroutineCore, isShield: Bool = false, deadline: DeadlineTimer? = nil, onCancel: Handler? = nil
  ) {
    self.isShield = isShield
    self.deadline = deadline.map { .passUnretained($0) }
    self.onCancel = onCancel
    frameAddress = UInt(bitPattern: coroutine_frame_address())
    list = .coroutine(core)
    core.cancellationLock.lock()
    outer = core.regions
    core.regions = self
    core.refreshInterruption()
    let reason = core.isInterrupted ? core.effectiveReason : nil
    if reason != nil { self.onCancel = nil }
    core.cancellationLock.unlock()
    // On another stack than its own it runs a generator's body.
    if core.block?.pointee.stack.contains(frameAddress) == false { RunningBodies.noteRegions() }
    if let reason, let onCancel { PendingCancel(handlers: [onCancel]).carryOut(reason) }
  }

  /// Closes it: nothing reaches it any more, but a handler that a canceller has taken may still run, or begin. By the code that
  /// runs in it, on whichever coroutine that does now. A handle of its deadline may keep it after that, but none of those
  /// around it.
  ///
  /// - Returns: why it was cancelled itself, if it was.
  @discardableResult
  package func close() -> (any Error)? {
    // Released after the unlock: what it captured may run code of the user's when it goes.
    let handler: Handler?
    switch list {
    case .coroutine(let core):
      core.cancellationLock.lock()
      handler = takeHandler()
      core.regions = core.regions?.removing(self)
      outer = nil
      core.refreshInterruption()
      move(to: .none)
      core.cancellationLock.unlock()
    case .generator(let regions):
      regions.lock.lock()
      handler = takeHandler()
      regions.innermost = regions.innermost?.removing(self)
      outer = nil
      move(to: .none)
      regions.lock.unlock()
    case .none:
      fatalError("a region was closed twice")
    }
    withExtendedLifetime(handler) {}
    // No thread writes it any more.
    return reason
  }

  /// What was thrown inside instead of `CancellationError`: for its owner, when it is closed. It is the user's, and the timers'
  /// thread may be the last to let go of the region.
  func takeCause() -> (any Error)? {
    defer { cause = nil }
    return cause
  }

  /// The list without `region`; linear in how deep that lies, usually first.
  private func removing(_ region: CancellationRegion) -> CancellationRegion? {
    if self === region { return outer }
    outer = outer?.removing(region)
    return self
  }

  /// Notes that it is in `list` from now on. The caller holds the locks of both.
  func move(to list: List) {
    listLock.withLock { self.list = list }
  }

  /// Cancels what runs inside, but not the rest of the coroutine. The first reason counts. Callable from any thread;
  /// without effect once it is closed.
  package func cancel(reason: any Error) {
    var isDone = false
    while !isDone { attempt(reason, isTimer: false, &isDone).core?.release() }
  }

  /// The same on the timers' thread, which must not wait for handlers: they are users' code. So is what goes with a coroutine that
  /// ends meanwhile: this thread must not be the last to let go of it.
  ///
  /// - Returns: a reference to the coroutine that was cancelled, for another thread to release.
  package func cancelByTimer(reason: any Error) -> Unmanaged<CoroutineCore>? {
    var isDone = false
    while true {
      let (core, deferred) = attempt(reason, isTimer: true, &isDone)
      if let deferred { DeferredCancel.carryOutElsewhere(deferred) }
      if isDone { return core }
      if let core { Self.releaseElsewhere(core) }
    }
  }

  /// Not done where it has gone to another list before that was locked.
  ///
  /// - Returns: a reference to the coroutine whose list that was, and what a timer defers to another thread. The caller has no
  ///   other ones: it is not inlined.
  @inline(never)
  private func attempt(
    _ reason: any Error, isTimer: Bool, _ isDone: inout Bool
  ) -> (core: Unmanaged<CoroutineCore>?, deferred: Unmanaged<DeferredCancel>?) {
    var deferred: Unmanaged<DeferredCancel>?
    func carryOut(_ pending: PendingCancel) {
      if isTimer { deferred = pending.deferred(reason) } else { pending.carryOut(reason) }
    }
    switch currentList {
    case .coroutine(let core):
      core.cancellationLock.lock()
      isDone = isIn(core)
      if isDone, note(reason, behind: core.cancellationReason) {
        carryOut(core.interrupt(downTo: outer))
      } else {
        core.cancellationLock.unlock()
      }
      return (Unmanaged.passRetained(core), deferred)
    case .generator(let regions):
      regions.lock.lock()
      isDone = isIn(regions)
      let isNoted = isDone && note(reason, behind: nil)
      let handlers = isNoted ? Self.takeHandlers(from: regions.innermost, downTo: outer) : []
      regions.lock.unlock()
      carryOut(PendingCancel(handlers: handlers))
    case .none: isDone = true
    }
    return (nil, deferred)
  }

  /// For the timers' thread.
  package static func releaseElsewhere(_ core: Unmanaged<CoroutineCore>) {
    HandlerThreads.run { core.release() }
  }

  /// The list that it is in. From any thread.
  var currentList: List { listLock.withLock { list } }

  /// Whether it is in the list of `core`, whose lock is held: then it stays there as long. It may be in another one, or on its
  /// way from that to a third, with locks that are not held; so `listLock` guards the look. (And the comparison: what the list
  /// refers to is not let go of here.)
  func isIn(_ core: CoroutineCore) -> Bool {
    listLock.withLock {
      guard case .coroutine(let now) = list else { return false }
      return now === core
    }
  }

  /// The same for the regions of a generator.
  func isIn(_ regions: DetachedRegions) -> Bool {
    listLock.withLock {
      guard case .generator(let now) = list else { return false }
      return now === regions
    }
  }

  /// Notes why it is cancelled. The caller holds the lock of its list.
  ///
  /// - Parameter reasonOfAll: of a cancel of all that the list is of.
  /// - Returns: whether it is the first time.
  private func note(_ reason: any Error, behind reasonOfAll: (any Error)?) -> Bool {
    guard self.reason == nil else { return false }
    self.reason = reason
    cameLate = isReachedFromAround(reasonOfAll)
    return true
  }

  private func isReachedFromAround(_ reasonOfAll: (any Error)?) -> Bool {
    var current = self
    while !current.isShield {
      guard let outer = current.outer else { return reasonOfAll != nil }
      if outer.reason != nil { return true }
      current = outer
    }
    return false
  }

  private func takeHandler() -> Handler? {
    defer { onCancel = nil }
    return onCancel
  }

  /// Takes the handlers of the regions that a cancel from outside reaches: from `end` (exclusive) inwards to the first
  /// shield. The caller holds the lock of their list, whose innermost region is `innermost`.
  static func takeHandlers(from innermost: CancellationRegion?, downTo end: CancellationRegion?) -> [Handler] {
    var reached = innermost
    var next = innermost
    while let current = next, current !== end {
      next = current.outer
      if current.isShield { reached = next }
    }
    var handlers: [Handler] = []
    while let current = reached, current !== end {
      if let handler = current.takeHandler() {
        handlers.append(handler)
        current.handlerWasTaken = true
      }
      reached = current.outer
    }
    return handlers
  }
}

/// What cancels a coroutine, or a part of it, and how it learns of that.
///
/// One word, `interruption`, says whether an operation that may wait has to throw. It sums up the regions from the innermost
/// outwards to the first shield. It is computed whenever their list changes, under `cancellationLock`. A wait is claimed under
/// the same lock, so that a cancel never ends a wait in a region that it does not concern.
extension CoroutineCore {
  /// The innermost one that it has open. Guarded by `cancellationLock`; on the coroutine itself it is read without.
  final var regions: CancellationRegion? {
    get {
      // Only the setter writes it.
      extras?._withUnsafeGuaranteedRef { $0.innermostRegion.map { unsafeDowncast($0, to: CancellationRegion.self) } }
    }
    set { neededExtras._withUnsafeGuaranteedRef { $0.innermostRegion = newValue } }
  }

  /// Cancels the whole coroutine. The first reason counts. Without effect after the end. Callable from any thread.
  @usableFromInline
  package final func cancel(reason: (any Error)?) {
    let reason = reason ?? CancellationError()
    beginCancel(by: reason)?.carryOut(reason)
  }

  /// The same up to what its caller is to carry out; `nil`: no more is to be done. A coroutine that no caller has started would
  /// never end, and is started here: it has no handlers, and waits for nothing. One that begins all the same keeps its place
  /// in its family's queue.
  final func beginCancel(by reason: any Error) -> PendingCancel? {
    guard !isFinished else { return nil }
    cancellationLock.lock()
    guard cancellationReason == nil else {
      cancellationLock.unlock()
      return nil
    }
    cancellationReason = reason
    let pending = interrupt(downTo: nil)
    if !isStartedAtomically { startHeld(.byCanceller) }  // litmus: look-locked
    return pending
  }

  /// Lets what runs inside of all regions down to `end`, itself not one of them, know of a reason that is new there.
  /// The caller holds `cancellationLock`, which is released here.
  fileprivate final func interrupt(downTo end: CancellationRegion?) -> PendingCancel {
    refreshInterruption()
    // The other half of `Waitable.isHeldUp`: either this sees the word that says "suspending", or the coroutine sees the flag.
    atomicMemoryFence(ordering: .sequentiallyConsistent)  // litmus: cancel
    let mustWake = isInterrupted && parking.claim(.cancelled)
    let handlers = CancellationRegion.takeHandlers(from: regions, downTo: end)
    cancellationLock.unlock()
    return PendingCancel(handlers: handlers, woken: mustWake ? self : nil)
  }

  /// The caller holds `cancellationLock`.
  final func refreshInterruption() {
    let kept = interruption.load(ordering: .relaxed) & ~Interruption.cancelled
    interruption.store(kept | (effectiveReason == nil ? 0 : Interruption.cancelled), ordering: .relaxed)
  }

  /// Why what runs now is to stop, if it is: the first reason. The caller holds `cancellationLock`.
  final var effectiveReason: (any Error)? {
    var (next, late): (CancellationRegion?, (any Error)?) = (regions, nil)
    while let current = next {
      if let reason = current.reason {
        guard current.cameLate else { return reason }
        late = late ?? reason
      }
      if current.isShield { return late }
      next = current.outer
    }
    // What was around it when it came late may be gone: that was around a generator's consumer, and its body goes on elsewhere.
    return cancellationReason ?? late
  }

  /// Why what runs now is to stop, if it is. On the coroutine itself.
  final var currentReason: (any Error)? {
    cancellationLock.withLock { effectiveReason }
  }

  /// What runs now was thrown `error` because it is to stop, and throws `CancellationError` in its place: keeps it for the
  /// regions that are the reason. On the coroutine itself.
  package final func noteCause(_ error: any Error) {
    cancellationLock.withLock {
      var next = regions
      while let current = next {
        if current.reason != nil, current.cause == nil { current.cause = error }
        next = current.isShield ? nil : current.outer
      }
    }
  }

  /// Whether a timer is going to cancel what it does now, or some part of that. For debuggers, whether it runs or not.
  package final var isTimed: Bool {
    cancellationLock.withLock {
      var next = regions
      while let current = next {
        if current.deadline != nil { return true }
        next = current.outer
      }
      return false
    }
  }

  /// Whether a timer may end what it waits for now: not one around a shield. `nil`: none of its own, but one of those around its
  /// scope may. For debuggers, as above.
  package final var waitIsTimed: Bool? {
    cancellationLock.withLock {
      var next = regions
      while let current = next {
        if current.deadline != nil { return true }
        if current.isShield { return false }
        next = current.outer
      }
      return nil
    }
  }

  /// As `isTimed`, on the coroutine itself: without the lock where nothing is around it, since no other code opens a region.
  final var hasOwnDeadline: Bool { regions != nil && isTimed }

  /// Whether the coroutine as a whole was cancelled before it ended.
  @usableFromInline
  final var isCancelled: Bool {
    extras != nil && cancellationLock.withLock { cancellationReason != nil }
  }
}
