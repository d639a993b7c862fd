// SPDX-License-Identifier: Apache-2.0

/// Stacks of return addresses, each kept once, however many coroutines have it, and known by its number.
package struct StackTable {
  // All addresses lie in one array, one stack after the other.
  private var addresses: [UInt] = []
  private var ranges: [Range<Int>] = []
  /// The numbers, by hash and by the order in which they were tried: open addressing, -1 for nothing.
  private var slots = [Int](repeating: -1, count: 64)

  package init() {}

  package var count: Int { ranges.count }

  /// A stack's addresses, innermost first.
  package subscript(number: Int) -> ArraySlice<UInt> { addresses[ranges[number]] }

  /// The number of a stack, which is added if it is new.
  package mutating func number(of stack: UnsafeBufferPointer<UInt>) -> Int {
    if ranges.count * 2 >= slots.count { grow() }
    var slot = slot(for: stack)
    while slots[slot] >= 0 {
      if self[slots[slot]].elementsEqual(stack) { return slots[slot] }
      slot = (slot + 1) % slots.count
    }
    slots[slot] = ranges.count
    ranges.append(addresses.count..<addresses.count + stack.count)
    addresses.append(contentsOf: stack)
    return slots[slot]
  }

  private func slot(for stack: some Sequence<UInt>) -> Int {
    var hash: UInt = 0xcbf2_9ce4_8422_2325
    for address in stack { hash = (hash ^ address) &* 0x9e37_79b9_7f4a_7c15 }
    return Int((hash ^ hash >> 32) % UInt(slots.count))
  }

  private mutating func grow() {
    slots = [Int](repeating: -1, count: slots.count * 2)
    for number in ranges.indices {
      var slot = slot(for: self[number])
      while slots[slot] >= 0 { slot = (slot + 1) % slots.count }
      slots[slot] = number
    }
  }
}
