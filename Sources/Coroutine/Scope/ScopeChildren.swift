// SPDX-License-Identifier: Apache-2.0

/// A scope's children that have not ended: those that have a slot among the running ones, and those that wait for one.
/// Guarded by the scope's lock.
///
/// None is counted: a child keeps itself alive until the scope has learned of its end, and one that no caller has started yet is
/// kept by its scope. So no child goes under the lock.
///
/// In arrays, and not linked through themselves: a child that ends would then write to its neighbours, which are in
/// other processors' caches.
struct ScopeChildren {
  private typealias Link = Unmanaged<CoroutineCore>

  private var slots: [Link?] = []
  /// Which of the slots are empty.
  private var emptySlots: [Int] = []
  /// Those that wait, in the order of their launches, behind those that have left. In between are gaps, of those that were
  /// cancelled. The `indexInFamily` of such a child is negative.
  private var queue: [Link?] = []
  private var first = 0
  private var queuedCount = 0

  /// A child that need not wait.
  mutating func append(_ child: CoroutineCore) {
    let link = Link.passUnretained(child)
    if let slot = emptySlots.popLast() {
      slots[slot] = link
      child.indexInFamily = slot
    } else {
      child.indexInFamily = slots.count
      slots.append(link)
    }
  }

  /// A child that waits for room.
  mutating func enqueue(_ child: CoroutineCore) {
    child.indexInFamily = ~queue.count
    queue.append(.passUnretained(child))
    queuedCount += 1
  }

  /// A child has ended, be it without having run.
  mutating func remove(_ child: CoroutineCore) {
    if child.indexInFamily >= 0 {
      slots[child.indexInFamily] = nil
      emptySlots.append(child.indexInFamily)
    } else {
      queue[~child.indexInFamily] = nil
      queuedCount -= 1
      closeGaps()
    }
  }

  /// The child that has waited longest, which waits no more.
  mutating func popQueued() -> CoroutineCore? {
    while first < queue.count {
      first += 1
      guard let child = queue[first - 1]?.takeUnretainedValue() else { continue }
      queue[first - 1] = nil
      queuedCount -= 1
      append(child)
      closeGaps()
      return child
    }
    return nil
  }

  /// Half of the queue is empty: it is moved for as many as have gone.
  private mutating func closeGaps() {
    guard queue.count > 2 * queuedCount else { return }
    var kept = 0
    for index in first..<queue.count {
      guard let link = queue[index] else { continue }
      queue[kept] = link
      link._withUnsafeGuaranteedRef { $0.indexInFamily = ~kept }
      kept += 1
    }
    queue.removeSubrange(kept...)
    first = 0
  }

  /// A reference to each, oldest first: they may end as soon as the lock is gone.
  var all: [CoroutineCore] {
    (slots + queue).compactMap { $0?.takeUnretainedValue() }.sorted { $0.id < $1.id }
  }
}
