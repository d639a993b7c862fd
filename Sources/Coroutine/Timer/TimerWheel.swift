// SPDX-License-Identifier: Apache-2.0

import CCoroutineSystem

/// Timers by their deadlines: constant time to insert and to remove, nothing allocated, exact to the nanosecond.
///
/// A hierarchical timing wheel (Varghese and Lauck, "Hashed and Hierarchical Timing Wheels", 1987) whose finest slot is
/// one nanosecond wide and whose coarsest level reaches the end of time, so that nothing is rounded and nothing
/// overflows. What makes that affordable is that time does not step through the slots: it jumps from one that is in use
/// to the next. In that form the wheel is the radix heap of Ahuja, Mehlhorn, Orlin and Tarjan ("Faster Algorithms for the
/// Shortest Path Problem", 1990), a priority queue that relies on the minimum never going down.
///
/// The clock's 64 bits are 11 digits of 6. A timer lies on the level of the highest digit in which its deadline differs
/// from `elapsed`, in the slot of that digit's value:
///
///     level  0:  64 slots of 1 ns        all that is due within the current 64 ns
///     level  1:  64 slots of 64 ns
///     level  2:  64 slots of 4 us
///     level  3:  64 slots of 262 us      a timer of 10 ms starts here
///       ...
///     level 10:  16 slots of 36 years
///
/// So all of a level comes before all of the next one, and on one level an earlier slot before a later one: the first bit
/// that is set on the lowest level in use is the slot with the earliest timer. When time reaches a slot of level 1 or
/// above, it is *drained*: its timers go to the levels below, where finer digits distinguish them. A timer only ever goes
/// down, at most ten times, in practice three or four; one that is removed before its slot is reached, as most deadlines
/// are, never. Level 0's slots hold timers of one instant, in the order in which they came, which draining keeps.
///
/// A heap would need log n steps, a memory block that grows, and its index in each node for the removal; a wheel with a
/// fixed tick would be late by up to the tick, or busy with empty ticks.
///
/// A drained slot may hold all timers there are, so draining can be interrupted, and goes on at the next call.
///
/// Pure: no lock, no clock, no thread. The nodes must stay where they are while they are linked.
package struct TimerWheel: ~Copyable {
  typealias Node = UnsafeMutablePointer<TimerNode>

  /// Everything before this has been handed out: time as the wheel knows it. What is inserted with an earlier deadline
  /// counts as of now, behind what is already due now.
  package private(set) var elapsed: UInt64 = 0
  /// How many timers are linked.
  package private(set) var count = 0

  /// What the slot indices of the nodes refer to. Lags behind `elapsed` while a slot is being drained, and only then.
  private var origin: UInt64 = 0
  /// For each level, which of its slots hold timers; and which levels have such slots.
  private var occupied = InlineArray<11, UInt64>(repeating: 0)
  private var occupiedLevels: UInt32 = 0
  private let slots: UnsafeMutablePointer<Slot>

  /// Timers in the order in which they came.
  private struct Slot {
    var first: Node?
    var last: Node?
    /// No timer in here is due before; exact until one is removed. Meaningless while the slot is empty.
    var earliest: UInt64 = 0
  }

  /// The slot index of a node that is not armed.
  static let nowhere = UInt16.max

  private static var levels: Int { 11 }
  private static var digitBits: Int { 6 }
  private static var slotsPerLevel: Int { 1 << digitBits }

  package init() {
    let count = Self.levels * Self.slotsPerLevel
    slots = .allocate(capacity: count)
    slots.initialize(repeating: Slot(), count: count)
  }

  deinit {
    require(count == 0, "a timer wheel went away with \(count) timers in it")
    slots.deallocate()
  }
}

// MARK: - Events

extension TimerWheel {
  /// Links a timer in. Constant time.
  package mutating func insert(_ node: UnsafeMutablePointer<TimerNode>) {
    require(node.pointee.slotIndex == Self.nowhere, "a timer was armed that is armed already: disarm it first")
    link(node, at: index(of: max(node.pointee.deadline, elapsed), from: origin))
    count += 1
  }

  /// Takes a timer out, if it is still in. Constant time.
  package mutating func remove(_ node: UnsafeMutablePointer<TimerNode>) -> Bool {
    guard node.pointee.slotIndex != Self.nowhere else { return false }
    unlink(node)
    count -= 1
    return true
  }

  /// What `advance` came to.
  package enum Advance {
    /// This timer is due. It was taken out.
    case expired(UnsafeMutablePointer<TimerNode>)
    /// There may be more that is due, but the effort is spent.
    case unfinished
    /// Nothing else is due.
    case upToDate
  }

  /// Lets time go on to `now` and hands out one timer that is due by then: those of earlier deadlines first, those of
  /// the same one in the order in which they came. To be called until it is up to date.
  ///
  /// - Parameter effort: how many timers may be touched; counted down. At least 1, or nothing moves on.
  package mutating func advance(to now: UInt64, effort: inout Int) -> Advance {
    while true {
      guard drain(effort: &effort), effort > 0 else { return .unfinished }
      guard let index = earliestIndex else { return caughtUp(with: now) }
      let slot = slots + index
      let begin = beginning(of: index)
      guard begin <= now, let node = slot.pointee.first else { return caughtUp(with: now) }

      if index < Self.slotsPerLevel {
        jump(to: begin)
        return expire(node, &effort)
      }
      // Alone in the earliest slot: nothing to be distinguished from.
      if slot.pointee.last == node, node.pointee.deadline <= now {
        jump(to: node.pointee.deadline)
        return expire(node, &effort)
      }
      // To the earliest timer itself and not to the slot's beginning: that saves levels. From here on `origin` lags.
      elapsed = min(slot.pointee.earliest, now)
    }
  }

  /// The time has not come for any timer before this; `nil` if there is none at all.
  ///
  /// Exact unless the earliest timer was removed. Advancing to it then hands out nothing and brings a better answer.
  package var nextDeadline: UInt64? {
    if origin != elapsed { return count == 0 ? nil : elapsed }
    guard let index = earliestIndex else { return nil }
    return index < Self.slotsPerLevel ? beginning(of: index) : slots[index].earliest
  }

  private mutating func expire(_ node: Node, _ effort: inout Int) -> Advance {
    prefetch(after: node)
    unlink(node)
    count -= 1
    effort -= 1
    return .expired(node)
  }

  /// No slot in use begins at `now` or before, so that going there changes the slot of none. Time never goes back.
  private mutating func caughtUp(with now: UInt64) -> Advance {
    jump(to: max(now, elapsed))
    return .upToDate
  }

  private mutating func jump(to instant: UInt64) {
    elapsed = instant
    origin = instant
  }

  /// Where there are very many timers, they and their waiters have left the caches since they were armed. They are
  /// fetched while the timers before them are handled.
  @inline(__always)
  private func prefetch(after node: Node) {
    guard let next = node.pointee.next else { return }
    if let then = next.pointee.next { coroutine_system_prefetch(then) }
    if case .wait(let wait) = next.pointee.target { wait.prefetch() }
  }

  /// Takes the slot apart in which `elapsed` lies, if there is one left. Whether it is done.
  ///
  /// Interrupted, it leaves the rest where it is: nodes that are inserted meanwhile still find their slots from the old
  /// origin, which is the end of the same slot, and so come behind those of the same instant that were there before.
  private mutating func drain(effort: inout Int) -> Bool {
    guard origin != elapsed else { return true }
    let slot = slots + index(of: elapsed, from: origin)
    while let node = slot.pointee.first {
      guard effort > 0 else { return false }
      effort -= 1
      prefetch(after: node)
      unlink(node)
      link(node, at: index(of: max(node.pointee.deadline, elapsed), from: elapsed))
    }
    origin = elapsed
    return true
  }
}

// MARK: - Slots

extension TimerWheel {
  /// Where a timer lies that is due at `instant`, not before `origin`.
  private func index(of instant: UInt64, from origin: UInt64) -> Int {
    let highestBit = 63 - ((instant ^ origin) | 1).leadingZeroBitCount
    let level = highestBit / Self.digitBits
    let digit = Int(truncatingIfNeeded: instant &>> UInt64(level * Self.digitBits)) & (Self.slotsPerLevel - 1)
    return level * Self.slotsPerLevel + digit
  }

  /// The first instant of a slot.
  private func beginning(of index: Int) -> UInt64 {
    let (level, digit) = (index / Self.slotsPerLevel, index % Self.slotsPerLevel)
    // The topmost level has no digits above it: a shift by 64 or more gives 0 here.
    let above = ~((1 << UInt64((level + 1) * Self.digitBits)) &- 1) as UInt64
    return origin & above | UInt64(digit) &<< UInt64(level * Self.digitBits)
  }

  /// The slot of the earliest timer.
  private var earliestIndex: Int? {
    guard occupiedLevels != 0 else { return nil }
    let level = occupiedLevels.trailingZeroBitCount
    return level * Self.slotsPerLevel + occupied[level].trailingZeroBitCount
  }

  private mutating func link(_ node: Node, at index: Int) {
    let slot = slots + index
    node.pointee.next = nil
    node.pointee.previous = slot.pointee.last
    node.pointee.slotIndex = UInt16(truncatingIfNeeded: index)
    if let last = slot.pointee.last {
      last.pointee.next = node
      slot.pointee.earliest = min(slot.pointee.earliest, node.pointee.deadline)
    } else {
      slot.pointee.first = node
      slot.pointee.earliest = node.pointee.deadline
      let level = index / Self.slotsPerLevel
      occupied[level] |= 1 &<< UInt64(index % Self.slotsPerLevel)
      occupiedLevels |= 1 &<< UInt32(level)
    }
    slot.pointee.last = node
  }

  private mutating func unlink(_ node: Node) {
    let index = Int(node.pointee.slotIndex)
    let slot = slots + index
    let (next, previous) = (node.pointee.next, node.pointee.previous)
    if let next { next.pointee.previous = previous } else { slot.pointee.last = previous }
    if let previous { previous.pointee.next = next } else { slot.pointee.first = next }
    node.pointee.slotIndex = Self.nowhere
    guard slot.pointee.first == nil else { return }
    let level = index / Self.slotsPerLevel
    occupied[level] &= ~(1 &<< UInt64(index % Self.slotsPerLevel))
    if occupied[level] == 0 { occupiedLevels &= ~(1 &<< UInt32(level)) }
  }
}

// MARK: - Invariants

extension TimerWheel {
  /// Looks at every slot and every timer: for tests, and for a debugger that mistrusts the wheel.
  package func checkInvariants() -> Bool {
    var found = 0
    let drained = origin == elapsed ? nil : index(of: elapsed, from: origin)
    guard origin <= elapsed else { return false }
    for index in 0..<Self.levels * Self.slotsPerLevel {
      let (level, digit) = (index / Self.slotsPerLevel, index % Self.slotsPerLevel)
      let isOccupied = occupied[level] >> UInt64(digit) & 1 != 0
      guard isOccupied == (slots[index].first != nil), (occupied[level] != 0) == (occupiedLevels >> level & 1 != 0)
      else { return false }

      var previous: Node?
      var node = slots[index].first
      while let current = node {
        // While a slot is drained its timers may be in the old slot or the new one. What was overdue when it came counts as later.
        let deadline = current.pointee.deadline
        let isInItsSlot =
          level == 0
          ? elapsed <= instant(of: digit) && deadline <= instant(of: digit)
          : drained == index || self.index(of: deadline, from: elapsed) == index
        guard isInItsSlot, current.pointee.slotIndex == index, current.pointee.previous == previous,
          deadline >= slots[index].earliest
        else { return false }
        found += 1
        previous = current
        node = current.pointee.next
      }
      guard slots[index].last == previous || slots[index].first == nil else { return false }
    }
    return found == count
  }

  /// What a slot of level 0 stands for.
  private func instant(of digit: Int) -> UInt64 {
    elapsed & ~UInt64(Self.slotsPerLevel - 1) | UInt64(digit)
  }
}
