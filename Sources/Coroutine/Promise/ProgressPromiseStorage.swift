// SPDX-License-Identifier: Apache-2.0

/// A promise's storage that keeps reports as well, under the same lock: with the settlement their end comes.
// Unchecked: the lock guards the reports.
final class ProgressPromiseStorage<Progress: Sendable, Value: Sendable>: PromiseStorage<Value>, @unchecked Sendable {
  /// Guarded by the lock.
  @exclusivity(unchecked) private var reports: ProgressStateMachine<Progress>

  init(name: String, policy: ProgressPromise<Progress, Value>.Policy) {
    reports = ProgressStateMachine(keepsAll: policy == .all)
    super.init(name: name)
  }

  override func claimReaders() -> ClaimedWaiters { reports.end() }

  func report(_ progress: Progress) -> Bool {
    lock.lock()
    let action = reports.report(progress)
    lock.unlock()
    guard case .kept(let readers, let replaced) = action else { return false }
    readers.wakeAll()
    withExtendedLifetime(replaced) {}
    return true
  }

  var latest: Progress? { lock.withLock { reports.latest } }

  /// Suspends the calling coroutine until there is something behind `cursor`; `nil` at the end, or if it was cancelled.
  func next(_ cursor: inout ProgressCursor) -> Progress? {
    let core = CoroutineCore.running(for: "the progress of a promise")
    var node = WaitNode(.coroutine(.passUnretained(core)))
    let position = cursor
    let cause = wait(core, .receive, by: &node) {
      reports.wait($0, behind: position)
    } withdraw: {
      reports.withdraw($0)
      return .done
    }
    return cause == .event ? read(&cursor) : nil
  }

  /// The same for the calling task.
  nonisolated(nonsending) func next(_ cursor: inout ProgressCursor) async -> Progress? {
    let position = cursor
    let cause = await wait {
      WaitNode($0)
    } attempt: {
      reports.wait($0, behind: position)
    } withdraw: {
      reports.withdraw($0)
      return .done
    }
    return cause == .event ? read(&cursor) : nil
  }

  /// Reports may have come since the wait ended: the newest counts.
  private func read(_ cursor: inout ProgressCursor) -> Progress? {
    lock.withLock { reports.read(&cursor) }
  }
}
