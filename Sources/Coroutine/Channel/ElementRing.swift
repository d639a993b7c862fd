// SPDX-License-Identifier: Apache-2.0

/// Elements in the order in which they came, in a ring that is allocated for the first of them and doubles when it is full.
///
/// A large ring that has become empty is given back, so that a burst does not stay in memory. Growing to that size took
/// as many appends as the ring has slots, so that neither costs more than a constant for each element.
@usableFromInline
struct ElementRing<Element: ~Copyable>: ~Copyable {
  /// Of `mask + 1` slots; `nil` for none.
  @usableFromInline var slots: UnsafeMutablePointer<Element>?
  /// The number of slots, a power of two, less one.
  @usableFromInline var mask = -1
  /// The number of the first element, since the ring was made: its slot but for the mask.
  @usableFromInline var head = 0
  @usableFromInline var count = 0

  @inlinable
  init() {}

  @inlinable
  deinit {
    guard let slots else { return }
    for offset in 0..<count { (slots + ((head &+ offset) & mask)).deinitialize(count: 1) }
    slots.deallocate()
  }

  /// Appends an element. Constant time, except when the ring grows.
  @inlinable @inline(__always)
  mutating func append(_ element: consuming Element) {
    if !hasRoom { grow() }
    appendIntoRoom(element)
  }

  /// Whether the next append finds a slot.
  @inlinable @inline(__always)
  var hasRoom: Bool { count <= mask }

  /// Appends an element, where there is room.
  @inlinable @inline(__always)
  mutating func appendIntoRoom(_ element: consuming Element) {
    (slots.unsafelyUnwrapped + ((head &+ count) & mask)).initialize(to: element)
    count &+= 1
  }

  /// Takes out the element that came first; there must be one. Constant time.
  @inlinable @inline(__always)
  mutating func removeFirst() -> Element {
    let releases = isReleasedByNext
    let element = removeNext()
    if releases { release() }
    return element
  }

  /// Whether the ring goes with the next element.
  @inlinable @inline(__always)
  var isReleasedByNext: Bool { mask >= Self.largestKept && count == 1 }

  /// Takes out the element that came first, and leaves the ring as it is.
  @inlinable @inline(__always)
  mutating func removeNext() -> Element {
    let element = (slots.unsafelyUnwrapped + (head & mask)).move()
    head &+= 1
    count &-= 1
    return element
  }

  /// Whether the next slot to append to, or to take from, is a counted one: the last of each 256. So the ring's user counts
  /// elements at the cost of one test of a number that it needs anyway.
  @inlinable @inline(__always)
  var countsAtAppend: Bool { UInt8(truncatingIfNeeded: head &+ count) == .max }

  @inlinable @inline(__always)
  var countsAtRemoval: Bool { UInt8(truncatingIfNeeded: head) == .max }

  /// One slot in so many is a counted one: as many as a byte has values, so that one comparison finds it. Not the first one,
  /// which in many a channel is the only one. `CoroutineCore.hasOperationLeftAtCountedSlot` says for how many one counts.
  static var countInterval: Int { 256 }

  /// Where the element is that has `offset` others before it.
  func slot(_ offset: Int) -> UnsafeMutablePointer<Element> {
    slots.unsafelyUnwrapped + ((head &+ offset) & mask)
  }

  @inlinable @inline(never)
  mutating func grow() {
    let size = max((mask &+ 1) &* 2, Self.smallest)
    let larger = UnsafeMutablePointer<Element>.allocate(capacity: size)
    if let slots {
      // Full: from the head to the end, and from the beginning to the head.
      let lower = head & mask
      let upper = mask &+ 1 &- lower
      larger.moveInitialize(from: slots + lower, count: upper)
      (larger + upper).moveInitialize(from: slots, count: lower)
      slots.deallocate()
    }
    slots = larger
    mask = size &- 1
    head = 0
  }

  @inlinable @inline(never)
  mutating func release() {
    slots?.deallocate()
    slots = nil
    mask = -1
    head = 0
  }

  @inlinable static var smallest: Int { 8 }
  /// How many slots an empty ring keeps.
  @inlinable static var largestKept: Int { 1024 }
}
