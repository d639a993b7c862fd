// SPDX-License-Identifier: Apache-2.0

import Context

/// A semaphore: its permits, its waiters.
// Unchecked: the name is constant, and the lock guards the machine.
final class SemaphoreStorage: Waitable, @unchecked Sendable {
  let name: String
  /// Guarded by the lock.
  @exclusivity(unchecked) private var machine: SemaphoreStateMachine

  init(permits: Int, name: String) {
    self.name = name
    machine = SemaphoreStateMachine(permits: permits)
  }

  func acquire(_ count: Int, timeout: Duration?) throws {
    requireNotNegative(count)
    let core = CoroutineCore.running(for: "Semaphore.acquire(_:)")
    _ = try wait(core, .permit, timeout: timeout) {
      SemaphoreNode(wait: WaitNode($0), count: count)
    } attempt: {
      machine.acquire($0)
    } withdraw: {
      .wakeAll(machine.withdraw($0))
    }
  }

  nonisolated(nonsending) func acquire(_ count: Int, timeout: Duration?) async throws {
    requireNotNegative(count)
    try await wait(timeout: timeout) {
      SemaphoreNode(wait: WaitNode($0), count: count)
    } attempt: {
      machine.acquire($0)
    } withdraw: {
      .wakeAll(machine.withdraw($0))
    }
  }

  func tryAcquire(_ count: Int) -> Bool {
    requireNotNegative(count)
    return lock.withLock { machine.tryAcquire(count) }
  }

  func release(_ count: Int) {
    requireNotNegative(count)
    lock.lock()
    let woken = machine.release(count)
    lock.unlock()
    woken.wakeAll()
  }

  func changePermits(by difference: Int) {
    lock.lock()
    let woken = machine.changePermits(by: difference)
    lock.unlock()
    woken.wakeAll()
  }

  var available: Int { lock.withLock { machine.available } }

  // MARK: As a case of a select, whose caller holds `lock`

  func attempt(_ count: Int) -> Bool { machine.tryAcquire(count) }

  func enqueue(_ node: UnsafeMutablePointer<SemaphoreNode>) { machine.enqueue(node) }

  func withdraw(_ node: UnsafeMutablePointer<SemaphoreNode>) -> ClaimedWaiters { machine.withdraw(node) }

  /// How many wait, those included that have given up but not yet withdrawn. For tests.
  var waiterCount: Int { lock.withLock { machine.waiters.count } }

  func requireNotNegative(_ count: Int) {
    require(count >= 0, "\(count) permits of \(named("semaphore", name)): the number must not be negative")
  }

  override package func describe(_ operation: WaitReason.Operation) -> String {
    WaitText.permit(ofSemaphore: name)
  }
}
