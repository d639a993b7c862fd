// SPDX-License-Identifier: Apache-2.0

import CoroutineLibc
import Synchronization

/// One reservation of address space, divided into slots of equal distance. A slot is a guard with a stack above it:
///
///     base                 base + stride                       base + slotCount * stride
///     | gap | stack 0      | gap | stack 1      | ...          |
///
/// Slots get their guards in order, in batches, when they are first needed. A guarded slot is live (a caller has it),
/// resident (idle, its pages kept: the pool's `IdleStacks`) or clean (idle, without pages: `clean`).
///
/// An arena lives in memory of its own as long as its pool, and nothing in it moves: what readers without a lock use is
/// immutable or atomic. What the pool's lock guards lies apart, behind `clean`, so that no exclusive access to it ever
/// overlaps a reader's; for the same reason no method of an arena is mutating.
struct StackArena: ~Copyable {
  typealias Pointer = UnsafeMutablePointer<StackArena>

  /// The pool, to recognise a stack that is released to another.
  let owner: ObjectIdentifier
  let geometry: StackGeometry
  let base: UnsafeMutableRawPointer
  let slotCount: Int

  /// The arena that the pool reserved before this one.
  let older: Pointer?

  /// Guarded by the pool's lock.
  private let clean: UnsafeMutablePointer<CleanSlots>

  /// How many slots have their guards: 0..<guardedSlots. Written under the pool's growth lock and, when it rises, under
  /// its other lock too, so that under that one it agrees with `clean`. Any thread may read it.
  let guardedSlots = Atomic<Int>(0)

  /// One bit a slot, set while the stack is live. Written under the pool's lock, read without one.
  private let live: UnsafeMutablePointer<Atomic<UInt64>>

  init(owner: ObjectIdentifier, geometry: StackGeometry, base: UnsafeMutableRawPointer, slotCount: Int, older: Pointer?)
  {
    self.owner = owner
    self.geometry = geometry
    self.base = base
    self.slotCount = slotCount
    self.older = older
    live = .allocate(capacity: SlotSet.wordCount(slotCount))
    for word in 0..<SlotSet.wordCount(slotCount) {
      (live + word).initialize(to: Atomic(0))
    }
    clean = .allocate(capacity: 1)
    clean.initialize(to: CleanSlots(slotCount: slotCount))
  }

  deinit {
    clean.deinitialize(count: 1).deallocate()
    live.deinitialize(count: SlotSet.wordCount(slotCount)).deallocate()
  }

  var range: UnsafeMutableRawBufferPointer {
    UnsafeMutableRawBufferPointer(start: base, count: slotCount * geometry.stride)
  }

  // MARK: Guards

  /// What lies below the stacks of these slots, for `StackMemory.advise`.
  func withGuards<Result>(of slots: Range<Int>, _ body: (UnsafeBufferPointer<iovec>) -> Result) -> Result {
    withUnsafeTemporaryAllocation(of: iovec.self, capacity: slots.count) { ranges in
      for (index, slot) in slots.enumerated() {
        ranges.initializeElement(at: index, to: iovec(iov_base: guardAddress(slot), iov_len: geometry.gap))
      }
      return body(UnsafeBufferPointer(ranges))
    }
  }

  func guardRange(_ slot: Int) -> UnsafeMutableRawBufferPointer {
    UnsafeMutableRawBufferPointer(start: guardAddress(slot), count: geometry.gap)
  }

  private func guardAddress(_ slot: Int) -> UnsafeMutableRawPointer {
    base + slot * geometry.stride
  }

  // MARK: Live stacks

  /// Needs the pool's lock: the update is a load and a store, no read-modify-write. The release pairs with the acquire
  /// of a reader, so that a reader that finds a stack live finds its guard installed.
  @inline(__always)
  func setLive(_ slot: Int) {
    let word = live[slot / 64].load(ordering: .relaxed)
    live[slot / 64].store(word | 1 << (slot % 64), ordering: .releasing)  // litmus: stack-live
  }

  /// Needs the pool's lock. False if the slot was not live.
  @inline(__always)
  func clearLive(_ slot: Int) -> Bool {
    let word = live[slot / 64].load(ordering: .relaxed)
    let bit = UInt64(1) << (slot % 64)
    live[slot / 64].store(word & ~bit, ordering: .releasing)
    return word & bit != 0
  }

  func isLive(_ slot: Int) -> Bool {
    live[slot / 64].load(ordering: .acquiring) & 1 << (slot % 64) != 0  // litmus: stack-live
  }

  var liveCount: Int {
    (0..<SlotSet.wordCount(slotCount)).reduce(0) { $0 + live[$1].load(ordering: .relaxed).nonzeroBitCount }
  }

  /// Takes no lock and reads no byte of any stack.
  func forEachLiveStack<Failure: Error>(
    at arena: Pointer, _ body: (Stack) throws(Failure) -> Void
  ) throws(Failure) {
    for word in 0..<SlotSet.wordCount(slotCount) {
      var bits = live[word].load(ordering: .acquiring)  // litmus: stack-live
      while bits != 0 {
        try body(stack(word * 64 + bits.trailingZeroBitCount, at: arena))
        bits &= bits - 1
      }
    }
  }

  // MARK: Clean slots

  // All of these need the pool's lock.

  var cleanCount: Int { clean.pointee.count }

  func isClean(_ slot: Int) -> Bool {
    clean.pointee.contains(slot)
  }

  func insertClean(_ slot: Int) {
    clean.pointee.insert(slot)
  }

  /// The lowest clean slot, and whether it was in use before.
  func takeClean() -> (slot: Int, wasUsed: Bool)? {
    clean.pointee.takeLowest()
  }

  /// Forgets the clean slots, but not which of them were in use.
  func removeAllClean() {
    clean.pointee.removeAll()
  }

  /// The pool's list of the arenas that have clean slots.
  var nextClean: Pointer? {
    get { clean.pointee.next }
    nonmutating set { clean.pointee.next = newValue }
  }

  // MARK: Addresses

  /// `arena` is where this arena lies.
  func stack(_ slot: Int, at arena: Pointer) -> Stack {
    let limit = base + (slot * geometry.stride + geometry.gap)
    return Stack(limit: limit, top: limit + geometry.stackSize, arena: arena, slot: slot)
  }

  /// The live stack in whose slot `address` lies, in the stack or in the guard below it.
  func liveStack(around address: UInt, at arena: Pointer) -> Stack? {
    let start = UInt(bitPattern: base)
    guard address >= start, address - start < UInt(range.count) else { return nil }
    let slot = Int(address - start) / geometry.stride
    return isLive(slot) ? stack(slot, at: arena) : nil
  }
}

/// The idle slots of an arena that have their guards and no pages.
private struct CleanSlots: ~Copyable {
  private var slots: SlotSet
  private(set) var count = 0

  /// The slots from here on have never been allocated.
  private var used = 0

  var next: StackArena.Pointer?

  init(slotCount: Int) {
    slots = SlotSet(slotCount: slotCount)
  }

  mutating func insert(_ slot: Int) {
    slots.insert(slot)
    count += 1
  }

  /// The lowest, so that few arenas do the work and the others can be given up.
  mutating func takeLowest() -> (slot: Int, wasUsed: Bool)? {
    guard count > 0 else { return nil }
    let slot = slots.removeLowest()
    count -= 1
    let wasUsed = slot < used
    used = max(used, slot + 1)
    return (slot, wasUsed)
  }

  func contains(_ slot: Int) -> Bool {
    slots.contains(slot)
  }

  mutating func removeAll() {
    slots.removeAll()
    count = 0
  }
}

/// A set of small integers, one bit each.
private struct SlotSet: ~Copyable {
  static func wordCount(_ slotCount: Int) -> Int { (slotCount + 63) / 64 }

  private let words: UnsafeMutablePointer<UInt64>
  private let wordCount: Int

  /// All words below are zero.
  private var firstWord: Int

  init(slotCount: Int) {
    wordCount = SlotSet.wordCount(slotCount)
    words = .allocate(capacity: wordCount)
    words.initialize(repeating: 0, count: wordCount)
    firstWord = wordCount
  }

  deinit {
    words.deallocate()
  }

  func contains(_ slot: Int) -> Bool {
    words[slot / 64] & 1 << (slot % 64) != 0
  }

  mutating func insert(_ slot: Int) {
    words[slot / 64] |= 1 << (slot % 64)
    firstWord = min(firstWord, slot / 64)
  }

  /// The set must not be empty.
  mutating func removeLowest() -> Int {
    while words[firstWord] == 0 { firstWord += 1 }
    let word = words[firstWord]
    words[firstWord] = word & (word - 1)
    return firstWord * 64 + word.trailingZeroBitCount
  }

  mutating func removeAll() {
    words.update(repeating: 0, count: wordCount)
    firstWord = wordCount
  }
}
