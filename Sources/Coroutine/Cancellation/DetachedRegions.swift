// SPDX-License-Identifier: Apache-2.0

import Context

/// The cancellation regions that a generator's body has open at its `yield`, while it is suspended there: off the list
/// of the consumer, which they do not concern.
///
/// What happens meanwhile:
/// - A timeout fires, or a scope's child fails: the region is cancelled, the handlers inside of it run at once, and the
///   body finds itself cancelled when it goes on.
/// - The consumer is cancelled, or a region that it has open: this reaches the body when it goes on and still is inside
///   of that.
///
/// They come back on top of what the code that resumes the body has open then, on whichever coroutine. No canceller
/// reaches a body that is resumed outside of coroutines: they stay here, and are closed here.
// Unchecked: the lock guards the list, as it does the regions in it.
final class DetachedRegions: HiddenFromMirrors, @unchecked Sendable {
  /// Taken after a coroutine's `cancellationLock`, where both are.
  let lock = Lock()
  /// The innermost one. Guarded by the lock; written by the generator's body, which reads it without.
  var innermost: CancellationRegion?

  /// Takes the innermost regions off the running coroutine, `count` of them.
  func take(_ count: Int, from core: CoroutineCore) {
    guard count > 0, let first = core.regions else { return }
    core.cancellationLock.lock()
    lock.lock()
    var outermost = first
    outermost.move(to: .generator(self))
    for _ in 1..<count {
      guard let next = outermost.outer else { fatalError("a generator has more regions open than its coroutine") }
      outermost = next
      outermost.move(to: .generator(self))
    }
    core.regions = outermost.outer
    // Regions left here from an earlier resume outside of coroutines lie below the newly detached ones.
    outermost.outer = innermost
    innermost = first
    core.refreshInterruption()
    lock.unlock()
    core.cancellationLock.unlock()
  }

  /// Puts them all on the running coroutine, innermost. Regions that have slept through a cancellation learn of it.
  func putBack(on core: CoroutineCore) {
    guard let first = innermost else { return }
    core.cancellationLock.lock()
    lock.lock()
    let consumers = core.regions
    let reason = core.effectiveReason
    var outermost = first
    outermost.move(to: .coroutine(core))
    while let next = outermost.outer {
      outermost = next
      outermost.move(to: .coroutine(core))
    }
    outermost.outer = consumers
    core.regions = first
    innermost = nil
    core.refreshInterruption()
    let handlers = reason == nil ? [] : CancellationRegion.takeHandlers(from: first, downTo: consumers)
    lock.unlock()
    core.cancellationLock.unlock()
    if let reason { PendingCancel(handlers: handlers).carryOut(reason) }
  }
}
