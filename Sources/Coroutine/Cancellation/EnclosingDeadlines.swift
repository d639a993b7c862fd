// SPDX-License-Identifier: Apache-2.0

// Which timeouts could cancel the code that runs here. They are listed under the locks, and asked after that: a clock of the
// user's may tell what is left of one.

extension CoroutineCore {
  /// Those around the code that the coroutine runs now, as far as to the first shield. On the coroutine itself.
  package final var enclosingDeadlines: [DeadlineTimer] {
    let (deadlines, isShielded) = cancellationLock.withLock { CancellationRegion.deadlines(from: regions) }
    return isShielded ? deadlines : deadlines + deadlinesOfFamily
  }

  /// Those around all of it: of the scope that it is a child of.
  fileprivate final var deadlinesOfFamily: [DeadlineTimer] {
    family?._withUnsafeGuaranteedRef { $0.deadlines } ?? []
  }
}

extension CancellationRegion {
  /// Those around this region, from any thread. None once it is closed.
  package final var deadlines: [DeadlineTimer] {
    // Again where it has gone to another list before that was locked.
    while true {
      switch currentList {
      case .coroutine(let core):
        let found = core.cancellationLock.withLock { isIn(core) ? Self.deadlines(from: outer) : nil }
        guard let (deadlines, isShielded) = found else { continue }
        return isShielded ? deadlines : deadlines + core.deadlinesOfFamily
      // What is around it is known when the generator goes on.
      case .generator(let regions): return regions.lock.withLock { Self.deadlines(from: outer).deadlines }
      case .none: return []
      }
    }
  }

  /// Those from `innermost` outwards, as far as to the first shield, and whether there was one. Under the lock of the list.
  fileprivate static func deadlines(
    from innermost: CancellationRegion?
  ) -> (deadlines: [DeadlineTimer], isShielded: Bool) {
    var deadlines: [DeadlineTimer] = []
    var next = innermost
    while let current = next {
      // In a list, it is open: its timeout is alive.
      if let deadline = current.deadline { deadlines.append(deadline.takeUnretainedValue()) }
      if current.isShield { return (deadlines, true) }
      next = current.outer
    }
    return (deadlines, false)
  }
}
