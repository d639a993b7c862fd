// SPDX-License-Identifier: Apache-2.0

import CCoroutineSystem

/// The idle stacks whose pages are kept, by age: reuse takes the youngest, whose top is still in the cache, trimming the
/// oldest. A ring that grows by doubling.
struct IdleStacks: ~Copyable {
  private var ring: UnsafeMutablePointer<Stack>
  private var capacity: Int
  private var oldest = 0
  private(set) var count = 0

  /// The least `count` since the last `restartLowest()`: that many stacks were not needed since then.
  private(set) var lowest = 0

  init() {
    capacity = 64
    ring = .allocate(capacity: capacity)
  }

  deinit {
    ring.deallocate()
  }

  @inline(__always)
  mutating func push(_ stack: Stack) {
    if count == capacity { grow() }
    (ring + slot(count)).initialize(to: stack)
    count += 1
  }

  @inline(__always)
  mutating func popYoungest() -> Stack? {
    guard count > 0 else { return nil }
    count -= 1
    if count < lowest { lowest = count }
    if count > Self.fewForTheCache { prefetchYoungest() }
    return ring[slot(count)]
  }

  /// The tops of this many stacks are still in the nearest cache.
  private static var fewForTheCache: Int { 32 }

  /// Lets the processor fetch the upper end of the stack that will be taken next. Where very many were released at once, and
  /// are taken again, none is in a cache.
  @inline(__always)
  private func prefetchYoungest() {
    let next = ring[slot(count - 1)]
    let end = next.top - 64 * next.color
    for line in 1...6 { coroutine_system_prefetch(end - 64 * line) }
  }

  /// Moves the oldest stacks to `batch` until it is full or no more than `keeping` are left. Returns how many.
  mutating func takeOldest(into batch: UnsafeMutableBufferPointer<Stack>, keeping: Int) -> Int {
    let taken = min(batch.count, max(0, count - keeping))
    for index in 0..<taken {
      batch.initializeElement(at: index, to: ring[slot(index)])
    }
    oldest = slot(taken)
    count -= taken
    lowest = min(lowest, count)
    return taken
  }

  /// Copies a sample, spread evenly over all ages, to `batch`. Returns how many.
  func sample(into batch: UnsafeMutableBufferPointer<Stack>) -> Int {
    let copied = min(batch.count, count)
    for index in 0..<copied {
      batch.initializeElement(at: index, to: ring[slot(index * count / copied)])
    }
    return copied
  }

  /// Oldest first. Allocates.
  var all: [Stack] { (0..<count).map { ring[slot($0)] } }

  mutating func restartLowest() {
    lowest = count
  }

  /// Where the stack of rank `age` lies, 0 being the oldest. The capacity is a power of two.
  private func slot(_ age: Int) -> Int {
    (oldest + age) & (capacity - 1)
  }

  private mutating func grow() {
    let larger = UnsafeMutablePointer<Stack>.allocate(capacity: 2 * capacity)
    for age in 0..<count {
      (larger + age).initialize(to: ring[slot(age)])
    }
    ring.deallocate()
    ring = larger
    oldest = 0
    capacity *= 2
  }
}

/// How many idle stacks keep their pages. Follows what the program does, since both extremes are wrong: a server that
/// starts 10,000 coroutines, ends them and starts them again would pay two page faults for each (3 us), and a program
/// that once had a million would keep gigabytes.
///
/// - It starts at the floor. What exceeds it is trimmed, so a single burst leaves nothing behind.
/// - Each trimmed stack that is needed again raises it by one: after its second burst the program keeps what it uses.
/// - At the end of an epoch it decays by half of the stacks that lay idle through all of it. An epoch is long enough for
///   every stack that is kept to be taken and given back.
/// - A pool at rest has no epochs. What it keeps beyond `lasting` decays with time, see `StackPool.decay`; below, it
///   stays until `trim()` is called.
package struct IdleWatermark: Sendable {
  package let bounds: ClosedRange<Int>
  /// The highest mark that needs no time to decay.
  package let lasting: Int
  package private(set) var mark: Int

  package init(bounds: ClosedRange<Int>, lasting: Int? = nil) {
    // More than any process has, so that a program may say `Int.max`.
    let bounds = bounds.clamped(to: 0...1 << 40)
    self.bounds = bounds
    self.lasting = lasting ?? bounds.upperBound
    mark = bounds.lowerBound
  }

  package init(stackSize: Int) {
    let floor = Self.defaultFloor(stackSize: stackSize)
    self.init(bounds: floor...512 * floor, lasting: 64 * floor)
  }

  package mutating func trimmedStackWasWanted() {
    mark = min(mark + 1, bounds.upperBound)
  }

  /// `lowest`: the least number of idle stacks during the epoch.
  package mutating func epochEnded(lowest: Int) {
    mark = max(bounds.lowerBound, mark - (lowest + 1) / 2)
  }

  package mutating func reset() {
    mark = bounds.lowerBound
  }

  package var isSurplus: Bool { mark > lasting }

  /// About 2 MiB when each stack has touched two pages, 128 MiB for what lasts, 1 GiB at the ceiling; fewer stacks when
  /// they are large, so that even if all were used to their depths the floor holds no more than 64 MiB (or 16 stacks).
  package static func defaultFloor(stackSize: Int) -> Int {
    min(256, max(16, (64 << 20) / stackSize))
  }
}
