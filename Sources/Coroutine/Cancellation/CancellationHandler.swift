// SPDX-License-Identifier: Apache-2.0

import CCoroutine
import Context

/// A handler of `withCancellationHandler`, and whether it has ended.
///
/// What that function returns to may take away what the handler uses, such as a descriptor, whose number others get then. A
/// canceller takes the handlers that it reaches under the lock of their regions, and calls them, one after the other, without: the
/// operation may have ended meanwhile. So its end waits for a handler that was taken, whether that has begun or not: what has found
/// itself cancelled can count on it.
// Unchecked: the lock guards what changes.
final class CancellationHandler: Waitable, @unchecked Sendable {
  // Guarded by the lock, all three.
  @exclusivity(unchecked) private var hasEnded = false
  /// The coroutine that runs it, if one does.
  @exclusivity(unchecked) private var runner: UnsafeRawPointer?
  /// The operation's coroutine, if that has ended first.
  @exclusivity(unchecked) private var waiters = WaitQueue<WaitNode>()
  private let body: @Sendable () -> Void

  init(_ body: @escaping @Sendable () -> Void) { self.body = body }

  func run() {
    lock.withLock { runner = Self.running }
    body()
    let woken = lock.withLock {
      hasEnded = true
      return waiters.claimAll()
    }
    woken.wakeAll()
  }

  private static var running: UnsafeRawPointer? {
    CoroutineCore.current.map { UnsafeRawPointer(Unmanaged.passUnretained($0).toOpaque()) }
  }

  /// A canceller has taken it: suspends the calling coroutine until it has ended. Returns at once where that may not suspend, and
  /// inside of the handler, which may end the generator whose body has the operation.
  func waitForEnd() {
    guard let core = CoroutineCore.current, core.restraint.bans == 0 || core.mayWaitPinned, !coroutine_is_inside_task()
    else { return }
    withCancellationShield {
      var node = WaitNode(.coroutine(.passUnretained(core)))
      _ = wait(core, .join, by: &node) {
        guard !hasEnded, runner != Self.running else { return .done }
        waiters.append($0)
        return .wait
      } withdraw: {
        waiters.remove($0)
        return .done
      }
    }
  }

  override func describe(_ operation: WaitReason.Operation) -> String { "the end of a cancellation handler" }
}
