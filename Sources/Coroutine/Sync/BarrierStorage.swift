// SPDX-License-Identifier: Apache-2.0

import Context

/// A barrier: the waiters of its round.
// Unchecked: the name is constant, and the lock guards the machine.
final class BarrierStorage: Waitable, @unchecked Sendable {
  let name: String
  /// Guarded by the lock.
  @exclusivity(unchecked) private var machine: BarrierStateMachine

  init(parties: Int, name: String) {
    self.name = name
    machine = BarrierStateMachine(parties: parties)
  }

  func wait(timeout: Duration?) throws -> Bool {
    let core = CoroutineCore.running(for: "Barrier.wait()")
    return try wait(core, .barrier, timeout: timeout) {
      BarrierNode(wait: WaitNode($0))
    } attempt: {
      machine.arrive($0)
    } withdraw: {
      machine.withdraw($0)
      return .done
    }.isLast
  }

  nonisolated(nonsending) func wait(timeout: Duration?) async throws -> Bool {
    var isLast = false
    try await wait(timeout: timeout) {
      BarrierNode(wait: WaitNode($0))
    } attempt: {
      machine.arrive($0)
    } withdraw: {
      machine.withdraw($0)
      return .done
    } afterwards: {
      isLast = $0.isLast
    }
    return isLast
  }

  override func describe(_ operation: WaitReason.Operation) -> String {
    WaitText.barrier(name)
  }
}
