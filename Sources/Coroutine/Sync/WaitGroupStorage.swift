// SPDX-License-Identifier: Apache-2.0

import Context
import Synchronization

/// A wait group: its count, its waiters.
// Unchecked: the name is constant, and the lock guards all else.
final class WaitGroupStorage: Waitable, @unchecked Sendable {
  let name: String
  /// Guarded by the lock.
  @exclusivity(unchecked) private var machine: WaitGroupStateMachine
  /// The machine's count, for debuggers: written under the lock.
  private let published: Atomic<Int>

  init(count: Int, name: String) {
    self.name = name
    machine = WaitGroupStateMachine(count: count)
    published = Atomic(count)
  }

  func change(by difference: Int) {
    lock.lock()
    let woken = machine.change(by: difference)
    let count = machine.count
    published.store(count, ordering: .relaxed)
    lock.unlock()
    require(count >= 0, "done() was called more often than things were added to \(named("wait group", name))")
    woken.wakeAll()
  }

  var count: Int { published.load(ordering: .acquiring) }

  func wait(timeout: Duration?) throws {
    let core = CoroutineCore.running(for: "WaitGroup.wait()")
    _ = try wait(core, .group, timeout: timeout) {
      WaitNode($0)
    } attempt: {
      machine.wait($0)
    } withdraw: {
      machine.withdraw($0)
    }
  }

  nonisolated(nonsending) func wait(timeout: Duration?) async throws {
    try await wait(timeout: timeout) {
      WaitNode($0)
    } attempt: {
      machine.wait($0)
    } withdraw: {
      machine.withdraw($0)
    }
  }

  func waitBlocking(timeout: Duration?, at call: BlockingCall) throws {
    call.requireNoCoroutine(insteadUse: "wait()")
    let cause = block(until: WaitDeadline.after(timeout), at: call) {
      WaitNode($0)
    } attempt: {
      machine.wait($0)
    } withdraw: {
      machine.withdraw($0)
    }
    try cause.check(timeout)
  }

  // MARK: As a case of a select, whose caller holds `lock`

  var isDone: Bool { machine.count == 0 }

  func enqueue(_ node: UnsafeMutablePointer<WaitNode>) { _ = machine.wait(node) }

  func withdraw(_ node: UnsafeMutablePointer<WaitNode>) { _ = machine.withdraw(node) }

  override func describe(_ operation: WaitReason.Operation) -> String {
    WaitText.group(name, count: count)
  }
}
