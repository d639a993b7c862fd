// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// Ready coroutines of one worker, first in, first out: a ring of fixed size that its owner fills and empties, and that
/// the other workers steal from.
///
///     head                       tail
///      |  taken one by one by the owner, half at once by a thief: the thread that moves `head` on has them
///      v                          |  the owner alone puts, and moves `tail` on
///     [ ][a][b][c][d][e][f][g][ ][ ]
///
/// `head` and `tail` count for ever and are taken modulo the size. What lies between them has no taker until a
/// compare-and-exchange has moved `head` past it: a thief that copies slots which were taken meanwhile finds `head`
/// changed and throws its copies away. So the slots are atomic (they may be read while they are overwritten), and
/// relaxed: `tail`'s release hands the coroutine's memory to the thief, `head`'s hands the emptied slot to the owner.
struct WorkRing: ~Copyable, Sendable {
  typealias Element = Unmanaged<CoroutineCore>

  static var capacity: UInt32 { 256 }

  private let head = Atomic<UInt32>(0)
  // Written by the owner alone.
  private let tail = Atomic<UInt32>(0)
  // Sendable: atomics in memory that belongs to the ring alone.
  nonisolated(unsafe) private let slots: UnsafeMutablePointer<Atomic<Element?>>

  init() {
    slots = .allocate(capacity: Int(Self.capacity))
    for index in 0..<Int(Self.capacity) { (slots + index).initialize(to: Atomic(nil)) }
  }

  deinit {
    slots.deinitialize(count: Int(Self.capacity))
    slots.deallocate()
  }

  /// How many it holds, about, when others than the owner ask; the owner may find fewer, never more.
  var count: Int {
    let head = head.load(ordering: .acquiring)
    return Int(tail.load(ordering: .acquiring) &- head)
  }

  var isEmpty: Bool {
    head.load(ordering: .acquiring) == tail.load(ordering: .acquiring)
  }

  @inline(__always)
  private subscript(index: UInt32) -> Element? {
    get { (slots + Int(index % Self.capacity)).pointee.load(ordering: .relaxed) }
    nonmutating set { (slots + Int(index % Self.capacity)).pointee.store(newValue, ordering: .relaxed) }
  }

  /// Appends one. False if the ring is full. The owner's.
  @inline(__always)
  borrowing func push(_ element: Element) -> Bool {
    let end = tail.load(ordering: .relaxed)
    guard end &- head.load(ordering: .acquiring) < Self.capacity else { return false }
    self[end] = element
    tail.store(end &+ 1, ordering: .releasing)  // litmus: ring-push, ring-reuse, pool-share
    return true
  }

  /// Takes the one that came first. The owner's.
  @inline(__always)
  borrowing func pop() -> Element? {  // litmus: ring-reuse
    var first = head.load(ordering: .acquiring)
    let end = tail.load(ordering: .relaxed)
    while first != end {
      let element = self[first]
      let (taken, now) = head.compareExchange(
        expected: first, desired: first &+ 1, successOrdering: .releasing, failureOrdering: .acquiring)
      if taken {
        // As `ReadyQueue.prefetchNext`, but without reading the object: a thief may have it by now, and end it.
        if Int(end &- first) > ReadyQueue.fewForTheCache, let then = self[first &+ 2] { CoroutineCore.prefetch(then) }
        return element
      }
      first = now
    }
    return nil
  }

  /// Moves the older half to the end of `queue`: the ring is full. Fewer, perhaps none, if thieves were faster. The
  /// owner's.
  borrowing func moveHalf(to queue: inout ReadyQueue) {
    let first = head.load(ordering: .acquiring)
    let half = (tail.load(ordering: .relaxed) &- first) / 2
    let (taken, _) = head.compareExchange(
      expected: first, desired: first &+ half, successOrdering: .releasing, failureOrdering: .relaxed)
    guard taken else { return }
    // The owner alone would overwrite these slots.
    for index in 0..<half { queue.append(CoroutineJob(self[first &+ index]!)) }
  }

  /// What is in it, about. For debuggers.
  borrowing func visit(_ body: (Element) throws -> Void) rethrows {
    var index = head.load(ordering: .acquiring)
    let end = tail.load(ordering: .acquiring)
    while index != end {
      if let element = self[index] { try body(element) }
      index &+= 1
    }
  }

  /// Takes the older half: returns the first of them, and puts the others into `ring`, which is the caller's own and
  /// empty. For thieves.
  borrowing func steal(into ring: borrowing WorkRing) -> Element? {  // litmus: ring-push, ring-reuse
    while true {
      let first = head.load(ordering: .acquiring)
      let count = tail.load(ordering: .acquiring) &- first
      let half = count - count / 2
      guard half > 0 else { return nil }
      // `head` moved on between the two loads, and `tail` after it.
      guard count <= Self.capacity else { continue }
      let element = self[first]
      let end = ring.tail.load(ordering: .relaxed)
      for index in 1..<max(half, 1) { ring[end &+ index &- 1] = self[first &+ index] }
      let (taken, _) = head.compareExchange(
        expected: first, desired: first &+ half, successOrdering: .acquiringAndReleasing, failureOrdering: .relaxed)
      guard taken else { continue }
      ring.tail.store(end &+ half &- 1, ordering: .releasing)
      return element
    }
  }
}
