// SPDX-License-Identifier: Apache-2.0

// Which timeouts could cancel the code that runs here. They are listed under the locks, and asked after that: a clock of the
// user's may say what is left of one.

extension CoroutineCore {
  /// Those around the code that the coroutine runs now, as far as to the first shield. On the coroutine itself.
  package final var enclosingDeadlines: [DeadlineTimer] {
    let (own, isShielded) = cancellationLock.withLock { CancellationRegion.deadlines(from: regions) }
    var deadlines = own
    // From the scope that it is a child of to the one around that, in a loop: with a call inside the other for each level, a
    // thousand levels overflow the stack.
    var next = isShielded ? nil : takenInBy
    while let family = next {
      let (known, outer) = family.deadlines
      deadlines += known
      next = outer
    }
    return deadlines
  }

  /// Whether a timeout could cancel what it does now: one of its own, or one around a scope that it is a child of. On the
  /// coroutine itself.
  final var hasAnyDeadline: Bool { hasOwnDeadline || family != nil && !enclosingDeadlines.isEmpty }

  /// The scope that it is a child of. To be called by itself, or while one of its regions is known to be open: it has not ended.
  fileprivate final var takenInBy: CoroutineFamily? { family?.takeUnretainedValue() }
}

extension CancellationRegion {
  /// Those around this region, up to the beginning of its coroutine, and what has taken in that one. None once it is closed. To
  /// be called by a coroutine that the code in it waits for.
  package final var deadlines: (known: [DeadlineTimer], outer: CoroutineFamily?) {
    // Again where it has gone to another list before that was locked.
    while true {
      switch currentList {
      case .coroutine(let core):
        // What has taken it in is asked for under the lock, too: as long as this region is in its list, it has not ended.
        let found = core.cancellationLock.withLock { () -> (known: [DeadlineTimer], outer: CoroutineFamily?)? in
          guard isIn(core) else { return nil }
          let (deadlines, isShielded) = Self.deadlines(from: outer)
          return (deadlines, isShielded ? nil : core.takenInBy)
        }
        guard let found else { continue }
        return found
      // What is around it is known when the generator goes on.
      case .generator(let regions):
        let found = regions.lock.withLock { () -> [DeadlineTimer]? in
          isIn(regions) ? Self.deadlines(from: outer).deadlines : nil
        }
        guard let found else { continue }
        return (found, nil)
      case .none: return ([], nil)
      }
    }
  }

  /// Those from `innermost` outwards, as far as to the first shield, and whether there was one. The caller holds the lock
  /// of the list.
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
