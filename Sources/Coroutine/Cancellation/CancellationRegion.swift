/// A part of a coroutine's run that reacts to cancellation by itself: the body of a shield, of a timeout, of a scope, of
/// a cancellation handler. They nest: each coroutine has a list of them, innermost first.
///
/// The fields are guarded by the coroutine's `cancellationLock`.
// Unchecked: guarded as said.
package final class CancellationRegion: @unchecked Sendable {
  /// Whose list it is in. Kept alive: a deadline may still be on its way when the coroutine has ended.
  private let core: CoroutineCore
  /// Cancellation from outside stops here.
  fileprivate let isShield: Bool
  /// Whether a timer is going to cancel it.
  fileprivate let isTimed: Bool
  /// The next one outwards.
  fileprivate var outer: CancellationRegion?
  /// Why what runs inside is to stop, if it is. What runs outside may go on.
  fileprivate var reason: (any Error)?
  /// Told when a cancellation reaches the region, once.
  fileprivate var onCancel: (@Sendable () -> Void)?
  private var isOpen = true

  /// Opens a region of the running coroutine `core`, innermost of all.
  ///
  /// - Parameters:
  ///   - isTimed: whether a timer is going to cancel it: then whoever waits inside is in no deadlock.
  ///   - onCancel: runs at most once, on the thread that cancels, not under a lock; at once if what runs here is
  ///     cancelled already.
  package init(
    of core: CoroutineCore, isShield: Bool = false, isTimed: Bool = false, onCancel: (@Sendable () -> Void)? = nil
  ) {
    self.core = core
    self.isShield = isShield
    self.isTimed = isTimed
    self.onCancel = onCancel
    core.cancellationLock.lock()
    outer = core.regions
    core.regions = self
    let wasInterrupted = core.isInterrupted
    core.refreshInterruption()
    if wasInterrupted { self.onCancel = nil }
    core.cancellationLock.unlock()
    if wasInterrupted { onCancel?() }
  }

  /// Closes it: nothing reaches it any more, though a handler that has begun may still run. On the coroutine, or, where a
  /// generator was moved with a region open, on another.
  package func close() {
    core.cancellationLock.lock()
    isOpen = false
    // Released after the unlock: what it captured may run code of the user's when it goes.
    let handler = onCancel
    onCancel = nil
    core.regions = core.regions?.removing(self)
    core.refreshInterruption()
    core.cancellationLock.unlock()
    withExtendedLifetime(handler) {}
  }

  /// The list without `region`; linear in how deep that lies, usually first.
  private func removing(_ region: CancellationRegion) -> CancellationRegion? {
    if self === region { return outer }
    outer = outer?.removing(region)
    return self
  }

  /// Cancels what runs inside, but not the rest of the coroutine. The first reason counts. Callable from any thread;
  /// without effect once it is closed.
  package func cancel(reason: any Error) {
    core.cancellationLock.lock()
    guard isOpen, self.reason == nil else { return core.cancellationLock.unlock() }
    self.reason = reason
    core.interrupt(from: self)
  }

  /// Why it was cancelled itself, if it was.
  package var ownReason: (any Error)? {
    core.cancellationLock.withLock { reason }
  }
}

/// What cancels a coroutine, or a part of it, and how it learns of that.
///
/// One word, `isInterrupted`, says whether an operation that may wait has to throw. It is what the list of regions, walked
/// from the innermost outwards to the first shield, comes to, and is computed whenever that changes, under
/// `cancellationLock`. A wait is claimed under the same lock, so that a cancel never ends a wait in a region that it does
/// not concern.
extension CoroutineCore {
  /// Cancels the whole coroutine. The first reason counts. Without effect after the end. Callable from any thread.
  @usableFromInline
  package final func cancel(reason: (any Error)?) {
    guard !isFinished else { return }
    cancellationLock.lock()
    guard cancellationReason == nil else { return cancellationLock.unlock() }
    cancellationReason = reason ?? CancellationError()
    interrupt(from: nil)
  }

  /// Lets what runs inside of `region`, or of all of them, know of a new reason there. `cancellationLock` is held, and
  /// released here.
  fileprivate final func interrupt(from region: CancellationRegion?) {
    refreshInterruption()
    let mustWake = isInterrupted && parking.claim(.cancelled)
    // It reaches inwards to the first shield.
    var innermost = regions
    var next = regions
    while let current = next, current !== region {
      next = current.outer
      if current.isShield { innermost = next }
    }
    var handlers: [@Sendable () -> Void] = []
    next = innermost
    while let current = next {
      if let handler = current.onCancel { handlers.append(handler) }
      current.onCancel = nil
      next = current === region ? nil : current.outer
    }
    cancellationLock.unlock()
    for handler in handlers { handler() }
    if mustWake { CoroutineCore.wake(.passUnretained(self)) }
  }

  /// Under `cancellationLock`.
  fileprivate final func refreshInterruption() {
    interruption.store(effectiveReason == nil ? 0 : 1, ordering: .relaxed)
  }

  /// Why what runs now is to stop, if it is: the innermost reason. Under `cancellationLock`.
  private final var effectiveReason: (any Error)? {
    var next = regions
    while let current = next {
      if let reason = current.reason { return reason }
      if current.isShield { return nil }
      next = current.outer
    }
    return cancellationReason
  }

  /// Why what runs now is to stop, if it is. On the coroutine itself.
  final var currentReason: (any Error)? {
    cancellationLock.withLock { effectiveReason }
  }

  /// Whether a timer is going to cancel what it does now, or some part of that. For debuggers, whether it runs or not.
  package final var isTimed: Bool {
    cancellationLock.withLock {
      var next = regions
      while let current = next {
        if current.isTimed { return true }
        next = current.outer
      }
      return false
    }
  }

  /// The same on the coroutine itself: without the lock where nothing is around it, since nobody else opens a region.
  final var isTimedItself: Bool { regions != nil && isTimed }

  /// Whether the coroutine as a whole was cancelled before it ended.
  @usableFromInline
  final var isCancelled: Bool {
    cancellationLock.withLock { cancellationReason != nil }
  }
}
