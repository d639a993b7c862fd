// SPDX-License-Identifier: Apache-2.0

/// The actors that one supervisor has taken in and that have not ended, in the order of their launches. Guarded by its lock.
///
/// An actor knows its slot, and leaves a gap there when it ends. A search for it would make the end of thousands of actors take
/// quadratic time.
struct SupervisedActors {
  private var slots: [ActorCore?] = []
  private var count = 0

  mutating func append(_ actor: ActorCore) {
    actor.slotInSupervisor = slots.count
    slots.append(actor)
    count += 1
  }

  /// Without effect on one that is not there. The caller keeps it until the lock is gone.
  mutating func remove(_ actor: ActorCore) {
    guard let slot = actor.slotInSupervisor else { return }
    actor.slotInSupervisor = nil
    slots[slot] = nil
    count -= 1
    while let last = slots.last, last == nil { slots.removeLast() }
    closeGaps()
  }

  /// Once more than half of the slots are gaps: so an end costs constant time, amortised.
  private mutating func closeGaps() {
    guard slots.count > 2 * count else { return }
    slots = slots.filter { $0 != nil }
    for (slot, actor) in slots.enumerated() { actor?.slotInSupervisor = slot }
  }

  var last: ActorCore? { slots.last ?? nil }

  var all: [ActorCore] { slots.compactMap(\.self) }

  /// Those that were launched after `actor`.
  func later(than actor: ActorCore) -> [ActorCore] {
    guard let slot = actor.slotInSupervisor else { return [] }
    return slots[(slot + 1)...].compactMap(\.self)
  }
}
