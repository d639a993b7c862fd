// SPDX-License-Identifier: Apache-2.0

import Coroutine

extension TestRun {
  /// Lets go of those that began at once, on top of another one's turn, and have ended; in their order, as each may wake others
  /// where it goes. It may also begin others, which end at once: these, too. Whether there were any.
  @discardableResult
  func forgetBeginners() -> Bool {
    var hasForgotten = false
    while beginners.contains(where: hasEnded) {
      var (living, ended): ([UInt64], [UInt64]) = ([], [])
      for id in beginners { if hasEnded(id) { ended.append(id) } else { living.append(id) } }
      // Before those go: others may begin then.
      beginners = living
      for id in ended { forget(id) }
      hasForgotten = true
    }
    return hasForgotten
  }

  private func hasEnded(_ id: UInt64) -> Bool { members[id]?.core.isFinished ?? true }
}
